"""Observer of graph nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler

from handoffaudit_client.langchain import commands, messages
from handoffaudit_client.plugins import Memory, client_of, gated, handoff_id_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from handoffaudit_client.plugins import AnyClient

_END = "__end__"


class NodeObserver(BaseCallbackHandler):
    """Send the handoffs by `Command(goto=...)`, and the handoffs from workers back to supervisors.

    `HandoffCallback` also sends the handoffs by tools.
    """

    # Sending takes microseconds, less than a switch to another thread.
    run_inline = True

    def __init__(self, client: AnyClient | None = None, *, agents: Collection[str] | None = None) -> None:
        """Create an observer; see `HandoffCallback`."""
        self.client = client_of(client)
        self.agents = agents
        self._parents: Memory[UUID, UUID] = Memory()
        self._nodes: Memory[UUID, tuple[str, str, Any]] = Memory()

    def trace_of(self, metadata: dict[str, Any], run_id: UUID) -> str:
        """Return the trace: the LangGraph thread, else the surrounding trace, else the outermost known run."""
        found = commands.trace_of(metadata)
        while not found and (parent := self._parents.get(run_id)) is not None:
            run_id = parent
        return found or str(run_id)

    def remember(self, run_id: UUID, parent_run_id: UUID | None) -> None:
        if parent_run_id is not None:
            self._parents[run_id] = parent_run_id

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Remember the state that a node starts with."""
        self.remember(run_id, parent_run_id)
        node = (metadata or {}).get("langgraph_node")
        if node and more.get("name") == node:
            self._nodes[run_id] = node, self.trace_of(metadata or {}, run_id), inputs

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Send the handoff if a node goes to another one, or if a worker hands back to its supervisor."""
        if (node := self._nodes.pop(run_id)) is None:
            return
        name, trace, inputs = node
        # Several `Send`s of a command may go to the same node.
        number = 0
        for command in outputs if isinstance(outputs, list) else [outputs]:
            for target, update in commands.destinations_of(command):
                number += 1
                if target not in (name, _END) and (self.agents is None or target in self.agents):
                    data = messages.lift(None, update or inputs)
                    self.hand_over(name, target, data, trace, f"{run_id} {number}", inputs)
        if (back := commands.hand_back_of(outputs)) is not None:
            target, call_id = back
            self.hand_over(name, target, messages.lift(None, outputs), trace, call_id, inputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Forget a node that failed, was interrupted, or left its graph."""
        self._nodes.pop(run_id)

    def hand_over(self, source: str, target: str, data: Any, trace: str, call_id: str, state: Any) -> None:
        """Send a handoff, unless a gate has submitted it."""
        handoff_id = handoff_id_of(trace, call_id)
        if handoff_id not in gated:
            self.client.send(
                source,
                target,
                data,
                trace=trace,
                parent=messages.parent_of(messages.messages_of(state), trace, call_id),
                handoff_id=handoff_id,
            )
