"""Plug-in for LangChain and LangGraph: `HandoffCallback` observes handoffs, `handoff_gate` can stop them.

`docs/connect-langgraph.md` has examples, settings and limits.
"""

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.langchain.callback import HandoffCallback
    from handoffaudit_client.langchain.gate import HandoffGate, handoff_gate

__all__ = ["HandoffCallback", "HandoffGate", "handoff_gate"]

__getattr__ = lazy(__name__, {"HandoffCallback": "callback", "HandoffGate": "gate", "handoff_gate": "gate"})
