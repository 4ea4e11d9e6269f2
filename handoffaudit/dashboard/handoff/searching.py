"""Looking something up in a document: in its keys, in its values, or by the place itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from handoffaudit.dashboard.handoff.places import parts_of
from handoffaudit.dashboard.readable import readable
from handoffaudit.validation.paths import Location, dotted_path, pointer
from handoffaudit.validation.selectors import PathError, parse_path

MOST_HITS = 50
MOST_WANTED = 200
# A longer one is not asked for by an address; all of a page together weigh so much at most.
MOST_POINTER = 4000
_MOST_POINTERS = 20_000
_AROUND = 60
_LONGEST_PATH = 160


@dataclass(frozen=True, slots=True)
class Hit:
    """A place, and the words around what was found there; `is_key`: it is the name of the field that has them. Without
    `pointer` its names are too long for an address."""

    pointer: str | None
    path: str
    before: str
    found: str
    after: str
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """`has_more`: there are others, which are not listed."""

    wanted: str
    items: tuple[Hit, ...]
    has_more: bool = False


def look_up(value: Any, wanted: str) -> Hits:
    """Where `wanted` stands in the document, in its order and whatever the case; a place that is written as this
    page writes places (`data.items[3]`, `/data/items/3`) comes first."""
    wanted = wanted.strip()[:MOST_WANTED]
    hits: list[Hit] = []
    weight = 0
    if not wanted:
        return Hits("", ())
    named = _place(value, wanted)
    if named is not None:
        hits.append(Hit(_pointer(named), _path(named), "", readable(dotted_path(named)), "", is_key=True))
    for hit in _found(value, wanted.lower()):
        weight += len(hit.pointer or "")
        if len(hits) == MOST_HITS or weight > _MOST_POINTERS:
            return Hits(wanted, tuple(hits), has_more=True)
        hits.append(hit)
    return Hits(wanted, tuple(hits))


def location_of(value: Any, at: str) -> Location | None:
    """The place that a JSON Pointer names; None where the document has none there."""
    if at and not at.startswith("/"):
        return None
    location: Location = ()
    for part in parts_of(at):
        key: str | int = part
        if isinstance(value, list):
            if not (part.isascii() and part.isdecimal() and len(part) < 9 and int(part) < len(value)):
                return None
            key = int(part)
        elif not isinstance(value, dict) or part not in value:
            return None
        location, value = (*location, key), value[key]
    return location


def _place(value: Any, wanted: str) -> Location | None:
    if wanted.startswith("/"):
        return location_of(value, wanted)
    try:
        parts = parse_path(wanted)
    except PathError:
        return None
    exact = tuple(part for part in parts if isinstance(part, str | int))
    return location_of(value, pointer(exact)) if len(exact) == len(parts) > 1 else None


def _found(root: Any, wanted: str) -> Iterator[Hit]:
    # a stack of its own: a document may be nested deeper than Python calls
    waiting: list[tuple[Location, Any]] = [((), root)]
    while waiting:
        location, value = waiting.pop()
        name = location[-1] if location else ""
        if isinstance(name, str) and wanted in name.lower():
            yield _hit(location, name, wanted, is_key=True)
        match value:
            case dict():
                waiting.extend([((*location, key), inner) for key, inner in value.items()][::-1])
            case list():
                waiting.extend([((*location, at), inner) for at, inner in enumerate(value)][::-1])
            case str() if wanted in value.lower():
                yield _hit(location, value, wanted)
            case bool() | None:
                pass
            case int() | float() if wanted in str(value):
                yield _hit(location, str(value), wanted)


def _hit(location: Location, text: str, wanted: str, *, is_key: bool = False) -> Hit:
    lowered = text.lower()
    # a few letters are two in lower case: then the text is shown without a mark
    at = lowered.find(wanted) if len(lowered) == len(text) else 0
    end = at + len(wanted) if len(lowered) == len(text) else 0
    first, last = max(at - _AROUND, 0), end + _AROUND
    return Hit(
        _pointer(location),
        _path(location),
        ("…" if first else "") + readable(text[first:at]),
        readable(text[at:end]),
        readable(text[end:last]) + ("…" if last < len(text) else ""),
        is_key=is_key,
    )


def _pointer(location: Location) -> str | None:
    return None if _is_long(location) or len(whole := pointer(location)) > MOST_POINTER else whole


def _path(location: Location) -> str:
    """As people read it; of a very long one its end, which tells places apart."""
    is_long = _is_long(location)
    whole = readable(dotted_path(location[-1:] if is_long else location))
    return f"…{whole[-_LONGEST_PATH:]}" if is_long or len(whole) > _LONGEST_PATH else whole


def _is_long(location: Location) -> bool:
    return sum(len(part) for part in location if isinstance(part, str)) > MOST_POINTER
