"""The `claude-code` format: hook events of Claude Code that are not the result of a tool call.

An event is a task handed out, a subagent that starts, or a subagent that stops. A task is handed out by `PreToolUse`,
or by `PostToolUse` of a call that only launched an agent. The result of a call is a `delegation`.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

from handoffaudit.validation.formats.base import (
    Compression,
    Document,
    Format,
    Places,
    RepairRules,
    Section,
    Variant,
    envelope_fields,
    fields,
    id_issues,
    obj,
)
from handoffaudit.validation.formats.delegation import HOOK_BASICS, LAUNCHED, TYPE
from handoffaudit.validation.formats.schema_check import Basics, Shape
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import clean_or_empty

NAME: Final = "claude-code"
MAIN: Final = "main"
"""The name of the main thread of a session, which has no name of its own."""

HANDING_OUT: Final = "PreToolUse"
HANDED_BACK: Final = "PostToolUse"
STARTED: Final = "SubagentStart"
STOPPED: Final = "SubagentStop"
_READ: Final = (HANDING_OUT, STARTED, STOPPED)

_SUBAGENT_BASICS: Basics = {
    ("hook_event_name",): "string",
    ("session_id",): "string",
    ("agent_id",): "string",
    ("agent_type",): "string",
}
_TOOL = Shape("claude-code", HOOK_BASICS)
_SUBAGENT = Shape("claude-code-subagent", _SUBAGENT_BASICS)
_TOOL_IDS = (("tool_name",), ("tool_use_id",), ("tool_input", "subagent_type"))
_IDS = (("session_id",), ("workflow_id",), ("agent_id",), ("agent_type",))
# The tokens of this field are counted in a section of its own.
_TEXT: Final = "last_assistant_message"


def recognise(document: Document) -> bool:
    name = document.get("hook_event_name")
    return name in _READ or (name == HANDED_BACK and _is_background_launch(document))


def _is_background_launch(document: Document) -> bool:
    """Return whether the result of the call only says that an agent works in the background."""
    return obj(document.get("tool_response")).get("status") == LAUNCHED


def read(document: Document, envelope: Envelope) -> Record:
    source, target = _agents(document)
    traces = (document.get("workflow_id"), document.get("session_id"))
    return Record(
        format=NAME,
        document=document,
        handoff_id=clean_or_empty(envelope.handoff_id) or None,
        tenant_id=None,
        handoff_type=TYPE,
        source_agent_id=source,
        target_agent_id=target,
        call_chain=(),
        trace_id=next((text for text in map(clean_or_empty, traces) if text), clean_or_empty(envelope.trace_id)),
        data=_data(document),
        context=envelope.context or {},
        **envelope_fields(envelope),
    )


def _agents(document: Document) -> tuple[str, str]:
    """Return the source and the target agent.

    An event inside a subagent names the subagent; the main thread has no name.
    """
    agent = clean_or_empty(document.get("agent_type"))
    if document.get("hook_event_name") == STOPPED:
        return agent, MAIN
    if document.get("hook_event_name") == STARTED:
        return MAIN, agent
    tool = clean_or_empty(document.get("tool_name"))
    source = agent if document.get("agent_id") else ""
    return source or MAIN, clean_or_empty(obj(document.get("tool_input")).get("subagent_type")) or tool


def _data(document: Document) -> dict[str, Any]:
    """Return the data handed over: the task, or the last message of the agent."""
    if document.get("hook_event_name") in (HANDING_OUT, HANDED_BACK):
        given = obj(document.get("tool_input"))
        return {name: given[name] for name in ("prompt", "description") if name in given}
    return {"deliverable": document[_TEXT]} if _TEXT in document else {}


def check(record: Record) -> Iterable[Issue]:
    document = record.document
    if document.get("hook_event_name") in (STARTED, STOPPED):
        return chain(_SUBAGENT.check(document), id_issues(document, _IDS))
    return chain(_TOOL.check(document), id_issues(document, (*_IDS, *_TOOL_IDS)))


def sections(document: Document) -> Mapping[str, Section]:
    """Return the task, the last message of the agent, and the rest of the document as sections."""
    given = document.get("tool_input")
    task = given.get("prompt") if isinstance(given, dict) else None
    found = {"task": task, "deliverable": document.get(_TEXT)}
    rest = {key: value for key, value in document.items() if key != _TEXT or value is None}
    if task is not None:
        rest["tool_input"] = {key: value for key, value in obj(given).items() if key != "prompt"}
    return {**{name: Section(value) for name, value in found.items() if value is not None}, "rest": Section(rest)}


_TOOL_EXAMPLE: Final[Document] = {
    "hook_event_name": "PreToolUse",
    "session_id": "session-17",
    "tool_name": "Agent",
    "tool_use_id": "toolu_01",
    "tool_input": {"prompt": "List the open invoices.", "subagent_type": "bookkeeper", "description": "Open invoices"},
}
_SUBAGENT_EXAMPLE: Final[Document] = {
    "hook_event_name": "SubagentStop",
    "session_id": "session-17",
    "agent_id": "a1b2c3",
    "agent_type": "bookkeeper",
    "stop_hook_active": False,
    "last_assistant_message": "Two are open: 2026-003 and 2026-007.",
}

FORMAT: Final = Format(
    name=NAME,
    order=40,
    variants=(Variant(_TOOL, _TOOL_EXAMPLE), Variant(_SUBAGENT, _SUBAGENT_EXAMPLE)),
    places=Places(target=("tool_input", "subagent_type")),
    recognise=recognise,
    read=read,
    check=check,
    sections=sections,
    repair=RepairRules(
        protected=(
            *fields("hook_event_name", "session_id", "workflow_id", "agent_id", "agent_type"),
            *fields("tool_name", "tool_use_id", "tool_input", "tool_response"),
        ),
        compression=Compression(texts=fields(_TEXT)),
    ),
)
