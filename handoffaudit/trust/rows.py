"""Sealed rows: their digests over canonical bytes, and the packed list of digests that a seal holds."""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
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


def read_events(events: "QuerySet[Event]") -> Iterator[Row]:
    """Yield events as rows, in the order of the query."""
    for row in events.values_list(*_EVENT).iterator(chunk_size=2000):
        yield _row(EVENT, row[0], row[2], row[1], {"row": "event", **_facts(_EVENT, row)})


def read_verdicts(verdicts: "QuerySet[Verdict]") -> Iterator[Row]:
    """Yield verdicts as rows, in the order of the query. Each names the hash of the document that was judged."""
    for row in verdicts.values_list(*_VERDICT).iterator(chunk_size=500):
        yield _row(VERDICT, row[0].int, row[2], row[1], {"row": "verdict", **_facts(_VERDICT, row)})


def read_policies(versions: "QuerySet[PolicyVersion]") -> Iterator[Row]:
    for row in versions.values_list(*_POLICY).iterator(chunk_size=100):
        yield _row(POLICY, row[0], None, row[1], {"row": "policy", **_facts(_POLICY, row)})


def _facts(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in zip(names, row, strict=True)}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc(value)
    return str(value) if isinstance(value, uuid.UUID) else value


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
