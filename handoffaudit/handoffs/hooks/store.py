"""Storage of hook events: their handoffs, the tasks that they hand out or hand back, and results of other tools.

A result of a tool that delegates nothing is stored as evidence of the session.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from pydantic import ValidationError

from handoffaudit.accounts.keys import record_refusal
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import tool_results
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.hooks.hook_events import Event, Name, deliverable_digest, digest, raw_digest
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.prepare import Receipt
from handoffaudit.handoffs.models import HandedOut, Handoff, HandoffBody, State
from handoffaudit.handoffs.tool_results import ToolResultIn
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.formats import claude_code, delegation
from handoffaudit.validation.formats.base import obj
from handoffaudit.validation.formats.claude_code import MAIN
from handoffaudit.validation.json_text import compact, deeper_than, keep_digits, parse_json
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.text import clean, clean_or_empty
from handoffaudit.validation.tool_results import Grade


def find_task_of_agent(tenant_id: int, event: Event, agent_id: str) -> HandedOut | None:
    """Return the task of this agent in the event's session."""
    return (
        _filter_session(tenant_id, event).filter(agent=digest(agent_id)).first()
        if _is_joinable(event, agent_id)
        else None
    )


def find_candidates(tenant_id: int, event: Event) -> list[HandedOut]:
    """Return the open tasks for this type of agent that have no known agent yet, at most two."""
    if not _is_joinable(event, event.agent_id):
        return []
    rows = _filter_session(tenant_id, event).filter(agent="", over=False, target=event.target).exclude(handoff=None)
    return list(rows.order_by("id")[:2])


def record_task(tenant_id: int, event: Event, handoff: uuid.UUID) -> HandedOut:
    """Record the handoff that handed out the task of the event. Mark the task as open unless its end was reported."""
    with transaction.atomic():
        row = _lock_row(tenant_id, event, handoff)
        if row.handoff is None:
            HandedOut.objects.filter(pk=row.pk).update(handoff=handoff, target=event.target)
            row.handoff = handoff
        if not row.over:
            _set_open(tenant_id, [row.handoff], is_open=True)
    return row


def record_agent(row: HandedOut, agent_id: str, *, certain: bool) -> None:
    """Record the agent that has a task. `certain` says whether the event names the agent's call.

    If another task already has the agent, an uncertain record changes nothing. A certain record takes the agent from
    the other task, which ends if the agent was its only key.
    """
    agent = digest(agent_id)
    if not agent_id or row.agent == agent:
        return
    try:
        _take_on(row, agent, certain=certain)
    except IntegrityError:
        # A concurrent event stored the same agent first. The second call sees the row of that event.
        _take_on(row, agent, certain=certain)


def _take_on(row: HandedOut, agent: str, *, certain: bool) -> None:
    with transaction.atomic():
        others = HandedOut.objects.select_for_update().filter(tenant=row.tenant_id, session=row.session, agent=agent)
        for other in others.exclude(pk=row.pk):
            if not certain:
                return
            if other.tool_use:
                HandedOut.objects.filter(pk=other.pk).update(agent="")
            else:
                HandedOut.objects.filter(pk=other.pk).update(agent="", over=True)
                _set_open(row.tenant_id, [other.handoff], is_open=False)
        HandedOut.objects.filter(pk=row.pk).update(agent=agent)
    row.agent = agent


def record_result(row: HandedOut, handoff: uuid.UUID, deliverable: str) -> None:
    """Record the latest handoff that handed a task back."""
    HandedOut.objects.filter(pk=row.pk).update(returned=handoff, deliverable=deliverable)
    row.returned, row.deliverable = handoff, deliverable


def mark_ended(row: HandedOut) -> None:
    """Record that the end of the task was reported."""
    _end(row, over=True)


def mark_continued(row: HandedOut) -> None:
    """Record that the agent was sent back, so that the task did not end."""
    _end(row, over=False)


def _end(row: HandedOut, *, over: bool) -> None:
    with transaction.atomic():
        HandedOut.objects.filter(pk=row.pk).update(over=over)
        # Read the row again, because another event may have recorded the handoff of the task meanwhile.
        handoffs = HandedOut.objects.filter(pk=row.pk).values_list("handoff", flat=True)
        _set_open(row.tenant_id, handoffs, is_open=not over)
    row.over = over


def task_of_call(tenant_id: int, event: Event) -> HandedOut:
    """Return the task of this tool call. Create the task if no event has reported it."""
    return HandedOut.objects.get_or_create(
        tenant_id=tenant_id,
        session=digest(event.session_id),
        tool_use=_call_key(event),
        defaults=_list_given_columns(event),
    )[0]


