"""Tests of `Prefer: wait`."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import httpx
import pytest
from django.db import InterfaceError, OperationalError, connection, connections

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, judge_leases, long_poll, queries, tasks
from handoffaudit.handoffs.llm import run
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.notify import Slots
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from tests.api.support import submitted
from tests.handoffs.support import NOT_JSON, SENDER, assert_counts_are_right, doubts, held, payload
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Iterator[None]:
    """Judge waiting handoffs, as a worker does."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.02):
            # A worker that finds the database locked looks again, too.
            with suppress(OperationalError):
                judge.drain()
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join()


def checked_later() -> None:
    run.drain()
    connections.close_all()


def timed(send) -> tuple[httpx.Response, float]:
    started = time.monotonic()
    return send(), time.monotonic() - started


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("prefer", ["wait=60", "respond-async, wait=60", "wait = 60", 'wait="60"'])
def test_the_verdict_comes_in_the_answer(api: httpx.Client, prefer: str) -> None:
    response, took = timed(lambda: api.post("/handoffs", json=payload(), headers={"Prefer": prefer}))
    assert response.status_code == 200
    assert response.headers["Preference-Applied"] == "wait=60"
    assert response.json()["verdict"]["outcome"] == response.json()["state"] == "accepted"
    assert response.headers["Location"] == response.json()["links"]["self"]
    assert took < 30


@pytest.mark.usefixtures("worker")
def test_a_repetition_waits_as_well(api: httpx.Client) -> None:
    for _ in range(2):
        response = api.post("/handoffs", json=payload(handoff_id="h"), headers={"Prefer": "wait=60"})
        assert (response.status_code, response.json()["state"]) == (200, "accepted")


@pytest.mark.usefixtures("worker")
def test_it_is_the_final_verdict_that_is_waited_for(api: httpx.Client, model: MessagesServer) -> None:
    """The structural verdict exists at once, but does not end the wait."""
    model.respond = lambda _: doubts()

    def send(name: str, seconds: int) -> httpx.Response:
        return api.post("/handoffs", json=payload(handoff_id=name), headers={"Prefer": f"wait={seconds}"})

    response, took = timed(lambda: send("h", 1))
    assert response.status_code == 202
    assert 1 <= took < 30
    shown = api.get("/handoffs/h").json()
    assert (shown["state"], shown["verdict"]["pending"]) == ("validating", ["semantic"])
    asking = threading.Timer(0.7, checked_later)
    asking.start()
    response, took = timed(lambda: send("h", 60))
    asking.join()
    assert (response.status_code, response.json()["state"]) == (200, "rejected")
    assert response.json()["verdict"]["pending"] == []
    assert "semantic.fabricated" in [issue["code"] for issue in response.json()["verdict"]["issues"]]
    assert 0.6 < took < 30


@pytest.mark.usefixtures("worker")
def test_who_asks_for_repair_hears_of_the_attempt_that_passed(api: httpx.Client) -> None:
    sent = {"document": payload(handoff_id="h", confidence="0.8"), "repair": True}
    shown = api.post("/handoffs", json=sent, headers={"Prefer": "wait=60"}).json()
    later = shown["superseded_by"]
    assert (shown["handoff_id"], shown["state"]) == ("h", "superseded")
    assert (later["state"], later["attempt"], later["repaired"]) == ("accepted", 2, True)
    stored = api.get(later["links"]["self"].removeprefix("/api/v1")).json()
    assert (stored["id"], stored["retry_of"], stored["superseded_by"]) == (later["id"], "h", None)


def behind_another(api: httpx.Client) -> dict[str, object]:
    """Return a submission that waits for a worker, because an earlier handoff of its trace waits for one."""
    assert api.post("/handoffs", json={"document": payload(), "trace_id": "t"}).status_code == 202
    return {"document": payload(), "trace_id": "t"}


def test_a_handoff_whose_sender_waits_is_judged_without_a_worker(api: httpx.Client) -> None:
    response = api.post("/handoffs", json=payload(), headers={"Prefer": "wait=60"})
    assert (response.status_code, response.json()["verdict"]["outcome"]) == (200, "accepted")
    assert judge.drain() == 0
    assert_counts_are_right()


def test_a_large_handoff_waits_for_a_worker(api: httpx.Client) -> None:
    large = payload(data={"text": "word " * 10_000})
    assert api.post("/handoffs", json=large, headers={"Prefer": "wait=1"}).status_code == 202
    assert judge.drain() == 1


def test_a_handoff_is_judged_after_the_earlier_ones_of_its_trace(api: httpx.Client) -> None:
    later = behind_another(api)
    assert api.post("/handoffs", json=later, headers={"Prefer": "wait=1"}).status_code == 202
    assert judge.drain() == 2
    assert api.post("/handoffs", json=later, headers={"Prefer": "wait=60"}).status_code == 200


