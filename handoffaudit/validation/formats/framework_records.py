"""Records that agent frameworks write: A2A, AutoGen, CrewAI, Google ADK, LangGraph and LlamaIndex.

Each framework has a function that finds the handoff in a record, and a function that recognises the framework's other
records. The traces of OpenAI Agents and OpenTelemetry are in the module `framework_traces`.
"""

from typing import Any, Final

from handoffaudit.validation.formats.base import (
    DELEGATION,
    MESSAGE,
    Document,
    Framework,
    NativeHandoff,
    entries,
    json_object,
    obj,
    text_data,
    time_of,
)
from handoffaudit.validation.paths import Location

# Records of A2A: requests that send a message to another agent, in the spelling of protocol 1.0 or 0.3.
# This is a tuple because a document may have a list or an object as its method. A set cannot look these up.
_A2A_METHODS: Final = ("SendMessage", "SendStreamingMessage", "message/send", "message/stream")
_A2A_SOURCES: Final = ("from", "source", "source_agent_id")
_A2A_TARGETS: Final = ("to", "target", "target_agent_id")


def _find_a2a(document: Document) -> NativeHandoff | None:
    is_request = "jsonrpc" in document
    if is_request and document.get("method") not in _A2A_METHODS:
        return None
    params = obj(document.get("params")) if is_request else document
    message = obj(params.get("message"))
    if not isinstance(message.get("messageId"), str) or not isinstance(message.get("parts"), list):
        return None
    metadata = obj(message.get("metadata"))
    source, target = _find_name(metadata, _A2A_SOURCES), _find_name(metadata, _A2A_TARGETS)
    inside: Location = ("params", "message", "metadata") if is_request else ("message", "metadata")
    return NativeHandoff(
        source=metadata.get(source),
        target=metadata.get(target),
        source_at=(*inside, source),
        target_at=(*inside, target),
        data=_read_a2a_parts(message["parts"]),
        handoff_type=MESSAGE,
        trace_id=message.get("contextId"),
        handoff_id=message["messageId"],
    )


