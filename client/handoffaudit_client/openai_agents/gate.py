"""Gate for handoffs of the OpenAI Agents SDK."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal

from agents import Handoff, UserError, handoff
from agents.tracing import get_current_span

from handoffaudit_client.identity import new_id
from handoffaudit_client.openai_agents.senders import keep_sender, run_of, why
from handoffaudit_client.openai_agents.turns import last_text, parse, turns
from handoffaudit_client.plugin_gate import PluginGate
from handoffaudit_client.plugins import reason_of
from handoffaudit_client.traces import current_trace

if TYPE_CHECKING:
    from agents import Agent, RunContextWrapper

    from handoffaudit_client.openai_agents.senders import Run
    from handoffaudit_client.plugins import AnyClient


def gated(
    target: Agent[Any] | Handoff[Any, Any],
    client: AnyClient | None = None,
    policy: Literal["block", "observe"] = "block",
    timeout: float = 300.0,
    *,
    declare_chain: bool = False,
    reason: str | None = None,
) -> Handoff[Any, Any]:
    """Return a handoff that asks for a verdict first; give it to `Agent(handoffs=[gated(writer)])`.

    With `policy="block"`, a blocked handoff returns to its sender, and the LLM of the sender reads why. A held handoff
    first waits at most `timeout` seconds for the decision of a person. `policy="observe"` sends the handoff and stops
    nothing.

    With `declare_chain`, the handoff declares all agents of the run so far; otherwise, the server derives the chain.
    The reason is the argument `handoff_reason` or `reason` of the handoff, else the parameter `reason`. Raises
    `ValueError` for an unknown policy, or a wrong address or key.
    """
    if policy not in ("block", "observe"):
        raise ValueError(f'policy is {policy!r}: give "block" or "observe"; the SDK can interrupt no handoff')
    given = target if isinstance(target, Handoff) else handoff(target)
    judge = PluginGate(client, policy, timeout)

    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Any:
        run = run_of(context)
        question = _question(given.agent_name, run, context, arguments, reason)
        if declare_chain:
            question["call_chain"] = list(run.agents) or [question["source"]]
        verdict = await judge.ask_async(question)
        if verdict:
            why.set("")
            run.handoffs[given.agent_name] = question["handoff_id"]
            return await given.on_invoke_handoff(context, arguments)
        if run.agent is None:
            raise UserError(verdict.why)
        why.set(verdict.why)
        return run.agent

    gate = copy.copy(given)
    gate.on_invoke_handoff = invoke
    keep_sender(gate, given)
    return gate


def _question(
    target: str, run: Run, context: RunContextWrapper[Any], arguments: str, reason: str | None
) -> dict[str, Any]:
    span = get_current_span()
    is_traced = span is not None and span.parent_id is not None
    turn = turns.get(span.parent_id or "") if span is not None and is_traced else None
    given = parse(arguments)
    source = run.agent.name if run.agent is not None else "agent"
    return {
        "source": source,
        "target": target,
        "parent": run.handoffs.get(source),
        "data": given or (turn.text if turn else "") or last_text(context.turn_input) or {},
        "trace": span.trace_id if span is not None and is_traced else current_trace() or run.trace,
        # `HandoffProcessor` recognises a gated handoff by the id of the span, and does not send it again.
        "handoff_id": span.span_id if span is not None and is_traced else new_id(),
        "reason": reason_of(given, reason),
    }
