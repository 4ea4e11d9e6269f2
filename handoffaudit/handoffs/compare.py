"""Comparison of attempts at a handoff, each with the one before."""

from dataclasses import dataclass
from typing import Any

from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.diff import Difference, difference
from handoffaudit.validation.json_text import parse_json

# Comparing two documents of this size takes a tenth of a second.
LARGEST = 256 * 1024

MOST = 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt and what changed since the one before.

    `changed` is None for the first attempt, and if one of the two documents cannot be read or is too large to compare
    at once; `why` then gives the reason.
    """

    handoff: Handoff
    changed: Difference | None = None
    why: str = ""


def compare_attempts(handoff: Handoff) -> list[Attempt]:
    """Return the newest attempts of the handoff's lineage, oldest first, each compared with the one before."""
    known = queries.attempts(handoff, MOST)
    if len(known) < 2:
        return [Attempt(one) for one in known]
    found: list[Attempt] = []
    before: Any = None
    for number, one in enumerate(known):
        after = _document(one)
        found.append(_attempt(one, before, after) if number else Attempt(one))
        before = after
    return found


def compare_pair(before: Handoff, after: Handoff) -> Attempt:
    """Return `after` with its changes against `before`, whichever arrived first."""
    return _attempt(after, _document(before), _document(after))


def _attempt(handoff: Handoff, before: Any, after: Any) -> Attempt:
    for document in (before, after):
        if isinstance(document, str):
            return Attempt(handoff, why=document)
    return Attempt(handoff, difference(before, after))


def _document(handoff: Handoff) -> Any:
    """Return the parsed document, or a text that says why there is none to compare."""
    if handoff.size_bytes > LARGEST:
        return f"attempt {handoff.attempt} is larger than {LARGEST // 1024} KiB"
    body = queries.body(handoff)
    if body is None:
        return f"the document of attempt {handoff.attempt} was removed by retention"
    value, issues = parse_json(bytes(body.original))
    return f"attempt {handoff.attempt} is not readable as JSON" if issues or isinstance(value, str) else value
