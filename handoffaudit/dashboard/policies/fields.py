"""The inputs that editors of policies are made of; `templates/dashboard/policy/field.html` draws one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Choices = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """An input: `choices` (value and words) for a menu, `is_number` for a whole number, `is_decimal` for any number,
    `is_switch` for a box to tick, `height` in lines for a longer text."""

    name: str
    label: str
    value: Any
    help: str = ""
    error: str = ""
    choices: Choices | None = None
    is_number: bool = False
    is_decimal: bool = False
    is_switch: bool = False
    is_code: bool = False
    height: int = 0
    required: bool = False


def menu(words: Mapping[Any, str]) -> Choices:
    """A menu whose entries say what each value means."""
    return [
        (str(value), f"{value}: {meaning}" if value and meaning else str(value) or meaning)
        for value, meaning in words.items()
    ]


def plain_menu(values: Iterable[str]) -> Choices:
    return [(value, value) for value in values]
