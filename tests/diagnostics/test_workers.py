"""Tests of the list of running workers and of workers that are gone."""

import math
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings as configured
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import alert_rules, status
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import notify
from handoffaudit.handoffs.models import Alert, Handoff, State, Subscriber
from handoffaudit.handoffs.webhooks import subscriptions
from tests.handoffs.support import payload, submit, take

pytestmark = pytest.mark.django_db
STRUCTURAL = configured.CELERY_TASK_DEFAULT_QUEUE


@pytest.fixture
def beaten(monkeypatch):
    """Return a function that records a heartbeat of this process as a worker of the given queues."""

    def beaten(*queues: str) -> None:
        monkeypatch.setattr(notify, "_queues", list(queues))
        monkeypatch.setattr(status, "_last_beat", -math.inf)
        status.record_heartbeat()

    return beaten


@pytest.fixture
def asked_for(settings) -> None:
    settings.ANTHROPIC_API_KEY = "a key"


def seen(name: str, ago: timedelta) -> None:
    Watermark.objects.update_or_create(name=name, defaults={"at": timezone.now() - ago})


def waited(minutes: int) -> None:
    Handoff.objects.update(received_at=timezone.now() - timedelta(minutes=minutes))


def test_one_that_was_never_seen_is_missed_and_one_that_runs_is_not(beaten) -> None:
    assert status.silent_workers() == {"worker": math.inf}
    assert status.describe_silence(math.inf) == "none seen yet"
    beaten(STRUCTURAL)
    assert status.silent_workers() == {}


def test_one_that_is_gone_is_missed(beaten) -> None:
    beaten(STRUCTURAL)
    seen("worker", timedelta(minutes=3))
    assert status.describe_silence(status.silent_workers()["worker"]) == "none seen for 3 min"
    beaten(notify.CHECKS_QUEUE)
    assert "worker" in status.silent_workers()


def test_a_sign_of_life_is_written_seldom(beaten, django_assert_num_queries) -> None:
    beaten(STRUCTURAL)
    with django_assert_num_queries(0):
        status.record_heartbeat()


def test_who_asks_the_model_is_missed_only_where_it_is_to_be_asked(beaten, asked_for: None) -> None:
    beaten(STRUCTURAL)
    assert list(status.silent_workers()) == ["asker"]
    beaten(notify.CHECKS_QUEUE)
    assert status.silent_workers() == {}


def test_sweeps_far_apart_are_waited_for(beaten, settings) -> None:
    beaten(STRUCTURAL)
    seen("worker", timedelta(minutes=3))
    settings.SWEEP_SECONDS = 120
    assert status.silent_workers() == {}


def test_it_is_said_only_where_handoffs_wait_for_it(tenant: Tenant) -> None:
    submit(tenant, payload())
    handoff = Handoff.objects.get()
    assert status.missing_worker_message(tenant, handoff.received_at) == ""
    waited(2)
    long_ago = timezone.now() - timedelta(minutes=2)
    assert status.missing_worker_message(tenant, long_ago) == "none seen yet"
    take(1)
    assert status.missing_worker_message(tenant, long_ago) == "none seen yet"
    Watermark.objects.create(name="worker", at=datetime(2026, 1, 2, 3, 4, 30, tzinfo=UTC))
    assert status.missing_worker_message(tenant, long_ago) == "none seen since 2026-01-02 03:04 UTC"
    # As what waits for the model.
    Handoff.objects.update(state=State.VALIDATING, tries=1)
    assert status.missing_worker_message(tenant, long_ago) == ""
    seen("worker", timedelta(0))
    Handoff.objects.update(state=State.RECEIVED, tries=0)
    assert status.missing_worker_message(tenant, long_ago) == ""


def test_who_answers_requests_opens_the_alert_where_no_worker_runs(tenant: Tenant) -> None:
    submit(tenant, payload())
    waited(20)
    status.evaluate_without_workers()
    assert Alert.objects.get().kind == "queue_age"
    assert not alert_rules.anything_due()


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the wakes and stops of the webhook worker."""
    asked: list[str] = []
    recorder = SimpleNamespace(wake_senders=lambda: asked.append("wake"), stop_senders=lambda: asked.append("stop"))
    monkeypatch.setattr(status, "delivery", recorder)
    return asked


def test_who_answers_tells_subscribers_of_it_where_no_worker_runs(
    tenant: Tenant, woken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "_cached_active", (0.0, False))
    Subscriber.objects.create(
        tenant=tenant, kind="webhook", name="CI", address="https://example.com/", events=["alert"], created_by="ada"
    )
    submit(tenant, payload())
    waited(20)
    status.evaluate_without_workers()
    assert woken == ["wake"]


def test_and_leaves_it_to_them_where_one_runs(tenant: Tenant, asked_for: None, woken: list[str]) -> None:
    submit(tenant, payload())
    waited(20)
    seen("asker", timedelta(0))
    status.evaluate_without_workers()
    assert not Alert.objects.exists()
    assert woken == ["stop"]
