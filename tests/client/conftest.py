"""Fixtures of the client's tests: a fake server, and clients with a spool of their own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from handoffaudit_client import Client
from handoffaudit_client.testing import FakeServer

FOLDER = Path(__file__).parents[2] / "client"
# Nothing listens on this port of this machine.
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HANDOFFAUDIT_URL", "HANDOFFAUDIT_KEY", "HANDOFFAUDIT_SPOOL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        yield fake


@pytest.fixture
def create(server: FakeServer, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Yield a function that creates a client of the fake server."""
    created: list[Client] = []

    def create_one(url: str | None = None, **options: Any) -> Client:
        client = Client(url or server.url, server.key, **{"spool": tmp_path / "spool"} | options)
        created.append(client)
        return client

    yield create_one
    for client in created:
        client.close(0)


@pytest.fixture
def client(create: Callable[..., Client]) -> Client:
    return create()


def finish(process: "subprocess.Popen[str]") -> str:
    """Wait for the end of a process, and return what it has written."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out + err


def python(code: str, *arguments: object, program: str = sys.executable, **options: Any) -> "subprocess.Popen[str]":
    """Start a process with the client on its path."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    return subprocess.Popen(
        [program, "-c", code, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
