"""A change of state outside judging: the row, its event and its counts together."""

from django.utils import timezone

from handoffaudit.handoffs import counts
from handoffaudit.handoffs.actors import SYSTEM, Actor
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.states import may_become


class Changed(Exception):
    """The handoff is not as it was seen: somebody else changed it first."""


def change(handoff: Handoff, to_state: State, actor: Actor, reason: str, **columns: object) -> None:
    """Moves a handoff from the version that was seen; call inside a transaction. Raises `Changed`."""
    counts.apply(move(handoff, to_state, actor, reason, **columns))


def park(handoff: Handoff, why: str) -> int:
    """Takes one out of every queue until somebody asks for another try; call inside a transaction that holds its row.
    How many were parked."""
    updated = Handoff.objects.filter(pk=handoff.pk).update(parked=True, claim=None, claim_expires_at=None)
    Event.objects.create(
        tenant_id=handoff.tenant_id,
        handoff_id=handoff.pk,
        at=timezone.now(),
        actor_kind=SYSTEM.kind,
        actor=SYSTEM.name,
        from_state=handoff.state,
        to_state=handoff.state,
        reason=f"parked: {why}",
    )
    return updated


def move(handoff: Handoff, to_state: State, actor: Actor, reason: str, **columns: object) -> counts.Deltas:
    """The same without its counts, for who moves several: counts are applied once, after all rows are locked."""
    before = handoff.state
    if not may_become(before, to_state):
        raise ValueError(f"a handoff does not go from {before} to {to_state}")
    _write(handoff, columns | {"state": to_state}, actor, reason)
    return counts.moved(counts.Place.of(handoff), handoff.codes, before, to_state)


def stay(handoff: Handoff, actor: Actor, reason: str, **columns: object) -> None:
    """Tells of something that leaves the state as it is, and moves the version on; call inside a transaction. Raises
    `Changed`."""
    _write(handoff, columns, actor, reason)


def _write(handoff: Handoff, columns: dict[str, object], actor: Actor, reason: str) -> None:
    before, seen = handoff.state, handoff.version
    columns |= {"version": seen + 1}
    updated = Handoff.objects.filter(pk=handoff.pk, tenant=handoff.tenant_id, version=seen).update(**columns)
    if not updated:
        raise Changed
    for name, value in columns.items():
        setattr(handoff, name, value)
    Event.objects.create(
        tenant_id=handoff.tenant_id,
        handoff_id=handoff.pk,
        at=timezone.now(),
        actor_kind=actor.kind,
        actor=actor.name,
        from_state=before,
        to_state=handoff.state,
        reason=reason,
    )
