"""Trace processor for handoffs and function tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.tracing import TracingProcessor

from handoffaudit_client.openai_agents.turns import parse, read_turn, turns
from handoffaudit_client.plugins import Memory, client_of, gated

if TYPE_CHECKING:
    from agents.tracing import Span, Trace

    from handoffaudit_client.plugins import AnyClient


class HandoffProcessor(TracingProcessor):
    """Send each handoff after it happened, and each tool result. The processor never stops or slows a run.

    Give the processor to `agents.add_trace_processor`; `agents.set_trace_processors` would end the SDK's own export of
    traces. A handoff that a gate has submitted is not sent again. The result of a tool inside which another agent runs
    (`Agent.as_tool`) is not captured, because the words of an LLM are not evidence. At most 10,000 spans are remembered
    at a time.
    """

    def __init__(self, client: AnyClient | None = None) -> None:
        """Create a processor for all runs of the process. Raises `ValueError` for a wrong address or key."""
        self.client = client_of(client)
        self._parents: Memory[str, str] = Memory()
        self._agents: Memory[str, str] = Memory()
        self._asking: Memory[str, bool] = Memory()

    def on_trace_start(self, trace: Trace) -> None:
        """Do nothing."""

    on_trace_end = on_trace_start

    def on_span_start(self, span: Span[Any]) -> None:
        """Remember the agent of a span, and the spans inside which an agent runs."""
        if span.parent_id:
            self._parents[span.span_id] = span.parent_id
        if span.span_data.type == "agent":
            self._agents[span.span_id] = span.span_data.name
            outer = self._parents.get(span.span_id)
            while outer:
                self._asking[outer] = True
                outer = self._parents.get(outer)

    def on_span_end(self, span: Span[Any]) -> None:
        """Remember a turn of the LLM, or send a handoff or a tool result."""
        kind = span.span_data.type
        if kind in ("generation", "response") and span.parent_id:
            turns[span.parent_id] = read_turn(span.span_data)
        elif kind == "handoff":
            self._send(span)
        elif kind == "function":
            self._record(span)

    def force_flush(self) -> None:
        """Wait at most two seconds until everything is sent."""
        self.client.flush(2.0)

    shutdown = force_flush

    def _send(self, span: Span[Any]) -> None:
        source, target = span.span_data.from_agent, span.span_data.to_agent
        if not source or not target or source == target or span.span_id in gated:
            return
        turn = turns.get(span.parent_id or "")
        data = turn.data_for(target) if turn else {}
        self.client.send(source, target, data, trace=span.trace_id, handoff_id=span.span_id)

    def _record(self, span: Span[Any]) -> None:
        if self._asking.pop(span.span_id):
            return
        data, error = span.span_data, span.error
        self.client.tool_result(
            data.name,
            {"error": data.output or error["message"]} if error else data.output,
            call_id=span.span_id,
            agent=self._agent_of(span),
            arguments=parse(data.input or "") or data.input,
            trace=span.trace_id,
        )

    def _agent_of(self, span: Span[Any]) -> str | None:
        outer = span.parent_id
        while outer and outer not in self._agents:
            outer = self._parents.get(outer)
        return self._agents.get(outer or "")
