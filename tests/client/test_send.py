"""Tests of `send`: what arrives, and that it neither raises nor waits."""

import logging
import re
import stat
import sys
import time
import types
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from handoffaudit_client import Client
from handoffaudit_client.testing import FakeServer

from tests.client.conftest import NOWHERE


def documents(server: FakeServer, number: int) -> list[dict[str, Any]]:
    return [one["document"] for one in server.wait_for(number)]


def test_a_handoff_arrives_as_a_payload(client: Client, server: FakeServer) -> None:
    handoff_id = client.send(
        "researcher",
        "writer",
        {"summary": "Three suppliers."},
        type="research_result",
        trace="run-7",
        parent="h-1",
        context={"question": "Who?"},
        evidence=[{"source": "offers", "content": "Acme"}],
        reason="The reviewer asked for it.",
        sent_at="2026-02-15T00:15:00Z",
    )
    (found,) = server.wait_for(1)
    assert found == {
        "document": {
            "source_agent_id": "researcher",
            "target_agent_id": "writer",
            "handoff_type": "research_result",
            "data": {"summary": "Three suppliers."},
        },
        "trace_id": "run-7",
        "parent_handoff_id": "h-1",
        "handoff_id": handoff_id,
        "reason": "The reviewer asked for it.",
        "sent_at": "2026-02-15T00:15:00Z",
        "context": {"question": "Who?"},
        "evidence": [{"source": "offers", "content": "Acme"}],
    }


def test_what_is_not_given_is_left_out(client: Client, server: FakeServer) -> None:
    client.send("a", "b", "text")
    (found,) = server.wait_for(1)
    assert set(found) == {"document", "handoff_id", "sent_at"}
    assert found["document"]["handoff_type"] == "handoff"
    assert found["document"]["data"] == "text"


def test_ids_are_of_version_7_and_grow(client: Client) -> None:
    ids = [client.send("a", "b", {}) for _ in range(50)]
    assert all(uuid.UUID(one).version == 7 for one in ids)
    assert ids == sorted(ids)
    assert len(set(ids)) == 50


def test_a_given_id_is_kept(client: Client, server: FakeServer) -> None:
    assert client.send("a", "b", {}, handoff_id="h-1") == "h-1"
    assert server.wait_for(1)[0]["handoff_id"] == "h-1"


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (datetime(2026, 2, 15, 1, 15, tzinfo=timezone(timedelta(hours=1))), "2026-02-15T00:15:00.000Z"),
        ("2026-02-15T00:15:00Z", "2026-02-15T00:15:00Z"),
    ],
)
def test_a_time_is_sent_in_utc(client: Client, server: FakeServer, given: Any, sent: str) -> None:
    client.send("a", "b", {}, sent_at=given)
    assert server.wait_for(1)[0]["sent_at"] == sent


def test_the_time_of_sending_is_the_default(client: Client, server: FakeServer) -> None:
    client.send("a", "b", {})
    sent = datetime.fromisoformat(server.wait_for(1)[0]["sent_at"])
    assert abs(datetime.now(UTC) - sent) < timedelta(seconds=10)


def test_evidence_may_be_a_dict_or_a_text(client: Client, server: FakeServer) -> None:
    client.send("a", "b", {}, evidence={"offers": "Acme"}, handoff_id="1")
    client.send("a", "b", {}, evidence="Acme", context="A question", handoff_id="2")
    first, second = server.wait_for(2)
    assert first["evidence"] == [{"source": "offers", "content": "Acme"}]
    assert second["evidence"] == [{"source": "evidence 1", "content": "Acme"}]
    assert second["context"] == {"context": "A question"}


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        (["Acme", "Berg"], {"items": ["Acme", "Berg"]}),
        ([], {}),
        (0, {"value": 0}),
        (False, {"value": False}),
        (2.5, {"value": 2.5}),
        ("Acme", "Acme"),
        (None, None),
    ],
)
def test_lists_and_numbers_become_objects(client: Client, server: FakeServer, data: Any, sent: Any) -> None:
    """The server takes an object or a text, and rejects any other data."""
    client.send("a", "b", data)
    (arrived,) = server.wait_for(1)
    assert arrived["document"]["data"] == sent


def test_large_tables_stay_readable_to_the_server(client: Client, server: FakeServer) -> None:
    rows = [{f"column {number}": "a cell with some text" for number in range(20)}] * 20
    tables = {f"table {number}": rows for number in range(40)}
    client.send("a", "b", {}, context=tables, evidence=tables)
    (sent,) = server.wait_for(1)
    assert "a cell" in sent["context"]["context"]
    assert ["a cell" in one["content"] for one in sent["evidence"]] == [True]


