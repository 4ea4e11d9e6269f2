"""The document that a page marks issues in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from handoffaudit.dashboard.handoff_parts import parsed
from handoffaudit.dashboard.places import Found, found_of, parts_of
from handoffaudit.handoffs.models import HandoffBody


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """`value` is None where what arrived can't be read; `is_lifted`: it was made of what arrived, and judged in its
    place."""

    value: Any
    found: Sequence[Found]
    is_lifted: bool = False


def shown_document(body: HandoffBody, content: Mapping[str, Any] | None) -> ShownDocument:
    """The document with the issues of the verdict's content.

    It is the one that was judged, unless an issue that decides is about what arrived: a report that can't be used.
    Beside what was judged, issues about what arrived have no place.
    """
    arrived, found = parsed(body), found_of(content)
    if body.lifted is None:
        return ShownDocument(arrived, found)
    lifted = orjson.loads(bytes(body.lifted))
    placed = [replace(issue, is_placed=not _is_about(arrived, lifted, issue)) for issue in found]
    if any(issue.decides and not issue.is_placed for issue in placed):
        return ShownDocument(arrived, found)
    return ShownDocument(lifted, placed, is_lifted=True)


def _is_about(arrived: Any, lifted: Any, issue: Found) -> bool:
    """Whether its place is in what arrived, and not in what was made of it."""
    first = next(iter(parts_of(issue.pointer)), None)
    return first is not None and first not in lifted and first in arrived
