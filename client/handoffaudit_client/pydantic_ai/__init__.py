"""Plug-in for Pydantic AI: `HandoffCapability` observes the handoffs and tools of an agent, and can stop handoffs.

    from handoffaudit_client.pydantic_ai import HandoffCapability
    from pydantic_ai import Agent

    writer = Agent(model, name="writer", capabilities=[HandoffCapability()])
    researcher = Agent(model, name="researcher", capabilities=[HandoffCapability({"ask_writer": "writer"})])

    @researcher.tool_plain
    async def ask_writer(task: str) -> str:
        return (await writer.run(task)).output

    print(researcher.run_sync("Who can deliver 40 chairs?").output)

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured: calls of the tools that are named with their target agents, and what other tools return. The source
is the name of the agent. The data are the arguments of the tool; if it has none, the last text that the agent said or
got. The trace is the surrounding `with client.trace()`, else the `conversation_id`; agents that a tool runs are in its
trace.

What the gate can do: it stops a handoff before the tool runs, and tells the LLM why; it waits for a person
(`policy="block"`), or ends the run with `DeferredToolRequests` until one has decided (`policy="interrupt"`). What it
can't do: stop an agent that your program runs by itself, between runs or in an output function; call `Client.gate`
there.

Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.pydantic_ai.capability import HandoffCapability

_HOMES = {"HandoffCapability": "capability"}

__all__ = ["HandoffCapability"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
