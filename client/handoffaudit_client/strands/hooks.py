"""Hooks for the handoffs and tools of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, HookProvider

from handoffaudit_client.identity import new_id
from handoffaudit_client.plugin_gate import PluginGate, show
from handoffaudit_client.plugins import Memory, handoff_id_of, reason_of
from handoffaudit_client.strands.calls import is_resumed_call, read_handoff, read_result
from handoffaudit_client.traces import current_trace, scope_trace

if TYPE_CHECKING:
    from strands.hooks import HookRegistry

    from handoffaudit_client.plugins import AnyClient

# A run without a trace gets a new trace, under this key of the `invocation_state` that all its agents share.
_TRACE = "handoffaudit_trace"
_INTERRUPT = "handoffaudit"


class HandoffHooks(HookProvider):
    """Send or gate the handoffs of agents. Give the hooks to each agent: `Agent(hooks=[hooks])`.

    The call of a blocked handoff fails, and its answer says why. If the handoff is held, `policy="block"` waits at most
    `timeout` seconds for the decision of a person, while other tasks go on. `policy="interrupt"` interrupts the agent
    and its swarm; the `reason` of the interrupt has `handoff_id`, `source`, `target`, `state`, `why` and `url`. Resume
    with any response: only the decision on the server counts, and without a decision the swarm is interrupted again. To
    resume in another process, give the same `session_id` in the `invocation_state`. `policy="observe"` only sends.

    `type` is the handoff type. With `declare_chain`, the handoff declares the agents that had the work so far in its
    trace. The reason of a handoff is the argument `handoff_reason` or `reason` of the tool call, else the parameter
    `reason`.
    """

    def __init__(
        self,
        client: AnyClient | None = None,
        policy: Literal["block", "interrupt", "observe"] = "block",
        timeout: float = 300.0,
        *,
        type: str | None = None,  # noqa: A002 (the word of the API)
        declare_chain: bool = False,
        reason: str | None = None,
    ) -> None:
        """Create hooks that agents may share. Raises `ValueError` for an unknown policy, or a wrong address or key."""
        self._gate = PluginGate(client, policy, timeout)
        self.client = self._gate.client
        self.type = type
        self.declare_chain = declare_chain
        self.reason = reason
        self._traces: Memory[str, str] = Memory()
        self._chains: Memory[str, list[str]] = Memory()

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self._before_tool)
        registry.add_callback(AfterToolCallEvent, self._after_tool)

    async def _before_tool(self, event: BeforeToolCallEvent) -> None:
        if self._gate.policy == "observe" or (question := self._question(event)) is None:
            return
        verdict, number = await self._gate.ask_async(question), 0
        while self._gate.must_interrupt(verdict, is_resumed=is_resumed_call(event, _INTERRUPT)):
            # An answered interrupt returns immediately, so the next interrupt needs another name.
            event.interrupt(f"{_INTERRUPT} {number}", show(question, verdict))
            number += 1
        if not verdict:
            event.cancel_tool = verdict.why

    async def _after_tool(self, event: AfterToolCallEvent) -> None:
        if event.cancel_message is not None:
            return
        question = self._question(event)
        if question is None:
            self._record(event)
        elif event.result["status"] == "success":
            if self._gate.policy == "observe":
                await self._gate.ask_async(question)
            chain = self._chains.get(question["trace"]) or [question["source"]]
            self._chains[question["trace"]] = [*chain, question["target"]]

    def _question(self, event: BeforeToolCallEvent | AfterToolCallEvent) -> dict[str, Any] | None:
        """Return the parameters of `Client.gate` for a tool call, or None if the tool hands nothing over."""
        given, call_id = event.tool_use.get("input"), event.tool_use["toolUseId"]
        arguments: dict[str, Any] = given if isinstance(given, dict) else {}
        target, data = read_handoff(event, arguments)
        if target is None:
            return None
        source, trace = event.agent.name, self._trace_of(event)
        return {
            "source": source,
            "target": target,
            "data": data,
            "trace": trace,
            "handoff_id": handoff_id_of(trace, call_id),
            "type": self.type,
            "call_chain": (self._chains.get(trace) or [source]) if self.declare_chain else None,
            "reason": reason_of(arguments, self.reason),
        }

    def _trace_of(self, event: BeforeToolCallEvent | AfterToolCallEvent) -> str:
        """Return the trace of a call, which stays the same if the call is repeated after an interrupt."""
        call_id, state = event.tool_use["toolUseId"], event.invocation_state
        found = scope_trace() or state.get("session_id") or self._traces.get(call_id) or current_trace()
        trace = str(found or state.setdefault(_TRACE, new_id()))
        self._traces[call_id] = trace
        return trace

    def _record(self, event: AfterToolCallEvent) -> None:
        known = {"call_id": event.tool_use["toolUseId"], "agent": event.agent.name, "trace": self._trace_of(event)}
        name, arguments = event.tool_use["name"], event.tool_use.get("input")
        self.client.tool_result(name, read_result(event.result), arguments=arguments, **known)
