"""Tests of the hook against the product, as `handoffaudit up` starts it, with an LLM on loopback."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.hooks.conftest import Hook, event, rule
from tests.messages_api.scripted import says
from tests.messages_api.server import MessagesServer
from tests.messages_api.server import running as model_running
from tests.running.conftest import Up, free_port, prepared, run

MET = {"status": "PASSED", "reasoning": "Both are listed.", "confidence": 0.93}
NOT_MET = {"status": "FAILED", "reasoning": "The amounts are missing.", "confidence": 0.88}
MODELLED = {"ANTHROPIC_API_KEY": "any"}


class Product:
    """The product, started and stopped at one address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.key = run("key", "create", "hooks", "--scopes", "ingest,read", folder=folder).stdout.strip()
        self._up: Up | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **environment: str) -> None:
        self._up = Up(self.folder, port=self.port, **environment).wait_ready()

    def stop(self) -> None:
        if self._up:
            self._up.stop()

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {self.key}"}, timeout=60).json()


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    with model_running() as server:
        yield server


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    product = Product(prepared(tmp_path / "data"))
    yield product
    product.stop()


@pytest.fixture
def hook(product: Product, tmp_path: Path) -> Hook:
    (tmp_path / "work").mkdir()
    return Hook(tmp_path / "work", product.url, product.key)


@pytest.fixture
def state(product: Product) -> Callable[[str], dict[str, Any]]:
    """Return a function that gives the validation state of a session's phase."""
    return lambda session: product.get(f"/api/v1/validation-state/{session}/semantic_Agent_{session[:8]}")


def of_session(session: str, name: str = "post-tool-use", **more: object) -> dict[str, Any]:
    """Return the event with ids of the session: sessions share no calls and no agents."""
    plain = event(name, session_id=session, **more)
    return plain | ({"tool_use_id": f"toolu_{session}"} if "tool_use_id" in plain else {})


def test_a_task_and_its_result_pass_and_are_blocked_by_what_the_model_finds(product, hook, model, state):
    product.start(ANTHROPIC_BASE_URL=model.url, **MODELLED)
    for name in ("pre-tool-use", "subagent-start"):
        assert hook(of_session("passing-1", name)).returncode == 0
    model.script(says(MET))
    done = hook(of_session("passing-1"), "--block-exit", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert state("passing-1")["validation_status"] == "PASSED"

    model.script(says(NOT_MET))
    text = {"content": [{"type": "text", "text": "There are two open invoices."}], "status": "completed"}
    done = hook(of_session("failing-1", tool_response=text), "--block-exit", "2")
    assert done.returncode == 2
    assert "The amounts are missing." in done.stderr
    assert state("failing-1")["validation_status"] == "FAILED"
    assert hook.kept() == []


def test_what_was_read_while_the_product_was_down_is_there_once_it_is_up(product, hook, model):
    for number in range(3):
        assert hook(of_session(f"waiting-{number}")).returncode == 0
    assert len(hook.kept()) == 3
    product.start(ANTHROPIC_BASE_URL=model.url, **MODELLED)
    done = hook("", "--flush")
    assert (done.returncode, done.stdout) == (0, "3 sent, 0 set aside, 0 waiting.\n")
    listed = product.get("/api/v1/handoffs?limit=50")["items"]
    assert sorted(one["trace_id"] for one in listed) == [f"waiting-{number}" for number in range(3)]


@pytest.mark.nightly
def test_without_a_model_the_rules_decide_and_the_state_says_so(product, hook, state):
    product.start()
    rules = hook.rules(rule("ok", "test -f ok"))
    done = hook(of_session("ruled-one"), "--rules", rules)
    assert done.returncode == 1
    assert "test -f ok: it ended with 1, not with 0." in done.stderr
    kept = state("ruled-one")
    assert kept["validation_status"] == "FAILED"
    assert "ok" in json.dumps([one["rule_id"] for one in kept["rule_results"]])
    (hook.folder / "ok").touch()
    assert hook(of_session("ruled-two"), "--rules", rules).returncode == 0
    assert state("ruled-two")["validation_status"] == "PASSED"


@pytest.mark.nightly
def test_hybrid_blocks_by_the_rules_where_the_model_is_content(product, hook, model, state):
    product.start(ANTHROPIC_BASE_URL=model.url, **MODELLED)
    model.script(says(MET))
    done = hook(of_session("hybrid-1"), "--rules", hook.rules(rule("ok", "test -f ok")), "--hybrid")
    assert done.returncode == 1
    assert done.stderr.count("test -f ok: it ended with 1") == 1
    assert state("hybrid-1")["validation_status"] == "FAILED"
