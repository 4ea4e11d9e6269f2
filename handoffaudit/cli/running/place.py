"""The data folder and the address of a start, checked before anything is done. Nothing here loads Django."""

import errno
import fcntl
import ipaddress
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handoffaudit.cli.bootstrap import unwritable
from handoffaudit.cli.stop import Stop

# The children of a start that was killed let go of the port within this time.
PORT_PATIENCE_SECONDS = 1.5


def check_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        error.filename = str(folder)
        raise Stop(unwritable(error)) from error


@contextmanager
def only_one(folder: Path, address: str) -> Iterator[None]:
    """Refuses a second start on the same folder. The lock is freed when the process ends, however that happens."""
    with (folder / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Stop(
                f"handoffaudit already runs on the data folder {folder} ({file.read().strip() or 'starting'}):"
                " stop it first, or give another folder with --data."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}, {address}\n")
        file.flush()
        yield


def check_port(host: str, port: int) -> None:
    """Refuses an address that can't be listened on."""
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


def shown_host(host: str) -> str:
    """The host as it stands in an address that a browser on this machine can open."""
    address = _parsed(host)
    if address is None:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return f"[{host}]" if address.version == 6 else host


def allowed_hosts(host: str) -> list[str]:
    """The names under which a server listening on `host` may be called."""
    names = ["localhost", "127.0.0.1", "[::1]"]
    address = _parsed(host)
    if address is None:
        names.append(host)
    elif address.is_unspecified:
        names += [socket.gethostname(), socket.getfqdn(), *_own_addresses()]
    elif not address.is_loopback:
        names.append(f"[{host}]" if address.version == 6 else host)
    return list(dict.fromkeys(names))


def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _own_addresses() -> list[str]:
    """The address that other machines see. Connecting a datagram socket picks it and sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [probe.getsockname()[0]]
