"""Plug-in for Google ADK: `HandoffPlugin` observes the handoffs and tools of an app, and can stop handoffs.

`docs/connect-google-adk.md` has examples, settings and limits.
"""

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.google_adk.plugin import HandoffPlugin

__all__ = ["HandoffPlugin"]

__getattr__ = lazy(__name__, {"HandoffPlugin": "plugin"})
