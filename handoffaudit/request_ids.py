"""Ids of requests, which connect the answer to a sender with the log lines of web processes and workers.

The id is bound to the context of structlog, so each log line has it. To read the id from that context, structlog would
copy the whole context of the thread for each submission, so a variable holds it, too.
"""

import re
import uuid
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Final

from structlog.contextvars import bind_contextvars, clear_contextvars

HEADER: Final = "X-Request-ID"
_KEY: Final = "HTTP_X_REQUEST_ID"
# Senders choose their ids. These characters need no escape in a log, a header or a document.
_VALID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
# One message to a worker can be for several requests. A log line names this many.
MOST_OF_A_TASK: Final = 10

_current: ContextVar[str] = ContextVar("request_id", default="")


def begin_request(environ: dict[str, Any]) -> str:
    """Bind the id of a request to this thread, and return the id.

    The thread keeps the id until its next request, because a streamed body is written after the handler has returned.
    """
    given = environ.get(_KEY, "")
    found = given if _VALID.fullmatch(given) else uuid.uuid4().hex
    _current.set(found)
    bind_contextvars(request_id=found)
    return found


def current_id() -> str:
    """Return the id of the request that this thread answers, or an empty text."""
    return _current.get()


def begin_task(name: str, ids: Iterable[object]) -> None:
    """Bind the name of a task, and the ids of the requests that caused the task, to this thread."""
    valid = [one for one in ids if isinstance(one, str) and _VALID.fullmatch(one)][:MOST_OF_A_TASK]
    clear_contextvars()
    _current.set(valid[0] if len(valid) == 1 else "")
    bind_contextvars(
        task=name, **({"request_id": valid[0]} if len(valid) == 1 else {"request_ids": valid} if valid else {})
    )


def end_task() -> None:
    clear_contextvars()
    _current.set("")
