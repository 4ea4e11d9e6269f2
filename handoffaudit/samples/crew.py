"""A crew of agents for `handoffaudit demo`: real agents of Pydantic AI whose models follow a script.

    HANDOFFAUDIT_URL=… HANDOFFAUDIT_KEY=… python crew.py [SECONDS BETWEEN TURNS]

The crew buys chairs in four runs: one is sound, one invents a price, one loops, and one waits for a person. The
script prints each handoff with its verdict. It needs only the packages `pydantic-ai-slim` and
`handoffaudit-client`.
"""

import asyncio
import sys
import uuid
from collections.abc import Callable
from typing import Any

from handoffaudit_client import Client
from handoffaudit_client.pydantic_ai import HandoffCapability
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

# A person has this time for the decision in the last run, in seconds.
DECISION_SECONDS = 3600.0

PRICES = "Acme Office, list of November: chair Linden 105.00 EUR, 60 in stock, delivery within 3 days."
OFFER = "Acme Office has 60 chairs in stock and delivers within 3 days. One chair costs 105.00 EUR."
INVENTED = "Acme Office has 60 chairs in stock and delivers within 3 days. One chair costs 89.50 EUR."
DRAFT = "We buy the chairs from Acme Office at 105.00 EUR each."
SHORTER = "Make the draft shorter, please."
DONE = "Done."


class Narrator(Client):
    """A client that prints each handoff with the verdict on it."""

    def gate(self, **question: Any) -> Any:
        verdict = super().gate(**question)
        route = f"{question['source']} → {question['target']}"
        say(f"     {route:<24} {verdict.state}")
        if verdict.state == "held":
            say(f"     Your turn: approve or decline it on {verdict.url}")
            verdict = verdict.wait(DECISION_SECONDS)
            say(f"     {route:<24} {verdict.state}")
        elif not verdict:
            finding = next((one for one in verdict.findings if one.is_error), None)
            say(f"       {finding.message if finding else verdict.why}")
        return verdict


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Crew:
    """Agents by name, each with a script: the texts that its model says and the tools that it calls, turn by turn.

    A turn is a text, which ends the run of the agent, or a call: a tuple of a name and arguments. The name is that of
    another agent or of the tool `read_prices`.
    """

    def __init__(self, client: Client, pace: float, scripts: dict[str, list[Any]], **options: Any) -> None:
        self._client = client
        self._pace = pace
        self._options = options
        self._agents = {name: self._make(name, iter(turns)) for name, turns in scripts.items()}
        for agent in self._agents.values():
            for name, other in self._agents.items():
                if other is not agent:
                    agent.tool_plain(name=f"ask_{name}")(self._tool_for(other))

    async def run(self, first: str, task: str) -> None:
        """Let the first agent work on the task; all handoffs are in one trace."""
        await self._agents[first].run(task, conversation_id=f"chairs-{uuid.uuid4().hex[:8]}")

    def _make(self, name: str, turns: Any) -> Agent[None, str]:
        async def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
            await asyncio.sleep(self._pace)
            turn = next(turns)
            if isinstance(turn, str):
                return ModelResponse(parts=[TextPart(turn)])
            called, arguments = turn
            tool = called if called == "read_prices" else f"ask_{called}"
            return ModelResponse(parts=[ToolCallPart(tool, arguments)])

        targets = {f"ask_{one}": one for one in ("researcher", "writer", "reviewer", "buyer")}
        gate = HandoffCapability(targets, self._client, timeout=DECISION_SECONDS, type="offer", **self._options)
        agent: Agent[None, str] = Agent(FunctionModel(answer), name=name, capabilities=[gate])
        agent.tool_plain(read_prices)
        return agent

    def _tool_for(self, other: Agent[None, str]) -> Callable[..., Any]:
        async def hand_over(task: str, reason: str = "") -> str:
            return (await other.run(task)).output

        return hand_over


def read_prices(item: str) -> str:
    """Return the offers of suppliers for an item."""
    return PRICES


SOUND = {
    "planner": [("researcher", {"task": "Find a supplier of 40 chairs."}), DONE],
    "researcher": [("read_prices", {"item": "chair"}), ("writer", {"task": OFFER}), DONE],
    "writer": [("reviewer", {"task": DRAFT}), DONE],
    "reviewer": ["The draft is right."],
}
INVENTS = {
    "planner": [("researcher", {"task": "Find a supplier of 40 chairs."}), DONE],
    "researcher": [
        ("read_prices", {"item": "chair"}),
        ("writer", {"task": INVENTED}),
        ("writer", {"task": OFFER}),
        DONE,
    ],
    "writer": ["The offer is written."],
}
LOOPS = {
    "planner": [("writer", {"task": "Write the order for 40 chairs from Acme Office."}), DONE],
    "writer": [("reviewer", {"task": DRAFT})] * 3 + ["The draft stays as it is."] * 3,
    "reviewer": [("writer", {"task": SHORTER})] * 2 + [DONE] * 2,
}
WAITS = {
    "planner": [("researcher", {"task": "Find a supplier of 40 chairs."}), DONE],
    "researcher": [
        ("read_prices", {"item": "chair"}),
        ("writer", {"task": OFFER}),
        "There are 60 chairs in stock.",
        DONE,
    ],
    "writer": [
        (
            "researcher",
            {"task": "Ask whether they are still in stock.", "reason": "The list is old."},
        ),
        "The order for 40 chairs is placed.",
    ],
}
RUNS: list[tuple[str, dict[str, list[Any]], dict[str, Any]]] = [
    ("A sound run: every figure is in the price list", SOUND, {}),
    ("A price that is in no source: the gate stops it, and the agent corrects it", INVENTS, {}),
    ("Two agents go round in circles: the gate ends it", LOOPS, {}),
    ("Work returns to an earlier agent, with a reason: a person decides", WAITS, {"declare_chain": True}),
]


async def main(pace: float) -> None:
    with Narrator() as client:
        for number, (title, scripts, options) in enumerate(RUNS, 1):
            say(f"\n  {number}  {title}")
            await Crew(client, pace, scripts, **options).run("planner", "Buy 40 chairs.")
            client.flush()
    say("\n  The crew has finished.")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if sys.argv[1:] else 1.5))
