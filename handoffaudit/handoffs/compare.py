"""Attempts at a handoff, each compared with the one before it."""

from dataclasses import dataclass
from typing import Any

from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.diff import Difference, difference
from handoffaudit.validation.json_input import parse_json

# Two documents of this size are compared in a tenth of a second.
LARGEST = 256 * 1024

MOST = 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """`changed` is None for the first attempt, and where one of the two documents can't be read or is too large to be
    compared on the spot; `why` says so."""

    handoff: Handoff
    changed: Difference | None = None
    why: str = ""


def compare_attempts(handoff: Handoff) -> list[Attempt]:
    """The newest ones of the handoff's lineage, the oldest of them first."""
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
    """`after` with what it changed in `before`, whichever came first."""
    return _attempt(after, _document(before), _document(after))


def _attempt(handoff: Handoff, before: Any, after: Any) -> Attempt:
    for document in (before, after):
        if isinstance(document, str):
            return Attempt(handoff, why=document)
    return Attempt(handoff, difference(before, after))


def _document(handoff: Handoff) -> Any:
    """The parsed document, or in words why there is none to compare."""
    if handoff.size_bytes > LARGEST:
        return f"attempt {handoff.attempt} is larger than {LARGEST // 1024} KiB"
    body = queries.body(handoff)
    if body is None:
        return f"the document of attempt {handoff.attempt} was removed by retention"
    value, issues = parse_json(bytes(body.original))
    return f"attempt {handoff.attempt} is not readable as JSON" if issues or isinstance(value, str) else value
