"""Days and times of day that a text may mean, and how they compare."""

import re
from collections.abc import Iterable
from itertools import product
from typing import TypeAlias

from handoffaudit.validation.layers.grounding.vocabulary import MONTHS

_DIGIT_RUN = re.compile(r"\d+")

_LETTERS = re.compile(r"[^\W\d_]+")

_MIDDAY = 12 * 60

_LAST_DAY = 31

Day: TypeAlias = tuple[int | None, int | None, int | None]


def days_of(text: str) -> list[Day]:
    """Return the days that a date may mean, as (year, month, day) with None for each part not stated.

    3/4/2024 may mean two days.
    """
    figures = [int(figure) for figure in _DIGIT_RUN.findall(text[:40])]
    month = next((MONTHS[word] for word in _LETTERS.findall(text[:40].lower()) if word in MONTHS), None)
    if month is not None:
        year = next((figure for figure in figures if figure > _LAST_DAY), None)
        day = next((figure for figure in figures if figure <= _LAST_DAY), None)
        return [(year, month, day)]
    if len(figures) < 3:
        return []
    first, second, third = figures[:3]
    if first > _LAST_DAY:
        return [(first, second, third)]
    year = third if third > 99 else 2000 + third
    both = [(year, first, second), (year, second, first)]
    return [day for day in both if 1 <= day[1] <= 12 and 1 <= day[2] <= _LAST_DAY]


def same_day(claimed: Day, given: Day) -> bool:
    """Return whether two days agree in every part that both state."""
    return all(one is None or other is None or one == other for one, other in zip(claimed, given, strict=True))


def minutes_of(text: str) -> int | None:
    """Return a time of day in minutes since midnight (`2 PM` is 840), or None if the text has no valid hour."""
    figures = [int(figure) for figure in _DIGIT_RUN.findall(text[:12])]
    if not figures or figures[0] > 24:
        return None
    minutes = figures[0] % 24 * 60 + (figures[1] if len(figures) > 1 else 0)
    half = text.lower().rstrip(". ")[-3:].replace(".", "")
    if half.endswith("pm") and minutes < _MIDDAY:
        return minutes + _MIDDAY
    return minutes - _MIDDAY if half.endswith("am") and minutes >= _MIDDAY else minutes


_Said: TypeAlias = tuple[bool, bool, bool]


class KnownDays:
    """An ordered list of days that returns the first day compatible with a claimed day."""

    def __init__(self, days: Iterable[Day]) -> None:
        self._days = list(days)
        # Maps the parts that a claim states to a table of the days, reduced to these parts, with their first position.
        self._tables: dict[_Said, dict[Day, int]] = {}

    def first(self, claimed: Day) -> int | None:
        """Return the position of the first day that agrees with `claimed` in every part that both state, or None."""
        said = (claimed[0] is not None, claimed[1] is not None, claimed[2] is not None)
        table = self._tables.get(said)
        if table is None:
            table = self._tables[said] = {}
            for place, day in enumerate(self._days):
                table.setdefault(_only(day, said), place)
        places = (table.get(_only(claimed, parts)) for parts in product((True, False), repeat=3))
        return min((place for place in places if place is not None), default=None)


def _only(day: Day, said: tuple[bool, ...]) -> Day:
    year, month, date = day
    return (year if said[0] else None, month if said[1] else None, date if said[2] else None)
