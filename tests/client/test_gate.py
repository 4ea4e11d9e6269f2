"""Tests of `gate` and of verdicts."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from handoffaudit_client import AsyncClient, Client, Verdict
from handoffaudit_client.testing import FakeServer
from handoffaudit_client.verdict import read_verdict

from tests.client.conftest import NOWHERE

STATES = ("accepted", "approved", "held", "rejected", "declined", "superseded", "received", "validating", "refused")


def test_an_accepted_handoff_may_go_on(client: Client, server: FakeServer) -> None:
    verdict = client.gate("researcher", "writer", {"x": 1}, trace="t")
    assert verdict
    assert (verdict.state, verdict.why, verdict.findings) == ("accepted", "The handoff is accepted.", ())
    assert list(server.handoffs) == [verdict.handoff_id]
    assert verdict.url.endswith(f"/handoffs/{verdict.handoff_id}/")
    assert verdict.wait(1) is verdict


def test_a_rejected_handoff_says_what_to_correct(client: Client, server: FakeServer) -> None:
    finding = {"code": "x.y", "severity": "error", "field_path": "data.a", "message": "It is wrong.", "hint": "Do so."}
    server.answer("rejected", target="writer", findings=[finding, {**finding, "severity": "warning", "message": "Hm"}])
    verdict = client.gate("researcher", "writer", {})
    assert not verdict
    assert verdict.why == "The handoff is rejected. Correct it, and hand over again.\n- data.a: It is wrong. Do so."
    assert [(one.code, one.severity, one.path, one.hint) for one in verdict.findings] == [
        ("x.y", "error", "data.a", "Do so."),
        ("x.y", "warning", "data.a", "Do so."),
    ]
    assert client.gate("researcher", "editor", {})


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_a_reason_in_words(state: str) -> None:
    verdict = read_verdict({"state": state}, "h-1", "writer")
    assert len(verdict.why.split()) > 3
    assert bool(verdict) is (state in ("accepted", "approved"))


def test_answers_of_another_shape_are_read() -> None:
    for answer in ({}, {"state": None, "verdict": 1, "issues": 2, "links": 3}, {"issues": [1, {}]}):
        verdict = read_verdict(answer, "h-1", "")
        assert not verdict
        assert verdict.why


def test_many_findings_are_cut() -> None:
    issues = [{"message": "x" * 1000, "severity": "error"}] * 50
    verdict = read_verdict({"state": "rejected", "verdict": {"issues": issues}}, "h-1", "")
    assert len(verdict.why) <= 4000
    assert len(verdict.findings) == 50


def test_a_held_handoff_waits_for_a_person(client: Client, server: FakeServer) -> None:
    server.answer("held")
    held = client.gate("a", "b", {}, handoff_id="h/1")
    assert not held
    assert held.is_open
    assert "a person has to decide before b may start" in held.why
    threading.Timer(0.2, server.decide, ("h/1", "approved")).start()
    decided = held.wait(60)
    assert decided
    assert decided.state == "approved"


def test_an_approval_is_used_once_by_the_handoff_that_has_it(client: Client, server: FakeServer) -> None:
    server.answer("approved")
    for _ in range(2):
        assert client.gate("writer", "editor", {"x": 1}, handoff_id="h-1")
    assert [path.endswith("/use") for _, path in server.requests].count(True) == 2


def test_without_an_idempotency_key_an_approval_is_not_used_again(client: Client, server: FakeServer) -> None:
    server.answer("held")
    client.gate("writer", "editor", {}, handoff_id="h-1")
    server.decide("h-1", "approved")
    headers = {"Authorization": f"Bearer {server.key}"}
    used = [httpx.post(f"{server.url}/api/v1/handoffs/h-1/use", headers=headers).status_code for _ in range(2)]
    assert used == [200, 409]


@pytest.mark.parametrize("status", ["used", "expired", "outdated"])
def test_an_approval_that_has_ended_stops_the_next_agent(client: Client, server: FakeServer, status: str) -> None:
    server.answer("held")
    held = client.gate("writer", "editor", {}, handoff_id="h-1")
    server.decide("h-1", "approved")
    server.end_approval("h-1", status)
    verdict = held.wait(60)
    assert not verdict
    assert (verdict.state, status in verdict.why) == (status, True)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_use_stops_the_next_agent(
    client: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A server that answers is not away, so this is no case for `on_unreachable`."""
    refused: dict[str, object] = {"title": "No", "detail": "The key may speak only for b."}
    monkeypatch.setattr(server, "_use", lambda *_: (status, refused))
    server.answer("approved")
    verdict = client.gate("a", "b", 1)
    assert (bool(verdict), verdict.state, verdict.why) == (False, "refused", refused["detail"])
    server.answer("held")
    held = client.gate("a", "b", 2)
    server.decide(held.handoff_id, "approved")
    assert held.wait(5).state == "refused"


