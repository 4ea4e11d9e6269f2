from uuid import uuid4

from handoffaudit_client.langchain import HandoffCallback, handoff_gate
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm

# `model` is your chat model, such as ChatOpenAI(model="gpt-5-mini").
gate = handoff_gate()
to_writer = create_handoff_tool(agent_name="writer")
researcher = create_agent(model, [to_writer], name="researcher", middleware=[gate])
writer = create_agent(model, [], name="writer", middleware=[gate])
swarm = create_swarm([researcher, writer], default_active_agent="researcher")
app = swarm.compile(checkpointer=InMemorySaver())
app.invoke(
    {"messages": [("user", "Find three suppliers, then let the writer report.")]},
    {"configurable": {"thread_id": str(uuid4())}, "callbacks": [HandoffCallback()]},
)
