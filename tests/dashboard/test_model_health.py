"""Tests of the page of model health: each number with its fix, and alerts to acknowledge."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from handoffaudit.accounts.models import AuditEntry, Person, Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.models import Handoff, ModelBreaker, ModelCall, ModelCheck, ModelSpend
from tests.messages_api.server import MessagesServer
from tests.pages import links, text_of

SignIn = Callable[[Person], Client]
Submit = Callable[..., Handoff]
ADDRESS = "/t/acme/diagnostics/model/"
FAST = "claude-haiku-5-5"


def called(tenant: Tenant, outcome: str = "ok", ago: timedelta = timedelta(minutes=5), **changes: Any) -> ModelCall:
    values: dict[str, Any] = {"use": "grounding", "model": FAST, "prompt": "grounding@1", "tries": 1}
    values |= {"latency_ms": 100.0, "cost_usd": 0.25 if outcome == "ok" else 0.0} | changes
    return ModelCall.objects.create(tenant=tenant, at=timezone.now() - ago, outcome=outcome, **values)


def test_without_a_key_the_page_says_what_to_do(sign_in: SignIn, viewer: Person) -> None:
    page = sign_in(viewer).get(ADDRESS)
    assert page.status_code == 200
    assert "No LLM key is set" in page.text
    assert "export ANTHROPIC_API_KEY=YOUR_KEY" in page.text
    assert "Questions over time" not in page.text


def test_all_answers_are_from_the_cache_only_if_none_was_asked_for(
    sign_in: SignIn, viewer: Person, tenant: Tenant
) -> None:
    one = called(tenant)
    cached = {"tenant": tenant, "at": one.at, "outcome": "ok", "use": "grounding", "model": FAST, "cached": True}
    ModelCall.objects.bulk_create(ModelCall(**cached) for _ in range(299))
    client = sign_in(viewer)
    assert "From the cache 299 99.7 % of answers" in text_of(client.get(ADDRESS))
    one.delete()
    assert "From the cache 299 100.0 % of answers" in text_of(client.get(ADDRESS))


def test_with_a_key_and_nothing_asked_it_says_so(sign_in: SignIn, viewer: Person, model: MessagesServer) -> None:
    page = sign_in(viewer).get(ADDRESS)
    assert "No LLM key is set" not in page.text
    assert "The LLM was not asked in the last 24 hours" in page.text


def test_the_figures_are_those_of_the_period_and_the_tenant(
    sign_in: SignIn, viewer: Person, tenant: Tenant, other_tenant: Tenant, model: MessagesServer
) -> None:
    for latency in range(1, 101):
        called(tenant, latency_ms=float(latency))
    called(tenant, cached=True, tries=0, cost_usd=0, latency_ms=0)
    called(tenant, "budget", tries=0, latency_ms=0)
    called(tenant, ago=timedelta(days=3))
    called(other_tenant)
    page = sign_in(viewer).get(ADDRESS)
    tally = page.context["tally"]
    assert (tally.answered, tally.failed, tally.skipped, tally.cached) == (100, 0, 1, 1)
    assert tally.cost_usd == pytest.approx(25.0)
    overall = page.context["health"].latencies.overall
    assert (overall.p50, overall.p95, overall.p99, overall.calls) == (50, 95, 99, 100)
    assert sign_in(viewer).get(f"{ADDRESS}?period=7d").context["tally"].answered == 101
    assert sign_in(viewer).get(f"{ADDRESS}?period=1h").context["tally"].answered == 100


def test_a_period_that_is_not_known_is_told(sign_in: SignIn, viewer: Person) -> None:
    page = sign_in(viewer).get(f"{ADDRESS}?period=1y")
    assert page.status_code == 400
    assert "use one of 1h, 24h, 7d." in page.text


@pytest.mark.parametrize(
    ("outcome", "status", "cure"),
    [
        ("refused", 401, "Set ANTHROPIC_API_KEY to a valid key and restart."),
        ("refused", 404, "name in HANDOFFAUDIT_MODEL_FAST or HANDOFFAUDIT_MODEL_CAREFUL"),
        ("refused", 409, "Read the message of the service"),
        ("refused", None, "correct the key, or the provider&#x27;s package, region or credentials"),
        ("rate_limit", 429, "Lower HANDOFFAUDIT_MODEL_CONCURRENCY"),
        ("budget", None, "Raise HANDOFFAUDIT_MODEL_DAILY_USD"),
        ("timeout", None, "raise HANDOFFAUDIT_MODEL_SECONDS"),
    ],
)
def test_each_cause_has_its_cure(
    outcome: str, status: int | None, cure: str, sign_in: SignIn, viewer: Person, tenant: Tenant
) -> None:
    called(tenant, outcome, http_status=status, detail="What the service said.")
    page = sign_in(viewer).get(ADDRESS)
    assert cure in page.text
    assert "What the service said." in page.text


def test_the_chart_has_its_numbers_as_a_table(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    called(tenant)
    called(tenant, "overloaded", http_status=529)
    page = sign_in(viewer).get(ADDRESS)
    assert page.context["chart"].columns == ("Period", "answered", "failed")
    assert '<th scope="col" class="end">failed</th>' in page.text


def test_an_open_breaker_is_told_with_its_time(sign_in: SignIn, viewer: Person, model: MessagesServer) -> None:
    ModelBreaker.objects.create(
        model=FAST, failures=5, open_until=timezone.now() + timedelta(seconds=25), reason="overloaded"
    )
    client = sign_in(viewer)
    for address in (ADDRESS, "/t/acme/"):
        client.get(address)
    page = client.get(ADDRESS)
    assert "breaker open" in page.text
    assert "The LLM failed 5 times in a row (overloaded); it is asked again in" in page.text


def test_what_passed_unverified_leads_to_its_handoffs(sign_in: SignIn, viewer: Person, submit: Submit) -> None:
    handoff = submit()
    Handoff.objects.filter(pk=handoff.pk).update(unverified=True)
    client = sign_in(viewer)
    page = client.get(f"{ADDRESS}?period=1h")
    assert page.context["health"].waiting.unverified == 1
    assert "1 accepted or approved unverified" in text_of(page)
    query = "?state=accepted&state=approved&flag=unverified&since=1h"
    assert f"/t/acme/handoffs/{query}" in links(page)
    assert len(client.get(f"/t/acme/handoffs/{query}").context["handoffs"]) == 1


@pytest.mark.parametrize(
    ("outcome", "ago", "told"),
    [("connection", 1, True), ("connection", 10, False), ("malformed_answer", 1, False), ("ok", 1, False)],
)
def test_a_call_that_failed_of_late_is_told_before_the_breaker_opens(
    sign_in: SignIn, viewer: Person, tenant: Tenant, model: MessagesServer, submit: Submit, outcome, ago, told
) -> None:
    submit(handoff_type="message")
    called(tenant, outcome, timedelta(minutes=ago))
    assert ("The last call failed (connection)" in sign_in(viewer).get("/t/acme/").text) is told


@pytest.mark.parametrize(("minutes", "told"), [(0, False), (2, True)])
def test_checks_that_no_worker_takes_are_told(
    sign_in: SignIn, viewer: Person, tenant: Tenant, model: MessagesServer, submit: Submit, minutes: int, told: bool
) -> None:
    submit()
    ModelCheck.objects.update(since=timezone.now() - timedelta(minutes=minutes))
    assert ("no worker takes them" in sign_in(viewer).get(ADDRESS).text) is told


def test_the_overview_tells_how_the_model_stands(
    sign_in: SignIn, viewer: Person, tenant: Tenant, submit: Submit, model: MessagesServer, settings
) -> None:
    submit(handoff_type="message")
    client = sign_in(viewer)
    assert "The LLM is asked." in client.get("/t/acme/").text
    ModelSpend.objects.create(tenant=tenant, day=timezone.now().date(), usd=settings.MODEL_DAILY_USD)
    assert "10 USD is spent" in client.get("/t/acme/").text
    assert "No LLM key" not in client.get("/t/acme/").text
    settings.ANTHROPIC_API_KEY = ""
    assert client.get("/t/acme/").text.count("No LLM key") == 1


def test_the_settings_say_that_no_key_is_set(sign_in: SignIn, admin: Person, settings) -> None:
    client = sign_in(admin)
    assert 'href="/t/acme/diagnostics/model/">How to add a key' in client.get("/t/acme/settings/").text
    settings.ANTHROPIC_API_KEY = "any"
    assert "No LLM key" not in client.get("/t/acme/settings/").text


@pytest.mark.parametrize("address", ["/t/acme/", ADDRESS])
def test_an_alert_is_shown_with_its_handoffs_and_can_be_acknowledged(
    address: str, sign_in: SignIn, reviewer: Person, tenant: Tenant
) -> None:
    alerts.raise_alert(tenant.pk, AlertKind.WOULD_HAVE_REJECTED, 3)
    [alert] = alerts.list_open(tenant)
    client = sign_in(reviewer)
    page = client.get(address)
    assert "The LLM would have rejected 3 handoffs that passed without its check" in page.text
    assert 'href="/t/acme/handoffs/?flag=flagged"' in page.text
    pressed = {"page": "overview" if address == "/t/acme/" else "model_health"}
    answer = client.post(f"/t/acme/diagnostics/alerts/{alert.pk}/acknowledge/", pressed)
    assert (answer.status_code, answer["Location"]) == (302, address)
    assert "The LLM would have rejected" not in client.get(address).text
    assert AuditEntry.objects.get(tenant=tenant).action == "alert.acknowledge"


def test_a_viewer_sees_an_alert_and_cannot_acknowledge_it(sign_in: SignIn, viewer: Person, tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, AlertKind.MODEL_UNAVAILABLE, 1)
    [alert] = alerts.list_open(tenant)
    client = sign_in(viewer)
    page = client.get(ADDRESS)
    assert "1 handoff is not checked by the LLM" in page.text
    assert "Acknowledge" not in page.text
    assert client.post(f"/t/acme/diagnostics/alerts/{alert.pk}/acknowledge/").status_code == 403
    assert alerts.list_open(tenant)


@pytest.mark.parametrize(("last", "told"), [("budget", True), ("ok", False)])
def test_a_budget_without_room_for_a_question_is_told_though_some_is_left(
    last: str,
    told: bool,
    sign_in: SignIn,
    viewer: Person,
    tenant: Tenant,
    model: MessagesServer,
    submit: Submit,
) -> None:
    submit()
    called(tenant, "ok", ago=timedelta(milliseconds=2))
    called(tenant, last, ago=timedelta(milliseconds=1))
    called(tenant, cached=True)
    overview = sign_in(viewer).get("/t/acme/")
    assert ("budget of 10 USD was too small for the last question" in overview.text) is told


def test_a_budget_of_nothing_does_not_say_that_it_was_spent(
    sign_in: SignIn, viewer: Person, model: MessagesServer, submit: Submit, settings: Settings
) -> None:
    submit()
    settings.MODEL_DAILY_USD = 0.0
    overview = sign_in(viewer).get("/t/acme/")
    assert "HANDOFFAUDIT_MODEL_DAILY_USD is 0: nothing may be spent on the LLM." in overview.text
