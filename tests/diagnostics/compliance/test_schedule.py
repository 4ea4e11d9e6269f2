"""Tests of the weekly report: its figures, when it is due, and that each webhook receives it once."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.core import mail
from django.db import connection
from structlog.testing import capture_logs

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import compliance_schedule, tasks
from handoffaudit.diagnostics.compliance_schedule import LEASE, anything_due, last_due, make_report, send_due
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import notify
from handoffaudit.handoffs.models import Delivery, HourlyTotal, Subscriber
from handoffaudit.handoffs.webhooks import delivery
from tests.diagnostics.compliance.test_weeks import count
from tests.handoffs.support import at_once

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 3, 16, 6, tzinfo=UTC)

Clock = Callable[[datetime], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a function that sets the time for the schedule."""
    compliance_schedule._sent.clear()

    def set_time(now: datetime) -> None:
        monkeypatch.setattr("django.utils.timezone.now", lambda: now)

    yield set_time
    compliance_schedule._sent.clear()


def subscribe(tenant: Tenant, name: str = "CI", **columns: Any) -> Subscriber:
    kept = {"kind": "webhook", "address": "https://127.0.0.1/", "events": ["compliance"], "secret": "x"}
    kept |= {"heard_from": MONDAY - timedelta(days=1), "created_by": "ada"}
    return Subscriber.objects.create(tenant=tenant, name=name, **kept | columns)


def judged(tenant: Tenant, day: date, agent: str, accepted: int, stopped: int = 0) -> None:
    """Count handoffs as ingest does, by agent and day, and in all by hour."""
    count(tenant, day, agent, accepted, stopped)
    hour = datetime(day.year, day.month, day.day, 9, tzinfo=UTC)
    for state, number in (("accepted", accepted), ("rejected", stopped)):
        HourlyTotal.objects.create(tenant=tenant, hour=hour, state=state, code="", number=number)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        (MONDAY, MONDAY),
        (MONDAY - timedelta(seconds=1), MONDAY - timedelta(days=7)),
        (MONDAY + timedelta(days=6, hours=23), MONDAY),
    ],
)
def test_the_report_is_due_on_monday_morning(now: datetime, due: datetime) -> None:
    assert last_due(now) == due


def test_the_report_has_the_week_and_the_one_before(tenant: Tenant, other_tenant: Tenant, settings: Any) -> None:
    settings.PUBLIC_URL = "https://audit.example.com"
    for of in (tenant, other_tenant):
        judged(of, date(2026, 3, 15), "writer", 3, 1)
    judged(tenant, date(2026, 3, 9), "planner", 10)
    judged(tenant, date(2026, 3, 8), "writer", 1, 1)
    judged(tenant, date(2026, 3, 16), "writer", 0, 50)
    report = make_report(tenant, MONDAY)
    assert report["week"] == "2026-03-09"
    rate = report["acceptance_rate"]
    assert (rate["part"], rate["total"], rate["percent"], rate["percent_before"]) == (13, 14, 92.9, 50.0)
    assert rate["agents"] == [
        {"agent": "planner", "part": 10, "total": 10, "percent": 100.0, "percent_before": None},
        {"agent": "writer", "part": 3, "total": 4, "percent": 75.0, "percent_before": 50.0},
    ]
    assert report["file_compliance"]["percent"] is None
    assert report["link"].endswith("/t/acme/diagnostics/compliance/?since=2026-03-09&until=2026-03-16")


def test_a_clock_that_was_weeks_ahead_stops_no_report(tenant: Tenant, at: Clock) -> None:
    subscribe(tenant)
    at(MONDAY + timedelta(days=30))
    assert send_due() == 1
    at(MONDAY)
    compliance_schedule._sent.clear()
    assert anything_due()
    assert send_due() == 1
    assert Delivery.objects.count() == 2
    assert not anything_due()


def test_each_webhook_that_asked_receives_a_week_once(tenant: Tenant, other_tenant: Tenant, at: Clock) -> None:
    first, second = subscribe(tenant), subscribe(other_tenant)
    subscribe(tenant, "Alerts", events=["alert"])
    subscribe(tenant, "Paused", active=False)
    subscribe(tenant, "Later", heard_from=MONDAY + timedelta(hours=1))
    at(MONDAY + timedelta(hours=2))
    assert anything_due()
    assert send_due() == 2
    for _ in range(2):
        assert not anything_due()
        assert send_due() == 0
    assert set(Delivery.objects.values_list("subscriber", "about")) == {
        (first.pk, "compliance:2026-03-09"),
        (second.pk, "compliance:2026-03-09"),
    }
    at(MONDAY + timedelta(days=7, hours=1))
    assert anything_due()
    send_due()
    assert Delivery.objects.filter(about="compliance:2026-03-16").count() == 3