def test_an_approval_that_was_undone_meanwhile_is_waited_for_again(
    client: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = server._use

    def undo(handoff_id: str, key: str) -> tuple[int, dict[str, object]]:
        server.decide(handoff_id, "held")
        return use(handoff_id, key)

    server.answer("approved")
    monkeypatch.setattr(server, "_use", undo)
    held = client.gate("a", "b", 1)
    assert (bool(held), held.state) == (False, "held")
    monkeypatch.setattr(server, "_use", use)
    server.decide(held.handoff_id, "approved")
    assert held.wait(5).state == "approved"


def test_a_gate_can_wait_for_a_person_itself(client: Client, server: FakeServer) -> None:
    server.answer("held")
    threading.Timer(0.2, server.decide, ("h-1", "declined")).start()
    verdict = client.gate("a", "b", {}, handoff_id="h-1", wait=10)
    assert (bool(verdict), verdict.state) == (False, "declined")
    assert "Do not hand over the same again: correct it first." in verdict.why


def test_a_person_who_does_not_decide(client: Client, server: FakeServer) -> None:
    server.answer("held")
    began = time.monotonic()
    verdict = client.gate("a", "b", {}, wait=0.3)
    assert 0.3 <= time.monotonic() - began < 3
    assert (verdict.state, verdict.is_open) == ("held", True)


def test_a_key_that_may_not_read_waits_all_the_same(
    client: Client, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handoffaudit_client.gate._POLL_SECONDS", 0.05)
    server.answer("held")
    held = client.gate("a", "b", {}, handoff_id="h-1")
    server.fail(status=403)
    threading.Timer(0.3, server.decide, ("h-1", "approved")).start()
    assert held.wait(60)
    assert {path for _, path in server.requests[2:-1]} == {"/api/v1/handoffs"}


def test_a_server_that_goes_away_while_somebody_waits(client: Client, server: FakeServer) -> None:
    server.answer("held")
    held = client.gate("a", "b", {})
    server.stop()
    verdict = held.wait(0.2)
    assert not verdict
    assert "no decision yet" in verdict.why
    server.start()
    server.decide(held.handoff_id, "approved")
    assert verdict.wait(60)


class TestUnreachable:
    def test_it_passes_unverified_and_is_sent_later(
        self, create: Callable[..., Client], server: FakeServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = create()
        server.stop()
        verdict = client.gate("a", "b", {"x": 1}, timeout=1)
        assert verdict
        assert verdict.state == "unverified"
        assert "goes on unverified" in verdict.why
        server.start()
        assert client.flush(60)
        assert list(server.handoffs) == [verdict.handoff_id]
        assert len(caplog.records) == 1

    def test_it_stops(self, create: Callable[..., Client], server: FakeServer) -> None:
        client = create(NOWHERE, on_unreachable="stop")
        verdict = client.gate("a", "b", {}, timeout=1)
        assert not verdict
        assert verdict.state == "unreachable"
        assert client.stats()["waiting"] == 0

    def test_each_outage_is_told(
        self,
        create: Callable[..., Client],
        server: FakeServer,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("handoffaudit_client.notices.PAUSE_SECONDS", 0)
        client = create(on_unreachable="stop")
        for told in (1, 2):
            server.stop()
            for _ in range(2):
                assert client.gate("a", "b", {}, timeout=1).state == "unreachable"
            assert len(caplog.records) == told
            server.start()
            assert client.gate("a", "b", {})

    def test_a_server_that_says_nothing(self, create: Callable[..., Client]) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as silent:
            client = create(f"http://127.0.0.1:{silent.getsockname()[1]}")
            began = time.monotonic()
            verdict = client.gate("a", "b", {}, timeout=0.3)
            assert time.monotonic() - began < 3
            assert verdict.state == "unverified"
            assert "no answer within" in verdict.why

    def test_a_wrong_key_is_no_verdict(self, create: Callable[..., Client], server: FakeServer) -> None:
        client = create(on_unreachable="stop")
        server.key = "another"
        verdict = client.gate("a", "b", {})
        assert verdict.state == "unreachable"
        assert "401" in verdict.why

    def test_a_busy_server_is_asked_again(self, client: Client, server: FakeServer) -> None:
        server.fail(2, status=503, retry_after=0)
        assert client.gate("a", "b", {}).state == "accepted"

    def test_retry_after_beyond_the_time_is_not_waited_for(self, client: Client, server: FakeServer) -> None:
        server.fail(status=429, retry_after=60)
        began = time.monotonic()
        assert client.gate("a", "b", {}, timeout=5).state == "unverified"
        assert time.monotonic() - began < 3

    @pytest.mark.parametrize("timeout", [1e12, float("inf")])
    def test_an_endless_time_limit_is_no_outage(self, client: Client, timeout: float) -> None:
        assert client.gate("a", "b", {}, timeout=timeout).state == "accepted"

    def test_an_unknown_policy_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="on_unreachable"):
            Client(on_unreachable="ignore")  # type: ignore[arg-type]

    def test_a_client_without_an_address(self) -> None:
        assert Client().gate("a", "b", {}).state == "unverified"
        assert not Client(on_unreachable="stop").gate("a", "b", {})


def test_other_content_under_the_same_id_is_refused(client: Client) -> None:
    assert client.gate("a", "b", 1, handoff_id="h-1", sent_at="2026-02-15T00:15:00Z")
    verdict = client.gate("a", "b", 2, handoff_id="h-1")
    assert (bool(verdict), verdict.state) == (False, "refused")
    assert "other content" in verdict.why


def test_evidence_arrives_before_the_handoff_that_rests_on_it(client: Client, server: FakeServer) -> None:
    with client.trace("t"):
        client.tool_result("search", {"n": 3})
        client.send("planner", "researcher", {})
        client.gate("researcher", "writer", {"n": 3})
    paths = [path for _, path in server.requests]
    assert paths == ["/api/v1/traces/t/tool-results", "/api/v1/handoffs/batch", "/api/v1/handoffs"]


def test_only_handoffs_that_went_on_are_parents(client: Client, server: FakeServer) -> None:
    with client.trace():
        first = client.gate("a", "b", 1)
        server.answer("rejected", target="b")
        client.gate("a", "b", 2)
        client.gate("b", "c", 3)
    assert list(server.handoffs.values())[-1]["parent_handoff_id"] == first.handoff_id


@pytest.mark.parametrize("handoff_id", ["run/1", "任务-1", "a\nb"])
def test_an_approval_is_used_whatever_the_handoff_id(client: Client, server: FakeServer, handoff_id: str) -> None:
    server.answer("held")
    held = client.gate("a", "b", 1, handoff_id=handoff_id)
    server.decide(handoff_id, "approved")
    assert held.wait(1).state == "approved"
    assert client.gate("a", "b", 1, handoff_id=handoff_id).state == "approved"


def test_a_handoff_whose_decision_was_awaited_later_is_a_parent(client: Client, server: FakeServer) -> None:
    server.answer("held", target="b")
    with client.trace():
        held = client.gate("a", "b", 1)
        server.decide(held.handoff_id, "approved")
        assert held.wait(5)
        client.gate("b", "c", 2)
    assert list(server.handoffs.values())[-1]["parent_handoff_id"] == held.handoff_id


def test_a_verdict_shows_itself(client: Client) -> None:
    assert repr(Verdict("held", "Wait.", handoff_id="h")) == "Verdict('held', 'Wait.', handoff_id='h')"


def test_the_async_client_is_a_twin(server: FakeServer, tmp_path: object) -> None:
    async def run() -> None:
        async with AsyncClient(server.url, server.key, spool=tmp_path) as audit:
            with audit.trace("t"):
                plain = audit.send("a", "b", 1)
                awaited = await audit.send("a", "b", 2)
                verdict = await audit.gate("b", "c", 3)

                @audit.tool_result("double")
                async def double(number: int) -> int:
                    await asyncio.sleep(0)
                    return number * 2

                assert await double(4) == 8
                audit.tool_result("half", 2)
            assert await audit.flush()
            assert audit.stats()["sent"] == 4
            assert list(server.handoffs) == [plain, awaited, verdict.handoff_id]
            assert server.handoffs[verdict.handoff_id]["parent_handoff_id"] == awaited
            assert {one["tool"]: one["result"] for one in server.tool_results["t"]} == {"double": 8, "half": 2}
            server.answer("held")
            held = await audit.gate("c", "d", 1)
            asyncio.get_running_loop().call_later(0.1, server.decide, held.handoff_id, "approved")
            assert not held
            assert await held.wait(60)

    asyncio.run(run())


def test_other_tasks_go_on_while_a_gate_waits(server: FakeServer, tmp_path: object) -> None:
    server.answer("held")

    async def run() -> int:
        ticks = 0
        async with AsyncClient(server.url, server.key, spool=tmp_path) as audit:
            gate = asyncio.ensure_future(audit.gate("a", "b", {}, wait=0.3))
            while not gate.done():
                await asyncio.sleep(0.01)
                ticks += 1
        return ticks

    assert asyncio.run(run()) > 5


def test_the_async_client_hears_of_a_decision_from_a_slow_server(server: FakeServer, tmp_path: object) -> None:
    handle = server.handle

    def answer_late(handler: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        if handler.command == "GET":
            time.sleep(0.7)
        return handle(handler, body)

    server.handle = answer_late  # type: ignore[method-assign]
    server.answer("held")

    async def decide() -> str:
        async with AsyncClient(server.url, server.key, spool=tmp_path) as client:
            held = await client.gate("a", "b", 1)
            server.decide(held.handoff_id, "approved")
            return (await held.wait(3)).state

    assert asyncio.run(decide()) == "approved"
