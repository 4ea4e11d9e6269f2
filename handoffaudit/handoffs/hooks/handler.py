"""Handling of one hook event: storing its handoff, waiting for the verdict, and deciding the answer."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import event_log, long_poll, queries
from handoffaudit.handoffs.hooks import hook_events, status, store
from handoffaudit.handoffs.hooks.hook_events import Event, Name
from handoffaudit.handoffs.hooks.status import ObjectiveCheck, Phase, Ruling, Status
from handoffaudit.handoffs.ingest.prepare import Receipt
from handoffaudit.handoffs.models import WAITING_STATES, HandedOut, Handoff, HookEvent, State
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.text import sentences
from handoffaudit.validation.tool_results import Grade

_SHADOW: Final = "shadow"


@dataclass(frozen=True, slots=True)
class HookRequest:
    """One event with its tenant, its sender, and the deadline of the answer (monotonic clock)."""

    tenant: Tenant
    sender: Actor
    event: Event
    phase: Phase
    kept: HookEvent
    deadline: float


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """A handoff, its current verdict, and whether the verdict is final.

    `why` says why the handoff is missing. `is_refused` says whether the key may not speak for the agent.
    """

    handoff: Handoff | None = None
    verdict: Mapping[str, Any] | None = None
    final: bool = False
    why: str = "The handoff was deleted."
    is_refused: bool = False


def wait_for_verdict(request: HookRequest, pk: uuid.UUID, *, wait: bool = True) -> HookVerdict:
    """Return the handoff as soon as its verdict is final, or in its current state at the deadline.

    Without `wait`, or if too many requests wait already, return the handoff immediately. If the handoff was deleted,
    the result has no handoff.
    """

    def look() -> Handoff:
        return queries.get(request.tenant, str(pk))

    left = request.deadline - time.monotonic() if wait else 0.0
    try:
        waits = left > 0 and not long_poll.are_too_many(request.tenant.pk)
        handoff = long_poll.wait_while(look, WAITING_STATES, left) if waits else look()
    except Handoff.DoesNotExist:
        return HookVerdict()
    status.keep_handoff(request.kept, handoff)
    return HookVerdict(handoff, queries.current_verdict(handoff), handoff.state not in WAITING_STATES)


def rule_unstored(one: HookVerdict) -> Ruling:
    return Ruling(Status.NOT_APPLICABLE, f"The delegation was not checked. {one.why}")


def decide(request: HookRequest, check: ObjectiveCheck, one: HookVerdict) -> Ruling:
    """Combine the objective check with the phase rules, and store the result as the validation state of the phase.

    Nothing is stored if neither the check nor the rules apply, or if the event has no workflow.
    """
    combined = status.combine(check, request.phase)
    phase = status.counting_phase(check, request.phase)
    verdict = one.verdict if one.final else None
    contrary = status.find_contradiction(combined, one.handoff.state if one.handoff else "")
    combined = contrary.status if contrary else combined
    kept = combined is not Status.NOT_APPLICABLE
    state = status.keep_state(request.kept, check, phase, combined, contrary) if kept else None
    failed = combined is Status.FAILED
    # Phase rules belong to the client and not to the handoff type, so a failed phase rule blocks even if the type is in
    # shadow mode.
    shadow = failed and (verdict or {}).get("mode") == _SHADOW and phase.status is not Status.FAILED
    again = request.event.name is Name.STOPPED and request.event.sent_back_before
    return Ruling(
        status=combined,
        reason=sentences(
            [
                contrary.message if contrary else "",
                _describe_reason(request.phase, check, phase, verdict, failed=failed, shadow=shadow),
            ]
        ),
        blocked=failed and not shadow and not again,
        handoff_id=str(one.handoff.pk) if one.handoff else None,
        state=state,
    )


def _describe_reason(
    sent: Phase, check: ObjectiveCheck, phase: Phase, verdict: Mapping[str, Any] | None, *, failed: bool, shadow: bool
) -> str:
    """Return the reasons, the decisive reason first.

    If the ruling is FAILED although the objective check passed, the message of the check follows the other reasons.
    """
    besides = status.list_findings(verdict, besides=(status.NOT_MET,))
    rules = [f"{one.rule_id} failed: {one.message}" for one in phase.failed]
    passed = check.status is Status.PASSED
    return sentences(
        [
            "" if passed else check.message,
            *rules,
            check.message if passed and not failed else "",
            sent.flaw,
            "Other findings:" if besides and check.status is not Status.NOT_APPLICABLE else "",
            *besides,
            check.message if failed and passed else "",
            "This type is in shadow mode: nothing is blocked." if shadow else "",
        ]
    )


def handle(
    tenant: Tenant, sender: Actor, sent: bytes, given_key: str, seconds: float, grade: Grade = Grade.SAID
) -> dict[str, Any]:
    """Return the answer to a posted event, within `seconds`.

    `given_key` identifies an event that arrives again. Without a key, the ids of the call or the content of the event
    identify it. An event that the hooks do not handle gets an empty answer. `grade` is the grade of the sender's tool
    results.
    """
    deadline = time.monotonic() + seconds
    posted = hook_events.read_event(sent)
    event = posted.event
    if event is None and posted.readable:
        return {}
    if event is None:
        return _log_answer("", _answer_unreadable(store.store_unreadable(tenant, sender, sent, given_key)))
    phase = status.read_phase(posted.phase)
    captured = store.capture(tenant, sender, event, grade, posted.sent_at)
    if not event.about_a_delegation and not phase.rules:
        explanation = sentences([_describe_no_delegation(event), captured.why, phase.flaw])
        answer = status.make_answer(event.name, Ruling(Status.NOT_APPLICABLE, explanation))
        return _log_answer(event.name, answer | captured.as_answer())
    if event.about_a_delegation:
        event_log.log_invocation(event.name, _invocation(event))
    kept = status.begin_event(tenant, event, given_key, posted.phase)
    before = status.first_answer(kept)
    if before is not None:
        return _log_answer(event.name, before)
    request = HookRequest(tenant, sender, event, status.phase_of(kept), kept, deadline)
    answer = status.make_answer(event.name, _rule(request)) | captured.as_answer()
    status.keep_answer(kept, answer)
    return _log_answer(event.name, answer)


def _invocation(event: Event) -> dict[str, Any]:
    """Return the log fields of a delegation before its verdict."""
    stopped = event.name is Name.STOPPED
    return {
        "tool": event.call.tool or "Agent",
        "target": event.target,
        "session_id": event.session,
        "objective_characters": len(event.call.prompt or ""),
        "result_characters": len(event.last_message) if stopped else event.call.deliverable_characters,
    }


def _log_answer(event: str, answer: dict[str, Any]) -> dict[str, Any]:
    event_log.log_hook_answer(event, answer)
    return answer


def _answer_unreadable(receipt: Receipt) -> dict[str, Any]:
    explanation = " ".join(issue.message for issue in receipt.issues) or receipt.detail or "no event is named."
    ruling = Ruling(Status.NOT_APPLICABLE, f"This is not a hook event: {explanation}", handoff_id=receipt.id or None)
    return status.make_answer(None, ruling)


def _rule(request: HookRequest) -> Ruling:
    if not request.event.about_a_delegation:
        return decide(
            request, ObjectiveCheck(Status.NOT_APPLICABLE, _describe_no_delegation(request.event)), HookVerdict()
        )
    if request.event.name is Name.HANDING_OUT:
        return _handle_task(request)
    if request.event.name is Name.STARTED:
        return _handle_start(request)
    if request.event.name is Name.STOPPED:
        return _handle_stop(request)
    return _handle_launch(request) if request.event.call.launched else _handle_return(request)


def _describe_no_delegation(event: Event) -> str:
    return f"{event.call.tool or 'This'} is not a delegation tool."


def _handle_task(request: HookRequest) -> Ruling:
    """Decide on a task before its call starts, while the handoff can still be blocked."""
    task, row = _store_task(request, wait=True)
    if task.is_refused:
        return Ruling(Status.FAILED, f"The task was not handed out. {task.why}", blocked=True, permission=status.DENY)
    if row is None or task.handoff is None:
        return rule_unstored(task)
    state = task.handoff.state if task.final else ""
    ruling = decide(request, ObjectiveCheck(Status.NOT_APPLICABLE, _TASK_STATES.get(state, "")), task)
    if ruling.blocked or state == State.REJECTED:
        # A task that is not handed out will never report its end.
        store.mark_ended(row)
        return replace(ruling, status=Status.FAILED, blocked=True, permission=status.DENY)
    if state == State.HELD:
        return replace(ruling, permission=status.ASK)
    if not task.final and ruling.status is Status.NOT_APPLICABLE:
        return replace(ruling, status=Status.UNKNOWN, reason=status.NO_VERDICT)
    return ruling


_TASK_STATES: Final[Mapping[str, str]] = {
    State.REJECTED: "The task was not handed out.",
    State.HELD: "The task is held for a person to decide.",
}


def _store_task(request: HookRequest, *, wait: bool) -> tuple[HookVerdict, HandedOut | None]:
    """Store the handoff that hands the task out, and record the task; return both.

    If the handoff is not stored, the verdict says why, and the row is None.
    """
    event, tenant = request.event, request.tenant
    parent = store.find_task_of_agent(tenant.pk, event, event.agent_id) if event.name is not Name.STARTED else None
    receipt = store.store_task(tenant, request.sender, event, parent)
    if not receipt.id:
        return HookVerdict(why=receipt.detail, is_refused=bool(receipt.refused_agent)), None
    row = store.record_task(tenant.pk, event, uuid.UUID(receipt.id))
    return wait_for_verdict(request, uuid.UUID(receipt.id), wait=wait), row


def _handle_launch(request: HookRequest) -> Ruling:
    """Handle a call that returned while its agent still works. The task stays open."""
    row = store.task_of_call(request.tenant.pk, request.event) if store.knows_call(request.event) else None
    if row is None or row.handoff is None:
        task, row = _store_task(request, wait=False)
    else:
        task = wait_for_verdict(request, row.handoff, wait=False)
    if row is None:
        return rule_unstored(task)
    store.record_agent(row, request.event.returned_agent, certain=True)
    explanation = "The agent works in the background, so its result is not known yet."
    return decide(request, ObjectiveCheck(Status.NOT_APPLICABLE, explanation), replace(task, verdict=None))


def _handle_start(request: HookRequest) -> Ruling:
    row, several = _find_task_of_agent(request)
    if several:
        return decide(request, ObjectiveCheck(Status.NOT_APPLICABLE, _SEVERAL), HookVerdict())
    if row is None or row.handoff is None:
        task, row = _store_task(request, wait=False)
    else:
        task = wait_for_verdict(request, row.handoff, wait=False)
    if row is None:
        return rule_unstored(task)
    explanation = f"{request.event.target or 'An agent'} has just started, so its result is not known yet."
    return decide(request, ObjectiveCheck(Status.NOT_APPLICABLE, explanation), replace(task, verdict=None))


_SEVERAL: Final = (
    "Several tasks for this type of agent are open. When the call returns, it shows which task the agent has."
)


def _find_task_of_agent(request: HookRequest) -> tuple[HandedOut | None, bool]:
    """Return the task of the agent or None, and whether several tasks could belong to the agent."""
    event, tenant_id = request.event, request.tenant.pk
    row = store.find_task_of_agent(tenant_id, event, event.agent_id)
    if row is not None:
        return row, False
    found = store.find_candidates(tenant_id, event)
    if len(found) == 1:
        store.record_agent(found[0], event.agent_id, certain=False)
        return found[0], False
    return None, bool(found)


def _handle_stop(request: HookRequest) -> Ruling:
    """Handle the end of an agent. A blocked ruling sends the agent back once, with the reason."""
    row, several = _find_task_of_agent(request)
    if several:
        return decide(request, ObjectiveCheck(Status.NOT_APPLICABLE, _SEVERAL), HookVerdict())
    if row is None and request.event.session_id and request.event.agent_id:
        row = store.task_of_agent(request.tenant.pk, request.event)
    ruling = _rule_on_return(request, row)
    if row is not None:
        end = store.mark_continued if ruling.blocked else store.mark_ended
        end(row)
    return ruling


def _handle_return(request: HookRequest) -> Ruling:
    """Handle a call that returned. Hooks can report on the result, but can no longer block the call."""
    event, tenant_id = request.event, request.tenant.pk
    row = store.task_of_call(tenant_id, event) if store.knows_call(event) else None
    row = row or store.find_task_of_agent(tenant_id, event, event.returned_agent)
    if row is not None:
        store.record_agent(row, event.returned_agent, certain=True)
        store.mark_ended(row)
    return _rule_on_return(request, row)


def _rule_on_return(request: HookRequest, row: HandedOut | None) -> Ruling:
    result = _store_result(request, row)
    if result.handoff is None:
        return rule_unstored(result)
    return decide(request, status.check_objective(result.verdict, final=result.final), result)


def _store_result(request: HookRequest, row: HandedOut | None) -> HookVerdict:
    """Store the handoff that hands the task back, unless it is stored already; return it with its verdict.

    If the agent's last message and the result of its call have the same text, both are one handoff.
    """
    deliverable = store.deliverable_of(request.event)
    same = row.returned if row is not None and row.deliverable == deliverable else None
    for known in (request.kept.handoff, same):
        if known and (one := wait_for_verdict(request, known)).handoff:
            return one
    receipt = store.store_result(request.tenant, request.sender, request.event, row)
    if not receipt.id:
        return HookVerdict(why=receipt.detail)
    if row is not None:
        store.record_result(row, uuid.UUID(receipt.id), deliverable)
    return wait_for_verdict(request, uuid.UUID(receipt.id))
