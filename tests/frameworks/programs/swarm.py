"""Run a swarm that is interrupted for a held handoff.

Each line of the input resumes the swarm, and each line of the output is JSON. The address and the key of the server
come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY.
"""

import json
import sys
from uuid import uuid4

from handoffaudit_client.langchain import HandoffCallback, handoff_gate
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langgraph_swarm import create_handoff_tool, create_swarm

from tests.frameworks.scripted import Say, chat_model

SCRIPTS = {
    "triage": [Say("Find suppliers of 40 chairs.", "transfer_to_researcher")],
    "researcher": [
        Say("Acme delivers 60 chairs a week.", "transfer_to_writer"),
        Say("Acme has 60 chairs in stock: order there."),
    ],
    "writer": [Say("The stock of Acme is missing, so the research has to go on.", "transfer_to_researcher")],
}


def main() -> None:
    callback = HandoffCallback()
    gate = handoff_gate(policy="interrupt", declare_chain=True)
    agents = [
        create_agent(
            chat_model(*script),
            [create_handoff_tool(agent_name=other) for other in SCRIPTS if other != name],
            name=name,
            middleware=[gate],
        )
        for name, script in SCRIPTS.items()
    ]
    swarm = create_swarm(agents, default_active_agent="triage").compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": f"order-{uuid4()}"}, "callbacks": [callback]}
    result = swarm.invoke({"messages": [("user", "Who can deliver 40 chairs within a week?")]}, config)
    show(interrupted=result["__interrupt__"][0].value)
    for line in sys.stdin:
        result = swarm.invoke(Command(resume=line.strip()), config)
        if "__interrupt__" not in result:
            break
        show(interrupted=result["__interrupt__"][0].value)
    callback.client.close()
    show(said=result["messages"][-1].text, stats=callback.client.stats())


def show(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


main()
