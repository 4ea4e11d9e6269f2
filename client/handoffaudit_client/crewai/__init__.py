"""Plug-in for CrewAI: `HandoffGate` observes the handoffs and tools of all crews, and can stop handoffs.

    from crewai import Agent, Crew, Task
    from handoffaudit_client.crewai import HandoffGate

    gate = HandoffGate()
    to_writer = gate.guardrail("writer")
    researcher = Agent(role="researcher", goal="Find suppliers.", backstory="A buyer.", llm=model)
    writer = Agent(role="writer", goal="Write reports.", backstory="A writer.", llm=model)
    find = Task(description="Find suppliers.", expected_output="Names.", agent=researcher, guardrail=to_writer)
    report = Task(description="Write a report.", expected_output="A report.", agent=writer, context=[find])
    print(Crew(agents=[researcher, writer], tasks=[find, report]).kickoff())

`docs/connect-crewai.md` names its settings and limits.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.crewai.gate import HandoffGate

__all__ = ["HandoffGate"]

__getattr__ = lazy(__name__, {"HandoffGate": "gate"})