def task_of_agent(tenant_id: int, event: Event) -> HandedOut:
    """Return the task of this agent. Create the task if no event has reported it."""
    return HandedOut.objects.get_or_create(
        tenant_id=tenant_id,
        session=digest(event.session_id),
        agent=digest(event.agent_id),
        defaults=_list_given_columns(event),
    )[0]


def knows_call(event: Event) -> bool:
    return bool(_call_key(event))


def _lock_row(tenant_id: int, event: Event, handoff: uuid.UUID) -> HandedOut:
    if event.name is Name.STARTED:
        row = task_of_agent(tenant_id, event)
    elif knows_call(event):
        row = task_of_call(tenant_id, event)
    else:
        session = digest(event.session_id)
        row = HandedOut.objects.get_or_create(
            tenant_id=tenant_id, session=session, handoff=handoff, defaults=_list_given_columns(event)
        )[0]
    return HandedOut.objects.select_for_update().get(pk=row.pk)


def _list_given_columns(event: Event) -> Mapping[str, str]:
    return {"target": event.target}


def _is_joinable(event: Event, agent_id: str) -> bool:
    return bool(event.session_id and agent_id)


def _call_key(event: Event) -> str:
    return digest(event.tool_use_id) if event.session_id and event.tool_use_id else ""


def _filter_session(tenant_id: int, event: Event) -> "QuerySet[HandedOut]":
    return HandedOut.objects.filter(tenant=tenant_id, session=digest(event.session_id))


def _set_open(tenant_id: int, handoffs: Iterable[uuid.UUID | None], *, is_open: bool) -> None:
    wanted = [pk for pk in handoffs if pk]
    Handoff.objects.filter(tenant=tenant_id, pk__in=wanted).exclude(open=is_open).update(open=is_open)


_LABEL: Final = 60

_DIGEST: Final = 32


def store_unreadable(tenant: Tenant, sender: Actor, sent: bytes, given_key: str) -> Receipt:
    """Store a request body that is not an event, in the same way as any unreadable submission."""
    named = _make_id(given_key, "event", digest("given", given_key)) if given_key else None
    submission = Submission(sent, format=claude_code.NAME, envelope=Envelope(handoff_id=named))
    return store.accept(tenant, sender, submission)


def store_task(tenant: Tenant, sender: Actor, event: Event, parent: HandedOut | None) -> Receipt:
    """Store the task of an event that hands it out, or of an agent that started without such an event."""
    envelope = Envelope(
        handoff_id=_make_task_id(event), parent_handoff_id=_find_name(tenant, parent.handoff if parent else None)
    )
    return store.accept(tenant, sender, Submission(event.raw, format=claude_code.NAME, envelope=envelope))


def store_result(tenant: Tenant, sender: Actor, event: Event, row: HandedOut | None) -> Receipt:
    """Store the returned work as the result of the call that handed the task out."""
    envelope = Envelope(
        handoff_id=_make_result_id(event),
        parent_handoff_id=_find_name(tenant, row.handoff if row else None),
        retry_of=_find_rejected(tenant, row),
    )
    document, form = event.raw, delegation.NAME
    if event.name is Name.STOPPED:
        document, form = _join_result(tenant, event, row)
    return store.accept(tenant, sender, Submission(document, format=form, envelope=envelope))


def deliverable_of(event: Event) -> str:
    """Return the digest of the event's deliverable. All events with the same deliverable give the same digest."""
    return deliverable_digest(event.last_message if event.name is Name.STOPPED else event.call.deliverable)


def _join_result(tenant: Tenant, event: Event, row: HandedOut | None) -> tuple[bytes, str]:
    """Return a document with the call that handed the task out, the agent's last message as its result, and the event.

    If the call or the message is unknown, or the document is too large or too deep to accept, return the event alone.
    """
    call = _read_call(tenant, row)
    if not call.get("prompt") or not event.last_message:
        return event.raw, claude_code.NAME
    exact = keep_digits(event.raw, event.document)
    document: dict[str, Any] = {
        "tool": {"name": "Agent", "parameters": call, "result": event.last_message},
        "sessionId": event.session_id,
        "workflowId": event.workflow,
        # The result of the tool already has the message.
        "event": {name: value for name, value in exact.items() if name != "last_assistant_message"},
    }
    joined = compact(document)
    if len(joined) > settings.MAX_BODY_BYTES or deeper_than(document, settings.MAX_NESTING):
        return event.raw, claude_code.NAME
    return joined, delegation.NAME


def _read_call(tenant: Tenant, row: HandedOut | None) -> dict[str, Any]:
    """Return the parameters of the call that handed a task out."""
    if row is None or row.handoff is None:
        return {}
    body = HandoffBody.objects.filter(pk=row.handoff, handoff__tenant=tenant).first()
    if body is None:
        return {}
    sent = bytes(body.original)
    document, issues = parse_json(sent)
    return {} if issues else obj(obj(keep_digits(sent, document)).get("tool_input"))


