"""Where the data of a record stands in its document."""

from collections.abc import Callable
from typing import Any

from handoffaudit.validation.paths import Location
from handoffaudit.validation.record import Record

_DEEPEST = 3
_MOST_LOOKED_AT = 2000


def placer(record: Record) -> Callable[[Location], Location]:
    """A function from a place in the data to the same place in the document.

    A format hands over a part of the document, or (`delegation`) makes the data of several: each value is found by
    being the very same object.
    """
    root = _find(record.document, record.data, _DEEPEST)
    if root is not None:
        return lambda location: (*root, *location)
    parts = {key: _find(record.document, value, _DEEPEST) for key, value in record.data.items()}

    def from_parts(location: Location) -> Location:
        head = parts.get(location[0]) if location and isinstance(location[0], str) else None
        return (*head, *location[1:]) if head is not None else location

    return from_parts


def hands_over(record: Record) -> bool:
    """Whether the document has an object as its data. Where it has something else in its place, or nothing, the
    record's data is an empty object that stands nowhere."""
    return bool(record.data) or _find(record.document, record.data, _DEEPEST) is not None


def _find(document: Any, wanted: Any, depth: int) -> Location | None:
    """The place of the object `wanted` in the document, level by level."""
    if document is wanted:
        return ()
    level: list[tuple[Location, Any]] = [((), document)]
    for _ in range(depth):
        below: list[tuple[Location, Any]] = []
        for place, parent in level:
            if not isinstance(parent, dict):
                continue
            for key, value in parent.items():
                if value is wanted:
                    return (*place, key)
                below.append(((*place, key), value))
                if len(below) > _MOST_LOOKED_AT:
                    return None
        level = below
    return None
