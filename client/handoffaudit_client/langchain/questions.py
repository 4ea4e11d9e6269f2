"""The question of a gate: which handoff a tool call asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage

from handoffaudit_client.identity import new_id
from handoffaudit_client.langchain import commands, messages
from handoffaudit_client.langchain.nodes import NodeObserver
from handoffaudit_client.plugins import handoff_id_of, reason_of

if TYPE_CHECKING:
    from langchain.agents.middleware import ToolCallRequest

    from handoffaudit_client.verdict import Verdict


def question_of(request: ToolCallRequest, *, declare_chain: bool, reason: str | None) -> dict[str, Any] | None:
    """Return the parameters of `Client.gate` for a tool call, or None if the tool is not a handoff tool.

    A call in a trace gives the same id in each process, so that a resumed graph asks about the handoff that was held.
    If the state was changed meanwhile, the server refuses the id, and the agent must hand over again. A call without a
    trace or without an id of its own gives a new id each time.
    """
    target = ((request.tool.metadata if request.tool else None) or {}).get(commands.DESTINATION)
    if not target:
        return None
    config, call = request.runtime.config, request.tool_call
    past = messages.messages_of(request.state)
    source, trace = commands.source_of(config.get("metadata") or {}), _trace_of(config)
    question: dict[str, Any] = {
        "source": source,
        "target": str(target),
        "data": messages.lift(call["args"], request.state),
        "trace": trace or None,
        "parent": messages.parent_of(past, trace, call["id"] or ""),
        "handoff_id": handoff_id_of(trace, call["id"]) if trace and call["id"] else new_id(),
        "reason": reason_of(call["args"], None),
    }
    if declare_chain:
        announced = messages.text_of(past[-1]) if past else ""
        question["call_chain"] = messages.chain_of(past, source)
        question["reason"] = question["reason"] or announced or reason
    return question


def _trace_of(config: Any) -> str:
    """Return the trace: that of a callback that observes the run, else the thread, else the surrounding trace."""
    manager = config.get("callbacks")
    run_id = getattr(manager, "parent_run_id", None)
    if run_id is not None:
        for handler in getattr(manager, "handlers", ()):
            if isinstance(handler, NodeObserver):
                return handler.trace_of(config.get("metadata") or {}, run_id)
    return commands.trace_of(config.get("metadata") or {})


def refuse(request: ToolCallRequest, verdict: Verdict) -> ToolMessage:
    """Return the answer to a call of a handoff tool that must not run."""
    call = request.tool_call
    return ToolMessage(content=verdict.why, name=call["name"], tool_call_id=call["id"], status="error")
