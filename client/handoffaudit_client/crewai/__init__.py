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

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured: work and questions that an agent delegates to a coworker, the results of tasks that a task of another
agent gets, and what other tools return. Agents are named by their roles. The trace is the surrounding
`with client.trace()`, else the run of the crew.

What the gate can do: it stops a delegation before it happens, and tells the LLM why; as the guardrail of a task, it
lets the agent do the task again with the reason; it waits for a person. What it can't do: end the run until a person
has decided, or stop what a task gets from another one without a guardrail.

Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.crewai.gate import HandoffGate

_HOMES = {"HandoffGate": "gate"}

__all__ = ["HandoffGate"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
