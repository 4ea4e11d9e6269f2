"""Connections whose request bodies come too slowly, ended from outside: the server's own `read` waits for ever.

Which connection a request came by is not known, so what the kernel tells of each decides. Works on Linux; elsewhere
slow bodies are bounded in number only.
"""

import contextlib
import os
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
# A body, or a part of a large one, may be slower than this for so long.
DEADLINE_SECONDS = 10.0
LEAST_BYTES_PER_SECOND = 4096
# Who received nothing for so long waits, and is not slow. Who sends a byte now and then is slow at that moment.
PAUSE_SECONDS = 5.0
# Longer than any request is waited for without a word in either direction.
SILENT_SECONDS = 150.0
_FOLDER = Path("/proc/self/fd")
# Of `struct tcp_info`: milliseconds since something was received; bytes that the other side has, and that it sent.
_SIZE, _SILENT_AT, _BYTES_AT = 136, 52, 120


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the kernel tells of a connection: bytes in both directions, and for how many seconds nothing came."""

    sent: int
    received: int
    silent: float


@dataclass(frozen=True, slots=True)
class Watched:
    """A connection since something was last sent to it: the time of that, the traffic by then, and the time of the last
    look at which nothing more had come."""

    since: float
    before: Traffic
    began: float

    def looked_at(self, now: float, traffic: Traffic) -> "Watched":
        """Return what is known after another look."""
        if traffic.sent != self.before.sent:
            return Watched(now, traffic, now)
        # A connection that is kept open idles before its next request: that time is none of the body's.
        return self if traffic.received != self.before.received else Watched(self.since, self.before, now)


class Guard:
    """Looks at the connections of a port for as long as a body is being read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading = 0
        self._port = 0
        self._thread: threading.Thread | None = None
        # By the inode of the socket.
        self._watched: dict[str, Watched] = {}

    def begin(self, port: int, now: float) -> None:
        with self._lock:
            self._reading += 1
            self._port = port
            if port and (self._thread is None or not self._thread.is_alive()) and _FOLDER.is_dir():
                self._thread = threading.Thread(target=self._run, name="slow-connections", daemon=True)
                self._thread.start()

    def end(self) -> None:
        with self._lock:
            self._reading -= 1

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            if not self._reading:
                self._watched.clear()
                continue
            try:
                self.look(time.monotonic())
            except Exception:
                # Our own bug: nobody would start this thread again.
                log.exception("slow connections could not be looked for")

    def look(self, now: float) -> None:
        """End each connection that is too slow."""
        seen: dict[str, Watched] = {}
        for inode, connection in _connections(self._port):
            with connection:
                traffic = _traffic(connection)
                if traffic is None:
                    continue
                known = self._watched.get(inode, Watched(now, traffic, now)).looked_at(now, traffic)
                received = traffic.received - known.before.received
                seconds = now - (known.began if received else known.since)
                if is_too_slow(seconds, received, traffic.silent):
                    log.warning("a connection was ended: its body came too slowly", seconds=round(seconds))
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
                    continue
                seen[inode] = known
        self._watched = seen


def is_too_slow(seconds: float, received: int, silent: float) -> bool:
    """Return whether a connection that received so many bytes in so many seconds keeps a thread from others.

    One that receives nothing more may have sent its request in full and wait for a verdict, so it may be silent for
    much longer than it may be slow.
    """
    if seconds < DEADLINE_SECONDS:
        return False
    if not received or silent >= PAUSE_SECONDS:
        return silent >= SILENT_SECONDS
    return received < seconds * LEAST_BYTES_PER_SECOND


def _connections(port: int) -> list[tuple[str, socket.socket]]:
    """Return copies of the sockets of this process that others opened to the port, by inode."""
    found = []
    for entry in _FOLDER.iterdir():
        try:
            inode = str(entry.readlink())
            if not inode.startswith("socket:"):
                continue
            copy = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue
        try:
            is_tcp = copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM
            if is_tcp and copy.getsockname()[1] == port and copy.getpeername():
                found.append((inode, copy))
                continue
        except OSError:
            pass
        copy.close()
    return found


def _traffic(connection: socket.socket) -> Traffic | None:
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    except (OSError, AttributeError):
        return None
    if len(told) < _SIZE:
        return None
    (silent,) = struct.unpack_from("=I", told, _SILENT_AT)
    sent, received = struct.unpack_from("=QQ", told, _BYTES_AT)
    return Traffic(sent, received, silent / 1000)
