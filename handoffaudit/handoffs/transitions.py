"""The states of a handoff, and state changes that write the row, its event and its counts together."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from handoffaudit.accounts.keys import ANY_AGENT, AgentLimit
from handoffaudit.accounts.models import Person
from handoffaudit.handoffs import counts, db, leases
from handoffaudit.handoffs.models import ActorKind, Event, Handoff, State

ALLOWED: dict[str, frozenset[str]] = {
    "": frozenset({State.RECEIVED, State.REJECTED}),
    State.RECEIVED: frozenset({State.VALIDATING}),
    # A handoff stays in validating when another worker takes it after its lease expired. A parked handoff returns to
    # received when a person retries it.
    State.VALIDATING: frozenset({State.RECEIVED, State.VALIDATING, State.ACCEPTED, State.REJECTED, State.HELD}),
    # Late tool results can make a rejected handoff accepted.
    State.REJECTED: frozenset({State.ACCEPTED, State.APPROVED, State.DECLINED, State.SUPERSEDED}),
    # People only approve and decline. A later verdict makes a held handoff accepted, rejected or held.
    State.HELD: frozenset(
        {State.ACCEPTED, State.REJECTED, State.HELD, State.APPROVED, State.DECLINED, State.SUPERSEDED}
    ),
    State.ACCEPTED: frozenset({State.SUPERSEDED}),
    # A reopened handoff returns to its state before the decision.
    State.APPROVED: frozenset({State.REJECTED, State.HELD}),
    State.DECLINED: frozenset({State.REJECTED, State.HELD, State.SUPERSEDED}),
    State.SUPERSEDED: frozenset(),
}

REVIEWABLE = frozenset({State.REJECTED, State.HELD})

DECIDED = frozenset({State.APPROVED, State.DECLINED})


def may_become(before: str, after: str) -> bool:
    return after in ALLOWED[before]


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, a key or the system that acts; `agents` are the agents that a key may speak for."""

    kind: ActorKind
    name: str
    agents: AgentLimit = ANY_AGENT

    @classmethod
    def person(cls, person: Person) -> "Actor":
        return cls(ActorKind.PERSON, person.get_username())

    @classmethod
    def key(cls, name: str, agents: AgentLimit = ANY_AGENT) -> "Actor":
        return cls(ActorKind.KEY, name, agents)


SYSTEM = Actor(ActorKind.SYSTEM, "handoffaudit")


class VersionConflict(Exception):
    """The error for a handoff that changed since the caller read it."""


def change_state(handoff: Handoff, to_state: State, actor: Actor, reason: str, **columns: object) -> None:
    """Change the state of a handoff that still has the version that the caller read; call inside a transaction.

    Raise `VersionConflict` if the version differs, and `ValueError` if the state change is not allowed.
    """
    counts.apply(change_state_uncounted(handoff, to_state, actor, reason, **columns))


EVENT = db.Columns.of(Event, "handoff", "tenant", "at", "actor_kind", "actor", "from_state", "to_state", "reason")

_START = (SYSTEM.kind.value, SYSTEM.name, State.RECEIVED.value, State.VALIDATING.value, "")


def start_row(handoff: Handoff, at: datetime) -> list[object]:
    """Return the event of a handoff that a worker began to judge for the first time, as a row of `EVENT`."""
    return [handoff.pk, handoff.tenant_id, at, *_START]


def record_start(handoffs: Iterable[Handoff], at: datetime) -> None:
    """Record that a worker began to judge these handoffs for the first time."""
    db.insert_rows(EVENT, [start_row(handoff, at) for handoff in handoffs])


def park(handoff: Handoff, why: str) -> int:
    """Park a handoff, so that no worker takes it until a person retries it; return 1, or 0 if the row is gone.

    Call inside a transaction that holds the lock on the row.
    """
    updated = leases.end(Handoff.objects.filter(pk=handoff.pk), parked=True)
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
    return int(updated)


def change_state_uncounted(
    handoff: Handoff, to_state: State, actor: Actor, reason: str, **columns: object
) -> counts.Deltas:
    """Change the state like `change_state`, but return the changes of the counts instead of applying them.

    A caller that changes several handoffs applies the counts once, after all rows are locked.
    """
    before = handoff.state
    if not may_become(before, to_state):
        raise ValueError(f"a handoff does not go from {before} to {to_state}")
    _write(handoff, columns | {"state": to_state}, actor, reason)
    return counts.count_transition(counts.CountKey.of(handoff), handoff.codes, before, to_state)


def record_event(handoff: Handoff, actor: Actor, reason: str, **columns: object) -> None:
    """Record an event without a change of state, set `columns`, and increase the version; call inside a transaction.

    Raise `VersionConflict` if the handoff changed since the caller read it.
    """
    _write(handoff, columns, actor, reason)


def _write(handoff: Handoff, columns: dict[str, object], actor: Actor, reason: str) -> None:
    before, seen = handoff.state, handoff.version
    columns |= {"version": seen + 1}
    updated = Handoff.objects.filter(pk=handoff.pk, tenant=handoff.tenant_id, version=seen).update(**columns)
    if not updated:
        raise VersionConflict
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
