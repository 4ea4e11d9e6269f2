"""Records of CrewAI: events, of which the start of a tool that asks a coworker is a handoff."""

from typing import Any, Final

from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.formats.native import DELEGATION, Framework, NativeHandoff, json_object, time_of

_STARTED: Final = "tool_usage_started"
_TOOLS: Final = frozenset({"delegate_work_to_coworker", "ask_question_to_coworker"})
_PREFIXES: Final = ("crew_", "task_", "agent_", "tool_usage_", "llm_", "flow_", "method_")


def find(document: Document) -> NativeHandoff | None:
    tool = document.get("tool_name")
    is_coworker = isinstance(tool, str) and tool.strip().lower().replace(" ", "_") in _TOOLS
    if document.get("type") != _STARTED or not is_coworker:
        return None
    given: dict[str, Any] = json_object(document.get("tool_args"))
    return NativeHandoff(
        source=document.get("agent_role"),
        target=given.get("coworker"),
        source_at=("agent_role",),
        target_at=("tool_args", "coworker"),
        data={name: value for name, value in given.items() if name != "coworker"},
        handoff_type=DELEGATION,
        trace_id=document.get("task_id"),
        handoff_id=document.get("event_id"),
        at=time_of(document.get("timestamp")),
    )


def resembles(document: Document) -> bool:
    kind = document.get("type")
    return "event_id" in document and isinstance(kind, str) and kind.startswith(_PREFIXES)


FRAMEWORK: Final = Framework(
    name="an event of CrewAI",
    wanted=f"{_STARTED} of delegate_work_to_coworker or ask_question_to_coworker",
    find=find,
    resembles=resembles,
)
