"""The transition table of a handoff's state."""

from handoffaudit.handoffs.models import State

ALLOWED: dict[str, frozenset[str]] = {
    "": frozenset({State.RECEIVED, State.REJECTED}),
    State.RECEIVED: frozenset({State.VALIDATING}),
    # Itself again: its claim ran out, and another worker took it. Back to received: a parked one is tried again.
    State.VALIDATING: frozenset({State.RECEIVED, State.VALIDATING, State.ACCEPTED, State.REJECTED, State.HELD}),
    State.REJECTED: frozenset({State.APPROVED, State.DECLINED, State.SUPERSEDED}),
    # Not by a person: it was held until the model had checked it.
    State.HELD: frozenset(
        {State.ACCEPTED, State.REJECTED, State.HELD, State.APPROVED, State.DECLINED, State.SUPERSEDED}
    ),
    State.ACCEPTED: frozenset({State.SUPERSEDED}),
    # Opened again: it waits as it did before the decision.
    State.APPROVED: frozenset({State.REJECTED, State.HELD}),
    State.DECLINED: frozenset({State.REJECTED, State.HELD, State.SUPERSEDED}),
    State.SUPERSEDED: frozenset(),
}

REVIEWABLE = frozenset({State.REJECTED, State.HELD})
DECIDED = frozenset({State.APPROVED, State.DECLINED})


def may_become(before: str, after: str) -> bool:
    return after in ALLOWED[before]
