"""Which events tell of one task, and whether its end was reported.

A call is known by its session and `tool_use_id`, its agent by `agent_id`. What starts or stops an agent names no call:
it belongs to the one open task for such an agent, and to none where several are open. The result of the call names
both, and settles it.
"""

import uuid
from collections.abc import Iterable, Mapping

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from handoffaudit.handoffs.gate.events import Event, Name, digest
from handoffaudit.handoffs.models import HandedOut, Handoff


def of_agent(tenant_id: int, event: Event, agent_id: str) -> HandedOut | None:
    """The task that this agent of the event's session has."""
    return _session(tenant_id, event).filter(agent=digest(agent_id)).first() if _joinable(event, agent_id) else None


def candidates(tenant_id: int, event: Event) -> list[HandedOut]:
    """The open tasks for such an agent of which nobody knows yet which agent has them; at most two."""
    if not _joinable(event, event.agent_id):
        return []
    rows = _session(tenant_id, event).filter(agent="", over=False, target=event.target).exclude(handoff=None)
    return list(rows.order_by("id")[:2])


def handed_out(tenant_id: int, event: Event, handoff: uuid.UUID) -> HandedOut:
    """Keeps that this handoff handed the event's task out. It is open, unless its end was reported before."""
    with transaction.atomic():
        row = _row(tenant_id, event, handoff)
        if row.handoff is None:
            HandedOut.objects.filter(pk=row.pk).update(handoff=handoff, target=event.target)
            row.handoff = handoff
        if not row.over:
            _mark(tenant_id, [row.handoff], is_open=True)
    return row


def taken_on(row: HandedOut, agent_id: str, *, certain: bool) -> None:
    """Keeps which agent has a task. What is certain takes the place of what only seemed so: another task loses the
    agent, and one that is known by nothing but it was this very task."""
    agent = digest(agent_id)
    if not agent_id or row.agent == agent:
        return
    try:
        _take_on(row, agent, certain=certain)
    except IntegrityError:
        # Another event of this agent came at the same moment: now it is seen.
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
                _mark(row.tenant_id, [other.handoff], is_open=False)
        HandedOut.objects.filter(pk=row.pk).update(agent=agent)
    row.agent = agent


def came_back(row: HandedOut, handoff: uuid.UUID, deliverable: str) -> None:
    """Keeps what handed a task back last."""
    HandedOut.objects.filter(pk=row.pk).update(returned=handoff, deliverable=deliverable)
    row.returned, row.deliverable = handoff, deliverable


def over(row: HandedOut) -> None:
    """Its end was reported."""
    _end(row, over=True)


def goes_on(row: HandedOut) -> None:
    """Its agent was sent back: this was not its end."""
    _end(row, over=False)


def _end(row: HandedOut, *, over: bool) -> None:
    with transaction.atomic():
        HandedOut.objects.filter(pk=row.pk).update(over=over)
        # The row as it is now: the task may have been handed out by an event that came meanwhile.
        handoffs = HandedOut.objects.filter(pk=row.pk).values_list("handoff", flat=True)
        _mark(row.tenant_id, handoffs, is_open=not over)
    row.over = over


def for_call(tenant_id: int, event: Event) -> HandedOut:
    """The task of this tool call, also where nothing told that it was handed out."""
    return HandedOut.objects.get_or_create(
        tenant_id=tenant_id, session=digest(event.session_id), tool_use=_call_key(event), defaults=_given(event)
    )[0]


def for_agent(tenant_id: int, event: Event) -> HandedOut:
    """The task of this agent, also where nothing told that it was handed out."""
    return HandedOut.objects.get_or_create(
        tenant_id=tenant_id, session=digest(event.session_id), agent=digest(event.agent_id), defaults=_given(event)
    )[0]


def knows_call(event: Event) -> bool:
    return bool(_call_key(event))


def _row(tenant_id: int, event: Event, handoff: uuid.UUID) -> HandedOut:
    if event.name is Name.STARTED:
        row = for_agent(tenant_id, event)
    elif knows_call(event):
        row = for_call(tenant_id, event)
    else:
        session = digest(event.session_id)
        row = HandedOut.objects.get_or_create(
            tenant_id=tenant_id, session=session, handoff=handoff, defaults=_given(event)
        )[0]
    return HandedOut.objects.select_for_update().get(pk=row.pk)


def _given(event: Event) -> Mapping[str, str]:
    return {"target": event.target}


def _joinable(event: Event, agent_id: str) -> bool:
    return bool(event.session_id and agent_id)


def _call_key(event: Event) -> str:
    return digest(event.tool_use_id) if event.session_id and event.tool_use_id else ""


def _session(tenant_id: int, event: Event) -> "QuerySet[HandedOut]":
    return HandedOut.objects.filter(tenant=tenant_id, session=digest(event.session_id))


def _mark(tenant_id: int, handoffs: Iterable[uuid.UUID | None], *, is_open: bool) -> None:
    wanted = [pk for pk in handoffs if pk]
    Handoff.objects.filter(tenant=tenant_id, pk__in=wanted).exclude(open=is_open).update(open=is_open)
