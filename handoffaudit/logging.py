"""Logs on standard error: lines to read while developing, JSON in production."""

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
    """The event without secrets: in its words, in its values and in what is told of an exception."""
    kept = {key: value for key, value in event.items() if key.startswith("_")}
    told = {key: _to_json_value(value) for key, value in event.items() if key not in kept}
    return {**mask_secrets(told), **kept}


def _to_json_value(value: Any) -> Any:
    """What is no JSON value becomes the text that would be written of it."""
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
    """Sends structlog's and the standard library's records through one formatter. `form` is `text` or `json`."""
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
    # What a sender did wrong is in the answer; only what we did wrong belongs in the log.
    for name in ("django.request", "django.security.csrf"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # A line for each call to the model; the product records them.
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(max(logging.getLevelName(level), logging.WARNING))
