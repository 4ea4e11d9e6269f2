"""Plug-in for Pydantic AI: `HandoffCapability` observes the handoffs and tools of an agent, and can stop handoffs.

`docs/connect-pydantic-ai.md` has examples, settings and limits.
"""

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.pydantic_ai.capability import HandoffCapability

__all__ = ["HandoffCapability"]

__getattr__ = lazy(__name__, {"HandoffCapability": "capability"})
