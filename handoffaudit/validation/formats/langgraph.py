"""Records of LangGraph: callback events of transfer tools, and of nodes that return a `Command` with `goto`."""

from typing import Any, Final

from handoffaudit.validation.formats.base import Document, obj
from handoffaudit.validation.formats.native import Framework, NativeHandoff, json_object

_DESTINATION: Final = "__handoff_destination"
_END: Final = "__end__"


def find(document: Document) -> NativeHandoff | None:
    event, metadata = document.get("event"), obj(document.get("metadata"))
    if event == "on_tool_start" and _DESTINATION in metadata:
        name, source = _source(metadata)
        return NativeHandoff(
            source=source,
            target=metadata[_DESTINATION],
            source_at=("metadata", name),
            target_at=("metadata", _DESTINATION),
            data=_read_inputs(document),
            trace_id=metadata.get("thread_id"),
            handoff_id=document.get("run_id"),
        )
    return _read_command(document, metadata) if event == "on_chain_end" else None


def _source(metadata: dict[str, Any]) -> tuple[str, Any]:
    """Return the field that names the source, and the source: the agent, or the outer node of the checkpoint."""
    if metadata.get("lc_agent_name"):
        return "lc_agent_name", metadata["lc_agent_name"]
    namespace = metadata.get("langgraph_checkpoint_ns")
    return "langgraph_checkpoint_ns", namespace.split(":")[0] if isinstance(namespace, str) else ""


def _read_inputs(document: Document) -> dict[str, Any]:
    inputs = json_object(document.get("inputs")) or json_object(obj(document.get("data")).get("input"))
    return inputs or json_object(document.get("input_str"))


def _read_command(document: Document, metadata: dict[str, Any]) -> NativeHandoff | None:
    holder = ("data", "output") if "data" in document else ("output",)
    output = obj(obj(document.get("data")).get("output") if "data" in document else document.get("output"))
    target = output.get("goto")
    if not isinstance(target, str) or target == _END or "langgraph_node" not in metadata:
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


def resembles(document: Document) -> bool:
    event = document.get("event")
    return isinstance(event, str) and event.startswith("on_") and "run_id" in document


FRAMEWORK: Final = Framework(
    name="a callback event of LangGraph",
    wanted='on_tool_start with metadata.__handoff_destination, or on_chain_end whose output has "goto"',
    find=find,
    resembles=resembles,
)
