"""Send a message to an A2A server whose handoff is held, and go on in the same task.

Each line of the input sends a further message, and each line of the output is JSON. The address and the key of the
server come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY.
"""

import asyncio
import json
import sys
from uuid import uuid4

from handoffaudit_client.a2a import GatedExecutor

from tests.frameworks.a2a_writer import WriterExecutor, application, client_of, message


async def main() -> None:
    writer = WriterExecutor()
    executor = GatedExecutor(writer, "writer", type="purchase")
    trace = f"order-{uuid4()}"
    # A chain of two agents is held.
    executor.client.send("desk", "triage", "Order 40 chairs.", trace=trace)
    async with client_of(application(executor)) as send:
        task = first = await send(message("Order 40 chairs from Acme.", trace=trace))
        while task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
            show(interrupted=task["status"]["message"]["metadata"]["handoffaudit"])
            if not await asyncio.to_thread(sys.stdin.readline):
                return
            task = await send(message("Go on.", task=first["id"], trace=trace))
    assert (task["id"], writer.told) == (first["id"], ["Order 40 chairs from Acme."])
    executor.client.close()
    show(said="Done: 40 chairs are ordered.", stats=executor.client.stats())


def show(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


asyncio.run(main())
