"""Plug-in for Strands Agents: `HandoffHooks` observes the handoffs and tools of agents, and can stop handoffs.

`docs/connect-strands.md` has examples, settings and limits.
"""

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.strands.hooks import HandoffHooks

__all__ = ["HandoffHooks"]

__getattr__ = lazy(__name__, {"HandoffHooks": "hooks"})
