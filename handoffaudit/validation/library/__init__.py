"""The engine as a library for code that validates LLM outputs: validators, models and the pipeline.

This package makes no checks of its own: each class calls the engine's layers and converts their findings into the
models that users' code reads. The package logs with structlog.
"""

import logging
from typing import Any

import structlog

from handoffaudit.validation.prompts.masking import mask_secrets


def get_logger(name: str) -> Any:
    """Return the structlog logger of that name.

    If the application has configured structlog, its configuration applies. Without a configuration, structlog would
    print to standard output, which a library must not do. In that case, events go to the `logging` logger of that name
    as one line of `key=value`, and appear only if the application enables them.
    """
    if structlog.is_configured():
        return structlog.get_logger(name)
    render = structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True)
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, structlog.processors.format_exc_info, render],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def log_validation(name: str, event: str, *, handoff_id: str, valid: bool, issues: list[str]) -> None:
    """Log one validation at level INFO: `event`, `handoff_id`, `valid` and `issues`, with secrets masked."""
    get_logger(name).info(event, handoff_id=handoff_id, valid=valid, issues=mask_secrets(issues))
