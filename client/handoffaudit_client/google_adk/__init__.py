"""Plug-in for Google ADK: `HandoffPlugin` observes the handoffs and tools of a runner, and can stop handoffs.

    from google.adk import Agent
    from google.adk.runners import InMemoryRunner
    from handoffaudit_client.google_adk import HandoffPlugin

    writer = Agent(name="writer", model=model, description="Writes reports.")
    researcher = Agent(name="researcher", model=model, sub_agents=[writer])
    runner = InMemoryRunner(researcher, app_name="orders", plugins=[HandoffPlugin()])

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured: transfers (`transfer_to_agent`), agents that are called as tools (`AgentTool`), and what other tools
return. The source is the agent that calls. The data are the arguments of an `AgentTool`; a transfer has none, so the
data are then the last text and the changes of the state since the transfer before. The trace is the surrounding
`with client.trace()`, else the id of the session.

What the gate can do: it stops a transfer or an `AgentTool` before it runs, tells the LLM why, and waits for a person.
What it can't do: end the run until a person has decided; stop workflow agents, which run their sub-agents without a
tool, or a transfer that a callback or another tool sets.

Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.google_adk.plugin import HandoffPlugin

_HOMES = {"HandoffPlugin": "plugin"}

__all__ = ["HandoffPlugin"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
