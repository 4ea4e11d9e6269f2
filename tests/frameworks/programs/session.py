"""Run agents of Google ADK that wait in a handoff until a person decides, and write what they say as one line of JSON.

The address and the key of the server come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY.
"""

import asyncio
import json
import sys
from uuid import uuid4

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from handoffaudit_client.google_adk import HandoffPlugin

from tests.frameworks.scripted import Say, adk_model

TRANSFER = Say("Order 40 chairs from Acme.", "transfer_to_agent", {"agent_name": "writer"})


async def main() -> None:
    plugin = HandoffPlugin(type="purchase", timeout=240)
    trace = f"order-{uuid4()}"
    # A chain of two agents is held.
    plugin.client.send("desk", "triage", "Order 40 chairs.", trace=trace)
    writer = Agent(name="writer", model=adk_model(Say("Done: 40 chairs are ordered.")), description="Orders.")
    triage = Agent(name="triage", model=adk_model(TRANSFER), sub_agents=[writer])
    runner = InMemoryRunner(triage, app_name="orders", plugins=[plugin])
    events = await runner.run_debug("Order 40 chairs.", session_id=trace, quiet=True)
    plugin.client.close()
    found = {"said": events[-1].content.parts[0].text, "stats": plugin.client.stats()}
    sys.stdout.write(json.dumps(found) + "\n")


asyncio.run(main())
