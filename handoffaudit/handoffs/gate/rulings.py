"""From a handoff and its verdict, and the phase results, to what the gate rules."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import listening, queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.gate import records, statuses
from handoffaudit.handoffs.gate.answers import Ruling
from handoffaudit.handoffs.gate.events import Event, Name
from handoffaudit.handoffs.gate.statuses import Checked, Phase, Status
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HookEvent
from handoffaudit.validation.text import sentences

_SHADOW: Final = "shadow"


@dataclass(frozen=True, slots=True)
class Asked:
    """One event, who asks about it, and until when (by the monotonic clock) an answer is waited for."""

    tenant: Tenant
    sender: Actor
    event: Event
    phase: Phase
    kept: HookEvent
    deadline: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A handoff as it stands, its verdict, and whether that is the last word. `why` says why there is no handoff."""

    handoff: Handoff | None = None
    verdict: Mapping[str, Any] | None = None
    final: bool = False
    why: str = "The handoff is no longer there."


def judged(asked: Asked, pk: uuid.UUID, *, wait: bool = True) -> Judged:
    """The handoff as soon as it has its last verdict, else as it stands when the time is over."""

    def look() -> Handoff:
        return queries.get(asked.tenant, str(pk))

    left = asked.deadline - time.monotonic() if wait else 0.0
    try:
        waits = left > 0 and not listening.too_many(asked.tenant.pk)
        handoff = listening.wait_while(look, WAITING_STATES, left) if waits else look()
    except Handoff.DoesNotExist:
        return Judged()
    records.keep_handoff(asked.kept, handoff)
    return Judged(handoff, queries.current_verdict(handoff), handoff.state not in WAITING_STATES)


def not_stored(one: Judged) -> Ruling:
    return Ruling(Status.NOT_APPLICABLE, f"It was not checked. {one.why}")


def decided(asked: Asked, check: Checked, one: Judged) -> Ruling:
    """The check of the objective and the phase rules, put together, and kept as the state of the phase."""
    status = statuses.combined(check, asked.phase)
    phase = statuses.counting_phase(check, asked.phase)
    verdict = one.verdict if one.final else None
    contrary = statuses.contradiction(status, one.handoff.state if one.handoff else "")
    status = contrary.status if contrary else status
    kept = status is not Status.NOT_APPLICABLE
    state = records.keep_state(asked.kept, check, phase, status, contrary) if kept else None
    failed = status is Status.FAILED
    # What the client's own rules found is not of the type, and its shadow mode does not cover it.
    shadow = failed and (verdict or {}).get("mode") == _SHADOW and phase.status is not Status.FAILED
    again = asked.event.name is Name.STOPPED and asked.event.sent_back_before
    return Ruling(
        status=status,
        reason=sentences(
            [
                contrary.message if contrary else "",
                _reason(asked.phase, check, phase, verdict, failed=failed, shadow=shadow),
            ]
        ),
        blocked=failed and not shadow and not again,
        handoff_id=str(one.handoff.pk) if one.handoff else None,
        state=state,
    )


def _reason(
    sent: Phase, check: Checked, phase: Phase, verdict: Mapping[str, Any] | None, *, failed: bool, shadow: bool
) -> str:
    """Say what decided first. Where the ruling is FAILED, a check that passed is said last."""
    besides = statuses.findings(verdict, besides=(statuses.NOT_MET,))
    rules = [f"{one.rule_id} failed: {one.message}" for one in phase.failed]
    passed = check.status is Status.PASSED
    return sentences(
        [
            "" if passed else check.message,
            *rules,
            check.message if passed and not failed else "",
            sent.flaw,
            "Found besides:" if besides and check.status is not Status.NOT_APPLICABLE else "",
            *besides,
            check.message if failed and passed else "",
            "This type is in shadow mode: nothing is blocked." if shadow else "",
        ]
    )
