"""The document that a page marks issues in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from handoffaudit.dashboard.handoff.parts import parsed
from handoffaudit.dashboard.handoff.places import Found, found_of, parts_of
from handoffaudit.handoffs.models import HandoffBody

_MISSING = "structure.missing_field"
_UNREADABLE = "structure.json_parse"
_BOM = b"\xef\xbb\xbf"
_LONGEST_POSITION = 9


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """`value` is None where what arrived can't be read; `is_lifted`: it was made of what arrived, and judged in its
    place."""

    value: Any
    found: Sequence[Found]
    is_lifted: bool = False


def shown_document(body: HandoffBody, content: Mapping[str, Any] | None) -> ShownDocument:
    """The document with the issues of the verdict's content.

    It is the one that was judged, unless an issue that decides is about what arrived: a report that can't be used, a
    document that breaks the rules of its older version. Issues about what arrived have no place in what was judged.
    """
    found = found_of(content)
    # A verdict on it knows whether it is JSON and not too deep: that costs more than reading it.
    is_read = content is not None and all(issue.code != _UNREADABLE for issue in found)
    arrived = orjson.loads(bytes(body.original).removeprefix(_BOM)) if is_read else parsed(body)
    if body.lifted is None:
        return ShownDocument(arrived, found)
    lifted = orjson.loads(bytes(body.lifted))
    placed = [replace(issue, is_placed=not _is_about(arrived, lifted, issue)) for issue in found]
    if any(issue.decides and not issue.is_placed for issue in placed):
        return ShownDocument(arrived, found)
    return ShownDocument(lifted, placed, is_lifted=True)


def _is_about(arrived: Any, lifted: Any, issue: Found) -> bool:
    """Whether its place is in what arrived, and not in what was made of it."""
    place = parts_of(issue.pointer)
    if not place or _fits(lifted, place, issue.code):
        return False
    return _fits(arrived, place, issue.code) or (place[0] in arrived and place[0] not in lifted)


def _fits(document: Any, place: list[str], code: str) -> bool:
    """Whether the issue can be of that document: what is missing is not there, and else the place is."""
    if code == _MISSING:
        return _has(document, place[:-1]) and not _has(document, place)
    return _has(document, place)


def _has(value: Any, place: Iterable[str]) -> bool:
    for part in place:
        match value:
            case dict() if part in value:
                value = value[part]
            case list() if part.isdecimal() and len(part) < _LONGEST_POSITION and int(part) < len(value):
                value = value[int(part)]
            case _:
                return False
    return True
