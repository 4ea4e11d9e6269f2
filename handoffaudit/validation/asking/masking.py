"""Secrets taken out of what goes to a model, and out of logs: by the name of their field, by the look of their text,
and by what stands before them in a text."""

from collections.abc import Iterable, Mapping
from typing import Any

from handoffaudit.validation.asking import secret_names
from handoffaudit.validation.asking.secret_texts import MASKED, masked_text

__all__ = ["MASKED", "masked"]

# how settings, headers and form fields are listed: `{"name": "DB_PASSWORD", "value": "…"}`
_NAMING = ("name", "key", "header", "variable", "field")
_VALUED = ("value", "val", "default")


def masked(value: Any) -> Any:
    """A copy of a JSON value without its secrets; its objects and lists stay as they are built."""
    match value:
        case dict():
            return _masked_object(value)
        case [str() as name, str() as held] if held and secret_names.of_text(name):
            return [name, MASKED]
        case list():
            return [masked(one) for one in value]
        case str():
            return masked_text(value)
        case _:
            return value


def _masked_object(held: Mapping[str, Any]) -> dict[str, Any]:
    named = _named_in(held)
    return _under_distinct_keys(
        (masked_text(key), _masked_under(named if named and key in _VALUED else key, held[key])) for key in held
    )


def _under_distinct_keys(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """All entries: two keys that look the same once they are masked must not hide what stands under one of them."""
    kept: dict[str, Any] = {}
    number = 1
    for key, value in entries:
        name = key
        # a sender may have keys that look like ours
        while name in kept:
            number += 1
            name = f"{key} {number}"
        kept[name] = value
    return kept


def _named_in(held: Mapping[str, Any]) -> str:
    """The secret's name that an object of a name and a value gives, else empty."""
    if not any(key in held for key in _VALUED):
        return ""
    names = (held.get(key) for key in _NAMING)
    return next((name for name in names if isinstance(name, str) and secret_names.of_text(name)), "")


def _masked_under(name: str, value: Any) -> Any:
    match value:
        case None | bool() | "":
            return value
        case str():
            return MASKED if secret_names.of_text(name) else masked_text(value)
        case int() | float():
            return MASKED if secret_names.of_number(name) else value
        case _:
            return _all_masked(value) if secret_names.of_all_below(name) else masked(value)


def _all_masked(value: Any) -> Any:
    match value:
        case dict():
            return _under_distinct_keys((masked_text(key), _all_masked(one)) for key, one in value.items())
        case list():
            return [_all_masked(one) for one in value]
        case None | bool() | "":
            return value
        case _:
            return MASKED
