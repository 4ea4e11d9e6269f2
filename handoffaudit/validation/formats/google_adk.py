"""Records of Google ADK: events, of which those with `actions.transferToAgent` are handoffs."""

from typing import Any, Final

from handoffaudit.validation.formats.base import Document, entries, obj
from handoffaudit.validation.formats.native import Framework, NativeHandoff, text_data, time_of

# Events are written in the spelling of JSON or of Python.
_TARGETS: Final = ("transferToAgent", "transfer_to_agent")
_STATES: Final = ("stateDelta", "state_delta")
_RUNS: Final = ("invocationId", "invocation_id")


def find(document: Document) -> NativeHandoff | None:
    actions = obj(document.get("actions"))
    name = next((name for name in _TARGETS if isinstance(actions.get(name), str)), None)
    if name is None or not _is_event(document):
        return None
    return NativeHandoff(
        source=document.get("author"),
        target=actions[name],
        source_at=("author",),
        target_at=("actions", name),
        data=_find_payload(document, actions),
        trace_id=next((document[run] for run in _RUNS if run in document), ""),
        handoff_id=document.get("id"),
        at=time_of(document.get("timestamp")),
    )


def _find_payload(document: Document, actions: dict[str, Any]) -> dict[str, Any]:
    """Return the state that the event changed, else its text: the tool itself names only the agent."""
    state = next((state for name in _STATES if (state := obj(actions.get(name)))), {})
    if state:
        return state
    parts = [obj(part).get("text") for part in entries(obj(document.get("content")).get("parts"))]
    return text_data("\n\n".join(part for part in parts if isinstance(part, str)))


def _is_event(document: Document) -> bool:
    return "author" in document and any(name in document for name in _RUNS)


FRAMEWORK: Final = Framework(
    name="an event of Google ADK",
    wanted="an event with actions.transferToAgent",
    find=find,
    resembles=_is_event,
)
