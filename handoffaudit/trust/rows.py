"""Sealed rows: their digests over canonical bytes, and the packed list of digests that a seal holds."""

import hashlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Q, QuerySet

from handoffaudit.handoffs.models import Event, State, Verdict
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.trust.sealed_list import EVENT, POLICY, VERDICT, Sealed
from handoffaudit.trust.signatures import canonical, utc

# A receipt and the start of judging decide nothing. Most events are of these two kinds.
_DECIDES_NOTHING: Final = Q(from_state__in=("", State.RECEIVED), to_state__in=(State.RECEIVED, State.VALIDATING))

_EVENT: Final = ("id", "tenant_id", "handoff_id", "at", "actor_kind", "actor", "from_state", "to_state", "reason")
_VERDICT: Final = (
    *("id", "tenant_id", "handoff_id", "outcome", "policy_version", "validated_at", "content"),
    "handoff__content_hash",
)
_POLICY: Final = ("id", "tenant_id", "kind", "number", "content", "changed_by", "changed_at", "note")
_TOO_LARGE: Final = 2**63


def sealed_events() -> "QuerySet[Event]":
    """Return the events that are sealed: verdicts, and everything that a person or a key decided."""
    return Event.objects.exclude(_DECIDES_NOTHING)


@dataclass(frozen=True, slots=True)
class Row:
    """A stored row as facts, which are the same on every database, and its digest."""

    sealed: Sealed
    tenant: int
    facts: dict[str, Any]


def _row(kind: int, number: int, handoff: uuid.UUID | None, tenant: int, facts: dict[str, Any]) -> Row:
    digest = hashlib.sha256(canonical(facts)).digest()
    return Row(Sealed(kind, number, handoff.int if handoff else 0, digest), tenant, facts)


# The queries below are bounded by their callers, and a cursor on the server would cost more than the rows. The facts
# are written out, because a general conversion took longer than everything else in sealing.
def read_events(events: "QuerySet[Event]") -> Iterator[Row]:
    """Yield events as rows, in the order of the query."""
    for pk, tenant, handoff, at, actor_kind, actor, from_state, to_state, reason in events.values_list(*_EVENT):
        facts = {
            "row": "event",
            "id": pk,
            "tenant_id": tenant,
            "handoff_id": str(handoff),
            "at": utc(at),
            "actor_kind": actor_kind,
            "actor": actor,
            "from_state": from_state,
            "to_state": to_state,
            "reason": reason,
        }
        yield _row(EVENT, pk, handoff, tenant, facts)


def read_verdicts(verdicts: "QuerySet[Verdict]") -> Iterator[Row]:
    """Yield verdicts as rows, in the order of the query. Each names the hash of the document that was judged."""
    for pk, tenant, handoff, outcome, version, at, content, content_hash in verdicts.values_list(*_VERDICT):
        facts = {
            "row": "verdict",
            "id": str(pk),
            "tenant_id": tenant,
            "handoff_id": str(handoff),
            "outcome": outcome,
            "policy_version": version,
            "validated_at": utc(at),
            "content": content,
            "handoff__content_hash": content_hash,
        }
        yield _row(VERDICT, pk.int, handoff, tenant, facts)


def read_policies(versions: "QuerySet[PolicyVersion]") -> Iterator[Row]:
    for row in versions.values_list(*_POLICY):
        facts = {"row": "policy", **dict(zip(_POLICY, row, strict=True))}
        facts["changed_at"] = utc(facts["changed_at"])
        yield _row(POLICY, row[0], None, row[1], facts)


def read_rows(sealed: Iterable[Sealed]) -> dict[tuple[int, int], Row]:
    """Return the stored rows of a seal's list by kind and id. A row that is gone is missing in the result."""
    ids: dict[int, list[int]] = {EVENT: [], VERDICT: [], POLICY: []}
    for one in sealed:
        # A list that somebody changed may have numbers that no column holds.
        if one.kind == VERDICT or one.number < _TOO_LARGE:
            ids[one.kind].append(one.number)
    found: dict[tuple[int, int], Row] = {}
    for kind, numbers in ids.items():
        for start in range(0, len(numbers), 500):
            some = _read_kind(kind, numbers[start : start + 500])
            found |= {(kind, row.sealed.number): row for row in some}
    return found


def _read_kind(kind: int, numbers: list[int]) -> Iterator[Row]:
    if kind == EVENT:
        return read_events(Event.objects.filter(pk__in=numbers))
    if kind == VERDICT:
        return read_verdicts(Verdict.objects.filter(pk__in=[uuid.UUID(int=one) for one in numbers]))
    return read_policies(PolicyVersion.objects.filter(pk__in=numbers))
