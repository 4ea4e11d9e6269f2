"""Callback for the handoffs and tools of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handoffaudit_client.langchain import commands, messages
from handoffaudit_client.langchain.nodes import NodeObserver
from handoffaudit_client.plugins import Memory

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from handoffaudit_client.plugins import AnyClient


class HandoffCallback(NodeObserver):
    """Send each handoff after it happened, and each tool result. The callback never stops or slows a graph.

    Give it in `config={"callbacks": [HandoffCallback()]}`. With `agents`, a `Command(goto=...)` counts only if it goes
    to one of these nodes. A handoff that a gate has submitted is not sent again, and a handoff that its tool refused is
    not sent. The result of a tool that itself asks an LLM is not captured, because the words of an LLM are not
    evidence.
    """

    def __init__(self, client: AnyClient | None = None, *, agents: Collection[str] | None = None) -> None:
        """Create a callback, which runs and threads may share. Raises `ValueError` for a wrong address or key."""
        super().__init__(client, agents=agents)
        self._tools: Memory[UUID, dict[str, Any]] = Memory()

    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Remember the agent and the arguments until the tool answers."""
        self.remember(run_id, parent_run_id)
        self._tools[run_id] = {
            "name": (serialized or {}).get("name") or more.get("name") or "tool",
            "call_id": str(more.get("tool_call_id") or run_id),
            "metadata": metadata or {},
            "arguments": inputs if inputs is not None else input_str,
        }

    def on_chat_model_start(
        self, serialized: Any, prompts: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **_: Any
    ) -> None:
        """Note the tools inside which an LLM is asked."""
        outer = parent_run_id
        while outer is not None:
            if (call := self._tools.get(outer)) is not None:
                call["asks_llm"] = True
            outer = self._parents.get(outer)

    on_llm_start = on_chat_model_start

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Send the handoff, or what the tool returned."""
        if (call := self._tools.pop(run_id)) is None:
            return
        metadata = call["metadata"]
        target = metadata.get(commands.DESTINATION)
        if not target:
            self._record(run_id, call, commands.result_of(output))
        elif getattr(output, "status", "") != "error":
            state = next((update for _, update in commands.destinations_of(output)), None)
            data, trace = messages.lift(call["arguments"], state), self.trace_of(metadata, run_id)
            self.hand_over(commands.source_of(metadata), str(target), data, trace, call["call_id"], state)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Capture how a tool failed.

        Nothing is captured for an interrupt, which is not a failure, or for a failed handoff, which did not happen.
        """
        call = self._tools.pop(run_id)
        is_control = any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)
        if call is not None and not is_control and commands.DESTINATION not in call["metadata"]:
            self._record(run_id, call, {"error": f"{type(error).__name__}: {error}"})

    def _record(self, run_id: UUID, call: dict[str, Any], result: Any) -> None:
        if not call.get("asks_llm"):
            self.client.tool_result(
                call["name"],
                result,
                call_id=call["call_id"],
                agent=commands.source_of(call["metadata"]),
                arguments=call["arguments"],
                trace=self.trace_of(call["metadata"], run_id),
            )
