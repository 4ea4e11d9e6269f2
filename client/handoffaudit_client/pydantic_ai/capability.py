"""Capability for the handoffs and tools of an agent."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai import ApprovalRequired, CallDeferred, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import SkipToolExecution, ToolFailed, ToolRetryError

from handoffaudit_client.plugin_gate import PluginGate, show
from handoffaudit_client.plugins import reason_of
from handoffaudit_client.pydantic_ai.calls import question_of
from handoffaudit_client.traces import current_trace, scope_trace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pydantic_ai import RunContext, ToolCallPart, ToolDefinition

    from handoffaudit_client.plugins import AnyClient

# `_chain` has the agents whose tool calls enclose the current task, the outermost first. `_calls` has an entry for each
# of these calls: `runs_agent` says whether an agent runs inside the call.
_chain: ContextVar[tuple[str, ...]] = ContextVar("handoffaudit_chain", default=())
_calls: ContextVar[tuple[dict[str, bool], ...]] = ContextVar("handoffaudit_calls", default=())
# Exceptions that are neither a result nor a failure of a tool.
_CONTROL = (ApprovalRequired, CallDeferred, SkipToolExecution, ToolRetryError)


class HandoffCapability(AbstractCapability[Any]):
    """Send or gate the handoffs of an agent; give the capability to `Agent(capabilities=[...])`.

    `targets` names the target agent of each tool that hands over. A blocked handoff is answered with the reasons, as a
    failed call. If a handoff is held or has no verdict in time, `policy="block"` waits up to `timeout` seconds for a
    person. `policy="interrupt"` ends the run with `DeferredToolRequests`, which must be among the output types. For
    each call, its `metadata` has `handoff_id`, `source`, `target`, `state`, `why` and `url`. Resume with the message
    history and `requests.build_results(approve_all=True)`: only the decision on the server counts, and without a
    decision the run ends in the same way again. `policy="observe"` only sends.

    `type` is the handoff type. With `declare_chain`, the handoff declares all agents whose nested tool calls led to it.
    The reason is the argument `handoff_reason` or `reason` of the tool call, else the parameter `reason`. The results
    of the tools in `targets`, and of tools inside which an agent with this capability runs, are not captured.
    """

    def __init__(
        self,
        targets: Mapping[str, str] | None = None,
        client: AnyClient | None = None,
        policy: Literal["block", "interrupt", "observe"] = "block",
        timeout: float = 300.0,
        *,
        type: str | None = None,  # noqa: A002 (the word of the API)
        declare_chain: bool = False,
        reason: str | None = None,
    ) -> None:
        """Create a capability for agents. Raises `ValueError` for an unknown policy, or a wrong address or key."""
        self._gate = PluginGate(client, policy, timeout)
        self.client = self._gate.client
        self.targets = dict(targets or {})
        self.type = type
        self.declare_chain = declare_chain
        self.reason = reason

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Mark the tool calls inside which this agent runs."""
        for call in _calls.get():
            call["runs_agent"] = True

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Ask whether a handoff may happen, run the tool, and capture its result or its error.

        Raises `ApprovalRequired` if the run has to wait for a person, and `ToolFailed` for a blocked handoff.
        """
        source = (ctx.agent.name if ctx.agent else None) or "agent"
        trace = scope_trace() or ctx.conversation_id or current_trace()
        chain = _chain.get() if _chain.get()[-1:] == (source,) else (*_chain.get(), source)
        target = self.targets.get(call.tool_name)
        if target is not None:
            question = question_of(ctx, call, source, target, args, trace)
            declared = list(chain) if self.declare_chain else None
            question |= {"type": self.type, "call_chain": declared, "reason": reason_of(args, self.reason)}
            await self._ask(question, is_resumed=ctx.tool_call_approved)
        mark = {"runs_agent": target is not None}
        tokens = _chain.set(chain), _calls.set((*_calls.get(), mark))
        try:
            with self.client.trace(trace or None) as trace:
                result = await handler(args)
        except Exception as error:
            if not isinstance(error, _CONTROL):
                self._record(call, source, args, {"error": f"{type(error).__name__}: {error}"}, trace, mark)
            raise
        finally:
            _chain.reset(tokens[0])
            _calls.reset(tokens[1])
        self._record(call, source, args, result, trace, mark)
        return result

    async def _ask(self, question: dict[str, Any], *, is_resumed: bool) -> None:
        verdict = await self._gate.ask_async(question)
        if self._gate.must_interrupt(verdict, is_resumed=is_resumed):
            raise ApprovalRequired(metadata=show(question, verdict))
        if not verdict:
            raise ToolFailed(verdict.why)

    def _record(self, call: ToolCallPart, agent: str, args: Any, found: Any, trace: str, mark: dict[str, bool]) -> None:
        if not mark["runs_agent"]:
            found = found.return_value if isinstance(found, ToolReturn) else found
            known = {"call_id": call.tool_call_id, "agent": agent, "trace": trace}
            self.client.tool_result(call.tool_name, found, arguments=args, **known)
