"""Request bodies: read by a bounded number of threads, with a least speed (`docs/decisions/0013-slow-bodies.md`)."""

import contextlib
import io
import os
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from handoffaudit import observability

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0

# Seconds for which a body, or a part of a large body, may be slower than the least speed.
DEADLINE_SECONDS = 10.0

LEAST_BYTES_PER_SECOND = 4096

# After this many seconds without received data, a connection counts as silent instead of slow (`is_too_slow`).
PAUSE_SECONDS = 5.0

# A silent connection is ended after this many seconds. No request may wait this long for a verdict (`settings.py`).
SILENT_SECONDS = 150.0

_FOLDER = Path("/proc/self/fd")

# The size of `struct tcp_info`, the offset of its milliseconds since the last received data, and the offset of its
# two numbers of bytes: those that the other side acknowledged, and those that it sent.
_SIZE, _SILENT_AT, _BYTES_AT = 136, 52, 120


@dataclass(frozen=True, slots=True)
class Traffic:
    """The kernel's statistics of a connection: bytes sent and received, and seconds since the last received data."""

    sent: int
    received: int
    silent: float


@dataclass(frozen=True, slots=True)
class Watched:
    """The state of a connection since the server last sent data on it.

    `since` is the time when data was sent, and `before` the traffic up to that time. `began` is the time of the last
    look without new received data.
    """

    since: float
    before: Traffic
    began: float

    def observe(self, now: float, traffic: Traffic) -> "Watched":
        """Return the state after another look."""
        if traffic.sent != self.before.sent:
            return Watched(now, traffic, now)
        # A keep-alive connection idles before its next request. This time does not count for the body.
        return self if traffic.received != self.before.received else Watched(self.since, self.before, now)


class Guard:
    """A watch on the connections of a port while a body is being read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading = 0
        self._port = 0
        self._thread: threading.Thread | None = None
        # The keys are inodes of sockets.
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
                # An exception here is a bug of the product. It must not end the watch on the other connections.
                log.exception("slow connections could not be looked for")

    def look(self, now: float) -> None:
        """End each connection that is too slow."""
        seen: dict[str, Watched] = {}
        for inode, connection in _connections(self._port):
            with connection:
                traffic = _traffic(connection)
                if traffic is None:
                    continue
                known = self._watched.get(inode, Watched(now, traffic, now)).observe(now, traffic)
                received = traffic.received - known.before.received
                seconds = now - (known.began if received else known.since)
                if is_too_slow(seconds, received, traffic.silent):
                    log.warning("a slow connection was ended", seconds=round(seconds))
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
                    continue
                seen[inode] = known
        self._watched = seen


def is_too_slow(seconds: float, received: int, silent: float) -> bool:
    """Return whether a connection with `received` bytes in `seconds` blocks a thread for too long.

    A silent connection may have sent its whole request. It may wait for a verdict, or receive a download that pauses.
    So it gets much more time than a connection that sends slowly.
    """
    if seconds < DEADLINE_SECONDS:
        return False
    if not received or silent >= PAUSE_SECONDS:
        return min(seconds, silent) >= SILENT_SECONDS
    return received < seconds * LEAST_BYTES_PER_SECOND


def _connections(port: int) -> list[tuple[str, socket.socket]]:
    """Return copies of this process's sockets for connections to the port, with their inodes."""
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
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    except (OSError, AttributeError):
        return None
    if len(info) < _SIZE:
        return None
    (silent,) = struct.unpack_from("=I", info, _SILENT_AT)
    sent, received = struct.unpack_from("=QQ", info, _BYTES_AT)
    return Traffic(sent, received, silent / 1000)


# The embedded server has 32 threads. The other threads answer requests without a body, whatever senders do.
MOST_READING = 24

# The limit of one key, or of one address that sends forms.
MOST_OF_ONE = 16

# Anybody may send forms, from any number of addresses. The last places are reserved for senders with a key.
MOST_FOR_FORMS = 16

# Seconds that a request waits for a place, if few others wait.
PATIENCE_SECONDS = 0.3

MOST_WAITING = 4

# A larger body is read by the view that allows such a body.
READ_AHEAD_BYTES = 1024 * 1024

# Beyond these limits, the answer to a refused body may be lost.
MOST_DRAINED = 64 * 1024 * 1024

DRAIN_SECONDS = 5.0

_PIECE = 64 * 1024

# The only form with a larger limit: its view authenticates the sender before it reads, and reports a large body on a
# page.
LOG_FORM = re.compile(r"/t/[^/]+/diagnostics/logs/import/send/\Z")


class TooManyBodiesError(Exception):
    """Too many bodies are being read, so this body is not read."""