def _find_name(tenant: Tenant, pk: uuid.UUID | None) -> str | None:
    return Handoff.objects.filter(tenant=tenant, pk=pk).values_list("handoff_id", flat=True).first() if pk else None


def _find_rejected(tenant: Tenant, row: HandedOut | None) -> str | None:
    """Return the ID of the task's last result if it was rejected. The new result is the next attempt."""
    if row is None or row.returned is None:
        return None
    before = Handoff.objects.filter(tenant=tenant, pk=row.returned, state=State.REJECTED)
    return before.values_list("handoff_id", flat=True).first()


def _make_task_id(event: Event) -> str:
    if event.session_id and event.tool_use_id:
        return _make_id(event.tool_use_id, "out", digest("out", event.session_id, event.tool_use_id))
    if event.name is Name.STARTED and event.session_id and event.agent_id:
        return _make_id(event.agent_id, "out", digest("out", event.session_id, "", event.agent_id))
    return _make_id("event", "out", raw_digest(event.raw))


def _make_result_id(event: Event) -> str:
    if event.name is Name.STOPPED:
        deliverable = deliverable_of(event)
        return _make_id(event.agent_id, "back", digest("back", event.session_id, event.agent_id, deliverable))
    if event.session_id and event.tool_use_id:
        return _make_id(event.tool_use_id, "back", digest("back", event.session_id, event.tool_use_id))
    return _make_id("event", "back", raw_digest(event.raw))


def _make_id(label: str, direction: str, made: str) -> str:
    """Return an ID that consists of a readable label, the direction, and a digest that makes the ID unique."""
    return f"{clean(label, _LABEL)}:{direction}:{made[:_DIGEST]}"


# An LLM writes the results of these tools of Claude Code. They are an answer about a page, the report of another agent,
# or texts of the agent from an earlier call: plans, tasks, messages, prompts.
WRITTEN_BY_AN_LLM: Final = frozenset(
    {
        *("WebFetch", "WebSearch", "TaskOutput", "AgentOutputTool", "Skill", "SendMessage", "ExitPlanMode"),
        *("TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "CronCreate", "CronList"),
    }
)

SKIPPED: Final = "skipped"

_RESULT: Final = "tool_response"


@dataclass(frozen=True, slots=True)
class Captured:
    """The outcome for a tool result.

    `status` is a value of `Storage`, or `skipped` for the reason `why`, or empty if the event gives no evidence.
    """

    status: str = ""
    why: str = ""

    def as_answer(self) -> dict[str, str]:
        """Return the field of the answer, or an empty dict if there is no status."""
        return {"tool_result": self.status} if self.status else {}


def capture(tenant: Tenant, sender: Actor, event: Event, grade: Grade, sent_at: object) -> Captured:
    """Store the tool result of an event, if the key captures evidence. `sent_at` is when the tool returned."""
    if event.name is not Name.HANDED_BACK or event.about_a_delegation or not grade.is_evidence:
        return Captured()
    if _RESULT not in event.document or not event.workflow:
        return Captured(SKIPPED, "The event has no result or no session.")
    tool = event.call.tool
    if tool in WRITTEN_BY_AN_LLM:
        return Captured(SKIPPED, f"An LLM writes the results of {tool}, so they are not evidence.")
    agent = (clean_or_empty(event.agent_type) if event.agent_id else "") or MAIN
    if not sender.agents.allows(agent):
        record_refusal(tenant, sender.agents, agent)
        return Captured(SKIPPED, sender.agents.describe_refusal(agent, "The tool result"))
    result = _read_result(event, tool, agent, sent_at)
    if result is None:
        return Captured(SKIPPED, "The name of the tool or the id of its call can't be stored.")
    now = timezone.now()
    rows = tool_results.make_rows(tenant.pk, event.workflow, [result], now)
    with write_turn(), transaction.atomic():
        (status,) = tool_results.store(rows, sender.name, grade, now)
    return Captured(status)


def _read_result(event: Event, tool: str, agent: str, sent_at: object) -> ToolResultIn | None:
    given: dict[str, Any] = {
        "tool": tool,
        "call_id": event.tool_use_id or raw_digest(event.raw),
        "agent": agent,
        "arguments": event.document.get("tool_input"),
        "result": event.document[_RESULT],
    }
    for at in (sent_at, timezone.now()):
        try:
            return ToolResultIn.model_validate(given | {"at": at})
        except ValidationError:
            # The time of the host may be wrong or missing. In that case, the time of receipt replaces it.
            continue
    return None
