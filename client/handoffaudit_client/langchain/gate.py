"""Gate for the handoff tools of LangChain agents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware import AgentMiddleware
from langgraph.types import interrupt

from handoffaudit_client.langchain.questions import question_of, refuse
from handoffaudit_client.plugin_gate import PluginGate, show

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest

    from handoffaudit_client.plugins import AnyClient
    from handoffaudit_client.verdict import Verdict

    Policy = Literal["block", "interrupt", "observe"]

# A graph may be resumed a moment before the decision is stored.
_RESUME_SECONDS = 2.0

# LangGraph sets this key in the configuration of a run that goes on after an interrupt.
_RESUMING = "__pregel_resuming"


def handoff_gate(
    client: AnyClient | None = None,
    policy: Policy = "block",
    timeout: float = 300.0,
    *,
    declare_chain: bool = False,
    reason: str | None = None,
) -> HandoffGate:
    """Return a middleware for `create_agent(middleware=[handoff_gate()])`; see `HandoffGate`."""
    return HandoffGate(client, policy, timeout, declare_chain=declare_chain, reason=reason)


class HandoffGate(AgentMiddleware):
    """Ask for a verdict before a handoff tool runs. A blocked handoff is answered with the reasons, as a failed call.

    If the handoff is held, `policy="block"` waits at most `timeout` seconds for the decision of a person.
    `policy="interrupt"` interrupts the graph, which needs a checkpointer; the value of the interrupt has `handoff_id`,
    `source`, `target`, `state`, `why` and `url`. Resume with `Command(resume=True)`, or any other value: only the
    decision on the server counts, and without a decision the graph is interrupted again. `policy="observe"` sends the
    handoff and stops nothing. The gate does not touch tools that hand nothing over.

    With `declare_chain`, the handoff declares all agents that have worked since the last request of a person. The
    reason is the tool's argument `reason` or `handoff_reason`, else the text in which the LLM announces the call, else
    the gate's `reason`. Without `declare_chain`, only the arguments of the tool give the reason.

    A `ToolNode` takes the gate, too: `ToolNode(tools, wrap_tool_call=gate.wrap_tool_call)`; give the node to
    `create_supervisor(tools=...)`. Under asyncio, `policy="interrupt"` needs Python 3.11.
    """

    def __init__(
        self,
        client: AnyClient | None = None,
        policy: Policy = "block",
        timeout: float = 300.0,
        *,
        declare_chain: bool = False,
        reason: str | None = None,
    ) -> None:
        """Create a gate that agents may share. Raises `ValueError` for an unknown policy, or a wrong address or key."""
        super().__init__()
        self._gate = PluginGate(client, policy, timeout)
        self.client = self._gate.client
        self.declare_chain = declare_chain
        self.reason = reason

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run the tool, or return why it must not run."""
        if (question := question_of(request, declare_chain=self.declare_chain, reason=self.reason)) is None:
            return handler(request)
        verdict, pause = self._gate.ask(question), _RESUME_SECONDS
        while self._must_interrupt(request, verdict):
            interrupt(show(question, verdict))
            verdict, pause = verdict.wait(pause), 0.0
        return handler(request) if verdict else refuse(request, verdict)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run the tool, or return why it must not run. Other tasks go on while the gate waits."""
        if (question := question_of(request, declare_chain=self.declare_chain, reason=self.reason)) is None:
            return await handler(request)
        verdict, pause = await self._gate.ask_async(question), _RESUME_SECONDS
        while self._must_interrupt(request, verdict):
            interrupt(show(question, verdict))
            verdict, pause = await asyncio.to_thread(verdict.wait, pause), 0.0
        return await handler(request) if verdict else refuse(request, verdict)

    def _must_interrupt(self, request: ToolCallRequest, verdict: Verdict) -> bool:
        is_resumed = _RESUMING in request.runtime.config.get("configurable", {})
        return self._gate.must_interrupt(verdict, is_resumed=is_resumed)
