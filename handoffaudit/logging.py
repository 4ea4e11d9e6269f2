"""Logs on standard error, as readable lines or JSON, and the ids of requests that each log line has."""

import logging
import re
import sys
import uuid
from collections.abc import Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final

import orjson
import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars

from handoffaudit.validation.prompts.masking import mask_secrets


def _dumps(event: dict[str, Any], **_: Any) -> str:
    return orjson.dumps(event, default=str).decode()


def without_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the event with masked secrets in its message, its values and its traceback."""
    kept = {key: value for key, value in event.items() if key.startswith("_")}
    rest = {key: _to_json_value(value) for key, value in event.items() if key not in kept}
    return {**mask_secrets(rest), **kept}


def _to_json_value(value: Any) -> Any:
    """Return the value as JSON, with the text of any value that JSON does not have."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _to_json_value(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_to_json_value(one) for one in value]
        case _:
            return str(value)


def configure_logs(form: str, level: str) -> None:
    """Format the records of structlog and of the standard library in one way. `form` is `text` or `json`."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        without_secrets,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_dumps)
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # Answers tell senders about their own errors. Only errors of the product belong in the log.
    for name in ("django.request", "django.security.csrf"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # The broker of one machine has no host name, and kombu warns of that at each start.
    logging.getLogger("kombu.connection").setLevel(logging.ERROR)
    # These log a line for each call to the LLM, which the product records itself.
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(max(logging.getLevelName(level), logging.WARNING))


ID_HEADER: Final = "X-Request-ID"
_ID_KEY: Final = "HTTP_X_REQUEST_ID"
# Senders choose their ids. These characters need no escape in a log, a header or a document.
_VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
# One message to a worker can be for several requests. A log line names this many.
MOST_OF_A_TASK: Final = 10

# The context of structlog has the id for the log lines. To read the id there, structlog copies the whole context of the
# thread, which is too slow for each submission.
_current: ContextVar[str] = ContextVar("request_id", default="")


def begin_request(environ: dict[str, Any]) -> str:
    """Bind the id of a request to this thread, and return the id.

    The thread keeps the id until its next request, because a streamed body is written after the handler has returned.
    """
    given = environ.get(_ID_KEY, "")
    found = given if _VALID_ID.fullmatch(given) else uuid.uuid4().hex
    _current.set(found)
    bind_contextvars(request_id=found)
    return found


def current_id() -> str:
    """Return the id of the request that this thread answers, or an empty text."""
    return _current.get()


def bind_task(name: str, ids: Iterable[object]) -> None:
    """Bind the name of a task, and the ids of the requests that caused the task, to this thread."""
    valid = [one for one in ids if isinstance(one, str) and _VALID_ID.fullmatch(one)][:MOST_OF_A_TASK]
    clear_contextvars()
    _current.set(valid[0] if len(valid) == 1 else "")
    bind_contextvars(
        task=name, **({"request_id": valid[0]} if len(valid) == 1 else {"request_ids": valid} if valid else {})
    )


def clear_ids() -> None:
    clear_contextvars()
    _current.set("")
