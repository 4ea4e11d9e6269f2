"""The conversion of Python values to the JSON values that the engine reads."""

import dataclasses
from datetime import date
from enum import Enum
from math import isfinite
from typing import Any

from pydantic import BaseModel

from handoffaudit.validation.json_text import MAX_DEPTH

# In bits: Python refuses to convert longer integers to text.
_LONGEST_INTEGER = 14_000


def to_json(value: Any) -> Any:
    """Return a copy of `value` in JSON types.

    Models, dataclasses, enums and times are converted. Other objects become their text. A value that JSON cannot
    express (NaN, infinity, or an overlong number) becomes null, and half a surrogate pair becomes a question mark. A
    value that is nested too deeply for the engine is cut one level below the limit, so that the engine still detects
    the excess.
    """
    return _plain(value, (), MAX_DEPTH + 1)


def _plain(value: Any, inside: tuple[int, ...], left: int) -> Any:
    value = _unwrap(value)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, int | float):
        return value if _can_be_written(value) else None
    if value is None or not left or id(value) in inside:
        return None
    inside = (*inside, id(value))
    if isinstance(value, list):
        return [_plain(one, inside, left - 1) for one in value]
    return {_key(key): _plain(one, inside, left - 1) for key, one in value.items()}


def _can_be_written(number: float) -> bool:
    return number.bit_length() <= _LONGEST_INTEGER if isinstance(number, int) else isfinite(number)


def _unwrap(value: Any) -> Any:
    """Return the outermost level of `value` in JSON types."""
    if isinstance(value, Enum):
        return _unwrap(value.value)
    if value is None or isinstance(value, str | int | float | dict | list):
        return value
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return value.isoformat() if isinstance(value, date) else str(value)


def _key(key: Any) -> str:
    text: str = _plain(str(_unwrap(key)), (), 1)
    return text
