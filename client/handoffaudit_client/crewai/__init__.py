"""Plug-in for CrewAI: `HandoffGate` observes the handoffs and tools of all crews, and can stop handoffs.

`docs/connect-crewai.md` has examples, settings and limits.
"""

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.crewai.gate import HandoffGate

__all__ = ["HandoffGate"]

__getattr__ = lazy(__name__, {"HandoffGate": "gate"})
