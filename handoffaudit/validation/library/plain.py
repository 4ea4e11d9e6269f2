"""Python values as the JSON values that the engine reads."""

import dataclasses
from datetime import date
from enum import Enum
from math import inf
from typing import Any

from pydantic import BaseModel

from handoffaudit.validation.reading import MAX_DEPTH

# Python writes no longer one out, and JSON readers take it as a float
_LONGEST_INTEGER = 14_000


def plain(value: Any) -> Any:
    """A copy of `value` in JSON types: models, dataclasses, enums and times are converted, other objects become their
    text. What is nested deeper than the engine reads is cut just below that depth, so that the engine still sees that
    it is too deep."""
    return _plain(value, (), MAX_DEPTH + 1)


def _plain(value: Any, inside: tuple[int, ...], left: int) -> Any:
    if value is None or type(value) in (str, float, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _LONGEST_INTEGER else inf if value > 0 else -inf
    value = _unwrapped(value)
    if isinstance(value, dict | list) and (not left or id(value) in inside):
        return None
    inside = (*inside, id(value))
    match value:
        case dict():
            return {key if type(key) is str else _key(key): _plain(one, inside, left - 1) for key, one in value.items()}
        case list():
            return [_plain(one, inside, left - 1) for one in value]
        case _:
            return value


def _unwrapped(value: Any) -> Any:
    """One level of `value` in JSON types."""
    if isinstance(value, Enum):
        return _unwrapped(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    match value:
        case BaseModel():
            return {**value.__dict__, **(value.__pydantic_extra__ or {})}
        case tuple() | set() | frozenset():
            return list(value)
        case str() | int() | float() | dict() | list() | None:
            return value
        case _:
            return value.isoformat() if isinstance(value, date) else str(value)


def _key(key: Any) -> str:
    plain_key = _unwrapped(key)
    return plain_key if isinstance(plain_key, str) else str(plain_key)
