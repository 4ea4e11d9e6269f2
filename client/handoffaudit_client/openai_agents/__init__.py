"""Plug-in for the OpenAI Agents SDK: `HandoffProcessor` observes handoffs, `gated` can stop them.

    from agents import Agent, Runner, add_trace_processor
    from handoffaudit_client.openai_agents import HandoffProcessor, gated

    add_trace_processor(HandoffProcessor())
    writer = Agent(name="writer", instructions="Write the answer.")
    researcher = Agent(name="researcher", instructions="Find suppliers.", handoffs=[gated(writer)])
    writer.handoffs.append(gated(researcher))
    Runner.run_sync(researcher, "Who can deliver 40 chairs within a week?")

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured: each handoff between agents, with chat completions and with the Responses API, streamed or not; and
what function tools return. The data are the arguments that the LLM gives to the handoff (its `input_type`); a handoff
without them has the last text that the LLM said or got. The trace is the SDK's: set `RunConfig(trace_id=...)` for one
of your own. Without tracing, or with `trace_include_sensitive_data=False`, the processor sees less or nothing; the
gate works all the same.

What the gate can do: it runs before the handoff, and before its `on_handoff`. It waits for the verdict, and for a
person if the handoff is held. A handoff that is blocked leaves the work with its sender, whose LLM reads the reason
as the answer to its call, and may correct the handoff. What it can't do: pause the run and resume it later, because
the SDK has approvals for function tools only; `RunHooks.on_handoff` and the SDK's trace show a blocked handoff as one
from the sender to itself.

Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.openai_agents.gate import gated
    from handoffaudit_client.openai_agents.processor import HandoffProcessor

_HOMES = {"HandoffProcessor": "processor", "gated": "gate"}

__all__ = ["HandoffProcessor", "gated"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
