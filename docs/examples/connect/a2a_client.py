import asyncio

from a2a.client import create_client
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest
from handoffaudit_client.a2a import HandoffInterceptor


async def main() -> None:
    gate = HandoffInterceptor("triage")
    client = await create_client("http://127.0.0.1:9999", interceptors=[gate])
    message = new_text_message("Order 40 chairs.", role=Role.ROLE_USER)
    async for event in client.send_message(SendMessageRequest(message=message)):
        print(event)


asyncio.run(main())
