"""Plug-in for the OpenAI Agents SDK: `HandoffProcessor` observes handoffs, `gated` can stop them.

`docs/connect-openai-agents.md` has examples, settings and limits.
"""

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.openai_agents.gate import gated
    from handoffaudit_client.openai_agents.processor import HandoffProcessor

__all__ = ["HandoffProcessor", "gated"]

__getattr__ = lazy(__name__, {"HandoffProcessor": "processor", "gated": "gate"})
