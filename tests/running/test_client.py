"""Tests of the Python client against the product itself."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest
from handoffaudit_client import Client

from tests.client.conftest import python
from tests.running.conftest import Up, run, wait_for

SEND_AND_WAIT = """
import sys, time
from handoffaudit_client import Client
audit = Client(sys.argv[1], sys.argv[2], spool=sys.argv[3])
for number in range(int(sys.argv[4])):
    audit.send("a", "b", {"number": number}, type="killed", handoff_id=f"killed-{number}")
print("sent", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def key(running: Up) -> str:
    return run("key", "create", "agents", "--scopes", "ingest,read,observe", folder=running.folder).stdout.strip()


@pytest.fixture
def audit(running: Up, key: str, tmp_path: Path) -> Iterator[Client]:
    with Client(running.address, key, spool=tmp_path / "spool", timeout=60, debug=True) as client:
        yield client


def test_a_sound_handoff_may_go_on(audit: Client, client: httpx.Client) -> None:
    data = {"summary": "Three suppliers deliver within a week."}
    verdict = audit.gate("researcher", "writer", data, type="research_result", reason="The writer asked for it.")
    assert verdict, verdict.why
    stored = client.get(f"/api/v1/handoffs/{verdict.handoff_id}").json()
    assert (stored["source_agent_id"], stored["target_agent_id"]) == ("researcher", "writer")
    assert stored["document"]["data"] == data
    assert httpx.URL(verdict.url).path == httpx.URL(stored["links"]["page"]).path


@pytest.mark.parametrize(
    "data",
    [
        "Three suppliers deliver within a week.",
        {"at": datetime(2026, 2, 15, tzinfo=UTC), "raw": b"\xff", "deep": [[[[1]]]]},
        {"nul": "\x00", "surrogate": "\ud800", "number": 10**400, "float": float("nan")},
        {"password": "hunter2"},
        ["a", "b"],
        42,
        {"long": "word " * 500_000},
        {"deep": [[]]},
    ],
    ids=["text", "dates and bytes", "odd characters", "secret", "list", "number", "long", "nested"],
)
def test_the_server_takes_whatever_the_client_sends(audit: Client, data: Any) -> None:
    if isinstance(data, dict) and "deep" in data:
        for _ in range(100):
            data = {"deep": [data]}
    audit.send("researcher", "writer", data, type="note")
    assert audit.flush(60)
    assert {name: audit.stats()[name] for name in ("sent", "refused", "failed")} == {
        "sent": 1,
        "refused": 0,
        "failed": 0,
    }


def test_a_faulty_handoff_is_rejected_with_words_for_an_llm(audit: Client) -> None:
    verdict = audit.gate("", "writer", {"summary": "Three suppliers."})
    assert not verdict
    assert verdict.state == "rejected"
    assert verdict.findings
    assert verdict.findings[0].message in verdict.why


def test_a_chain_is_derived_along_the_trace(audit: Client, client: httpx.Client) -> None:
    with audit.trace() as trace:
        first = audit.send("triage", "researcher", {"task": "Find suppliers."})
        second = audit.gate("researcher", "writer", {"summary": "Three suppliers deliver within a week."})
    assert second
    shown = client.get(f"/api/v1/traces/{trace}").json()
    assert [one["handoff_id"] for one in shown["handoffs"]] == [first, second.handoff_id]
    assert [one["parent_handoff_id"] for one in shown["handoffs"]] == [None, first]


def test_tool_results_are_evidence(audit: Client, client: httpx.Client) -> None:
    @audit.tool_result("get_order", agent="assistant")
    def get_order(order_id: str) -> dict[str, Any]:
        return {"order": order_id, "total": 54.2, "status": "delivered"}

    with audit.trace() as trace:
        get_order("W123")
        verdict = audit.gate("assistant", "writer", {"summary": "The order has a total of 54.2."})
    assert verdict
    (result,) = client.get(f"/api/v1/traces/{trace}/tool-results").json()["items"]
    assert (result["tool"], result["agent"], result["grade"]) == ("get_order", "assistant", "in_process")
    stored = client.get(f"/api/v1/handoffs/{verdict.handoff_id}").json()
    values = [value for claim in stored["verdict"]["claims"] for value in claim["values"]]
    assert [value["status"] for value in values if value["text"] == "54.2"] == ["grounded"]


def test_a_late_handoff_shows_when_it_was_sent(audit: Client, client: httpx.Client) -> None:
    sent_at = datetime.now(UTC) - timedelta(hours=5)
    handoff_id = audit.send("researcher", "writer", {"summary": "Three suppliers."}, sent_at=sent_at)
    assert audit.flush(60)
    assert sent_at.isoformat()[:19] in client.get(f"/api/v1/handoffs/{handoff_id}").text


def declare_long_chain(submission: dict[str, Any]) -> dict[str, Any]:
    """Make a handoff that is held, because its chain is longer than the policy accepts without approval."""
    submission["document"]["call_chain"] = ["a", "b", "c", "d", "e", "researcher"]
    return submission


@pytest.mark.parametrize("scopes", ["ingest,read", "ingest"])
def test_a_person_decides_while_a_gate_waits(running: Up, client: httpx.Client, tmp_path: Path, scopes: str) -> None:
    """A key that may not read asks again with the same submission."""
    key = run("key", "create", f"agents with {scopes}", "--scopes", scopes, folder=running.folder).stdout.strip()
    with Client(running.address, key, spool=tmp_path / "spool", before_send=declare_long_chain) as audit:
        held = audit.gate("researcher", "writer", {"summary": "Three suppliers."})
        assert (held.state, bool(held)) == ("held", False)
        assert "a person has to decide" in held.why
        stored = client.get(f"/api/v1/handoffs/{held.handoff_id}").json()
        decide = {"decision": "approve", "note": "It is right.", "seen_version": stored["version"]}
        address = f"/api/v1/handoffs/{held.handoff_id}/review"
        Timer(0.5, lambda: client.post(address, json=decide)).start()
        decided = held.wait(30)
        assert (bool(decided), decided.state) == (True, "approved")


@pytest.mark.nightly
def test_ten_thousand_handoffs_of_a_killed_process_are_stored_once(
    running: Up, client: httpx.Client, key: str, tmp_path: Path
) -> None:
    number = 10_000
    process = python(SEND_AND_WAIT, running.address, key, tmp_path / "spool", number)
    assert process.stdout is not None
    assert process.stdout.readline() == "sent\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with Client(running.address, key, spool=tmp_path / "spool") as audit:
        audit.send("a", "b", {}, type="next")
        wait_for(lambda: audit.stats()["adopted"] and not audit.stats()["waiting"])
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get("/api/v1/handoffs", params={"type": "killed", "limit": 200, "cursor": cursor}).json()
        found += [one["handoff_id"] for one in page["items"]]
        cursor = page["next"]
    assert sorted(found) == sorted(f"killed-{one}" for one in range(number))