def _find_name(metadata: dict[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of `names` that the metadata contains, or the first name if the metadata contains none."""
    return next((name for name in names if name in metadata), names[0])


def _read_a2a_parts(parts: list[Any]) -> dict[str, Any]:
    """Return the data of a message: its object if the message has no other part, or else its texts, objects and files.

    The texts are under `text`, the objects under `data`, and the files under `files`.
    """
    found = [obj(part) for part in entries(parts)]
    texts = [part["text"] for part in found if isinstance(part.get("text"), str)]
    objects: list[dict[str, Any]] = [part["data"] for part in found if isinstance(part.get("data"), dict)]
    files = [part[name] for part in found for name in ("url", "raw", "file") if part.get(name)]
    if len(objects) == 1 and not (texts or files):
        return objects[0]
    data: dict[str, Any] = {"text": "\n\n".join(texts)} if texts else {}
    if objects:
        data["data"] = objects[0] if len(objects) == 1 else objects
    return data | ({"files": files} if files else {})


def _resembles_a2a(document: Document) -> bool:
    return document.get("jsonrpc") == "2.0" and isinstance(document.get("method"), str)


A2A: Final = Framework(
    name="a request of A2A",
    wanted="a request of SendMessage or message/send, whose message has a messageId and parts",
    find=_find_a2a,
    resembles=_resembles_a2a,
)


# Records of AutoGen are messages of a team. Each `HandoffMessage` is a handoff.
def _find_autogen(document: Document) -> NativeHandoff | None:
    if document.get("type") != "HandoffMessage":
        return None
    context = document.get("context")
    return NativeHandoff(
        source=document.get("source"),
        target=document.get("target"),
        source_at=("source",),
        target_at=("target",),
        data=text_data(document.get("content")) | ({"context": context} if context else {}),
        handoff_id=document.get("id"),
        at=time_of(document.get("created_at")),
    )


def _resembles_autogen(document: Document) -> bool:
    kind = document.get("type")
    is_message = isinstance(kind, str) and kind.endswith(("Message", "Event"))
    return is_message and "source" in document and "models_usage" in document


AUTOGEN: Final = Framework(
    name="a message of AutoGen",
    wanted='a message of the type "HandoffMessage"',
    find=_find_autogen,
    resembles=_resembles_autogen,
)


# Records of CrewAI are events. The start of a tool that asks a coworker is a handoff.
_CREWAI_STARTED: Final = "tool_usage_started"
_CREWAI_TOOLS: Final = frozenset({"delegate_work_to_coworker", "ask_question_to_coworker"})
_CREWAI_PREFIXES: Final = ("crew_", "task_", "agent_", "tool_usage_", "llm_", "flow_", "method_")


def _find_crewai(document: Document) -> NativeHandoff | None:
    tool = document.get("tool_name")
    is_coworker = isinstance(tool, str) and tool.strip().lower().replace(" ", "_") in _CREWAI_TOOLS
    if document.get("type") != _CREWAI_STARTED or not is_coworker:
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


def _resembles_crewai(document: Document) -> bool:
    kind = document.get("type")
    return "event_id" in document and isinstance(kind, str) and kind.startswith(_CREWAI_PREFIXES)


CREWAI: Final = Framework(
    name="an event of CrewAI",
    wanted=f"the event {_CREWAI_STARTED} of the tool delegate_work_to_coworker or ask_question_to_coworker",
    find=_find_crewai,
    resembles=_resembles_crewai,
)


# Records of Google ADK are events, with field names in the spelling of JSON or of Python. An event with
# `actions.transferToAgent` is a handoff.
_ADK_TARGETS: Final = ("transferToAgent", "transfer_to_agent")
_ADK_STATES: Final = ("stateDelta", "state_delta")
_ADK_RUNS: Final = ("invocationId", "invocation_id")


def _find_google_adk(document: Document) -> NativeHandoff | None:
    actions = obj(document.get("actions"))
    name = next((name for name in _ADK_TARGETS if isinstance(actions.get(name), str)), None)
    if name is None or not _resembles_google_adk(document):
        return None
    return NativeHandoff(
        source=document.get("author"),
        target=actions[name],
        source_at=("author",),
        target_at=("actions", name),
        data=_find_adk_payload(document, actions),
        trace_id=next((document[run] for run in _ADK_RUNS if run in document), ""),
        handoff_id=document.get("id"),
        at=time_of(document.get("timestamp")),
    )


def _find_adk_payload(document: Document, actions: dict[str, Any]) -> dict[str, Any]:
    """Return the state that the event changed, or else the text of the event: the transfer itself has no data."""
    state = next((state for name in _ADK_STATES if (state := obj(actions.get(name)))), {})
    if state:
        return state
    parts = [obj(part).get("text") for part in entries(obj(document.get("content")).get("parts"))]
    return text_data("\n\n".join(part for part in parts if isinstance(part, str)))


def _resembles_google_adk(document: Document) -> bool:
    return "author" in document and any(name in document for name in _ADK_RUNS)


GOOGLE_ADK: Final = Framework(
    name="an event of Google ADK",
    wanted="an event with actions.transferToAgent",
    find=_find_google_adk,
    resembles=_resembles_google_adk,
)


# Records of LangGraph are callback events. The start of a transfer tool is a handoff, and so is the end of a node that
# returns a `Command` with `goto`.
_LANGGRAPH_DESTINATION: Final = "__handoff_destination"
_LANGGRAPH_END: Final = "__end__"


def _find_langgraph(document: Document) -> NativeHandoff | None:
    event, metadata = document.get("event"), obj(document.get("metadata"))
    if event == "on_tool_start" and _LANGGRAPH_DESTINATION in metadata:
        name, source = _find_langgraph_source(metadata)
        return NativeHandoff(
            source=source,
            target=metadata[_LANGGRAPH_DESTINATION],
            source_at=("metadata", name),
            target_at=("metadata", _LANGGRAPH_DESTINATION),
            data=_read_langgraph_inputs(document),
            trace_id=metadata.get("thread_id"),
            handoff_id=document.get("run_id"),
        )
    return _read_langgraph_command(document, metadata) if event == "on_chain_end" else None


def _find_langgraph_source(metadata: dict[str, Any]) -> tuple[str, Any]:
    """Return the field that names the source, and the source: the agent, or the outer node of the checkpoint."""
    if metadata.get("lc_agent_name"):
        return "lc_agent_name", metadata["lc_agent_name"]
    namespace = metadata.get("langgraph_checkpoint_ns")
    return "langgraph_checkpoint_ns", namespace.split(":")[0] if isinstance(namespace, str) else ""


def _read_langgraph_inputs(document: Document) -> dict[str, Any]:
    inputs = json_object(document.get("inputs")) or json_object(obj(document.get("data")).get("input"))
    return inputs or json_object(document.get("input_str"))


def _read_langgraph_command(document: Document, metadata: dict[str, Any]) -> NativeHandoff | None:
    holder = ("data", "output") if "data" in document else ("output",)
    output = obj(obj(document.get("data")).get("output") if "data" in document else document.get("output"))
    target = output.get("goto")
    if not isinstance(target, str) or target == _LANGGRAPH_END or "langgraph_node" not in metadata:
        return None
    return NativeHandoff(
        source=metadata["langgraph_node"],
        target=target,
        source_at=("metadata", "langgraph_node"),
        target_at=(*holder, "goto"),
        data=obj(output.get("update")),
        trace_id=metadata.get("thread_id"),
        handoff_id=document.get("run_id"),
    )


def _resembles_langgraph(document: Document) -> bool:
    event = document.get("event")
    return isinstance(event, str) and event.startswith("on_") and "run_id" in document


LANGGRAPH: Final = Framework(
    name="a callback event of LangGraph",
    wanted='the event on_tool_start with metadata.__handoff_destination, or on_chain_end whose output has "goto"',
    find=_find_langgraph,
    resembles=_resembles_langgraph,
)


# Records of LlamaIndex are workflow events. An event with one call of the tool `handoff` is a handoff.
_LLAMA_INDEX_TOOL: Final = "handoff"
_LLAMA_INDEX_AGENT: Final = "current_agent_name"


def _find_llama_index(document: Document) -> NativeHandoff | None:
    event, place = _unwrap_llama_index(document)
    if _is_llama_index_handoff(event):
        return _read_llama_index_call(event, place, None, (*place, _LLAMA_INDEX_AGENT))
    if _LLAMA_INDEX_AGENT not in event:
        return None
    calls = [(number, obj(call)) for number, call in enumerate(entries(event.get("tool_calls")))]
    found = [(number, call) for number, call in calls if _is_llama_index_handoff(call)]
    if len(found) != 1:
        return None
    number, call = found[0]
    return _read_llama_index_call(
        call, (*place, "tool_calls", number), event.get(_LLAMA_INDEX_AGENT), (*place, _LLAMA_INDEX_AGENT)
    )


def _unwrap_llama_index(document: Document) -> tuple[dict[str, Any], Location]:
    """Return the event and its location in the document.

    LlamaIndex's own serializer wraps an event in an object with the name of the event's class.
    """
    if "qualified_name" in document and isinstance(document.get("value"), dict):
        return document["value"], ("value",)
    return document, ()


def _is_llama_index_handoff(call: dict[str, Any]) -> bool:
    return call.get("tool_name") == _LLAMA_INDEX_TOOL and "tool_kwargs" in call


def _read_llama_index_call(call: dict[str, Any], place: Location, source: object, source_at: Location) -> NativeHandoff:
    given = json_object(call.get("tool_kwargs"))
    call_id = call.get("tool_id")
    return NativeHandoff(
        source=source,
        target=given.get("to_agent"),
        source_at=source_at,
        target_at=(*place, "tool_kwargs", "to_agent"),
        data={name: value for name, value in given.items() if name != "to_agent"},
        # If a call has no id, as with Ollama, LlamaIndex writes the name of the tool as the id.
        handoff_id=None if call_id == _LLAMA_INDEX_TOOL else call_id,
    )


def _resembles_llama_index(document: Document) -> bool:
    event, _ = _unwrap_llama_index(document)
    is_call = "tool_kwargs" in event and "tool_name" in event
    return is_call or (
        _LLAMA_INDEX_AGENT in event and any(name in event for name in ("input", "response", "tool_calls"))
    )


LLAMA_INDEX: Final = Framework(
    name="an event of LlamaIndex",
    wanted='an event AgentOutput, ToolCall or ToolCallResult with one call of the tool "handoff"',
    find=_find_llama_index,
    resembles=_resembles_llama_index,
)
