"""Run a swarm of Strands Agents that is interrupted for a held handoff.

Each line of the input resumes the swarm, and each line of the output is JSON. The address and the key of the server
come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY.
"""

import json
import sys
from uuid import uuid4

from handoffaudit_client.strands import HandoffHooks
from strands import Agent
from strands.multiagent import Swarm

from tests.frameworks.scripted import Say, strands_model

HAND_OVER = {"agent_name": "writer", "message": "Order 40 chairs from Acme."}
SCRIPTS = {
    "triage": [Say("", "handoff_to_agent", HAND_OVER), Say("Handed over.")],
    "writer": [Say("Done: 40 chairs are ordered.")],
}


def main() -> None:
    hooks = HandoffHooks(policy="interrupt", type="purchase")
    agents = [
        Agent(name=name, model=strands_model(*script), hooks=[hooks], callback_handler=None)
        for name, script in SCRIPTS.items()
    ]
    swarm, state = Swarm(agents), {"session_id": f"order-{uuid4()}"}
    # A chain of two agents is held.
    hooks.client.send("desk", "triage", "Order 40 chairs.", trace=state["session_id"])
    result = swarm("Order 40 chairs.", state)
    while result.interrupts:
        show(interrupted=result.interrupts[-1].reason)
        if not (line := sys.stdin.readline()):
            return
        answer = {"response": line}
        result = swarm([{"interruptResponse": {"interruptId": one.id, **answer}} for one in result.interrupts], state)
    hooks.client.close()
    show(said=str(result.results["writer"].result).strip(), stats=hooks.client.stats())


def show(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


main()
