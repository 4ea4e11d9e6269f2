"""Run assistants of Pydantic AI whose run ends for a held handoff.

Each line of the input resumes the run, and each line of the output is JSON. The address and the key of the server
come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY.
"""

import json
import sys
from uuid import uuid4

from handoffaudit_client.pydantic_ai import HandoffCapability
from pydantic_ai import Agent, DeferredToolRequests, ModelMessagesTypeAdapter

from tests.frameworks.scripted import Say, function_model


def main() -> None:
    gate = HandoffCapability({"ask_writer": "writer"}, policy="interrupt", type="purchase")
    writer = Agent(function_model(Say("40 chairs are ordered.")), name="writer", capabilities=[gate])
    script = [Say("", "ask_writer", {"task": "Order 40 chairs from Acme."}), Say("Done: 40 chairs are ordered.")]
    types = [str, DeferredToolRequests]
    triage = Agent(function_model(*script), name="triage", capabilities=[gate], output_type=types)

    @triage.tool_plain
    async def ask_writer(task: str) -> str:
        return (await writer.run(task)).output

    trace = f"order-{uuid4()}"
    # A chain of two agents is held.
    gate.client.send("desk", "triage", "Order 40 chairs.", trace=trace)
    result = triage.run_sync("Order 40 chairs.", conversation_id=trace)
    while isinstance(result.output, DeferredToolRequests):
        show(interrupted=next(iter(result.output.metadata.values())))
        if not sys.stdin.readline():
            return
        history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
        answers = result.output.build_results(approve_all=True)
        result = triage.run_sync(message_history=history, deferred_tool_results=answers)
    gate.client.close()
    show(said=result.output, stats=gate.client.stats())


def show(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


main()
