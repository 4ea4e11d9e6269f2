"""Plug-in for the handoffs and tools of an app."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from google.adk.plugins import BasePlugin
from google.adk.tools.agent_tool import AgentTool

from handoffaudit_client.google_adk.sessions import chain_of, lift
from handoffaudit_client.plugin_gate import PluginGate
from handoffaudit_client.plugins import gated, handoff_id_of, reason_of
from handoffaudit_client.traces import scope_trace

if TYPE_CHECKING:
    from handoffaudit_client.plugins import AnyClient

_TRANSFER = "transfer_to_agent"


class HandoffPlugin(BasePlugin):
    """Send or gate the transfers of all agents of an app; give the plug-in to `App(plugins=[HandoffPlugin()])`.

    A blocked handoff is answered with `{"error": why}`. If the handoff is held, `policy="block"` waits at most
    `timeout` seconds for the decision of a person, while other runs go on. `policy="observe"` only sends. With both
    policies, a transfer that a callback or a tool of your own sets is sent after it happened, and is not stopped.

    `type` is the handoff type. With `declare_chain`, the handoff declares all agents that have worked in the session.
    The reason is the first of `transfer_reason`, `handoff_reason` and `reason` among the arguments of the call, else
    the parameter `reason`. The result of an `AgentTool` is not captured, because the words of an LLM are not
    evidence.
    """

    def __init__(
        self,
        client: AnyClient | None = None,
        policy: Literal["block", "observe"] = "block",
        timeout: float = 300.0,
        *,
        type: str | None = None,  # noqa: A002 (the word of the API)
        declare_chain: bool = False,
        reason: str | None = None,
    ) -> None:
        """Create a plug-in for apps. Raises `ValueError` for an unknown policy, or a wrong address or key."""
        super().__init__("handoffaudit")
        self._gate = PluginGate(client, policy, timeout, ("block", "observe"))
        self.client = self._gate.client
        self.type = type
        self.declare_chain = declare_chain
        self.reason = reason

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        """Ask whether a handoff may happen; a dict is the answer to the LLM, and None lets the tool run."""
        target, data = _handoff_of(tool, tool_args, tool_context.session)
        if target is None:
            return None
        question = self._question(tool_context.session, tool_context.agent_name, target, data, tool_args)
        question["handoff_id"] = handoff_id_of(question["trace"], tool_context.function_call_id or "")
        verdict = await self._gate.ask_async(question)
        return None if verdict else {"error": verdict.why}

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        """Send a transfer, unless its tool call has already submitted it to the gate."""
        if target := event.actions.transfer_to_agent:
            session, calls = invocation_context.session, event.get_function_responses()
            question = self._question(session, event.author, target, lift(session), {})
            call_id = next((call.id for call in calls if call.name == _TRANSFER), None) or event.id
            question["handoff_id"] = handoff_id_of(question["trace"], call_id)
            if question["handoff_id"] not in gated:
                self.client.send(**question)

    async def after_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any) -> Any:
        """Capture what a tool returned."""
        self._record(tool, tool_args, tool_context, result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> Any:
        """Capture how a tool failed."""
        if not isinstance(error, asyncio.CancelledError):
            self._record(tool, tool_args, tool_context, {"error": f"{type(error).__name__}: {error}"})

    def _question(self, session: Any, source: str, target: str, data: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        reason = arguments.get("transfer_reason")
        return {
            "source": source,
            "target": target,
            "data": data,
            "trace": scope_trace() or session.id,
            "type": self.type,
            "call_chain": chain_of(session, source) if self.declare_chain else None,
            "reason": reason_of({"reason": reason} if reason else arguments, self.reason),
        }

    def _record(self, tool: Any, arguments: dict[str, Any], context: Any, result: Any) -> None:
        if _handoff_of(tool, arguments, None)[0] is None:
            known = {"call_id": context.function_call_id, "agent": context.agent_name}
            trace = scope_trace() or context.session.id
            self.client.tool_result(tool.name, result, arguments=arguments, trace=trace, **known)


def _handoff_of(tool: Any, arguments: dict[str, Any], session: Any) -> tuple[str | None, Any]:
    """Return the target and the data of a handoff; the target is None if the tool hands nothing over."""
    if isinstance(tool, AgentTool):
        return tool.agent.name, arguments
    if tool.name == _TRANSFER and (target := arguments.get("agent_name")):
        return str(target), lift(session) if session is not None else {}
    return None, {}
