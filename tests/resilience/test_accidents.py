"""Tests of killed processes, lost and repeated messages, and a missing broker: each handoff is judged once."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from handoffaudit.validation.telemetry.otlp import JSON
from tests.handoffs.support import payload
from tests.resilience.conftest import BOTH
from tests.resilience.processes import Installation, OwnRedis, eventually, kill
from tests.resilience.state import assert_all_are_judged_once
from tests.scale import size
from tests.validation.telemetry.support import agent, export, transfer


def send(client: httpx.Client, number: int, name: str = "h") -> None:
    answer = client.post("/handoffs/batch", json=[payload(handoff_id=f"{name}{at}") for at in range(number)])
    assert answer.json()["totals"] == {"202": number}


@BOTH
def test_a_worker_killed_in_the_middle_of_a_batch_loses_and_doubles_nothing(installation: Installation) -> None:
    installation.web()
    number = size(800)
    with installation.client() as client:
        for part in range(3):
            send(client, number, f"{part}-")
        first = installation.worker()
        # In the middle: some are judged, some are leased, some were never looked at.
        eventually(lambda: installation.waiting() < 3 * number, what=installation.log())
        kill(first)
        assert 0 < installation.waiting() < 3 * number
        installation.worker()
        installation.worker()
        assert_all_are_judged_once(installation, 3 * number)


@pytest.mark.nightly
@BOTH
def test_lost_and_doubled_messages_change_nothing(
    installation: Installation, lose_messages: Callable[[Installation], None]
) -> None:
    installation.web()
    with installation.client() as client:
        send(client, 120)
        eventually(lambda: installation.waiting() == 120)
        lose_messages(installation)
        # The sweep of the new worker finds what no message speaks of.
        installation.worker()
        eventually(lambda: installation.waiting() == 0, what=installation.log())
        send(client, 120, "more")
        installation.worker()
        installation.wake(300)
        assert_all_are_judged_once(installation, 240)


@pytest.mark.services
def test_verdicts_keep_coming_while_redis_is_away(with_own_redis: Installation, own_redis: OwnRedis) -> None:
    installation = with_own_redis
    installation.web()
    installation.worker()
    with installation.client() as client:
        send(client, 50, "before")
        eventually(lambda: installation.waiting() == 0, what=installation.log())
        own_redis.stop()
        for at in range(10):
            answer = client.post("/handoffs", json=payload(handoff_id=f"alone{at}"))
            assert answer.status_code == 202
            assert answer.elapsed.total_seconds() < 20
        answer = client.post("/handoffs", json=payload(handoff_id="waited"), headers={"Prefer": "wait=30"})
        assert (answer.status_code, answer.json()["state"]) == (200, "accepted")
        send(client, 50, "while")
        eventually(lambda: installation.waiting() == 0, what=installation.log())
        ready = httpx.get(f"{installation.url}/readyz", timeout=60)
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        # A worker that starts meanwhile judges, too.
        for process in installation.processes[1:]:
            kill(process)
        installation.worker()
        send(client, 50, "later")
        eventually(lambda: installation.waiting() == 0, what=installation.log())
        own_redis.start()
        send(client, 50, "after")
        assert_all_are_judged_once(installation, 211)
        assert httpx.get(f"{installation.url}/readyz", timeout=60).json()["status"] == "ok"


@pytest.mark.nightly
@BOTH
def test_two_hundred_submissions_of_one_id_at_once_end_as_one(installation: Installation) -> None:
    installation.web()
    installation.worker()

    def submit(_: int) -> tuple[int, str]:
        with installation.client() as client:
            answer = client.post("/handoffs", json=payload(handoff_id="h"))
            return answer.status_code, answer.json().get("id", "")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(submit, range(200)))
    assert Counter(status for status, _ in answers) == {202: 1, 200: 199}
    assert len({pk for _, pk in answers}) == 1
    assert_all_are_judged_once(installation, 1)


@BOTH
def test_what_was_acknowledged_is_stored_when_the_web_process_is_killed(installation: Installation) -> None:
    web = installation.web()
    acknowledged: list[str] = []

    def submit(number: int) -> None:
        try:
            with installation.client() as client:
                for at in range(400):
                    answer = client.post("/handoffs", json=payload(handoff_id=f"{number}-{at}"))
                    if answer.status_code == 202:
                        acknowledged.append(answer.json()["id"])
        except httpx.TransportError:
            pass

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(submit, number) for number in range(4)]
        eventually(lambda: len(acknowledged) >= 40, what=installation.log())
        kill(web)
        for one in sending:
            one.result(120)
    assert len(acknowledged) < 1600
    stored = installation.run(
        "from handoffaudit.handoffs.models import Handoff, HandoffBody\n"
        "bodies = set(HandoffBody.objects.values_list('pk', flat=True))\n"
        "print(*(pk for pk in Handoff.objects.values_list('pk', flat=True) if pk in bodies))"
    ).split()
    assert set(acknowledged) <= set(stored)
    installation.worker()
    assert_all_are_judged_once(installation, len(stored))


@pytest.mark.nightly
@BOTH
def test_spans_that_were_acknowledged_become_handoffs_when_all_processes_are_killed(installation: Installation) -> None:
    """The processes are killed while exports arrive and while the worker makes handoffs of the first traces."""
    installation.environment["HANDOFFAUDIT_TELEMETRY_QUIET_SECONDS"] = "2"
    web, worker = installation.web(), installation.worker()
    acknowledged: list[str] = []

    def export_traces(number: int) -> None:
        try:
            with installation.client() as client:
                for at in range(1, 2_000):
                    trace = f"{number:016x}{at:016x}"
                    content = {"gen_ai__tool__call__arguments": {"summary": "It is done."}}
                    spans = agent(1, "triage"), transfer(2, "writer", 1, at=5, **content), agent(3, "writer", 1, at=9)
                    body = export(span | {"traceId": trace} for span in spans)
                    answer = client.post("/otlp/traces", content=body, headers={"Content-Type": JSON})
                    if answer.status_code == 200:
                        acknowledged.append(trace)
        except httpx.TransportError:
            pass

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(export_traces, number) for number in range(4)]
        eventually(lambda: installation.query("SELECT 1 FROM handoffs_handoff LIMIT 1"), what=installation.log())
        kill(worker)
        begun = len(acknowledged)
        eventually(lambda: len(acknowledged) > begun + 10, what=installation.log())
        kill(web)
        for one in sending:
            one.result(120)
    sent = len(acknowledged)
    assert sent < 4 * 1_999
    stored = installation.query("SELECT trace_id, count(*) FROM handoffs_telemetryspan GROUP BY trace_id")
    assert {(trace, 3) for trace in acknowledged} <= {(str(trace), int(number)) for trace, number in stored}
    installation.worker()
    installation.worker()
    made = "SELECT count(*) FROM handoffs_handoff"
    eventually(lambda: installation.query(made) == [(len(stored),)], what=installation.log())
    names = {str(name) for (name,) in installation.query("SELECT handoff_id FROM handoffs_handoff")}
    assert names == {f"{trace}-{2:016x}" for trace, _ in stored}
    assert_all_are_judged_once(installation, len(stored))
