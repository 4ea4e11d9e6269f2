"""Changes of a policy in words, the same way for every kind."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from handoffaudit.dashboard.readable import cut

LONGEST_VALUE = 200
LONGEST_PLACE = 300
MOST_OF_A_VERSION = 50
MOST_COMPARED = 500


@dataclass(frozen=True, slots=True)
class Line:
    """A change as a line of text: `old` None where `field` of the row came, `new` None where it went."""

    type_name: str
    field: str
    old: str | None
    new: str | None

    @property
    def said(self) -> str:
        """The field inside a sentence."""
        return self.field[:1].lower() + self.field[1:]


@dataclass(frozen=True, slots=True)
class Lines:
    """So many lines, and how many more there are."""

    shown: Sequence[Line]
    more: int

    @classmethod
    def of(cls, lines: Sequence[Line], most: int) -> "Lines":
        return cls(lines[:most], max(0, len(lines) - most))


def shown(value: Any) -> str:
    """A value as text; a switch as on or off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "nothing"
    if isinstance(value, int) and abs(value) < 10**18:
        return f"{value:,}"
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST_VALUE)


def shown_or_none(value: Any) -> str | None:
    """The same, where what is not there is said otherwise."""
    return None if value is None else shown(value)


def place(text: str) -> str:
    return cut(text, LONGEST_PLACE)
