"""Preparation of a process of the product: its environment variables, and its garbage collector."""

import gc
import os
from collections.abc import MutableMapping

PREFIX = "HANDOFFAUDIT_"
OTHERS = (
    *("DATABASE_URL", "DATABASE_REPLICA_URL", "REDIS_URL"),
    *("XDG_DATA_HOME", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
)


def drop_empty(environment: MutableMapping[str, str] = os.environ) -> None:
    """Remove empty variables of the product: `NAME=` in an environment file means that NAME is not set."""
    for name in [name for name in environment if name.startswith(PREFIX) or name in OTHERS]:
        if not environment[name].strip():
            del environment[name]


def freeze_startup_objects() -> None:
    """Freeze startup objects out of the garbage collector. Call once, after imports.

    Batches create many short-lived objects and few cycles, so rare collections suffice. With rare collections, a worker
    judged a fifth more handoffs per second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