class _Places:
    """The senders whose bodies are being read now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._reading: Counter[Hashable] = Counter()
        self._waiting = 0

    def take(self, sender: Hashable, most: int) -> None:
        """Take a place for a sender; the caller must `leave` it. Raise `TooManyBodiesError` if no place is free."""
        with self._lock:
            if not self._has_place(sender, most) and not self._wait(sender, most):
                raise TooManyBodiesError("Too many requests are sending their bodies slowly")
            self._reading[sender] += 1

    def leave(self, sender: Hashable) -> None:
        with self._lock:
            self._reading[sender] -= 1
            if not self._reading[sender]:
                del self._reading[sender]
            if self._waiting:
                self._changed.notify_all()

    def _has_place(self, sender: Hashable, most: int) -> bool:
        return self._reading[sender] < MOST_OF_ONE and self._reading.total() < most

    def _wait(self, sender: Hashable, most: int) -> bool:
        if self._waiting >= MOST_WAITING:
            return False
        self._waiting += 1
        try:
            return self._changed.wait_for(lambda: self._has_place(sender, most), PATIENCE_SECONDS)
        finally:
            self._waiting -= 1


class _CutOff(io.RawIOBase):
    """The body of a connection that ended early: a part of a document must not pass as the whole."""

    def __init__(self, received: int, announced: int) -> None:
        self._said = f"{received:,} of {announced:,} bytes came"

    def read(self, size: int = -1, /) -> bytes:
        raise OSError(self._said)


_places = _Places()

_guard = Guard()


def content_length(environ: dict[str, Any]) -> int:
    """Return the announced length of the body, 0 if it is not a number."""
    announced = environ.get("CONTENT_LENGTH") or "0"
    return int(announced) if announced.isdecimal() else 0


def read_ahead(environ: dict[str, Any], sender: Hashable, *, is_form: bool = False) -> None:
    """Read the whole body and replace `wsgi.input` with it, unless the body is too large.

    If the connection ends early, reading the replacement raises `OSError`.

    Raise `TooManyBodiesError` if too many bodies of this sender, or of all senders, are being read.
    """
    length = content_length(environ)
    if 0 < length <= READ_AHEAD_BYTES:
        # Each submission gets here, so there are no context managers, which take longer than the read.
        begin_read(environ, sender, is_form=is_form)
        try:
            body = environ["wsgi.input"].read(length)
        finally:
            end_read(sender)
        environ["wsgi.input"] = io.BytesIO(body) if len(body) == length else _CutOff(len(body), length)


def begin_read(environ: dict[str, Any], sender: Hashable, *, is_form: bool = False) -> None:
    """Take a place for a sender while its body is read, and watch slow connections until `end_read`.

    Raise `TooManyBodiesError` if no place is free.
    """
    _places.take(sender, MOST_FOR_FORMS if is_form else MOST_READING)
    port = str(environ.get("SERVER_PORT", ""))
    try:
        _guard.begin(int(port) if port.isdecimal() else 0, time.monotonic())
    except BaseException:
        _places.leave(sender)
        raise


def end_read(sender: Hashable) -> None:
    _guard.end()
    _places.leave(sender)


def read_by_view(environ: dict[str, Any], sender: Hashable, *, is_form: bool = False) -> AbstractContextManager[None]:
    """Hold a place while a view reads a body that is too large for `read_ahead`.

    Entering the context raises `TooManyBodiesError` if no place is free.
    """
    if content_length(environ) <= READ_AHEAD_BYTES:
        return contextlib.nullcontext()
    return _hold_place(environ, sender, is_form=is_form)


@contextlib.contextmanager
def _hold_place(environ: dict[str, Any], sender: Hashable, *, is_form: bool) -> Iterator[None]:
    begin_read(environ, sender, is_form=is_form)
    try:
        yield
        _drain(environ)
    finally:
        end_read(sender)


def _drain(environ: dict[str, Any]) -> None:
    """Read the rest of a body that a view refused, within limits.

    A server that closes a connection with unread data resets it, and many senders then report a broken pipe instead of
    the answer. A sender of the header `Expect` has not sent its body yet.
    """
    if environ.get("HTTP_EXPECT"):
        return
    left, end = MOST_DRAINED, time.monotonic() + DRAIN_SECONDS
    with contextlib.suppress(OSError):
        while left > 0 and time.monotonic() < end and (read := environ["wsgi.input"].read(_PIECE)):
            left -= len(read)


def drop(environ: dict[str, Any]) -> None:
    """Discard the body of a request that will be refused, so that the server closes the connection.

    If the key turns out to be valid after all, the unread body must not pass as an empty body.
    """
    environ["wsgi.input"] = _CutOff(0, content_length(environ))


def refuse(start_response: Callable[..., Any], status: str, said: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    """Answer with a problem document before Django sees the request."""
    number, _, title = status.partition(" ")
    members = f'"status":{number},"detail":"{said}","request_id":"{observability.current_id()}"'
    body = f'{{"type":"about:blank","title":"{title}",{members}}}'.encode()
    start_response(status, [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body))), *headers])
    return [body]