def test_secrets_are_masked_before_they_reach_the_disk(create: Callable[..., Client], tmp_path: Path) -> None:
    client = create(NOWHERE)
    client.send("a", "b", {"password": "hunter2", "note": "key sk-abcdefghij1234567890"}, trace="sk-of-a-trace-1234567")
    (file,) = (one for one in (tmp_path / "spool").rglob("*.0*") if one.is_file())
    written = file.read_text()
    assert "hunter2" not in written
    assert "abcdefghij" not in written
    assert written.count("[masked]") == 2
    assert '"trace_id":"sk-of-a-trace-1234567"' in written


def test_masking_can_be_turned_off(create: Callable[..., Client], server: FakeServer) -> None:
    create(mask_secrets=False).send("a", "b", {"password": "hunter2"})
    assert documents(server, 1)[0]["data"] == {"password": "hunter2"}


def test_the_spool_belongs_to_its_user_alone(create: Callable[..., Client], tmp_path: Path) -> None:
    create(NOWHERE).send("a", "b", {})
    folder = tmp_path / "spool"
    files = [one for one in folder.rglob("*") if one.is_file()]
    assert len(files) == 2
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o700}


def test_before_send_changes_and_drops(create: Callable[..., Client], server: FakeServer) -> None:
    def change(submission: dict[str, Any]) -> dict[str, Any] | None:
        if submission["document"]["target_agent_id"] == "nobody":
            return None
        submission["document"]["data"] = {"kept": True}
        return submission

    client = create(before_send=change)
    client.send("a", "nobody", {"x": 1})
    client.send("a", "b", {"x": 1})
    assert [one["data"] for one in documents(server, 1)] == [{"kept": True}]
    assert client.flush(60)
    assert len(server.handoffs) == 1


def test_a_before_send_that_raises_lets_nothing_through(
    create: Callable[..., Client], server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: dict[str, Any]) -> None:
        raise RuntimeError("a bug of the user")

    client = create(before_send=fail)
    for _ in range(20):
        assert client.send("a", "b", {"x": 1})
    assert client.stats()["failed"] == 20
    assert client.stats()["waiting"] == 0
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert "a bug of the user" in caplog.text
    assert not server.handoffs


