"""The `delegation` format: a task delegated to another agent, written as a tool call or as a hook event."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    entries,
    envelope_fields,
    fields,
    id_issues,
    obj,
)
from handoffaudit.validation.formats.schema_check import Basics, Shape
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.text import clean_or_empty

NAME: Final = "delegation"
TARGET: Final = "orchestrator"
TYPE: Final = "delegation"
DELEGATION_TOOLS: Final = frozenset({"Task", "SubagentTask", "AgentTask", "Agent"})
LAUNCHED: Final = "async_launched"

_CALL_BASICS: Basics = {("tool",): "object", ("tool", "name"): "string", ("sessionId",): "string"}
HOOK_BASICS: Final[Basics] = {
    ("hook_event_name",): "string",
    ("session_id",): "string",
    ("tool_name",): "string",
    ("tool_input",): "object",
}
_CALL = Shape("delegation", _CALL_BASICS)
_HOOK = Shape("delegation-hook", HOOK_BASICS)
_CALL_IDS = (("tool", "name"), ("tool", "parameters", "subagent_type"), ("sessionId",), ("workflowId",))
_HOOK_IDS = (("tool_name",), ("tool_input", "subagent_type"), ("session_id",), ("workflow_id",))


@dataclass(frozen=True, slots=True)
class Delegation:
    """A delegation, read from a tool call or a hook event.

    `prompt` is None if it is missing or not a text, and `result` is None if it is missing.
    """

    tool: str
    parameters: dict[str, Any]
    prompt: str | None
    result: Any
    trace_id: str

    @property
    def applicable(self) -> bool:
        """Return whether a deliverable can be judged: there are a delegation tool, a prompt and a finished result."""
        given = self.deliverable not in (None, "", [], {}) and not self.launched
        return self.tool in DELEGATION_TOOLS and bool(self.prompt) and given

    @property
    def launched(self) -> bool:
        """Return whether the result only says that the agent has started in the background."""
        return obj(self.result).get("status") == LAUNCHED

    @property
    def deliverable(self) -> Any:
        """Return the joined texts of the agent if the result has the form of Claude Code, or else the whole result."""
        content = entries(obj(self.result).get("content"))
        texts = [part["text"] for part in map(obj, content) if isinstance(part.get("text"), str)]
        return "\n\n".join(texts) if texts else self.result

    @property
    def deliverable_characters(self) -> int:
        """Return the number of characters of the deliverable, or of its JSON if the deliverable is not a text."""
        found = self.deliverable
        if found is None:
            return 0
        return len(found if isinstance(found, str) else compact(found).decode("utf-8", "replace"))


def delegation(document: Document) -> Delegation:
    """Return the tool call that the document describes; accept any JSON object."""
    if is_hook(document):
        tool, parameters = document.get("tool_name"), obj(document.get("tool_input"))
        result = document.get("tool_response")
        traces = (document.get("workflow_id"), document.get("session_id"))
    else:
        call = obj(document.get("tool"))
        tool, parameters, result = call.get("name"), obj(call.get("parameters")), call.get("result")
        traces = (document.get("workflowId"), document.get("sessionId"))
    prompt = parameters.get("prompt")
    return Delegation(
        tool=clean_or_empty(tool),
        parameters=parameters,
        prompt=prompt if isinstance(prompt, str) else None,
        result=result,
        trace_id=next((text for text in map(clean_or_empty, traces) if text), ""),
    )


def is_hook(document: Document) -> bool:
    return bool(document.get("hook_event_name")) or "tool_name" in document


def recognise(document: Document) -> bool:
    return is_hook(document) or "name" in obj(document.get("tool")) or ("tool" in document and "sessionId" in document)


def read(document: Document, envelope: Envelope) -> Record:
    found = delegation(document)
    handed_over = {"objective": found.prompt, "deliverable": found.result}
    return Record(
        format=NAME,
        document=document,
        handoff_id=clean_or_empty(envelope.handoff_id) or None,
        tenant_id=None,
        handoff_type=TYPE,
        source_agent_id=clean_or_empty(found.parameters.get("subagent_type")) or found.tool,
        target_agent_id=TARGET,
        call_chain=(),
        trace_id=found.trace_id or clean_or_empty(envelope.trace_id),
        data={name: value for name, value in handed_over.items() if value is not None},
        context=envelope.context or {},
        **envelope_fields(envelope),
    )


def check(record: Record) -> Iterable[Issue]:
    shape, ids = (_HOOK, _HOOK_IDS) if is_hook(record.document) else (_CALL, _CALL_IDS)
    return chain(shape.check(record.document), id_issues(record.document, ids))


def sections(document: Document) -> Mapping[str, Section]:
    """Return the objective, the deliverable, and the rest of the document as sections."""
    holder = ("tool_input", "tool_response") if is_hook(document) else ("parameters", "result")
    call = document if is_hook(document) else obj(document.get("tool"))
    parameters, result = obj(call.get(holder[0])), call.get(holder[1])
    rest = {key: value for key, value in call.items() if key not in holder}
    rest[holder[0]] = {key: value for key, value in parameters.items() if key != "prompt"}
    if not is_hook(document):
        rest = {**{key: value for key, value in document.items() if key != "tool"}, "tool": rest}
    found = {"objective": parameters.get("prompt"), "deliverable": result}
    return {**{name: Section(value) for name, value in found.items() if value is not None}, "rest": Section(rest)}


def workflow(document: Document) -> object:
    return document.get("workflow_id" if is_hook(document) else "workflowId")


_CALL_EXAMPLE: Final[Document] = {
    "tool": {
        "name": "Task",
        "parameters": {"prompt": "List the open invoices.", "subagent_type": "bookkeeper"},
        "result": "Two are open: 2026-003 and 2026-007.",
    },
    "sessionId": "session-17",
    "workflowId": "month-end",
}
_HOOK_EXAMPLE: Final[Document] = {
    "hook_event_name": "PostToolUse",
    "session_id": "session-17",
    "tool_name": "Task",
    "tool_input": {"prompt": "List the open invoices.", "subagent_type": "bookkeeper", "description": "Open invoices"},
    "tool_response": "Two are open: 2026-003 and 2026-007.",
}

FORMAT: Final = Format(
    name=NAME,
    order=50,
    variants=(Variant(_CALL, _CALL_EXAMPLE), Variant(_HOOK, _HOOK_EXAMPLE)),
    clue='a delegation "tool" or "tool_name"',
    # The target is always the orchestrator, which no field names.
    places=Places(target=()),
    recognise=recognise,
    read=read,
    check=check,
    sections=sections,
    workflow=workflow,
    repair=RepairRules(
        protected=(
            *fields("tool.name", "tool.parameters", "sessionId", "workflowId"),
            *fields("hook_event_name", "tool_name", "tool_input", "session_id", "workflow_id"),
        ),
        compression=Compression(texts=fields("tool.result", "tool_response")),
    ),
)
