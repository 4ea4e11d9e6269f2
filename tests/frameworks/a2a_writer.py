"""An A2A server with a writer, which a client of the same process talks to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Message, Part, Role, SendMessageRequest
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette

ADDRESS = "http://writer.test"


def card(*, streaming: bool = False) -> AgentCard:
    at = AgentInterface(url=f"{ADDRESS}/", protocol_binding="JSONRPC", protocol_version="1.0")
    return AgentCard(
        name="writer",
        description="Writes reports.",
        version="1",
        supported_interfaces=[at],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )


class WriterExecutor(AgentExecutor):
    """Completes each task; `told` has the texts of the messages."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.canceled: list[str] = []

    async def execute(self, context: Any, event_queue: Any) -> None:
        self.told.append(context.get_user_input())
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.complete(updater.new_agent_message([Part(text="Ordered.")]))

    async def cancel(self, context: Any, event_queue: Any) -> None:
        self.canceled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def application(executor: AgentExecutor, *, streaming: bool = False) -> Starlette:
    own = card(streaming=streaming)
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), own)
    rpc = create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)
    return Starlette(routes=[*create_agent_card_routes(own), *rpc, *create_rest_routes(handler)])


def message(
    text: str = "", *, task: str = "", trace: str = "order-17", sender: str = "triage", data: Any = None
) -> Message:
    made = Message(message_id=str(uuid4()), role=Role.ROLE_USER, task_id=task, context_id=trace)
    if text:
        made.parts.append(Part(text=text))
    if data is not None:
        part = Part()
        part.data.struct_value.update(data)
        made.parts.append(part)
    if sender:
        made.metadata.update({"from": sender})
    return made


@asynccontextmanager
async def http_of(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers={"A2A-Version": "1.0"}) as http:
        yield http


@asynccontextmanager
async def client_of(app: Any, *interceptors: Any, streaming: bool = False) -> AsyncIterator[Any]:
    """Yield a function that sends a message with the SDK's client, and returns the last task as JSON."""
    async with http_of(app) as http:
        config = ClientConfig(httpx_client=http, streaming=streaming)
        client = await create_client(card(streaming=streaming), config, interceptors=list(interceptors))

        async def send(sent: Message) -> dict[str, Any]:
            task: dict[str, Any] = {}
            async for event in client.send_message(SendMessageRequest(message=sent)):
                found = MessageToDict(event)
                task |= found.get("task", {})
                update = found.get("statusUpdate")
                if update:
                    task |= {"id": update["taskId"], "status": update["status"]}
            return task

        yield send
