"""The comparison of two documents: of attempts, and of a handoff with the nearest accepted handoff of its route."""

from dataclasses import dataclass
from typing import Any

from handoffaudit.handoffs import attempts, queries
from handoffaudit.handoffs.filters import is_of_trace
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.validation.diff import Difference, difference
from handoffaudit.validation.json_text import keep_digits, parse_json

# Comparing two documents of this size takes a tenth of a second.
LARGEST = 256 * 1024

MOST = 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt and its changes since the previous attempt.

    `changed` is None for the first of the compared attempts. It is also None if one of the two documents cannot be
    read, was removed, or is too large to compare; `why` then gives the reason.
    """

    handoff: Handoff
    changed: Difference | None = None
    why: str = ""


def compare_attempts(handoff: Handoff) -> list[Attempt]:
    """Return the newest attempts of the handoff's lineage, oldest first, each compared with the previous attempt."""
    known = attempts.list_attempts(handoff, MOST)
    if len(known) < 2:
        return [Attempt(one) for one in known]
    found: list[Attempt] = []
    before: Any = None
    for number, one in enumerate(known):
        after = _parse_document(one)
        found.append(_make_attempt(one, before, after) if number else Attempt(one))
        before = after
    return found


def compare_pair(before: Handoff, after: Handoff, names: tuple[str, str] = ("", "")) -> Attempt:
    """Return `after` with its changes from `before`. Either of them may have arrived first.

    `names` are the names of the two handoffs in `why`, the reason why they cannot be compared.
    """
    return _make_attempt(after, _parse_document(before, names[0]), _parse_document(after, names[1]))


# The search for an accepted handoff reads at most `MOST_OF_TRACE` earlier handoffs of the trace, and at most
# `MOST_OF_ROUTE` accepted handoffs of the route.
MOST_OF_TRACE, MOST_OF_ROUTE = 500, 20


def find_accepted(handoff: Handoff, *, without: str = "") -> Handoff | None:
    """Return the nearest accepted handoff of the same route and type, without the rule code `without`, or None.

    The nearest handoff is the newest accepted handoff before this one in the same trace, or else the newest accepted
    handoff of the route.
    """
    if not (handoff.source_agent_id and handoff.target_agent_id):
        return None
    wanted = {name: getattr(handoff, name) for name in ("source_agent_id", "target_agent_id", "handoff_type")}
    if handoff.trace_id:
        of_trace = Handoff.objects.filter(is_of_trace(handoff.trace_id), tenant=handoff.tenant_id)
        earlier = of_trace.filter(id__lt=handoff.pk).order_by("-id").values("pk", "state", "codes", *wanted)
        for one in earlier[:MOST_OF_TRACE]:
            is_alike = all(one[name] == value for name, value in wanted.items())
            if is_alike and one["state"] == State.ACCEPTED and without not in one["codes"]:
                return Handoff.objects.filter(tenant=handoff.tenant_id, pk=one["pk"]).first()
    newest = queries.accepted_handoffs(handoff.tenant_id).filter(**wanted).exclude(pk=handoff.pk).order_by("-id")
    return next((one for one in newest[:MOST_OF_ROUTE] if without not in one.codes), None)


def _make_attempt(handoff: Handoff, before: Any, after: Any) -> Attempt:
    for document in (before, after):
        if isinstance(document, _Uncomparable):
            return Attempt(handoff, why=document.why)
    return Attempt(handoff, difference(before, after))


@dataclass(frozen=True, slots=True)
class _Uncomparable:
    """A document that cannot be compared, and why."""

    why: str


def _parse_document(handoff: Handoff, name: str = "") -> Any:
    """Return the parsed document, or an `_Uncomparable`."""
    name = name or f"attempt {handoff.attempt}"
    if handoff.size_bytes > LARGEST:
        return _Uncomparable(f"{name} is larger than {LARGEST // 1024} KiB")
    body = queries.body(handoff)
    if body is None:
        return _Uncomparable(f"the document of {name} was removed by retention")
    sent = bytes(body.original)
    value, issues = parse_json(sent)
    return _Uncomparable(f"{name} is not readable as JSON") if issues else keep_digits(sent, value)
