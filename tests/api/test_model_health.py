"""Tests of the API of model health, which gives the numbers of the page."""

from datetime import timedelta

import httpx
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.llm import client
from handoffaudit.handoffs.models import ModelCall
from handoffaudit.validation.prompts.question import Unavailable
from tests.api.support import problem
from tests.handoffs.asking_support import FAST, question
from tests.messages_api.scripted import fails, says
from tests.messages_api.server import MessagesServer


def test_without_a_call_everything_is_nought(api: httpx.Client) -> None:
    health = api.get("/diagnostics/model").json()
    assert health["status"]["standing"] == "no_key"
    assert (health["calls"], health["cost_usd"], health["latency_ms"], health["failures"]) == (0, 0, None, [])
    assert health["period"] == "24h"


def test_calls_are_told_as_they_were(api: httpx.Client, tenant: Tenant, model: MessagesServer) -> None:
    model.script(says({"valid": True}, usage={"input_tokens": 1000, "output_tokens": 100}), fails(529))
    asked = client.model_for(tenant.pk, None)
    asked.ask(question())
    asked.ask(question())
    with pytest.raises(Unavailable):
        asked.ask(question("Another."))
    health = api.get("/diagnostics/model", params={"period": "1h"}).json()
    told = {name: health[name] for name in ("calls", "answered", "failed", "skipped", "cached", "tokens_in")}
    assert told == {"calls": 2, "answered": 1, "failed": 1, "skipped": 0, "cached": 1, "tokens_in": 1000}
    assert health["cost_usd"] == pytest.approx(health["budget"]["spent_usd"])
    assert health["latency_ms"]["calls"] == 2
    [failure] = health["failures"]
    assert (failure["reason"], failure["http_status"], failure["number"]) == ("overloaded", 529, 1)
    assert failure["cure"]
    [use], [line] = health["by_use"], health["by_model"]
    assert (use["name"], line["name"], line["calls"]) == ("grounding", FAST, 2)
    assert sum(stretch["answered"] for stretch in health["over_time"]) == 1
    assert {breaker["model"]: breaker["failures"] for breaker in health["breakers"]}[FAST] == 1


def test_a_failure_of_another_version_is_shown(api: httpx.Client, tenant: Tenant) -> None:
    ModelCall.objects.create(
        tenant=tenant, at=timezone.now(), use="grounding", model=FAST, prompt="grounding-1", outcome="lost", tries=1
    )
    [failure] = api.get("/diagnostics/model").json()["failures"]
    assert failure["reason"] == "lost"
    assert failure["cure"]


def test_the_stretches_hold_every_call_of_the_period(api: httpx.Client, tenant: Tenant) -> None:
    now = timezone.now()
    ModelCall.objects.bulk_create(
        ModelCall(
            tenant=tenant,
            at=now - timedelta(minutes=7 * n),
            use="critique",
            model="m",
            prompt="p",
            outcome="ok",
            tries=1,
        )
        for n in range(1, 400)
    )
    for period, minutes in (("1h", 60), ("24h", 24 * 60), ("7d", 7 * 24 * 60)):
        health = api.get("/diagnostics/model", params={"period": period}).json()
        assert health["answered"] == min(399, (minutes - 1) // 7)
        assert sum(stretch["answered"] for stretch in health["over_time"]) == health["answered"]
        assert len(health["over_time"]) in (25, 29, 31)


def test_open_alerts_are_told(api: httpx.Client, tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, alerts.AlertKind.WOULD_HAVE_REJECTED, 2)
    [alert] = api.get("/diagnostics/model").json()["alerts"]
    assert (alert["kind"], alert["number"]) == ("would_have_rejected", 2)


def test_a_period_that_is_not_known_is_refused(api: httpx.Client) -> None:
    assert "1h, 24h, 7d" in problem(api.get("/diagnostics/model", params={"period": "1y"}), 400)["detail"]
