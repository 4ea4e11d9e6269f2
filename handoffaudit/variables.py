"""Environment variables of the product, cleaned before any of them is read."""

import os
from collections.abc import MutableMapping

PREFIX = "HANDOFFAUDIT_"
OTHERS = ("DATABASE_URL", "REDIS_URL", "XDG_DATA_HOME", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


def drop_empty(environment: MutableMapping[str, str] = os.environ) -> None:
    """Remove empty variables of the product: `NAME=` in an environment file means that NAME is not set."""
    for name in [name for name in environment if name.startswith(PREFIX) or name in OTHERS]:
        if not environment[name].strip():
            del environment[name]
