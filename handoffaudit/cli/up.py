"""`handoffaudit up`: everything from one command."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import FrameType

import click

from handoffaudit.cli.options import data_option, example
from handoffaudit.cli.running import place
from handoffaudit.cli.running.supervisor import LOOK_SECONDS, Child, Supervisor
from handoffaudit.cli.stop import Stop

READY_PATIENCE_SECONDS = 60.0
DEATHS_BEFORE_READY = 3


@click.command(name="up", epilog=example("handoffaudit up --sample", "handoffaudit up --port 9000 --data ./audit"))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65535), help="The port to listen on.")
@data_option
@click.option(
    "--sample",
    is_flag=True,
    help="Load some 300 real handoffs to look at, with handoff files and logs, into the tenant default. They stay:"
    " begin your own in another folder. Loading them again adds nothing.",
)
def command(host: str, port: int, *, sample: bool) -> None:
    """Start everything: database, web server and worker. Ctrl-C stops it.

    At the first start it prints a one-time link, with which the first administrator signs in.
    """
    began = time.monotonic()
    # What is handed over, sessions and passwords' hashes are for nobody else on this machine.
    os.umask(0o077)
    folder = data_folder()
    address = f"http://{place.shown_host(host)}:{port}"
    place.check_folder(folder)
    with place.only_one(folder, address):
        place.check_port(host, port)
        environment(host)
        children = [Child("web", [host, str(port)]), Child("worker", [])]
        children += [Child("asker", [])] if asks_a_model() else []
        supervisor = Supervisor(children, tell=warn)
        obey_signals(supervisor)
        prepared = prepare()
        announce(address, folder, prepared["link"])
        try:
            supervisor.start()
            if wait_until_ready(supervisor, place.shown_host(host), port):
                ready = click.style("Ready", fg="green", bold=True)
                say(f"  {ready} in {time.monotonic() - began:.1f} s. Ctrl-C stops it.\n")
                if sample:
                    load_sample(supervisor)
            supervisor.run()
        finally:
            supervisor.stop()
    say("  Stopped.")


def data_folder() -> Path:
    from handoffaudit.env import data_folder as from_environment

    return from_environment()


def environment(host: str) -> None:
    """What the child processes start with, where the person who starts them has not said otherwise."""
    os.environ.setdefault("HANDOFFAUDIT_ALLOWED_HOSTS", ",".join(place.allowed_hosts(host)))
    os.environ.setdefault("HANDOFFAUDIT_LOG_FORMAT", "text" if sys.stderr.isatty() else "json")
    os.environ.setdefault("HANDOFFAUDIT_LOG_LEVEL", "WARNING")


def asks_a_model() -> bool:
    """Whether there is a key, or a provider that brings its own: without one that process would have nothing to do."""
    return bool(os.environ.get("ANTHROPIC_API_KEY", "").strip()) or os.environ.get("HANDOFFAUDIT_MODEL_PROVIDER") in (
        "bedrock",
        "vertex",
    )


def obey_signals(supervisor: Supervisor) -> None:
    def stop(_: int, __: FrameType | None) -> None:
        supervisor.stopping = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def prepare() -> dict[str, str | None]:
    done = subprocess.run(
        [sys.executable, "-m", "handoffaudit.cli.running.preparing", "--json"], stdout=subprocess.PIPE, check=False
    )
    try:
        prepared = json.loads(done.stdout)
    except ValueError:
        raise Stop("The start failed: see the messages above.", 1) from None
    for line in prepared["warnings"]:
        warn(line)
    if prepared["error"]:
        raise Stop(prepared["error"])
    return dict(prepared)


def announce(address: str, folder: Path, link: str | None) -> None:
    say(f"\n  {click.style('handoffaudit', bold=True)} {version('handoffaudit')}\n")
    say(f"  Open     {click.style(address + '/', fg='cyan', underline=True)}")
    if link:
        say(f"  Sign in  {click.style(address + link, fg='cyan', underline=True)}")
        say("           Works once: it makes you the first administrator.")
    say(f"  Data     {folder}\n")


def wait_until_ready(supervisor: Supervisor, host: str, port: int) -> bool:
    """False where a signal came first. What it waits for is said once."""
    until = time.monotonic() + READY_PATIENCE_SECONDS
    missing: str | None = ""
    while not supervisor.stopping:
        before, missing = missing, what_is_missing(host, port)
        if missing is None:
            return True
        if missing and missing != before:
            warn(f"Not ready yet: {missing}.")
        supervisor.look()
        if time.monotonic() > until or supervisor.deaths["web"] >= DEATHS_BEFORE_READY:
            raise Stop(f"The web server does not get ready: {missing or 'see the messages above'}.", 1)
        time.sleep(LOOK_SECONDS * 5 if missing else LOOK_SECONDS / 2)
    return False


def what_is_missing(host: str, port: int) -> str | None:
    """As `/readyz` says it; empty where nobody answers yet, None where nothing is missing."""
    connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Host": allowed_name()})
        answer = connection.getresponse()
        told = json.loads(answer.read())
        missing = "; ".join(f"{name} {value}" for name, value in told["checks"].items() if value != "ok")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        return missing
    if missing:
        warn(f"Ready, but degraded: {missing}.")
    return None


def allowed_name() -> str:
    """A name that the server lets itself be called by."""
    names = [name.strip() for name in os.environ["HANDOFFAUDIT_ALLOWED_HOSTS"].split(",")]
    return "localhost" if "*" in names else names[0].lstrip(".")


def load_sample(supervisor: Supervisor) -> None:
    """In processes of their own, beside the ones that serve: handoffs, then handoff files and logs."""
    say("  The sample goes into the tenant default, where it stays: begin your own in another folder, with --data.\n")
    files = sorted(str(path) for path in (Path(__file__).parent.parent / "samples").glob("*.jsonl.gz"))
    for what in (["handoffaudit", "import", *files], ["handoffaudit.cli.running.sampling"]):
        loading = subprocess.Popen([sys.executable, "-m", *what])  # noqa: S603
        while loading.poll() is None and not supervisor.stopping:
            supervisor.look()
            time.sleep(LOOK_SECONDS)
        loading.terminate()
        if loading.wait() not in (0, -signal.SIGTERM):
            warn("The sample was not loaded in full: start again with --sample, which takes up what is missing.")
        if supervisor.stopping:
            return


def say(line: str) -> None:
    click.echo(line)


def warn(line: str) -> None:
    click.echo(f"  {click.style('!', fg='yellow', bold=True)} {line}", err=True)
