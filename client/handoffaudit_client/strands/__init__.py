"""Plug-in for Strands Agents: `HandoffHooks` observes the handoffs and tools of agents, and can stop handoffs.

    from handoffaudit_client.strands import HandoffHooks
    from strands import Agent
    from strands.multiagent import Swarm

    hooks = HandoffHooks()
    researcher = Agent(name="researcher", model=model, hooks=[hooks])
    writer = Agent(name="writer", model=model, hooks=[hooks])
    swarm = Swarm([researcher, writer], entry_point=researcher)

`docs/connect-strands.md` names the settings and limits of the plug-in.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.strands.hooks import HandoffHooks

__all__ = ["HandoffHooks"]

__getattr__ = lazy(__name__, {"HandoffHooks": "hooks"})