def test_few_threads_of_a_process_wait_to_judge(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tasks._places.free == (1 if connection.vendor == "postgresql" else 6)
    monkeypatch.setattr(tasks, "_places", Slots(lambda: 1))
    with tasks.reserve_judging() as reserved, tasks.reserve_judging() as again:
        assert (reserved, again) == (True, False)
        assert api.post("/handoffs", json=payload(), headers={"Prefer": "wait=1"}).status_code == 202
    assert api.post("/handoffs", json=payload(), headers={"Prefer": "wait=60"}).status_code == 200


def test_one_thread_of_a_process_judges_at_a_time(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_LONGEST_TURN_WAIT_SECONDS", 0.01)
    with tasks._judging:
        assert api.post("/handoffs", json=payload(), headers={"Prefer": "wait=1"}).status_code == 202
    assert judge.drain() == 1
    monkeypatch.setattr(tasks, "_LONGEST_TURN_WAIT_SECONDS", 30.0)
    tasks._judging.acquire()
    threading.Timer(0.02, tasks._judging.release).start()
    assert api.post("/handoffs", json=payload(), headers={"Prefer": "wait=60"}).status_code == 200
    # The turn ends after each handoff.
    for _ in range(2):
        assert api.post("/handoffs", json=payload(), headers={"Prefer": "wait=60"}).status_code == 200


def test_a_worker_judges_what_the_web_process_could_not(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OperationalError("the database is locked")

    monkeypatch.setattr(judge_leases, "take_one", fail)
    assert api.post("/handoffs", json=payload(), headers={"Prefer": "wait=1"}).status_code == 202
    assert judge.drain() == 1


@pytest.mark.parametrize("error", [OperationalError("interrupted"), InterfaceError("the connection is closed")])
def test_a_stored_handoff_is_acknowledged_though_its_verdict_cannot_be_read(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(queries, "current_verdict", fail)
    monkeypatch.setattr(queries, "summaries", fail)
    wait = {"Prefer": "wait=60"}
    one = api.post("/handoffs", json=payload(), headers=wait)
    assert (one.status_code, "Preference-Applied" in one.headers) == (202, False)
    batch = api.post("/handoffs/batch", json=[payload(), payload()], headers={"Prefer": "wait=1"})
    assert [item["status"] for item in batch.json()["items"]] == [202, 202]
    assert Handoff.objects.count() == 3


def test_a_broken_connection_leaves_the_handoff_to_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise InterfaceError("the connection is closed")

    monkeypatch.setattr(judge_leases, "take_one", fail)
    assert tasks.judge_one(str(uuid4())) is False


def test_after_the_time_it_is_answered_as_without_waiting(api: httpx.Client) -> None:
    sent = behind_another(api)
    response, took = timed(lambda: api.post("/handoffs", json=sent, headers={"Prefer": "wait=1"}))
    assert (response.status_code, response.json()["state"]) == (202, "received")
    assert "Preference-Applied" not in response.headers
    assert 1 <= took < 30


@pytest.mark.parametrize("prefer", ["wait=0", "wait", "wait=x", "wait=-5", "return=minimal", "await=9", ""])
def test_who_does_not_ask_to_wait_does_not(api: httpx.Client, prefer: str) -> None:
    response, took = timed(lambda: api.post("/handoffs", json=payload(), headers={"Prefer": prefer}))
    assert response.status_code == 202
    assert took < 30


def test_nobody_waits_longer_than_the_setting(api: httpx.Client, settings) -> None:
    settings.MAX_WAIT_SECONDS = 1
    sent = behind_another(api)
    response, took = timed(lambda: api.post("/handoffs", json=sent, headers={"Prefer": "wait=60"}))
    assert response.status_code == 202
    assert took < 30


def test_where_too_many_wait_already_it_is_answered_at_once(api: httpx.Client, settings, monkeypatch) -> None:
    monkeypatch.setattr(long_poll, "are_too_many", lambda _: True)
    pk = submitted(api, held())
    for send in (
        lambda: api.post("/handoffs", json=payload(), headers={"Prefer": "wait=60"}),
        lambda: api.get(f"/handoffs/{pk}", headers={"Prefer": "wait=60"}),
    ):
        response, took = timed(send)
        assert response.status_code in (200, 202)
        assert took < 30


def test_what_cannot_be_read_is_not_waited_for(api: httpx.Client) -> None:
    response, took = timed(lambda: api.post("/handoffs", content=NOT_JSON, headers={"Prefer": "wait=60"}))
    assert response.status_code == 422
    assert took < 30


def test_a_sender_hears_of_the_decision(api: httpx.Client, tenant: Tenant) -> None:
    pk = submitted(api, held())

    def decide() -> None:
        time.sleep(0.3)
        decisions.decide_handoff(
            tenant=tenant, reference=pk, decision=Decision.APPROVE, note="", actor=SENDER, seen_version=None
        )
        connections.close_all()

    thread = threading.Thread(target=decide)
    thread.start()
    response, took = timed(lambda: api.get(f"/handoffs/{pk}", headers={"Prefer": "wait=60"}))
    thread.join()
    assert response.json()["state"] == "approved"
    assert 0.2 < took < 30


def test_what_vanishes_while_it_is_waited_for_is_404(api: httpx.Client, tenant: Tenant) -> None:
    pk = submitted(api, held())

    def remove() -> None:
        time.sleep(0.2)
        queries.of_tenant(tenant).delete()
        connections.close_all()

    thread = threading.Thread(target=remove)
    thread.start()
    response = api.get(f"/handoffs/{pk}", headers={"Prefer": "wait=60"})
    thread.join()
    assert response.status_code == 404
    assert not Handoff.objects.exists()


def batch(api: httpx.Client, items: list[object], prefer: str = "wait=60") -> httpx.Response:
    return api.post("/handoffs/batch", json=items, headers={"Prefer": prefer})


@pytest.mark.usefixtures("worker")
def test_the_verdicts_on_a_batch_come_in_the_answer(api: httpx.Client) -> None:
    rejected = payload(handoff_id="bad", confidence="0.8")
    response, took = timed(
        lambda: batch(api, [payload(handoff_id="h"), rejected, {"x": 1}, payload(tenant_id="other")])
    )
    assert response.headers["Preference-Applied"] == "wait=60"
    good, bad, unread, refused = response.json()["items"]
    assert [one["status"] for one in response.json()["items"]] == [200, 200, 422, 403]
    assert response.json()["totals"] == {"200": 2, "422": 1, "403": 1}
    assert (good["state"], good["verdict"]["outcome"], good["verdict"]["issues_total"]) == ("accepted", "accepted", 0)
    whole = api.get(f"/handoffs/{bad['id']}").json()
    assert bad["state"] == whole["state"] == "rejected"
    first = bad["verdict"]["issues"][0]
    assert first == whole["verdict"]["issues"][0]
    assert "verdict" not in unread
    assert "verdict" not in refused
    assert took < 30


@pytest.mark.usefixtures("worker")
def test_a_repeated_batch_is_answered_with_its_verdicts(api: httpx.Client) -> None:
    for _ in range(2):
        (item,) = batch(api, [payload(handoff_id="h")]).json()["items"]
        assert (item["status"], item["state"], item["verdict"]["valid"]) == (200, "accepted", True)


def test_a_batch_that_nobody_judges_is_answered_after_the_time(api: httpx.Client) -> None:
    response, took = timed(lambda: batch(api, [payload(), payload()], "wait=1"))
    assert [(one["status"], one["state"]) for one in response.json()["items"]] == [(202, "received")] * 2
    assert 1 <= took < 30


def test_a_batch_does_not_wait_where_too_many_wait(api: httpx.Client, monkeypatch) -> None:
    monkeypatch.setattr(long_poll, "are_too_many", lambda _: True)
    response, took = timed(lambda: batch(api, [payload()]))
    assert response.json()["items"][0]["status"] == 202
    assert "Preference-Applied" not in response.headers
    assert took < 30


def test_the_queries_of_a_batch_do_not_grow_with_its_items(api: httpx.Client, django_assert_max_num_queries) -> None:
    judged = [payload(handoff_id=f"h{number}") for number in range(60)]
    batch(api, judged, "")
    while judge.drain():
        pass
    with django_assert_max_num_queries(12):
        items = batch(api, judged).json()["items"]
    assert [one["state"] for one in items] == ["accepted"] * 60


def test_a_summary_has_the_most_severe_findings_first(api: httpx.Client) -> None:
    document = payload(handoff_id="h", confidence="0.8", context_refs=[f"x{number}\x00" for number in range(30)])
    submitted(api, document)
    (item,) = batch(api, [document]).json()["items"]
    assert len(item["verdict"]["issues"]) == queries.MOST_SUMMARY_ISSUES
    assert item["verdict"]["issues_total"] > queries.MOST_SUMMARY_ISSUES
    order = ["critical", "error", "warning", "info"]
    severities = [order.index(issue["severity"]) for issue in item["verdict"]["issues"]]
    assert severities == sorted(severities)