def test_a_process_that_died_midway_sends_nothing_twice(
    tenant: Tenant, other_tenant: Tenant, at: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(tenant)
    subscribe(other_tenant)
    at(MONDAY)
    send = compliance_schedule._send

    def fail_on_the_second(one: Tenant, due: datetime) -> None:
        if one.pk == other_tenant.pk:
            raise SystemExit
        send(one, due)

    monkeypatch.setattr(compliance_schedule, "_send", fail_on_the_second)
    with pytest.raises(SystemExit):
        send_due()
    monkeypatch.setattr(compliance_schedule, "_send", send)
    assert anything_due()
    assert send_due() == 2
    assert Delivery.objects.count() == 2


def test_a_tenant_whose_report_fails_keeps_no_report_from_the_others(
    tenant: Tenant, other_tenant: Tenant, at: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe(tenant)
    second = subscribe(other_tenant)
    at(MONDAY)
    load = compliance_schedule.make_report

    def fail_on_the_first(one: Tenant, due: datetime) -> dict[str, Any]:
        if one.pk == tenant.pk:
            raise KeyError(one.pk)
        return load(one, due)

    with monkeypatch.context() as changed, capture_logs() as logs:
        changed.setattr(compliance_schedule, "make_report", fail_on_the_first)
        assert send_due() == 1
        assert (send_due(), anything_due()) == (0, False), "a pause follows, or each sweep would make all reports"
    assert [(one["event"], one["tenant"]) for one in logs] == [("a weekly report failed", tenant.slug)]
    assert list(Delivery.objects.values_list("subscriber", flat=True)) == [second.pk]
    at(MONDAY + timedelta(minutes=3))
    assert anything_due()
    assert send_due() == 2
    assert Delivery.objects.count() == 2
    assert not anything_due()


def test_while_another_process_holds_the_lease_nothing_is_sent(tenant: Tenant, at: Clock) -> None:
    subscribe(tenant)
    at(MONDAY)
    held = LEASE.acquire()
    assert not anything_due()
    assert send_due() == 0
    LEASE.release(held)
    assert anything_due()


def test_a_sweep_wakes_the_task_and_then_asks_nothing(
    tenant: Tenant, at: Clock, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    started: list[str] = []
    monkeypatch.setattr(notify, "start_or_send", started.append)
    subscribe(tenant)
    at(MONDAY)
    tasks.look_for_reports()
    assert started == [compliance_schedule.TASK]
    tasks.send_reports()
    tasks.look_for_reports()
    with django_assert_num_queries(0):
        tasks.look_for_reports()
    assert len(started) == 1


def test_the_report_is_mailed(tenant: Tenant, at: Clock, settings: Any) -> None:
    settings.EMAIL_SET_UP, settings.PUBLIC_URL = True, "https://audit.example.com"
    subscribe(tenant, kind="email", address="team@example.com")
    judged(tenant, date(2026, 3, 10), "wri\nter", 3, 1)
    at(MONDAY)
    send_due()
    delivery.drain()
    (sent,) = mail.outbox
    assert sent.subject == "[handoffaudit acme] Compliance in the week of 2026-03-09"
    assert "Acceptance rate: 75.0 % of 4." in sent.body
    assert "  wri ter: 75.0 % of 4" in sent.body
    assert "File compliance: nothing to count." in sent.body
    assert "https://audit.example.com/t/acme/diagnostics/compliance/?since=2026-03-09" in sent.body


def test_the_report_names_a_bounded_number_of_agents(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compliance_schedule, "MOST_AGENTS", 2)
    for number in range(4):
        count(tenant, date(2026, 3, 10), "a" * 199 + str(number), number + 1)
    assert len(make_report(tenant, MONDAY)["acceptance_rate"]["agents"]) == 2


@pytest.mark.django_db(transaction=True)
def test_of_several_workers_at_once_one_sends(tenant: Tenant, at: Clock) -> None:
    subscribe(tenant)
    at(MONDAY)
    answers = at_once(*[send_due] * 4)
    assert sorted(answers) == [0, 0, 0, 1]
    assert Delivery.objects.count() == 1
    assert orjson.loads(Delivery.objects.get().payload)["report"]["week"] == "2026-03-09"
    assert Watermark.objects.get(name="compliance").at == MONDAY
    connection.close()
