"""Plug-in for the OpenAI Agents SDK: `HandoffProcessor` observes handoffs, `gated` can stop them.

    from agents import Agent, Runner, add_trace_processor
    from handoffaudit_client.openai_agents import HandoffProcessor, gated

    add_trace_processor(HandoffProcessor())
    writer = Agent(name="writer", instructions="Write the answer.")
    researcher = Agent(name="researcher", instructions="Find suppliers.", handoffs=[gated(writer)])
    writer.handoffs.append(gated(researcher))
    Runner.run_sync(researcher, "Who can deliver 40 chairs within a week?")

`docs/connect-openai-agents.md` names the settings and the limits of the plug-in.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.openai_agents.gate import gated
    from handoffaudit_client.openai_agents.processor import HandoffProcessor

__all__ = ["HandoffProcessor", "gated"]

__getattr__ = lazy(__name__, {"HandoffProcessor": "processor", "gated": "gate"})
