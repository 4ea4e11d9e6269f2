"""The JSON Schemas (draft 2020-12) of the formats, as files beside this one."""

from functools import cache
from importlib.resources import files
from typing import Any

import orjson

SCHEMA_NAMES = ("payload", "universal-3.0")


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of that name, a copy of its own for each caller. Raises KeyError where there is none."""
    if name not in SCHEMA_NAMES:
        raise KeyError(name)
    loaded: dict[str, Any] = orjson.loads(_text(name))
    return loaded


@cache
def _text(name: str) -> bytes:
    return (files(__name__) / f"{name}.schema.json").read_bytes()
