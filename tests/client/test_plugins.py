"""Tests of the packages of the plug-ins where no framework is installed."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from handoffaudit_client import Client
from handoffaudit_client.a2a.middleware import HandoffMiddleware
from handoffaudit_client.langchain.messages import lift
from handoffaudit_client.plugins import reason_of
from handoffaudit_client.testing import FakeServer

from tests.client.conftest import FOLDER

PACKAGES = {
    "a2a": ["GatedExecutor", "HandoffInterceptor", "HandoffMiddleware"],
    "crewai": ["HandoffGate"],
    "google_adk": ["HandoffPlugin"],
    "langchain": ["HandoffCallback", "HandoffGate", "handoff_gate"],
    "openai_agents": ["HandoffProcessor", "gated"],
    "pydantic_ai": ["HandoffCapability"],
    "strands": ["HandoffHooks"],
}
MOST_LINES = 120

LOAD = """
import json, sys
from importlib import import_module
before = set(sys.modules)
found = {}
for name in json.loads(sys.argv[1]):
    package = import_module(f"handoffaudit_client.{name}")
    found[name] = package.__all__
    try:
        package.nothing
    except AttributeError as error:
        assert "has no attribute 'nothing'" in str(error)
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([found, sorted(loaded - sys.stdlib_module_names - {"handoffaudit_client"})]))
"""


def test_a_package_loads_no_framework_before_a_name_is_used() -> None:
    names = json.dumps(list(PACKAGES))
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}){LOAD}", names],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [PACKAGES, []]


@pytest.mark.parametrize("name", PACKAGES)
def test_each_module_of_a_plug_in_is_short(name: str) -> None:
    lengths = {path.name: path.read_text().count("\n") for path in (FOLDER / "handoffaudit_client" / name).glob("*.py")}
    assert len(lengths) >= 2
    assert max(lengths.values()) <= MOST_LINES, lengths


@pytest.mark.parametrize(
    "prompt",
    [
        ("system", "Be brief."),
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"type": "system", "content": "Be brief."},
    ],
)
def test_the_prompt_of_an_agent_is_not_handed_over(prompt: object) -> None:
    assert lift(None, {"messages": [{"role": "user", "content": "Order 40 chairs."}, prompt]}) == "Order 40 chairs."
    assert lift(None, {"messages": [prompt]}) == {}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"handoff_reason": "A figure is missing.", "reason": "b"}, "A figure is missing."),
        ({"handoff_reason": " ", "reason": "A figure is missing."}, "A figure is missing."),
        ({"handoff_reason": 5, "reason": "A figure is missing."}, "A figure is missing."),
        ({"handoff_reason": "", "reason": ["b"]}, "the default"),
        ("no object", "the default"),
    ],
)
def test_the_first_argument_with_a_reason_counts(arguments: object, reason: str) -> None:
    assert reason_of(arguments, "the default") == reason


@pytest.mark.parametrize(
    ("chunks", "sent"),
    [
        ([b'{"jsonrpc": "2.0", "id": 1, "result": {"error": 1}}'], 1),
        ([b"", b'data: {"jsonrpc": "2.0", "id": 1, "result": {}}\r\n\r\n'], 1),
        ([b"plain text"], 1),
        ([b""], 1),
        ([b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Invalid params"}}'], 0),
        ([b"", b'data: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}\r\n\r\n', b"data: {}\r\n\r\n"], 0),
        ([b": ping\r\n\r\n", b'data: {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}\r\n\r\n'], 0),
        ([b'id: 7\nevent: message\ndata: {"id": 1, "error": {"code": -32603}}\n\ndata: {}\n\n'], 0),
        ([b'{\n  "id": 1,\n  "error": {\n    "code": -32602\n  }\n}\n'], 0),
        ([b"event: message\n", b'data: {"jsonrpc": "2.0", "id": 1, "result": {}}\n\n'], 1),
        ([b": ping\n\n", b""], 1),
    ],
)
def test_a_message_that_json_rpc_refuses_is_no_handoff(
    client: Client, server: FakeServer, chunks: list[bytes], sent: int
) -> None:
    assert post_message(client, chunks) == chunks
    assert client.flush(60)
    assert len(server.handoffs) == sent


def test_a_user_without_a_name_does_not_break_the_answer(client: Client, server: FakeServer) -> None:
    class StarletteUser:
        is_authenticated = True

        @property
        def display_name(self) -> str:
            raise NotImplementedError

    assert post_message(client, [b"{}"], user=StarletteUser()) == [b"{}"]
    (sent,) = server.wait_for(1)
    assert sent["document"]["source_agent_id"] == "client"


def post_message(client: Client, chunks: list[bytes], **scope: object) -> list[bytes]:
    """Post a message to an application that answers with these chunks, and return the chunks that arrive."""
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Order 40 chairs."}]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}).encode()
    passed_on: list[bytes] = []

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number, chunk in enumerate(chunks, 1):
            await send({"type": "http.response.body", "body": chunk, "more_body": number < len(chunks)})

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: Any) -> None:
        passed_on.extend([event["body"]] if "body" in event else [])

    scope = {"type": "http", "method": "POST", "path": "/", **scope}
    asyncio.run(HandoffMiddleware(app, "writer", client)(scope, receive, send))
    return passed_on
