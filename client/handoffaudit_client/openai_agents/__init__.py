"""Plug-in for the OpenAI Agents SDK: `HandoffProcessor` observes handoffs, `gated` can stop them.

    from agents import Agent, Runner, add_trace_processor
    from handoffaudit_client.openai_agents import HandoffProcessor, gated

    add_trace_processor(HandoffProcessor())
    writer = Agent(name="writer", instructions="Write the answer.")
    researcher = Agent(name="researcher", instructions="Find suppliers.", handoffs=[gated(writer)])
    writer.handoffs.append(gated(researcher))
    Runner.run_sync(researcher, "Who can deliver 40 chairs within a week?")

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured, and what the gate can and cannot do, is on the page `docs/connect-openai-agents.md`.
Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.openai_agents.gate import gated
    from handoffaudit_client.openai_agents.processor import HandoffProcessor

__all__ = ["HandoffProcessor", "gated"]

__getattr__ = lazy(__name__, {"HandoffProcessor": "processor", "gated": "gate"})
