"""Reading of LangGraph's metadata and commands: the source, the target and the trace of a handoff."""

from __future__ import annotations

from handoffaudit_client.langchain.messages import HANDED_BACK, messages_of, text_of
from handoffaudit_client.traces import current_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# The key under which langgraph-swarm and langgraph-supervisor put the target into the metadata of their tools.
DESTINATION = "__handoff_destination"


def source_of(metadata: Mapping[str, Any]) -> str:
    """Return the name of the agent whose tool runs: the agent's own name, else the node that holds its tools."""
    named = metadata.get("lc_agent_name")
    if named:
        return str(named)
    nodes = [part.split(":")[0] for part in str(metadata.get("langgraph_checkpoint_ns") or "").split("|")]
    return (nodes[-2] if len(nodes) > 1 else nodes[0]) or "agent"


def trace_of(metadata: Mapping[str, Any]) -> str:
    """Return the thread as the trace, else the surrounding trace, else ''."""
    return str(metadata.get("thread_id") or current_trace())


def destinations_of(output: Any) -> Iterator[tuple[str, Any]]:
    """Yield the nodes to which a `Command` goes, each with the state it gets; nothing for another output."""
    goto = getattr(output, "goto", None) or ()
    for one in goto if isinstance(goto, (list, tuple)) else [goto]:
        if isinstance(one, str):
            yield one, output.update
        elif hasattr(one, "node"):
            yield str(one.node), one.arg


def hand_back_of(output: Any) -> tuple[str, str] | None:
    """Return the supervisor to which a worker hands back, and the id of the call; None for another output."""
    last = messages_of(output)[-2:] if isinstance(output, dict) else ()
    if len(last) < 2 or not getattr(last[0], "tool_calls", None) or not last[0].response_metadata.get(HANDED_BACK):
        return None
    return text_of(last[0]).removeprefix("Transferring back to "), last[0].tool_calls[0]["id"]


def result_of(output: Any) -> Any:
    """Return the result of a tool, without the message or the command around it."""
    if hasattr(output, "update") and hasattr(output, "goto"):
        output = next(iter(reversed(messages_of(output.update))), output.update)
    return output.content if getattr(output, "type", "") == "tool" else output
