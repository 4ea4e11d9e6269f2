"""One event through the gate: stored, waited for, and decided."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import own_events
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.gate import answers, events, joining, records, statuses, storing
from handoffaudit.handoffs.gate.answers import Ruling
from handoffaudit.handoffs.gate.events import Event, Name
from handoffaudit.handoffs.gate.rulings import Asked, Judged, decided, judged, not_stored
from handoffaudit.handoffs.gate.statuses import Checked, Status
from handoffaudit.handoffs.ingest import Receipt
from handoffaudit.handoffs.models import HandedOut, State
from handoffaudit.validation.text import sentences


def handle(tenant: Tenant, sender: Actor, sent: bytes, given_key: str, seconds: float) -> dict[str, Any]:
    """The answer to what was posted, within so many seconds. What it is known by when it comes again is `given_key`,
    or made of it where there is none. An event that is not looked at is answered with nothing at all."""
    deadline = time.monotonic() + seconds
    posted = events.read(sent)
    event = posted.event
    if event is None and posted.readable:
        return {}
    if event is None:
        return _told("", _not_an_event(storing.unreadable(tenant, sender, sent, given_key)))
    phase = statuses.phase_of(posted.phase)
    if not event.about_a_delegation and not phase.rules:
        said = sentences([_no_delegation(event), phase.flaw])
        return _told(event.name, answers.answer(event.name, Ruling(Status.NOT_APPLICABLE, said)))
    if event.about_a_delegation:
        own_events.invoked(event.name, _invocation(event))
    kept = records.begin(tenant, event, given_key, posted.phase)
    before = records.first_answer(kept)
    if before is not None:
        return _told(event.name, before)
    asked = Asked(tenant, sender, event, records.phase_of(kept), kept, deadline)
    answer = answers.answer(event.name, _rule(asked))
    records.keep_answer(kept, answer)
    return _told(event.name, answer)


def _invocation(event: Event) -> dict[str, Any]:
    """Return what the log tells of a delegation before it is judged."""
    stopped = event.name is Name.STOPPED
    return {
        "tool": event.call.tool or "Agent",
        "target": event.target,
        "session_id": event.session,
        "objective_characters": len(event.call.prompt or ""),
        "result_characters": len(event.last_message) if stopped else event.call.deliverable_characters,
    }


def _told(event: str, answer: dict[str, Any]) -> dict[str, Any]:
    own_events.gated(event, answer)
    return answer


def _not_an_event(receipt: Receipt) -> dict[str, Any]:
    said = " ".join(issue.message for issue in receipt.issues) or receipt.detail or "It names no event."
    ruling = Ruling(Status.NOT_APPLICABLE, f"This is no hook event: {said}", handoff_id=receipt.id or None)
    return answers.answer(None, ruling)


def _rule(asked: Asked) -> Ruling:
    if not asked.event.about_a_delegation:
        return decided(asked, Checked(Status.NOT_APPLICABLE, _no_delegation(asked.event)), Judged())
    if asked.event.name is Name.HANDING_OUT:
        return _handing_out(asked)
    if asked.event.name is Name.STARTED:
        return _started(asked)
    if asked.event.name is Name.STOPPED:
        return _stopped(asked)
    return _launched(asked) if asked.event.call.launched else _handed_back(asked)


def _no_delegation(event: Event) -> str:
    return f"{event.call.tool or 'This'} is no delegation tool."


def _handing_out(asked: Asked) -> Ruling:
    """Before the call: here a handoff can still be stopped."""
    task, row = _task(asked, wait=True)
    if row is None or task.handoff is None:
        return not_stored(task)
    state = task.handoff.state if task.final else ""
    ruling = decided(asked, Checked(Status.NOT_APPLICABLE, _TASK_STATES.get(state, "")), task)
    if ruling.blocked or state == State.REJECTED:
        # It is not handed out, so there is no end to wait for.
        joining.over(row)
        return replace(ruling, status=Status.FAILED, blocked=True, permission=answers.DENY)
    if state == State.HELD:
        return replace(ruling, permission=answers.ASK)
    if not task.final and ruling.status is Status.NOT_APPLICABLE:
        return replace(ruling, status=Status.UNKNOWN, reason=statuses.NO_VERDICT)
    return ruling


_TASK_STATES: Final[Mapping[str, str]] = {
    State.REJECTED: "The task was not handed out.",
    State.HELD: "The task is held for a person to decide.",
}


def _task(asked: Asked, *, wait: bool) -> tuple[Judged, HandedOut | None]:
    """The handoff that hands this task out, and how the task is known."""
    event, tenant = asked.event, asked.tenant
    parent = joining.of_agent(tenant.pk, event, event.agent_id) if event.name is not Name.STARTED else None
    receipt = storing.task(tenant, asked.sender, event, parent)
    if not receipt.id:
        return Judged(why=receipt.detail), None
    row = joining.handed_out(tenant.pk, event, uuid.UUID(receipt.id))
    return judged(asked, uuid.UUID(receipt.id), wait=wait), row


def _launched(asked: Asked) -> Ruling:
    """The call ended, and its agent works on: no end of the task."""
    row = joining.for_call(asked.tenant.pk, asked.event) if joining.knows_call(asked.event) else None
    if row is None or row.handoff is None:
        task, row = _task(asked, wait=False)
    else:
        task = judged(asked, row.handoff, wait=False)
    if row is None:
        return not_stored(task)
    joining.taken_on(row, asked.event.returned_agent, certain=True)
    said = "The agent works in the background: what comes of it is not known yet."
    return decided(asked, Checked(Status.NOT_APPLICABLE, said), replace(task, verdict=None))


def _started(asked: Asked) -> Ruling:
    row, several = _task_of_agent(asked)
    if several:
        return decided(asked, Checked(Status.NOT_APPLICABLE, _SEVERAL), Judged())
    if row is None or row.handoff is None:
        task, row = _task(asked, wait=False)
    else:
        task = judged(asked, row.handoff, wait=False)
    said = f"{asked.event.target or 'An agent'} began: what comes of it is not known yet."
    return decided(asked, Checked(Status.NOT_APPLICABLE, said), replace(task, verdict=None))


_SEVERAL: Final = "Several tasks of such an agent are open: which one it has is known when the call returns."


def _task_of_agent(asked: Asked) -> tuple[HandedOut | None, bool]:
    """The task that this agent has, and else whether it could be one of several."""
    event, tenant_id = asked.event, asked.tenant.pk
    row = joining.of_agent(tenant_id, event, event.agent_id)
    if row is not None:
        return row, False
    found = joining.candidates(tenant_id, event)
    if len(found) == 1:
        joining.taken_on(found[0], event.agent_id, certain=False)
        return found[0], False
    return None, bool(found)


def _stopped(asked: Asked) -> Ruling:
    """An agent is done: it can be sent back once with the reason."""
    row, several = _task_of_agent(asked)
    if several:
        return decided(asked, Checked(Status.NOT_APPLICABLE, _SEVERAL), Judged())
    if row is None and asked.event.session_id and asked.event.agent_id:
        row = joining.for_agent(asked.tenant.pk, asked.event)
    ruling = _returned(asked, row)
    if row is not None:
        end = joining.goes_on if ruling.blocked else joining.over
        end(row)
    return ruling


def _handed_back(asked: Asked) -> Ruling:
    """The call returned: its result can be reported on, and no longer be stopped."""
    event, tenant_id = asked.event, asked.tenant.pk
    row = joining.for_call(tenant_id, event) if joining.knows_call(event) else None
    row = row or joining.of_agent(tenant_id, event, event.returned_agent)
    if row is not None:
        joining.taken_on(row, event.returned_agent, certain=True)
        joining.over(row)
    return _returned(asked, row)


def _returned(asked: Asked, row: HandedOut | None) -> Ruling:
    result = _result(asked, row)
    if result.handoff is None:
        return not_stored(result)
    return decided(asked, statuses.checked(result.verdict, final=result.final), result)


def _result(asked: Asked, row: HandedOut | None) -> Judged:
    """The handoff that hands the task back. The same text from the agent and from its call is one."""
    said = storing.deliverable_of(asked.event)
    same = row.returned if row is not None and row.deliverable == said else None
    for known in (asked.kept.handoff, same):
        if known and (one := judged(asked, known)).handoff:
            return one
    receipt = storing.result(asked.tenant, asked.sender, asked.event, row)
    if not receipt.id:
        return Judged(why=receipt.detail)
    if row is not None:
        joining.came_back(row, uuid.UUID(receipt.id), said)
    return judged(asked, uuid.UUID(receipt.id))
