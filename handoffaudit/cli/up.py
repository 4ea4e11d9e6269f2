"""`handoffaudit up`: starts everything. Folder and address are checked before Django is set up."""

import errno
import fcntl
import http.client
import ipaddress
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import click

from handoffaudit.cli import Stop
from handoffaudit.cli.bootstrap import describe_unwritable
from handoffaudit.cli.serve.processes import (
    LOOK_SECONDS,
    START_METHOD,
    Child,
    Supervisor,
    describe_exit,
    list_stop_signals,
    load_django,
    load_modules,
    run_setup,
    start_process,
)
from handoffaudit.cli.serve.setup import Prepared
from handoffaudit.cli.terminal import data_folder, data_option, example

# If an earlier `up` was killed, its children release the port within this time.
PORT_PATIENCE_SECONDS = 1.5


@contextmanager
def _stop_if_unwritable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = str(folder)
        raise Stop(describe_unwritable(error)) from error


def check_folder(folder: Path) -> None:
    with _stop_if_unwritable(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def hold_folder(folder: Path, address: str) -> Iterator[None]:
    """Lock the folder, and refuse a second start on it. The lock ends with this process, even if it is killed."""
    with _stop_if_unwritable(folder):
        file = (folder / "up.lock").open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Stop(
                f"handoffaudit already runs on the data folder {folder} ({file.read().strip() or 'starting'}):"
                " stop it first, or give another folder with --data."
            ) from None
        with _stop_if_unwritable(folder):
            file.truncate(0)
            file.write(f"process {os.getpid()}, {address}\n")
            file.flush()
        # A child that outlives this process must not hold the folder.
        os.register_at_fork(after_in_child=file.close)
        yield


def check_port(host: str, port: int) -> None:
    """Raise `Stop` if the server can't listen on the address."""
    until = time.monotonic() + PORT_PATIENCE_SECONDS
    while (error := _bind_error(host, port)) is not None:
        if error.errno != errno.EADDRINUSE or time.monotonic() > until:
            raise Stop(_port_message(host, port, error))
        time.sleep(0.1)


def _bind_error(host: str, port: int) -> OSError | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error
    return None


def _port_message(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is taken by another program: choose another with --port, or stop that program."
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs more rights than you have: choose one of 1024 or more with --port."
    return f"Can't listen on {host} port {port} ({error.strerror}): give an address of this machine with --host."


def browser_host(host: str) -> str:
    """Return the host for an address that a browser on this machine can open."""
    address = _parse_address(host)
    if address is None:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return f"[{host}]" if address.version == 6 else host


def allowed_hosts(host: str) -> list[str]:
    """Return the host names under which clients may call a server that listens on `host`."""
    names = ["localhost", "127.0.0.1", "[::1]"]
    address = _parse_address(host)
    if address is None:
        names.append(host)
    elif address.is_unspecified:
        names += [socket.gethostname(), socket.getfqdn(), *_own_addresses()]
    elif not address.is_loopback:
        names.append(f"[{host}]" if address.version == 6 else host)
    return list(dict.fromkeys(names))


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _own_addresses() -> list[str]:
    """Return this machine's address as other machines see it; connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [probe.getsockname()[0]]


READY_PATIENCE_SECONDS = 180.0

DEATHS_BEFORE_READY = 3


@click.command(name="up", epilog=example("handoffaudit up --sample", "handoffaudit up --port 9000 --data ./audit"))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all addresses."
)
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="The port to listen on.")
@data_option
@click.option(
    "--sample",
    is_flag=True,
    help="Load some 300 real sample handoffs, with handoff files and logs, into the tenant default. The samples stay:"
    " use another folder for your own data. Loading them again adds nothing.",
)
def command(host: str, port: int, *, sample: bool) -> None:
    """Start everything: database, web server and worker. Stop with Ctrl-C.

    Until an administrator can sign in, each start prints a one-time link for the first administrator.
    """
    serve(host, port, load_sample if sample else None)


def serve(host: str, port: int, when_ready: Callable[[Supervisor], None] | None = None) -> None:
    """Run the server until a signal comes. Call `when_ready` as soon as the server is ready.

    Use the data folder that `data_folder` returns. Raise `Stop` if the server cannot start.
    """
    began = time.monotonic()
    # Handoffs, sessions and password hashes must not be readable for other users of this machine.
    os.umask(0o077)
    folder = data_folder()
    address = f"http://{browser_host(host)}:{port}"
    check_folder(folder)
    with hold_folder(folder, address):
        check_port(host, port)
        set_environment(host)
        children = [Child("web", [host, str(port)]), Child("worker", [])]
        children += [Child("asker", [])] if has_llm_key() else []
        supervisor = Supervisor(children, tell=warn)
        obey_signals(supervisor)
        say("  Preparing the database and the static files …")
        try:
            if prepared := prepare(supervisor):
                announce(address, folder, prepared.link)
                supervisor.start()
                if wait_until_ready(supervisor, browser_host(host), port):
                    ready = click.style("Ready", fg="green", bold=True)
                    say(f"  {ready} in {time.monotonic() - began:.1f} s. Ctrl-C stops it.\n")
                    if when_ready:
                        when_ready(supervisor)
                supervisor.run()
        finally:
            supervisor.stop()
    say("  Stopped.")


def set_environment(host: str) -> None:
    """Set the defaults of the child processes; values that the user set are kept."""
    os.environ.setdefault("HANDOFFAUDIT_ALLOWED_HOSTS", ",".join(allowed_hosts(host)))
    os.environ.setdefault("HANDOFFAUDIT_LOG_FORMAT", "text" if sys.stderr.isatty() else "json")
    os.environ.setdefault("HANDOFFAUDIT_LOG_LEVEL", "WARNING")


def has_llm_key() -> bool:
    """Return whether an LLM key is set, or a cloud provider, which needs no key."""
    return bool(os.environ.get("ANTHROPIC_API_KEY", "").strip()) or os.environ.get("HANDOFFAUDIT_MODEL_PROVIDER") in (
        "bedrock",
        "vertex",
    )


def obey_signals(supervisor: Supervisor) -> None:
    def stop(_: int, __: FrameType | None) -> None:
        supervisor.stopping = True

    for number in list_stop_signals():
        signal.signal(number, stop)


def prepare(supervisor: Supervisor) -> Prepared | None:
    """Prepare the database and the static files in a short-lived process; load the children's modules meanwhile.

    Return None if a signal came first. Raise `Stop` if the preparation fails.
    """
    load_django()
    if supervisor.stopping:
        return None
    answer, childs_end = multiprocessing.Pipe(duplex=False)
    context: Any = multiprocessing.get_context(START_METHOD)
    setup = context.Process(target=run_setup, args=(childs_end, os.getpid()))
    start_process(setup)
    childs_end.close()
    load_modules()
    while not answer.poll(LOOK_SECONDS):
        if supervisor.stopping:
            setup.terminate()
    try:
        prepared: Prepared | None = answer.recv()
    except EOFError:
        prepared = None
    setup.join()
    if supervisor.stopping:
        return None
    if prepared is None:
        hint = ": see the messages above" if setup.exitcode > 0 else ""
        raise Stop(f"The preparation of the data folder {describe_exit(setup.exitcode)}{hint}.", 1)
    for line in prepared.warnings:
        warn(line)
    if prepared.error:
        raise Stop(prepared.error)
    return prepared


def announce(address: str, folder: Path, link: str | None) -> None:
    say(f"\n  {click.style('handoffaudit', bold=True)} {version('handoffaudit')}\n")
    say(f"  Open     {click.style(address + '/', fg='cyan', underline=True)}")
    if link:
        say(f"  Sign in  {click.style(address + link, fg='cyan', underline=True)}")
        say("           Works once: it makes you the first administrator.")
    say(f"  Data     {folder}\n")
    say("  Starting the web server and the worker …")


def wait_until_ready(supervisor: Supervisor, host: str, port: int) -> bool:
    """Wait until the server is ready, and return False if a signal came first. Raise `Stop` if it does not get ready.

    Report the failed checks each time that they change.
    """
    until = time.monotonic() + READY_PATIENCE_SECONDS
    missing: str | None = ""
    while not supervisor.stopping:
        before, missing = missing, describe_failed_checks(host, port)
        if missing is None:
            return True
        if missing and missing != before:
            warn(f"Not ready yet: {missing}.")
        supervisor.look()
        if time.monotonic() > until or supervisor.deaths["web"] >= DEATHS_BEFORE_READY:
            raise Stop(f"The web server does not get ready: {missing or 'see the messages above'}.", 1)
        time.sleep(LOOK_SECONDS * 5 if missing else LOOK_SECONDS / 2)
    return False


def describe_failed_checks(host: str, port: int) -> str | None:
    """Return the failed checks of `/readyz`, an empty text without an answer, or None if the server is ready.

    A ready server may be degraded: then warn about the failed checks.
    """
    connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": find_allowed_name()})
        answer = connection.getresponse()
        response = json.loads(answer.read())
        missing = "; ".join(f"{name} {value}" for name, value in response["checks"].items() if value != "ok")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        return missing
    if missing:
        warn(f"Ready, but degraded: {missing}.")
    return None


def find_allowed_name() -> str:
    """Return a host name under which the server accepts requests."""
    names = [name.strip() for name in os.environ["HANDOFFAUDIT_ALLOWED_HOSTS"].split(",")]
    return "localhost" if "*" in names else names[0].lstrip(".")


def load_sample(supervisor: Supervisor) -> None:
    """Load the sample in separate processes, while the server runs: handoffs, then handoff files and logs."""
    say("  The sample stays in the tenant default. Use another folder for your own data, with --data.\n")
    files = sorted(str(path) for path in (Path(__file__).parent.parent / "samples").glob("*.jsonl.gz"))
    for what in (["handoffaudit", "import", *files], ["handoffaudit.cli.serve.setup", "--samples"]):
        if not run_beside(supervisor, [sys.executable, "-P", "-m", *what]):
            warn("The sample was not loaded in full: start again with --sample to load the rest.")
        if supervisor.stopping:
            return


def run_beside(supervisor: Supervisor, command: list[str]) -> bool:
    """Run a program while the server runs, and return False if it failed; a signal ends the program, too."""
    program = subprocess.Popen(command)  # noqa: S603
    while program.poll() is None and not supervisor.stopping:
        supervisor.look()
        time.sleep(LOOK_SECONDS)
    program.terminate()
    return program.wait() in (0, -signal.SIGTERM)


def say(line: str) -> None:
    click.echo(line)


def warn(line: str) -> None:
    click.echo(f"  {click.style('!', fg='yellow', bold=True)} {line}", err=True)
