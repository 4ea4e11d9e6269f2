"""What changed between two versions of a policy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.paths import Location, dotted

WHOLE_ROW = "row"
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Change:
    """One value before and after, None where there was none. `row` is the row's name; a row that came or went is one
    change of the field `row`. What lies inside a field has its path: `layers.chain`, `rules.price_range.threshold`."""

    row: str
    field: str
    old: Any
    new: Any

    def to_plain(self) -> dict[str, Any]:
        return {"row": self.row, "field": self.field, "old": self.old, "new": self.new}


def difference(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> list[Change]:
    """Between rows by name, each as plain values; "any other type" last."""
    names = sorted(old.keys() | new.keys(), key=lambda name: (name == ANY_OTHER_TYPE, name))
    return [change for name in names for change in _row_changes(name, old.get(name), new.get(name))]


def _row_changes(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[Change]:
    if old is None or new is None:
        yield Change(name, WHOLE_ROW, old, new)
        return
    for location, before, after in _inside((), old, new):
        yield Change(name, dotted(location), before, after)


def _inside(location: Location, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[Location, Any, Any]]:
    for key in dict.fromkeys([*old, *new]):
        before, after, place = old.get(key), new.get(key), (*location, key)
        if isinstance(before, Mapping) and isinstance(after, Mapping) and len(place) < DEEPEST:
            yield from _inside(place, before, after)
        elif not _same(before, after):
            yield place, before, after


def _same(old: Any, new: Any) -> bool:
    # To Python True is 1, to JSON it is not.
    return orjson.dumps(old, option=orjson.OPT_SORT_KEYS) == orjson.dumps(new, option=orjson.OPT_SORT_KEYS)
