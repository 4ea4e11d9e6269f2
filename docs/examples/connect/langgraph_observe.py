from uuid import uuid4

from handoffaudit_client.langchain import HandoffCallback
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import Command


def researcher(state: MessagesState) -> Command:
    found = {"messages": [("ai", "Three suppliers deliver within a week.")]}
    return Command(goto="writer", update=found)


def writer(state: MessagesState) -> dict:
    return {"messages": [("ai", "We can order today.")]}


graph = StateGraph(MessagesState).add_node(writer).set_entry_point("researcher")
app = graph.add_node(researcher, destinations=("writer",)).compile()
app.invoke(
    {"messages": [("user", "Who delivers within a week?")]},
    {"configurable": {"thread_id": str(uuid4())}, "callbacks": [HandoffCallback()]},
)
