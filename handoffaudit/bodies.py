"""Bodies are read before a view begins, by a bounded number of threads: who sends one byte a second must not hold them
all, and keep out everybody who only reads (`docs/decisions/0013-slow-bodies.md`)."""

import io
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

# Of 32 threads of the embedded way; the rest answers requests without a body, whatever senders do.
MOST_READING = 24
# Larger ones are read by the view that allows them, after it knows the key.
READ_AHEAD_BYTES = 1024 * 1024
# The one form that takes more: its view knows who sends before it reads, and answers with a page what is too large.
LOG_FORM = re.compile(r"/t/[^/]+/diagnostics/logs/import/send/\Z")

_reading = threading.BoundedSemaphore(MOST_READING)


def read_ahead(environ: dict[str, Any]) -> bool:
    """Puts the whole body in place of the connection; False where so many bodies are awaited that this one can't be."""
    announced = environ.get("CONTENT_LENGTH") or "0"
    if not announced.isdecimal() or not 0 < int(announced) <= READ_AHEAD_BYTES:
        return True
    if not _reading.acquire(blocking=False):
        return False
    try:
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(announced)))
    finally:
        _reading.release()
    return True


def refuse(start_response: Callable[..., Any], status: str, said: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    """An answer from before Django, as a problem document."""
    number, _, title = status.partition(" ")
    body = f'{{"type":"about:blank","title":"{title}","status":{number},"detail":"{said}"}}'.encode()
    start_response(status, [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body))), *headers])
    return [body]
