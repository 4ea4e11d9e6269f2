"""What the lines of a block hold, in short, so that a search can pass it over."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import orjson

from handoffaudit.validation.text import clean

# Of more values a list would be no shorter than the block.
MOST_VALUES = 100
LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class Facets:
    """Each is the whole set of values that lines of a block have, or None where they are too many."""

    kinds: frozenset[str] | None = frozenset()
    agents: frozenset[str] | None = frozenset()
    phases: frozenset[str] | None = frozenset()
    events: frozenset[str] | None = frozenset()
    levels: frozenset[str] | None = frozenset()
    traces: frozenset[str] | None = frozenset()

    def __or__(self, other: "Facets") -> "Facets":
        return Facets(*(_union(getattr(self, one.name), getattr(other, one.name)) for one in fields(Facets)))

    def dumped(self) -> str:
        return orjson.dumps({one.name: _listed(getattr(self, one.name)) for one in fields(Facets)}).decode()

    @classmethod
    def loaded(cls, text: str) -> "Facets":
        found = orjson.loads(text) if text else {}
        return cls(*(_set(found.get(one.name)) for one in fields(Facets)))


def bounded(values: Iterable[str]) -> frozenset[str] | None:
    """The values that are not empty, cut as they are asked for; None of too many."""
    found = frozenset(values)
    if len(found) > 2 * MOST_VALUES:
        return None
    kept = frozenset(clean(value, LONGEST_VALUE) for value in found if value)
    return kept if len(kept) <= MOST_VALUES else None


def _union(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else bounded(one | other)


def _listed(values: frozenset[str] | None) -> list[str] | None:
    return None if values is None else sorted(values)


def _set(values: list[str] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)
