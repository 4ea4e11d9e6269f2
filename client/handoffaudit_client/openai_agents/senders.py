"""Senders of handoffs, to which blocked handoffs return with the reason."""

from __future__ import annotations

import inspect
import weakref
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handoffaudit_client.identity import new_id
from handoffaudit_client.openai_agents.turns import BLOCKED

if TYPE_CHECKING:
    from agents import Handoff, HandoffInputData, RunContextWrapper


@dataclass
class Run:
    """The agent that works in a run, the agents that worked so far, and a trace id in case the SDK has none."""

    agent: Any = None
    agents: list[str] = field(default_factory=list)
    trace: str = field(default_factory=new_id)
    # The last handoff to each agent is the parent of the next handoff from this agent.
    handoffs: dict[str, str] = field(default_factory=dict)


# Runs by their contexts. A run is forgotten once nothing else refers to its context.
_runs: weakref.WeakKeyDictionary[Any, Run] = weakref.WeakKeyDictionary()

# Why the handoff of the current task was blocked; '' if it was not.
why: ContextVar[str] = ContextVar("handoffauditwhy", default="")


def run_of(context: RunContextWrapper[Any]) -> Run:
    found: Run = _runs.setdefault(context, Run())
    return found


def keep_sender(gate: Handoff[Any, Any], given: Handoff[Any, Any]) -> None:
    """Replace functions of `gate`, so that a blocked handoff returns to its sender with the reason.

    `gate` is a copy of the handoff `given`. In each turn, the SDK calls `is_enabled`, which notes the agent of the
    turn.
    """

    async def is_enabled(context: RunContextWrapper[Any], agent: Any) -> bool:
        run = run_of(context)
        run.agent = agent
        if run.agents[-1:] != [agent.name]:
            run.agents.append(agent.name)
        found = given.is_enabled(context, agent) if callable(given.is_enabled) else given.is_enabled
        return bool(await found if inspect.isawaitable(found) else found)

    def answer(agent: Any) -> str:
        return BLOCKED + why.get() if why.get() else given.get_transfer_message(agent)

    def filter_input(data: HandoffInputData) -> Any:
        # The sender of a blocked handoff continues with its whole input.
        return data if why.get() or given.input_filter is None else given.input_filter(data)

    gate.is_enabled = is_enabled
    gate.get_transfer_message = answer
    if given.input_filter is not None:
        gate.input_filter = filter_input
