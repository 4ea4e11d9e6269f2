"""Records of LlamaIndex: workflow events, of which those with a call of the tool `handoff` are handoffs."""

from typing import Any, Final

from handoffaudit.validation.formats.base import Document, entries, obj
from handoffaudit.validation.formats.native import Framework, NativeHandoff, json_object
from handoffaudit.validation.paths import Location

_TOOL: Final = "handoff"
_AGENT: Final = "current_agent_name"


def find(document: Document) -> NativeHandoff | None:
    event, place = _unwrap(document)
    if _is_handoff(event):
        return _read_call(event, place, None, (*place, _AGENT))
    if _AGENT not in event:
        return None
    calls = [(number, obj(call)) for number, call in enumerate(entries(event.get("tool_calls")))]
    found = [(number, call) for number, call in calls if _is_handoff(call)]
    if len(found) != 1:
        return None
    number, call = found[0]
    return _read_call(call, (*place, "tool_calls", number), event.get(_AGENT), (*place, _AGENT))


def _unwrap(document: Document) -> tuple[dict[str, Any], Location]:
    """Return the event, which LlamaIndex's own serializer wraps in an object with the name of its class."""
    if "qualified_name" in document and isinstance(document.get("value"), dict):
        return document["value"], ("value",)
    return document, ()


def _is_handoff(call: dict[str, Any]) -> bool:
    return call.get("tool_name") == _TOOL and "tool_kwargs" in call


def _read_call(call: dict[str, Any], place: Location, source: object, source_at: Location) -> NativeHandoff:
    given = json_object(call.get("tool_kwargs"))
    return NativeHandoff(
        source=source,
        target=given.get("to_agent"),
        source_at=source_at,
        target_at=(*place, "tool_kwargs", "to_agent"),
        data={name: value for name, value in given.items() if name != "to_agent"},
        handoff_id=call.get("tool_id"),
    )


def resembles(document: Document) -> bool:
    event, _ = _unwrap(document)
    is_call = "tool_kwargs" in event and "tool_name" in event
    return is_call or (_AGENT in event and any(name in event for name in ("input", "response", "tool_calls")))


FRAMEWORK: Final = Framework(
    name="an event of LlamaIndex",
    wanted='AgentOutput, ToolCall or ToolCallResult with one call of the tool "handoff"',
    find=find,
    resembles=resembles,
)
