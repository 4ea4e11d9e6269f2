"""Tests of concurrent LLM calls: the budget holds, one probe is sent, and no answer is paid for twice."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.llm import client, limits
from handoffaudit.handoffs.models import ModelAnswer, ModelBreaker, ModelCall, ModelSpend
from handoffaudit.llm.calls import Breaker
from handoffaudit.validation.prompts.pricing import estimate_call_cost
from handoffaudit.validation.prompts.question import Answer, Unavailable
from tests.handoffs.asking_support import FAST, question
from tests.handoffs.support import at_once
from tests.messages_api.scripted import fails, says
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(model: MessagesServer) -> MessagesServer:
    """Return the server that `model_for` asks."""
    return model


def asks(tenant: Tenant, number: int) -> list[Callable[[], Answer]]:
    model = client.model_for(tenant.pk, None)
    return [lambda n=n: model.ask(question(f"Number {n:03}")) for n in range(number)]


def reasons(outcomes: list[Any]) -> Counter[str]:
    """Count the results of the calls by reason; `ok` is an answer."""
    return Counter(one.reason.value if isinstance(one, Unavailable) else "ok" for one in outcomes if settled(one))


def settled(outcome: Any) -> bool:
    assert isinstance(outcome, Answer | Unavailable), outcome
    return True


def reserved(content: str = "Number 000") -> float:
    """Return the cost that is reserved for one call."""
    asked = question(content)
    size = len(asked.instructions.encode()) + len(asked.content.encode())
    return limits.ANSWERS_PAID * estimate_call_cost(FAST, size, asked.max_tokens)


def test_a_hundred_at_once_with_a_budget_for_ten_spend_no_more_than_it(
    tenant: Tenant, server: MessagesServer, settings
) -> None:
    settings.MODEL_DAILY_USD = reserved() * 10.5
    # Each costs what was reserved for it, so that nothing becomes free meanwhile.
    tokens = int(reserved() / 0.5 * 1_000_000)
    server.respond = lambda _: says({"valid": True}, usage={"input_tokens": 0, "output_tokens": tokens}, delay=1.5)
    outcomes = reasons(at_once(*asks(tenant, 100)))
    assert outcomes == {"ok": 10, "budget": 90}
    assert len(server.requests) == 10
    paid = sum(ModelCall.objects.values_list("cost_usd", flat=True))
    assert paid <= settings.MODEL_DAILY_USD
    assert ModelSpend.objects.get().usd == pytest.approx(paid)
    assert ModelCall.objects.filter(outcome="budget", tries=0, cost_usd=0).count() == 90


def test_what_a_call_did_not_cost_is_free_for_the_next(tenant: Tenant, server: MessagesServer, settings) -> None:
    settings.MODEL_DAILY_USD = reserved() * 1.5
    assert reasons([ask() for ask in asks(tenant, 5)]) == {"ok": 5}


def test_a_budget_of_nothing_spends_nothing(tenant: Tenant, server: MessagesServer, settings) -> None:
    settings.MODEL_DAILY_USD = 0.0
    assert reasons(at_once(*asks(tenant, 1))) == {"budget": 1}
    assert not server.requests


def test_the_budget_is_each_tenants_own_and_each_days(
    tenant: Tenant, other_tenant: Tenant, server: MessagesServer, settings
) -> None:
    today = timezone.now().date()
    settings.MODEL_DAILY_USD = 1.0
    ModelSpend.objects.create(tenant=other_tenant, day=today, usd=1.0)
    ModelSpend.objects.create(tenant=tenant, day=today - timedelta(days=1), usd=1.0)
    with pytest.raises(Unavailable, match="daily budget of 1 USD does not cover") as caught:
        client.model_for(other_tenant.pk, None).ask(question())
    assert "00:00 UTC" in caught.value.detail
    assert client.model_for(tenant.pk, None).ask(question()).value["valid"]


def test_several_failures_in_a_row_open_the_breaker_for_every_tenant(
    tenant: Tenant, other_tenant: Tenant, server: MessagesServer, settings
) -> None:
    settings.MODEL_BREAKER_FAILURES, server.outage = 3, 529
    assert reasons([_caught(ask) for ask in asks(tenant, 5)]) == {"overloaded": 3, "breaker_open": 2}
    with pytest.raises(Unavailable, match=r"failed 3 times in a row \(overloaded\); it is asked again in \d+ s\."):
        client.model_for(other_tenant.pk, None).ask(question())
    assert len(server.requests) == 3
    row = ModelBreaker.objects.get()
    assert (row.model, row.failures, row.reason) == (FAST, 3, "overloaded")


def test_the_other_side_says_how_long_it_wants_to_be_left_alone(
    tenant: Tenant, server: MessagesServer, settings
) -> None:
    settings.MODEL_BREAKER_FAILURES = 1
    server.script(fails(429, retry_after=200))
    assert reasons([_caught(ask) for ask in asks(tenant, 1)]) == {"rate_limit": 1}
    assert 190 < (ModelBreaker.objects.get().open_until - timezone.now()).total_seconds() <= 200


def test_one_answer_between_failures_is_no_row_of_them(tenant: Tenant, server: MessagesServer, settings) -> None:
    settings.MODEL_BREAKER_FAILURES = 3
    server.script(fails(529), fails(529), says({"valid": True}), fails(529), fails(529))
    outcomes = [_caught(ask) for ask in asks(tenant, 6)]
    assert reasons(outcomes) == {"overloaded": 4, "ok": 2}
    assert limits.load_breaker(FAST) == Breaker()


def test_what_is_wrong_with_one_question_alone_opens_nothing(tenant: Tenant, server: MessagesServer, settings) -> None:
    """Otherwise a sender of handoffs that the LLM can't answer well could switch the check off for everybody."""
    settings.MODEL_BREAKER_FAILURES = 2
    server.respond = lambda request: says("gibberish") if "Number" in request.content else None
    assert reasons([_caught(ask) for ask in asks(tenant, 4)]) == {"malformed_answer": 4}
    assert not ModelBreaker.objects.exists()


