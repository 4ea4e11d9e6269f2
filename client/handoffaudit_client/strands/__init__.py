"""Plug-in for Strands Agents: `HandoffHooks` observes the handoffs and tools of agents, and can stop handoffs.

    from handoffaudit_client.strands import HandoffHooks
    from strands import Agent
    from strands.multiagent import Swarm

    hooks = HandoffHooks()
    researcher = Agent(name="researcher", model=model, hooks=[hooks])
    writer = Agent(name="writer", model=model, hooks=[hooks])
    swarm = Swarm([researcher, writer], entry_point=researcher)

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured: the swarm's tool `handoff_to_agent`, agents that are given as tools, and what other tools return. The
source is the name of the agent. The data are the message and the context of the handoff. The trace is the surrounding
`with client.trace()`, else `session_id` in the `invocation_state`, else the run.

What the gate can do: it stops a handoff before the tool runs, and tells the LLM why; it waits for a person
(`policy="block"`), or interrupts the swarm until one has decided (`policy="interrupt"`). What it can't do: stop the
edges of a `Graph`, where no agent decides.

Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.strands.hooks import HandoffHooks

_HOMES = {"HandoffHooks": "hooks"}

__all__ = ["HandoffHooks"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
