"""Tests of an LLM that fails and recovers, and of workers that die while they wait for the LLM."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests.handoffs.support import doubts, payload
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, says
from tests.messages_api.server import MessagesServer
from tests.resilience.conftest import BOTH, FULL
from tests.resilience.processes import ASKERS, Installation, eventually, kill

NUMBER = re.compile(r"Number (\d+)\.")
LOOK = """
import json
from collections import Counter
from handoffaudit.handoffs import counts, recount
from handoffaudit.handoffs.models import Alert, Handoff, ModelCall, ModelCheck
flagged = Handoff.objects.filter(flagged=True).order_by("id").values_list("handoff_id", flat=True)
print(json.dumps({
    "states": Counter(Handoff.objects.values_list("state", flat=True)),
    "unverified": Handoff.objects.filter(unverified=True).count(),
    "flagged": list(flagged),
    "alerts": list(Alert.objects.filter(acknowledged_at=None).values_list("kind", "number")),
    "checks": ModelCheck.objects.count(),
    "calls": ModelCall.objects.filter(outcome="ok", cached=False).count(),
    "wrong": recount.recount(repair=False).wrong,
}))
"""
# Handoffs with a successful LLM check.
ANSWERED = """
    SELECT handoffs_handoff.handoff_id FROM handoffs_modelcall JOIN handoffs_handoff
    ON handoffs_handoff.id = handoffs_modelcall.handoff WHERE outcome = 'ok'
"""


@pytest.fixture
def model(installation: Installation, messages_api: MessagesServer) -> Iterator[MessagesServer]:
    messages_api.reset()
    installation.set_model(messages_api.url)
    yield messages_api
    messages_api.reset()


def send(client: httpx.Client, numbers: range) -> None:
    items = [payload(handoff_id=f"h{number}", data={"summary": f"Number {number}."}) for number in numbers]
    assert client.post("/handoffs/batch", json=items).json()["totals"] == {"202": len(items)}


def asked_about(model: MessagesServer) -> list[int]:
    found = (NUMBER.search(request.content) for request in list(model.requests))
    return [int(one[1]) for one in found if one]


def unverified(installation: Installation) -> int:
    ((number,),) = installation.query("SELECT count(*) FROM handoffs_handoff WHERE unverified")
    return int(number)


def outage_alerts(installation: Installation) -> int:
    ((number,),) = installation.query(
        "SELECT count(*) FROM handoffs_alert WHERE kind = 'model_unavailable' AND acknowledged_at IS NULL"
    )
    return int(number)


@pytest.mark.nightly
@pytest.mark.parametrize("installation", [FULL], indirect=True)
def test_an_outage_under_load_stops_nothing_and_all_are_gone_over_after_it(
    installation: Installation, model: MessagesServer
) -> None:
    number, a_part = 300, 10
    model.outage = 529
    installation.web()
    installation.worker()
    installation.asker()
    with installation.client() as client:
        for start in range(0, number, a_part):
            send(client, range(start, start + a_part))
            time.sleep(0.2)
        eventually(lambda: installation.waiting() == 0, what=installation.log())
        assert unverified(installation) == number
        shown = client.get("/handoffs?flag=unverified&limit=200").json()["items"]
        assert {(one["state"], one["flags"]["unverified"]) for one in shown} == {("accepted", True)}
        # The breaker let hardly any of them ask.
        assert len(model.requests) < number / 3

        def respond(request: Request) -> Scripted:
            found = NUMBER.search(request.content)
            is_sound = found and int(found[1]) % 10
            return says({"valid": True, "issues": []}, delay=0.02) if is_sound else doubts()

        model.respond = respond
        model.requests.clear()
        model.outage = 0
        eventually(lambda: unverified(installation) == 0, what=installation.log())
        # On a busy machine the outage lasts long enough for an alert, which closes once the LLM answers.
        eventually(lambda: outage_alerts(installation) == 0, what=installation.log())
    order = asked_about(model)
    assert sorted(order) == list(range(number))
    # Oldest first: none is asked about long before or after its turn. Some are asked about at the same time, and how
    # far others come while the machine keeps one waiting is chance.
    assert max(abs(at - one) for at, one in enumerate(order)) <= 6 * ASKERS
    rejected = [f"h{one}" for one in range(0, number, 10)]
    assert json.loads(installation.run(LOOK)) == {
        "states": {"accepted": number},
        "unverified": 0,
        "flagged": rejected,
        "alerts": [["would_have_rejected", len(rejected)]],
        "checks": 0,
        "calls": number,
        "wrong": 0,
    }


@pytest.mark.parametrize("installation", ["embedded"], indirect=True)
def test_a_worker_that_is_told_to_end_ends_what_it_began_and_leaves_the_rest(
    installation: Installation, model: MessagesServer
) -> None:
    model.respond = lambda _: says({"valid": True, "issues": []}, delay=0.3)
    installation.web()
    installation.worker()
    asker = installation.asker()
    with installation.client() as client:
        send(client, range(100))
    eventually(lambda: len(model.requests) >= ASKERS, what=installation.log())
    asker.terminate()
    assert asker.wait(60) == 0
    assert installation.query("SELECT count(*) FROM handoffs_modelcheck WHERE claim IS NOT NULL") == [(0,)]
    assert 0 < installation.waiting() == 100 - len(model.requests)


@pytest.mark.nightly
@BOTH
def test_a_worker_killed_while_it_waits_repeats_no_call_that_had_an_answer(
    installation: Installation, model: MessagesServer
) -> None:
    number = 60
    model.respond = lambda _: says({"valid": True, "issues": []}, delay=0.3)
    installation.web()
    installation.worker()
    first = installation.asker()
    with installation.client() as client:
        send(client, range(number))
    eventually(lambda: len(model.requests) >= number / 2, what=installation.log())
    kill(first)
    asked = set(asked_about(model))
    answered = {int(name[1:]) for (name,) in installation.query(ANSWERED)}
    assert 0 < len(answered) < len(asked) <= len(answered) + ASKERS
    installation.asker()
    eventually(lambda: installation.waiting() == 0, what=installation.log())
    times = Counter(asked_about(model))
    assert sorted(times) == list(range(number))
    assert {one for one, asked_for in times.items() if asked_for > 1} == asked - answered
    found = json.loads(installation.run(LOOK))
    assert found == {
        "states": {"accepted": number},
        "unverified": 0,
        "flagged": [],
        "alerts": [],
        "checks": 0,
        "calls": number,
        "wrong": 0,
    }
