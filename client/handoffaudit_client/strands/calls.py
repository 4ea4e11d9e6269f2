"""Reading of tool calls in Strands."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SWARM_TOOL = "handoff_to_agent"


def read_handoff(event: Any, arguments: Mapping[str, Any]) -> tuple[str | None, Any]:
    """Return the target and the data of a handoff; the target is None if the tool hands nothing over."""
    agent = getattr(event.selected_tool, "agent", None)
    if event.tool_use["name"] == _SWARM_TOOL and (target := arguments.get("agent_name")):
        message, context = arguments.get("message") or "", arguments.get("context")
        return str(target), {"message": message, "context": context} if context else message
    return (agent.name, arguments) if agent is not None else (None, {})


def read_result(result: Mapping[str, Any]) -> Any:
    """Return the result of a tool: its single text or JSON value, else a list of its texts and JSON values.

    The result of a failed call is an object with this value as `error`.
    """
    parts = [part.get("json", part.get("text")) for part in result["content"]]
    found = parts[0] if len(parts) == 1 else parts
    return found if result["status"] == "success" else {"error": found}


def is_resumed_call(event: Any, name: str) -> bool:
    """Return whether a call was interrupted under this name before, in this process or in another one."""
    state = getattr(event.agent, "_interrupt_state", None)
    # Strands has no public way to look for an interrupt without raising one.
    return state is not None and event._interrupt_id(f"{name} 0") in state.interrupts  # noqa: SLF001
