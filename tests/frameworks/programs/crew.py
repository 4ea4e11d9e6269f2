"""Run a crew that waits in a delegation until a person decides, and write what it says as one line of JSON.

The address and the key of the server come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY.
"""

import json
import os
import sys

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false")

from crewai import Agent, Crew, Task
from handoffaudit_client.crewai import HandoffGate

from tests.frameworks.scripted import Say, crewai_model

WORK = {"coworker": "writer", "task": "Order 40 chairs from Acme.", "context": "Within a week."}
SCRIPTS = {
    "triage": [Say("", "delegate_work_to_coworker", WORK), Say("Done: 40 chairs are ordered.")],
    "writer": [Say("Ordered.")],
}


def main() -> None:
    gate = HandoffGate(type="purchase", timeout=240)
    agents = [
        Agent(
            role=role, goal="Order.", backstory="A buyer.", llm=crewai_model(*script), allow_delegation=role == "triage"
        )
        for role, script in SCRIPTS.items()
    ]
    task = Task(description="Order 40 chairs.", expected_output="An order.", agent=agents[0])
    with gate.client.trace():
        # A chain of two agents is held.
        gate.client.send("desk", "triage", "Order 40 chairs.")
        said = Crew(agents=agents, tasks=[task], verbose=False).kickoff().raw
    gate.client.close()
    sys.stdout.write("\n" + json.dumps({"said": said, "stats": gate.client.stats()}) + "\n")


main()
