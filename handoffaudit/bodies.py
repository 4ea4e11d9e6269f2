"""Request bodies, read before a view begins by a bounded number of threads (`docs/decisions/0013-slow-bodies.md`)."""

import contextlib
import io
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from handoffaudit.slow_connections import Guard

# Of 32 threads of the embedded way; the rest answers requests without a body, whatever senders do.
MOST_READING = 24
# Of one key, or of one address that sends forms.
MOST_OF_ONE = 16
# Anybody may send forms, from as many addresses as they have: the last places are kept for those who have a key.
MOST_FOR_FORMS = 16
# For so long a request waits for a place, where few others do.
PATIENCE_SECONDS = 0.3
MOST_WAITING = 4
# Larger ones are read by the view that allows them.
READ_AHEAD_BYTES = 1024 * 1024
# The one form that takes more: its view knows who sends before it reads, and answers with a page what is too large.
LOG_FORM = re.compile(r"/t/[^/]+/diagnostics/logs/import/send/\Z")


class TooManyBodiesError(Exception):
    """So many bodies are awaited that this one is not read."""


class _Places:
    """Who reads bodies at this moment."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reading: Counter[Hashable] = Counter()
        self._waiting = 0

    @contextlib.contextmanager
    def taken(self, sender: Hashable, most: int) -> Iterator[None]:
        with self._changed:
            if not self._has_place(sender, most) and not self._wait(sender, most):
                raise TooManyBodiesError("Too many requests are sending their bodies slowly")
            self._reading[sender] += 1
        try:
            yield
        finally:
            with self._changed:
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
    """A body whose connection ended before it did: a part of a document must not pass as the whole."""

    def __init__(self, received: int, announced: int) -> None:
        self._said = f"{received:,} of {announced:,} bytes came"

    def read(self, size: int = -1, /) -> bytes:
        raise OSError(self._said)


_places = _Places()
_guard = Guard()


def announced_length(environ: dict[str, Any]) -> int:
    """Return the length that the request announces; 0 where that is no number."""
    announced = environ.get("CONTENT_LENGTH") or "0"
    return int(announced) if announced.isdecimal() else 0


def read_ahead(environ: dict[str, Any], sender: Hashable, *, is_form: bool = False) -> None:
    """Put the whole body in place of the connection, where it is not too large for that.

    Raise `TooManyBodiesError` where so many are awaited, of this sender or of all, that this one is not.
    """
    length = announced_length(environ)
    if 0 < length <= READ_AHEAD_BYTES:
        with _places.taken(sender, MOST_FOR_FORMS if is_form else MOST_READING), watched(environ):
            body = environ["wsgi.input"].read(length)
        environ["wsgi.input"] = io.BytesIO(body) if len(body) == length else _CutOff(len(body), length)


@contextlib.contextmanager
def read_by_view(environ: dict[str, Any], sender: Hashable, *, is_form: bool = False) -> Iterator[None]:
    """Hold one of the places while a view reads a body that is too large for `read_ahead`. Raise as that does."""
    if announced_length(environ) <= READ_AHEAD_BYTES:
        yield
        return
    with _places.taken(sender, MOST_FOR_FORMS if is_form else MOST_READING), watched(environ):
        yield


@contextlib.contextmanager
def watched(environ: dict[str, Any]) -> Iterator[None]:
    """End connections whose bodies come too slowly, for as long as this one is read."""
    port = str(environ.get("SERVER_PORT", ""))
    _guard.begin(int(port) if port.isdecimal() else 0, time.monotonic())
    try:
        yield
    finally:
        _guard.end()


def drop(environ: dict[str, Any]) -> None:
    """Take the body away unread: whoever sends it is refused, and the server ends the connection.

    Where the key proves good a moment later, after all, a body that was not read must not pass as an empty one.
    """
    environ["wsgi.input"] = _CutOff(0, announced_length(environ))


def refuse(start_response: Callable[..., Any], status: str, said: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    """An answer from before Django, as a problem document."""
    number, _, title = status.partition(" ")
    body = f'{{"type":"about:blank","title":"{title}","status":{number},"detail":"{said}"}}'.encode()
    start_response(status, [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body))), *headers])
    return [body]
