"""A change of state outside judging: the row, its event and its counts together."""

from django.utils import timezone

from handoffaudit.handoffs import counts
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.states import may_become


class Changed(Exception):
    """The handoff is not as it was seen: somebody else changed it first."""


def change(handoff: Handoff, to_state: State, actor: Actor, reason: str, **columns: object) -> None:
    """Moves a handoff from the version that was seen; call inside a transaction. Raises `Changed`."""
    counts.apply(move(handoff, to_state, actor, reason, **columns))


def move(handoff: Handoff, to_state: State, actor: Actor, reason: str, **columns: object) -> counts.Deltas:
    """The same without its counts, for who moves several: counts are applied once, after all rows are locked."""
    before = handoff.state
    if not may_become(before, to_state):
        raise ValueError(f"a handoff does not go from {before} to {to_state}")
    seen = handoff.version
    columns |= {"state": to_state, "version": seen + 1}
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
        to_state=to_state,
        reason=reason,
    )
    return counts.moved(counts.Place.of(handoff), handoff.codes, before, to_state)
