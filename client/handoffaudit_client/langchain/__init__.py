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

`docs/connect-langgraph.md` names the settings and limits of the plug-in.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.langchain.callback import HandoffCallback
    from handoffaudit_client.langchain.gate import HandoffGate, handoff_gate

__all__ = ["HandoffCallback", "HandoffGate", "handoff_gate"]

__getattr__ = lazy(__name__, {"HandoffCallback": "callback", "HandoffGate": "gate", "handoff_gate": "gate"})
