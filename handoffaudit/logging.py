"""Logs on standard error: readable lines in development, JSON in production."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import orjson
import structlog

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
