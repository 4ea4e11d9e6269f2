"""Days looked up by what two dates both say, at the same cost however many there are."""

from collections.abc import Iterable
from itertools import product
from typing import TypeAlias

from handoffaudit.validation.layers.grounding.normal import Day

_Said: TypeAlias = tuple[bool, bool, bool]


class KnownDays:
    """Days in an order; a claimed day is the first of them that says nothing else."""

    def __init__(self, days: Iterable[Day]) -> None:
        self._days = list(days)
        # by which parts a claim says: each day as far as it says them too, with its first place
        self._tables: dict[_Said, dict[Day, int]] = {}

    def first(self, claimed: Day) -> int | None:
        """The place of the first day that differs in nothing that both say, None where there is none."""
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
