"""Run a team that waits in a handoff until a person decides, and write what it says as one line of JSON.

The address and the key of the server come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY.
"""

import asyncio
import json
import sys

from agents import Agent, Runner, set_trace_processors
from handoffaudit_client.openai_agents import HandoffProcessor, gated

from tests.frameworks.scripted import Say, openai_model

REASON = "The stock of Acme is missing, so the research has to go on."
SCRIPTS = {
    "triage": [Say("", "transfer_to_researcher")],
    "researcher": [
        Say("Acme delivers 60 chairs a week.", "transfer_to_writer"),
        Say("Acme has 60 chairs in stock: order there."),
    ],
    "writer": [Say("Which stock has Acme?", "transfer_to_researcher", {"reason": REASON})],
}


def main() -> None:
    processor = HandoffProcessor()
    # Without the network: the SDK's own processor would send the trace to OpenAI.
    set_trace_processors([processor])
    agents = {name: Agent(name=name, model=openai_model("chat", *script)) for name, script in SCRIPTS.items()}
    for agent in agents.values():
        agent.handoffs = [
            gated(other, declare_chain=True, timeout=240) for other in agents.values() if other is not agent
        ]
    result = asyncio.run(Runner.run(agents["triage"], "Who can deliver 40 chairs within a week?"))
    processor.client.close()
    found = {"said": result.final_output, "by": result.last_agent.name, "stats": processor.client.stats()}
    sys.stdout.write(json.dumps(found) + "\n")


main()
