"""The differences between two JSON documents, place by place."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Any

from handoffaudit.validation.paths import Location, dotted_path, pointer
from handoffaudit.validation.text import brief

MOST_CHANGES = 200

_DEEPEST = 64

_LONG = 120

_LEAD = 40

_SCALARS = (str, int, float, bool, type(None))


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One place that differs.

    `before` and `after` are cut to a readable size. `why` is empty if no reason is given. `location` is a place in the
    document after the change, or, for a removed value, in the document before the change.
    """

    location: Location
    kind: ChangeKind
    before: Any = None
    after: Any = None
    why: str = ""

    @property
    def field_path(self) -> str:
        return dotted_path(self.location)

    def to_dict(self) -> dict[str, Any]:
        return {
            "field_path": self.field_path,
            "json_pointer": pointer(self.location),
            "kind": self.kind.value,
            "before": self.before,
            "after": self.after,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes between two documents.

    `complete` is False if there are more changes than were listed.
    """

    changes: tuple[Change, ...]
    complete: bool = True


def addition(location: Location, value: Any, why: str = "") -> Change:
    return Change(location, ChangeKind.ADDED, after=brief(value), why=why)


def removal(location: Location, value: Any, why: str = "") -> Change:
    return Change(location, ChangeKind.REMOVED, before=brief(value), why=why)


def replacement(location: Location, before: Any, after: Any, why: str = "") -> Change:
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _LONG:
        before, after = _cut_common_start(before, after)
    return Change(location, ChangeKind.CHANGED, brief(before), brief(after), why)


def _cut_common_start(before: str, after: str) -> tuple[str, str]:
    """Replace the common start of two long texts with `…`, up to shortly before their first difference."""
    letters = enumerate(zip(before, after, strict=False))
    common = next((at for at, (one, other) in letters if one != other), min(len(before), len(after)))
    start = max(common - _LEAD, 0)
    return (f"…{before[start:]}", f"…{after[start:]}") if start else (before, after)


def difference(before: Any, after: Any, *, most: int = MOST_CHANGES) -> Difference:
    """Return the first `most` places where `after` differs from `before`, in document order."""
    found = tuple(islice(_compare((), before, after), most + 1))
    return Difference(tuple(_readable(change) for change in found[:most]), complete=len(found) <= most)


def _readable(change: Change) -> Change:
    location = tuple(brief(part) for part in change.location)
    return replace(change, location=location)


def _compare(place: Location, before: Any, after: Any) -> Iterator[Change]:
    if len(place) >= _DEEPEST or type(before) is not type(after) or isinstance(before, _SCALARS):
        if not same(before, after):
            yield replacement(place, before, after)
    elif isinstance(before, dict):
        yield from _fields(place, before, after)
    else:
        yield from _entries(place, before, after)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON.

    The numbers 1 and 1.0 are equal, true differs from 1, and the order of keys is ignored.
    """
    return one is other or (bool(one == other) and _has_same_booleans(one, other))


def _has_same_booleans(one: Any, other: Any) -> bool:
    """Return whether two values that are equal in Python, where True equals 1, have booleans at the same places."""
    if isinstance(one, dict):
        return all(_has_same_booleans(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(_has_same_booleans, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


def _fields(place: Location, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    for key, value in before.items():
        if key in after:
            yield from _compare((*place, key), value, after[key])
        else:
            yield removal((*place, key), value)
    for key, value in after.items():
        if key not in before:
            yield addition((*place, key), value)


def _entries(place: Location, before: list[Any], after: list[Any]) -> Iterator[Change]:
    """Yield the changes of a list: skip the equal entries at both ends and compare the rest by position."""
    shorter = min(len(before), len(after))
    start = next((index for index in range(shorter) if not same(before[index], after[index])), shorter)
    tail = shorter - start
    end = next((back for back in range(tail) if not same(before[-1 - back], after[-1 - back])), tail)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    for index, (was, now) in enumerate(zip(old, new, strict=False), start):
        yield from _compare((*place, index), was, now)
    common = min(len(old), len(new))
    for index, value in enumerate(old[common:], start + common):
        yield removal((*place, index), value)
    for index, value in enumerate(new[common:], start + common):
        yield addition((*place, index), value)
