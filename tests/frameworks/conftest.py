"""Fixtures for tests with the real agent frameworks, which have an environment of their own (`client/frameworks.lock`).

    pytest --confcutdir tests/frameworks tests/frameworks

These tests are skipped where the frameworks are missing; with HANDOFFAUDIT_TEST_FRAMEWORKS=required they fail.
"""

import gc
import os
import tempfile
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from handoffaudit_client import Client, plugins
from handoffaudit_client.testing import FakeServer

CLIENT = Path(__file__).parents[2] / "client"

# CrewAI must not report its use, and keeps files of its own.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false")
_STORAGE = tempfile.TemporaryDirectory(prefix="crewai-")
os.environ.setdefault("CREWAI_STORAGE_DIR", _STORAGE.name)

# The story of all frameworks: each handoff with its source and target.
STORY = [("triage", "researcher"), ("researcher", "writer"), ("writer", "researcher"), ("researcher", "writer")]


def need(framework: str) -> None:
    """Skip the tests of a module whose framework is missing, or fail if it is required."""
    with warnings.catch_warnings():
        # The frameworks warn of each other while they are loaded.
        warnings.simplefilter("ignore")
        if os.environ.get("HANDOFFAUDIT_TEST_FRAMEWORKS") == "required":
            import_module(framework)
        else:
            pytest.importorskip(framework)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def audit(server: FakeServer, tmp_path: Path) -> Iterator[Client]:
    with Client(server.url, server.key, spool=tmp_path / "spool") as audit:
        yield audit


def routes(server: FakeServer) -> list[tuple[str, str]]:
    """Return the source and the target of each handoff that arrived."""
    documents = [one["document"] for one in server.handoffs.values()]
    return [(one["source_agent_id"], one["target_agent_id"]) for one in documents]


def data(server: FakeServer) -> list[object]:
    return [one["document"]["data"] for one in server.handoffs.values()]


@pytest.fixture
def connected(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the variables that the pages export, and let the plug-ins create their client anew."""
    monkeypatch.setenv("HANDOFFAUDIT_URL", server.url)
    monkeypatch.setenv("HANDOFFAUDIT_KEY", server.key)
    monkeypatch.setenv("HANDOFFAUDIT_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(plugins, "_shared", [])
    yield
    for client in plugins._shared:
        client.close()
    # What the frameworks leave behind must not warn in a later test.
    gc.collect()
