"""Plug-in for Pydantic AI: `HandoffCapability` observes the handoffs and tools of an agent, and can stop handoffs.

    from handoffaudit_client.pydantic_ai import HandoffCapability
    from pydantic_ai import Agent

    writer = Agent(model, name="writer", capabilities=[HandoffCapability()])
    researcher = Agent(model, name="researcher", capabilities=[HandoffCapability({"ask_writer": "writer"})])

    @researcher.tool_plain
    async def ask_writer(task: str) -> str:
        return (await writer.run(task)).output

    print(researcher.run_sync("Who can deliver 40 chairs?").output)

`docs/connect-pydantic-ai.md` names its settings and limits.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.pydantic_ai.capability import HandoffCapability

__all__ = ["HandoffCapability"]

__getattr__ = lazy(__name__, {"HandoffCapability": "capability"})
