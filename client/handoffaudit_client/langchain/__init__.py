"""Plug-in for LangChain and LangGraph: `HandoffCallback` observes handoffs, `handoff_gate` can stop them.

    from handoffaudit_client.langchain import HandoffCallback, handoff_gate
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph_swarm import create_handoff_tool, create_swarm

    gate = handoff_gate()
    researcher = create_agent(model, [create_handoff_tool(agent_name="writer")], name="researcher", middleware=[gate])
    writer = create_agent(model, [create_handoff_tool(agent_name="researcher")], name="writer", middleware=[gate])
    swarm = create_swarm([researcher, writer], default_active_agent="researcher").compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "order-17"}, "callbacks": [HandoffCallback()]}
    swarm.invoke({"messages": [{"role": "user", "content": "Who can deliver 40 chairs?"}]}, config)

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured: handoff tools of langgraph-swarm and langgraph-supervisor, and tools of your own with the same
metadata `{"__handoff_destination": name}`; nodes that return `Command(goto=...)`; the supervisor's workers that hand
back; and what other tools return. The source is `lc_agent_name`, else the node of the agent. The data are the
arguments of the handoff tool; the default tools have none, so the data are then the last message that says something,
with the other fields of the state. The trace is the `thread_id`, else the surrounding `with client.trace()`, else the
run.

What the gate can do: it stops handoff tools before they run, tells the LLM why, and lets it correct the handoff; it
waits for a person (`policy="block"`), or interrupts the graph until one has decided (`policy="interrupt"`). What it
can't do: stop `Command(goto=...)` and workers that hand back, because no tool is called there; call `Client.gate` in
such a node.

Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.langchain.callback import HandoffCallback
    from handoffaudit_client.langchain.gate import HandoffGate, handoff_gate

_HOMES = {"HandoffCallback": "callback", "HandoffGate": "gate", "handoff_gate": "gate"}

__all__ = ["HandoffCallback", "HandoffGate", "handoff_gate"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
