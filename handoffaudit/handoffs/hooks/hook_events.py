"""Parser for posted hook events: one event of an agent host, with the phase results that its sender added."""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec
import orjson
from django.conf import settings

from handoffaudit.validation.formats.base import obj
from handoffaudit.validation.formats.claude_code import HANDED_BACK, HANDING_OUT, STARTED, STOPPED
from handoffaudit.validation.formats.delegation import DELEGATION_TOOLS, Delegation, delegation
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.text import clean_or_empty

_BOM: Final = b"\xef\xbb\xbf"

_NAMES: Final = frozenset({HANDING_OUT, HANDED_BACK, STARTED, STOPPED})

_EVENT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Name(StrEnum):
    """The events that hooks handle.

    `CALL` is a delegation without an event name. The answer to a `CALL` has no fields for an agent host, because the
    sender reads the field `exit_code` of the answer.
    """

    HANDING_OUT = HANDING_OUT
    HANDED_BACK = HANDED_BACK
    STARTED = STARTED
    STOPPED = STOPPED
    CALL = "call"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Missing texts are empty.

    `raw` holds the posted bytes. IDs have their full length, but `session` and `workflow` are cut to the length that
    the database stores.
    """

    name: Name
    document: dict[str, Any]
    raw: bytes
    call: Delegation
    session_id: str
    session: str
    workflow: str
    tool_use_id: str
    agent_id: str
    agent_type: str

    @property
    def about_a_delegation(self) -> bool:
        return self.name in (Name.STARTED, Name.STOPPED) or self.call.tool in DELEGATION_TOOLS

    @property
    def returned_agent(self) -> str:
        """Return the ID of the agent that produced the result of the call."""
        return _read_text(obj(self.call.result).get("agentId"))

    @property
    def sent_back_before(self) -> bool:
        return bool(self.document.get("stop_hook_active"))

    @property
    def last_message(self) -> str:
        return _read_text(self.document.get("last_assistant_message"))

    @property
    def target(self) -> str:
        """Return the name of the agent that gets the task, or of the called tool if the call names no agent."""
        if self.name in (Name.STARTED, Name.STOPPED):
            return clean_or_empty(self.agent_type)
        return clean_or_empty(self.call.parameters.get("subagent_type")) or self.call.tool

    @property
    def phase_id(self) -> str:
        """Return the ID of the phase, in which `_` replaces each character that does not fit into a URL segment."""
        tool = self.call.tool or "Agent"
        made = f"semantic_{tool[:150]}_{self.session_id[:8]}"
        return "".join(char if char.isalnum() or char in "_-.:" else "_" for char in made)


@dataclass(frozen=True, slots=True)
class Posted:
    """The result of parsing a request body.

    `event` is None if the body contains no event that hooks handle. `readable` is True if the body contains an event,
    even one that hooks do not handle. `phase` is the unparsed value of `phase_results`; `sent_at` is the unparsed time
    at which the sender got the event.
    """

    event: Event | None
    readable: bool
    phase: object = None
    sent_at: object = None


def read_event(sent: bytes) -> Posted:
    """Parse the event that a host sent, alone or as `{"event": …, "phase_results": …, "sent_at": …}`. Never raise."""
    document, issues = parse_json(sent, max_depth=settings.MAX_NESTING)
    if issues:
        return _read_damaged_result(sent)
    if not isinstance(document, dict):
        return Posted(None, readable=False)
    phase, sent_at, raw = None, None, sent
    if "event" in document and "tool" not in document and "hook_event_name" not in document:
        phase, sent_at = document.get("phase_results"), document.get("sent_at")
        raw = bytes(_EVENT.decode(sent.removeprefix(_BOM))["event"])
        document = document["event"]
    if not isinstance(document, dict):
        return Posted(None, readable=False)
    named = document.get("hook_event_name")
    if isinstance(named, str) and named and named not in _NAMES:
        return Posted(None, readable=True)
    if not isinstance(named, str) if named else "tool" not in document:
        return Posted(None, readable=False)
    event = _parse_event(Name(named) if named else Name.CALL, document, raw)
    return Posted(event, readable=True, phase=phase, sent_at=sent_at)


def _read_damaged_result(sent: bytes) -> Posted:
    """Parse a body that `parse_json` refused, if the body is the result of a tool that delegates nothing.

    A host in JavaScript that cuts an output inside a character leaves half of a surrogate pair, which is replaced. If
    `parse_json` still refuses the result, for example because of its depth, the result counts as an event that hooks do
    not handle: `readable` is True. For any other body, `readable` is False.
    """
    try:
        document = json.loads(sent)
        replaced = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return Posted(None, readable=False)
    event = obj(obj(document).get("event")) or obj(document)
    tool = _read_text(event.get("tool_name"))
    if event.get("hook_event_name") != HANDED_BACK or not tool or tool in DELEGATION_TOOLS:
        return Posted(None, readable=False)
    _, issues = parse_json(replaced, max_depth=settings.MAX_NESTING)
    return Posted(None, readable=True) if issues else read_event(replaced)


def _parse_event(name: Name, document: dict[str, Any], raw: bytes) -> Event:
    call = delegation(document)
    spelled = ("sessionId", "workflowId") if name is Name.CALL else ("session_id", "workflow_id")
    session_id, workflow_id = (_read_text(document.get(field)) for field in spelled)
    session = clean_or_empty(session_id)
    return Event(
        name=name,
        document=document,
        raw=raw,
        call=call,
        session_id=session_id,
        session=session,
        workflow=clean_or_empty(workflow_id) or session,
        tool_use_id=_read_text(document.get("tool_use_id")),
        agent_id=_read_text(document.get("agent_id")),
        agent_type=_read_text(document.get("agent_type")),
    )


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def digest(*parts: object) -> str:
    """Return a digest of these values, so that the database can compare IDs of any length."""
    return hashlib.sha256(orjson.dumps([str(part) for part in parts])).hexdigest()


def raw_digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def deliverable_digest(deliverable: object) -> str:
    """Return a digest of the deliverable. Events with the same text give the same digest."""
    if isinstance(deliverable, str):
        return digest("text", deliverable.strip())
    # Agent hosts may write object keys in any order.
    return digest("json", orjson.dumps(deliverable, option=orjson.OPT_SORT_KEYS).decode())
