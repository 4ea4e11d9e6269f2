"""The JSON Schemas (draft 2020-12) of the formats, stored as files next to this module."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

SCHEMA_NAMES = (
    "payload",
    "universal-3.0",
    "universal-2.0",
    "output",
    "claude-code",
    "claude-code-subagent",
    "delegation",
    "delegation-hook",
    "handoff-file",
    "handoff-file-report",
)
FOLDER: Final = Path(__file__).parent


def schema(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return the JSON Schema of that name, as a separate copy for each caller.

    Raises KeyError if there is no schema of that name, OSError if its file is missing.
    """
    if name not in SCHEMA_NAMES:
        raise KeyError(name)
    loaded: dict[str, Any] = orjson.loads(_shipped(name) if folder is FOLDER else _text(name, folder))
    return loaded


@cache
def _shipped(name: str) -> bytes:
    return _text(name, FOLDER)


def _text(name: str, folder: Path) -> bytes:
    return (folder / f"{name}.schema.json").read_bytes()