class Hostile:
    """A value that raises whenever somebody looks at it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def test_send_never_raises(client: Client, server: FakeServer) -> None:
    hostile: Any = Hostile()
    assert client.send("a", "b", hostile)
    assert client.send(hostile, "b", {})
    assert client.send("a", "b", {}, trace=hostile, reason=hostile)
    assert client.send("a", "b", {}, handoff_id=hostile)
    assert client.send("a", "b", {}, sent_at=hostile)
    client.tool_result("tool", hostile, trace="t")
    client.tool_result(hostile, 1, trace="t")
    assert client.flush(60)
    assert client.stats()["sent"] + client.stats()["failed"] == 7


def test_without_an_address_nothing_is_sent_and_one_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    client = Client()
    for _ in range(100):
        assert client.send("a", "b", {})
    assert client.flush(0)
    client.close()
    assert [one.getMessage() for one in caplog.records] == [
        "handoffaudit: nothing is sent: HANDOFFAUDIT_URL is not set"
    ]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("audit.example.com", "k"),
        ("ftp://audit.example.com", "k"),
        ("https://user:word@audit.example.com", "k"),
        ("https://audit.example.com:port", "k"),
        ("https://audit.example.com:0", "k"),
        ("https://audit.example .com", "k"),
        ("https://audit.example.com/?tenant=a", "k"),
        ("https://audit.example.com/#settings", "k"),
        ("https://audit.example.com", "a key"),
    ],
)
def test_a_wrong_address_or_key_is_an_error_that_does_not_show_it(url: str, key: str) -> None:
    with pytest.raises(ValueError, match=r"address|key") as error:
        Client(url, key)
    assert "word" not in str(error.value).replace("password", "")
    assert "a key" not in str(error.value)


def test_the_environment_names_the_server(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_URL", server.url + "/")
    monkeypatch.setenv("HANDOFFAUDIT_KEY", server.key)
    monkeypatch.setenv("HANDOFFAUDIT_SPOOL", str(tmp_path))
    with Client() as client:
        client.send("a", "b", {})
        server.wait_for(1)


class TestTraces:
    def test_the_parent_is_the_last_handoff_to_the_source(self, client: Client, server: FakeServer) -> None:
        with client.trace("run") as trace:
            first = client.send("triage", "researcher", 1)
            second = client.send("researcher", "writer", 2)
            third = client.send("writer", "researcher", 3)
            client.send("researcher", "writer", 4)
            client.send("triage", "archive", 5)
        assert trace == "run"
        found = server.wait_for(5)
        assert [one.get("parent_handoff_id") for one in found] == [None, first, second, third, None]
        assert {one["trace_id"] for one in found} == {"run"}

    def test_traces_can_be_nested(self, client: Client, server: FakeServer) -> None:
        with client.trace("outer"):
            with client.trace() as same:
                client.send("a", "b", 1)
            with client.trace("inner"):
                client.send("a", "b", 2)
            client.send("a", "b", 3)
        client.send("a", "b", 4)
        assert same == "outer"
        assert [one.get("trace_id") for one in server.wait_for(4)] == ["outer", "inner", "outer", None]

    def test_a_new_trace_has_a_new_id(self, client: Client) -> None:
        with client.trace() as first:
            pass
        with client.trace() as second:
            pass
        assert uuid.UUID(first).version == 7
        assert first != second

    def test_the_trace_of_opentelemetry_is_used_if_it_is_loaded(
        self, client: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        context = types.SimpleNamespace(trace_id=0xAB, is_valid=True)
        span = types.SimpleNamespace(get_span_context=lambda: context)
        module = types.SimpleNamespace(get_current_span=lambda: span)
        monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)  # type: ignore[arg-type]
        client.send("a", "b", 1)
        with client.trace() as trace:
            pass
        assert server.wait_for(1)[0]["trace_id"] == trace == "000000000000000000000000000000ab"

    def test_remembered_parents_are_bounded(self, client: Client) -> None:
        for number in range(1_500):
            client._parents.add(f"trace {number}", "b", str(number))
        for number in range(300):
            client._parents.add("trace", f"agent {number}", str(number))
        assert len(client._parents._traces) == 1_000
        assert len(client._parents._traces["trace"]) == 200
        assert client._parents.parent_of("trace", "agent 299") == "299"


class TestToolResults:
    def test_a_result_arrives_with_its_call(self, client: Client, server: FakeServer) -> None:
        with client.trace("run/1"):
            client.tool_result("get_order", {"total": 54.2}, call_id="c1", agent="assistant", arguments={"id": "W1"})
        assert client.flush(60)
        (found,) = server.tool_results["run/1"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("at"))
        assert found == {
            "tool": "get_order",
            "call_id": "c1",
            "agent": "assistant",
            "arguments": {"id": "W1"},
            "result": {"total": 54.2},
        }

    def test_a_decorator_records_each_call(self, client: Client, server: FakeServer) -> None:
        @client.tool_result("add", agent="counter")
        def add(left: int, right: int = 2) -> int:
            """Add two numbers."""
            return left + right

        with client.trace("t"):
            assert add(1) == 3
            assert add(1, right=5) == 6
        assert add.__doc__ == "Add two numbers."
        assert client.flush(60)
        found = server.tool_results["t"]
        assert [(one["arguments"], one["result"]) for one in found] == [({"left": 1}, 3), ({"left": 1, "right": 5}, 6)]
        assert len({one["call_id"] for one in found}) == 2

    def test_a_call_that_raises_is_not_recorded(self, client: Client, server: FakeServer) -> None:
        @client.tool_result("fail")
        def fail() -> None:
            raise KeyError("x")

        with client.trace("t"):
            with pytest.raises(KeyError):
                fail()
            with pytest.raises(KeyError), client.tool_result("fail"):
                fail()
        assert client.flush(60)
        assert not server.tool_results

    def test_a_generator_is_refused_by_the_decorator(self, client: Client) -> None:
        def stream() -> Iterator[int]:
            yield 1

        async def stream_later() -> AsyncIterator[int]:
            yield 1

        for function in (stream, stream_later):
            with pytest.raises(TypeError, match="'stream' is a generator"):
                client.tool_result("stream")(function)

    def test_a_context_manager_records_its_result(self, client: Client, server: FakeServer) -> None:
        with client.trace("t"), client.tool_result("search", arguments={"q": "x"}) as call:
            call.result = None
        with client.trace("t"), client.tool_result("search"):
            pass
        assert client.flush(60)
        assert [(one["tool"], one["result"]) for one in server.tool_results["t"]] == [("search", None)]

    def test_without_a_trace_it_is_counted_as_failed(self, client: Client, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(10):
            client.tool_result("search", 1)
        assert client.stats()["failed"] == 10
        assert len(caplog.records) == 1

    def test_a_server_without_tool_results_stops_no_handoffs(self, client: Client, server: FakeServer) -> None:
        server.fail(status=404)
        client.tool_result("search", 1, trace="t")
        assert client.flush(60)
        client.send("a", "b", 1)
        server.wait_for(1)
        assert client.stats()["refused"] == 1


def test_sending_costs_microseconds(create: Callable[..., Client]) -> None:
    """The bound is wide, because tests run beside others. The benchmark measures the p99."""
    client = create(NOWHERE)
    items = [{"name": f"item {number}", "price": number * 1.5, "note": "in stock"} for number in range(20)]
    data = {"summary": "Three suppliers deliver within a week. " * 20, "items": items}
    took = []
    for _ in range(500):
        began = time.thread_time()
        client.send("a", "b", data, trace="t")
        took.append(time.thread_time() - began)
    assert sorted(took)[len(took) // 2] < 0.002
