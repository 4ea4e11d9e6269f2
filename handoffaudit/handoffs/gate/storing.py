"""Events into handoffs: under an id that the same event always has, so that one which comes twice is one handoff."""

import uuid
from typing import Any, Final

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import ingest
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.gate.events import Event, Name, deliverable_digest, digest, raw_digest
from handoffaudit.handoffs.ingest import Receipt
from handoffaudit.handoffs.models import HandedOut, Handoff, HandoffBody, State
from handoffaudit.handoffs.submission import Submission
from handoffaudit.validation.formats import claude_code, delegation
from handoffaudit.validation.formats.base import obj
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.text import clean

_LABEL: Final = 60
_DIGEST: Final = 32


def unreadable(tenant: Tenant, sender: Actor, sent: bytes, given_key: str) -> Receipt:
    """What is no event is kept as a finding, as any submission that can't be read."""
    named = _id(given_key, "event", digest("given", given_key)) if given_key else None
    submission = Submission(sent, format=claude_code.NAME, envelope=Envelope(handoff_id=named))
    return ingest.accept(tenant, sender, submission)


def task(tenant: Tenant, sender: Actor, event: Event, parent: HandedOut | None) -> Receipt:
    """A task that is handed out, or one that somebody took on without a word of who handed it out."""
    envelope = Envelope(
        handoff_id=_task_id(event), parent_handoff_id=_name_of(tenant, parent.handoff if parent else None)
    )
    return ingest.accept(tenant, sender, Submission(event.raw, format=claude_code.NAME, envelope=envelope))


def result(tenant: Tenant, sender: Actor, event: Event, row: HandedOut | None) -> Receipt:
    """What came back, as the result of the call that asked for it."""
    envelope = Envelope(
        handoff_id=_result_id(event),
        parent_handoff_id=_name_of(tenant, row.handoff if row else None),
        retry_of=_rejected_before(tenant, row),
    )
    document, form = event.raw, delegation.NAME
    if event.name is Name.STOPPED:
        document, form = _joined(tenant, event, row)
    return ingest.accept(tenant, sender, Submission(document, format=form, envelope=envelope))


def deliverable_of(event: Event) -> str:
    """What tells one deliverable from another, whichever event brings it."""
    return deliverable_digest(event.last_message if event.name is Name.STOPPED else event.call.deliverable)


def _joined(tenant: Tenant, event: Event, row: HandedOut | None) -> tuple[bytes, str]:
    """The last message of an agent as the result of the call that asked for it, with the event beside it as it came;
    the bare event where nobody knows what was asked for."""
    asked = _call_of(tenant, row)
    if not asked.get("prompt") or not event.last_message:
        return event.raw, claude_code.NAME
    document: dict[str, Any] = {
        "tool": {"name": "Agent", "parameters": asked, "result": event.last_message},
        "sessionId": event.session_id,
        "workflowId": event.workflow,
        "event": orjson.Fragment(event.raw.removeprefix(b"\xef\xbb\xbf")),
    }
    return orjson.dumps(document), delegation.NAME


def _call_of(tenant: Tenant, row: HandedOut | None) -> dict[str, Any]:
    """The parameters of the call that handed a task out."""
    if row is None or row.handoff is None:
        return {}
    body = HandoffBody.objects.filter(pk=row.handoff, handoff__tenant=tenant).first()
    document, _ = parse_json(bytes(body.original)) if body else (None, ())
    return obj(obj(document).get("tool_input"))


def _name_of(tenant: Tenant, pk: uuid.UUID | None) -> str | None:
    return Handoff.objects.filter(tenant=tenant, pk=pk).values_list("handoff_id", flat=True).first() if pk else None


def _rejected_before(tenant: Tenant, row: HandedOut | None) -> str | None:
    """The result that was sent back: what comes now is the next attempt at it."""
    if row is None or row.returned is None:
        return None
    before = Handoff.objects.filter(tenant=tenant, pk=row.returned, state=State.REJECTED)
    return before.values_list("handoff_id", flat=True).first()


def _task_id(event: Event) -> str:
    if event.session_id and event.tool_use_id:
        return _id(event.tool_use_id, "out", digest("out", event.session_id, event.tool_use_id))
    if event.name is Name.STARTED and event.session_id and event.agent_id:
        return _id(event.agent_id, "out", digest("out", event.session_id, "", event.agent_id))
    return _id("event", "out", raw_digest(event.raw))


def _result_id(event: Event) -> str:
    if event.name is Name.STOPPED:
        said = deliverable_of(event)
        return _id(event.agent_id, "back", digest("back", event.session_id, event.agent_id, said))
    if event.session_id and event.tool_use_id:
        return _id(event.tool_use_id, "back", digest("back", event.session_id, event.tool_use_id))
    return _id("event", "back", raw_digest(event.raw))


def _id(label: str, direction: str, made: str) -> str:
    """Told by the digest; what stands before it is for people."""
    return f"{clean(label, _LABEL)}:{direction}:{made[:_DIGEST]}"
