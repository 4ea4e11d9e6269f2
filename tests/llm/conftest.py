"""The local Messages API, and callers that ask it through the real SDK."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handoffaudit.llm.calls import Caller
from handoffaudit.llm.claude import ClaudeClient, load_sdk
from handoffaudit.validation.prompts.question import Role
from tests.messages_api.server import MessagesServer, running
from tests.running.conftest import free_port

KEY = "sk-ant-api03-of-the-tests-0123456789"
MODELS = {Role.FAST: "claude-haiku-5-5", Role.CAREFUL: "claude-sonnet-5-5"}


@pytest.fixture(scope="package")
def server() -> Iterator[MessagesServer]:
    with running() as one:
        yield one


@pytest.fixture
def api(server: MessagesServer) -> MessagesServer:
    server.reset()
    return server


@pytest.fixture
def caller_of(api: MessagesServer) -> Callable[..., Caller]:
    """Return a function that makes a caller without pauses between its tries."""
    load_sdk()

    def make(**more: Any) -> Caller:
        arguments = {"seconds": 10.0, "sleep": lambda _seconds: None, "random": lambda: 0.0, **more}
        return Caller(ClaudeClient("anthropic", KEY, api.url), MODELS, **arguments)

    return make


@pytest.fixture
def closed_port() -> int:
    return free_port()


@pytest.fixture
def full_port() -> Iterator[int]:
    """Yield a port that accepts no more connections, so that a client waits until its timeout."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(address)
        yield int(address[1])