@pytest.mark.parametrize(("answer", "after"), [(says({"valid": True}), "ok"), (fails(529), "overloaded")])
def test_one_alone_is_the_probe(answer: Any, after: str, tenant: Tenant, server: MessagesServer) -> None:
    past = timezone.now() - timedelta(seconds=1)
    ModelBreaker.objects.create(model=FAST, failures=5, open_until=past, reason="overloaded")
    server.respond = lambda _: replace(answer, delay=1.0)
    outcomes = reasons(at_once(*asks(tenant, 40)))
    assert outcomes == {after: 1, "breaker_open": 39}
    assert len(server.requests) == 1
    assert (limits.load_breaker(FAST) == Breaker()) == (after == "ok")


def test_a_probe_that_was_not_sent_leaves_room_for_another(
    tenant: Tenant, other_tenant: Tenant, server: MessagesServer, settings
) -> None:
    """A tenant without budget must not block the LLM for the other tenants."""
    past = timezone.now() - timedelta(seconds=1)
    ModelBreaker.objects.create(model=FAST, failures=5, open_until=past, reason="overloaded")
    ModelSpend.objects.create(tenant=tenant, day=timezone.now().date(), usd=settings.MODEL_DAILY_USD)
    assert reasons([_caught(ask) for ask in asks(tenant, 1)]) == {"budget": 1}
    assert limits.load_breaker(FAST).probing_until is None
    assert reasons([_caught(ask) for ask in asks(other_tenant, 1)]) == {"ok": 1}


def test_a_probe_that_died_makes_room_after_its_time(tenant: Tenant, server: MessagesServer) -> None:
    now = timezone.now()
    ModelBreaker.objects.create(
        model=FAST, failures=5, open_until=now - timedelta(seconds=60), probing_until=now + timedelta(seconds=60)
    )
    assert reasons([_caught(ask) for ask in asks(tenant, 1)]) == {"breaker_open": 1}
    ModelBreaker.objects.update(probing_until=now - timedelta(seconds=1))
    assert reasons([_caught(ask) for ask in asks(tenant, 1)]) == {"ok": 1}


def test_a_clock_that_was_put_back_does_not_keep_the_breaker_open(tenant: Tenant, server: MessagesServer) -> None:
    ahead = timezone.now() + timedelta(hours=1)
    ModelBreaker.objects.create(model=FAST, failures=5, open_until=ahead, probing_until=ahead, reason="overloaded")
    assert reasons([_caught(ask) for ask in asks(tenant, 1)]) == {"ok": 1}
    assert limits.load_breaker(FAST) == Breaker()


def test_calls_that_succeed_write_nothing_about_the_breaker(tenant: Tenant, server: MessagesServer) -> None:
    assert reasons(at_once(*asks(tenant, 8))) == {"ok": 8}
    assert not ModelBreaker.objects.exists()


ASKS_AND_DIES = """
import os, signal, sys
import django
django.setup()
from django.conf import settings
from django.db import connection
connection.settings_dict["NAME"] = sys.argv[1]
from tests.handoffs.asking_support import question
from handoffaudit.handoffs.llm import client
client.model_for(int(sys.argv[2]), None).ask(question())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_killed_right_after_the_answer_has_not_paid_in_vain(tenant: Tenant, server: MessagesServer) -> None:
    worker = subprocess.run(
        [sys.executable, "-c", ASKS_AND_DIES, str(connection.settings_dict["NAME"]), str(tenant.pk)],
        env=os.environ | {"ANTHROPIC_API_KEY": "sk-ant-local-tests", "ANTHROPIC_BASE_URL": server.url},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert worker.returncode == -signal.SIGKILL, worker.stderr
    assert client.model_for(tenant.pk, None).ask(question()).cached
    assert len(server.requests) == 1
    [call] = ModelCall.objects.filter(cached=False)
    assert ModelSpend.objects.get().usd == pytest.approx(call.cost_usd)


def test_a_worker_killed_before_the_answer_leaves_its_reservation(tenant: Tenant, server: MessagesServer) -> None:
    server.script(says({"valid": True}, delay=300))
    worker = subprocess.Popen(
        [sys.executable, "-c", ASKS_AND_DIES, str(connection.settings_dict["NAME"]), str(tenant.pk)],
        env=os.environ | {"ANTHROPIC_API_KEY": "sk-ant-local-tests", "ANTHROPIC_BASE_URL": server.url},
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while not server.requests and time.monotonic() < until:
        time.sleep(0.05)
    worker.kill()
    worker.wait()
    assert len(server.requests) == 1
    assert ModelSpend.objects.get().usd > 0
    assert not ModelAnswer.objects.exists()
    assert not ModelCall.objects.exists()


def _caught(ask: Callable[[], Answer]) -> Any:
    try:
        return ask()
    except Unavailable as error:
        return error
