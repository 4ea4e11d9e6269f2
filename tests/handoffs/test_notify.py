"""Tests of worker notifications: soon, few, and never in the way of a submission."""

import threading
import time
import uuid

import orjson
import pytest
from celery import Celery

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, judge_leases, long_poll, notify
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Handoff
from handoffaudit.redis_client import ServerBreaker
from tests.handoffs.support import NOT_JSON, SENDER, payload, submit

NOBODY_THERE = "redis://127.0.0.1:1/0"


class Broker:
    """A replacement of the Celery application that counts messages."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send_task(self, name: str, **_: object) -> None:
        self.sent.append(name)


@pytest.fixture
def broker(monkeypatch) -> Broker:
    counting = Broker()
    monkeypatch.setattr(notify, "app", counting)
    monkeypatch.setattr(notify, "_broker", ServerBreaker())
    monkeypatch.setattr(notify, "_waker", notify._Waker())
    return counting


def wait_for(condition, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return bool(condition())


def test_a_wake_up_names_the_task_that_workers_know(broker: Broker) -> None:
    from handoffaudit.handoffs.tasks import judge_waiting

    notify.notify_workers()
    assert wait_for(lambda: broker.sent)
    assert broker.sent[0] == notify.TASK == judge_waiting.name


def test_many_at_once_share_few_messages(broker: Broker) -> None:
    for _ in range(2000):
        notify.notify_workers()
    assert wait_for(lambda: broker.sent)
    time.sleep(0.05)
    assert len(broker.sent) < 500
    sent = len(broker.sent)
    notify.notify_workers()
    assert wait_for(lambda: len(broker.sent) > sent)


def test_a_broker_that_is_away_is_told_and_raises_nothing(monkeypatch, tmp_path) -> None:
    away = Celery(broker="filesystem://")
    folder = str(tmp_path / "gone")
    away.conf.broker_transport_options = {
        "data_folder_in": folder,
        "data_folder_out": folder,
        "control_folder": str(tmp_path),
    }
    monkeypatch.setattr(notify, "app", away)
    monkeypatch.setattr(notify, "_broker", ServerBreaker(3600))
    assert notify.send() is False
    (tmp_path / "gone").mkdir()
    # After a failure, the breaker stops further tries for a while.
    assert notify.send() is False
    monkeypatch.setattr(notify, "_broker", ServerBreaker(0))
    assert notify.send() is True
    assert len(list((tmp_path / "gone").iterdir())) == 1


@pytest.mark.django_db
def test_redis_that_is_away_costs_a_sender_next_to_nothing(monkeypatch, settings) -> None:
    away = Celery(broker=NOBODY_THERE)
    away.conf.broker_transport_options = {"socket_connect_timeout": 1, "max_retries": 0}
    monkeypatch.setattr(notify, "app", away)
    monkeypatch.setattr(notify, "_broker", ServerBreaker())
    monkeypatch.setattr(long_poll, "_publisher", None)
    monkeypatch.setattr(long_poll, "_publishing", ServerBreaker())
    settings.REDIS_URL = NOBODY_THERE
    started = time.monotonic()
    for _ in range(50):
        assert notify.send() is False
        long_poll.announce([uuid.uuid4()])
    assert time.monotonic() - started < 4


@pytest.mark.django_db(transaction=True)
def test_without_a_broker_a_submission_is_neither_delayed_nor_lost(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(notify, "app", Celery(broker=NOBODY_THERE))
    monkeypatch.setattr(notify, "_broker", ServerBreaker(0))
    monkeypatch.setattr(notify, "_waker", notify._Waker())
    gives_up, send = threading.Event(), notify.send

    def send_late(*task: str) -> bool:
        gives_up.wait(100)
        return send(*task)

    monkeypatch.setattr(notify, "send", send_late)
    started = time.monotonic()
    for _ in range(20):
        assert submit(tenant, payload()).status == 202
    assert time.monotonic() - started < 60
    gives_up.set()
    assert Handoff.objects.count() == 20
    assert judge_leases.is_anything_waiting()
    assert judge.drain() == 20


@pytest.mark.django_db
def test_workers_are_woken_by_the_commit_and_only_for_what_waits(
    tenant: Tenant, monkeypatch, django_capture_on_commit_callbacks
) -> None:
    woken: list[bool] = []
    monkeypatch.setattr(notify, "notify_workers", lambda: woken.append(True))

    def batch(*items: bytes) -> None:
        store.accept_batch(tenant, SENDER, items)

    for send, wake_ups in (
        (lambda: submit(tenant, payload(handoff_id="h")), 1),
        (lambda: submit(tenant, payload(handoff_id="h")), 0),
        (lambda: batch(orjson.dumps(payload()), NOT_JSON, orjson.dumps(payload())), 1),
        (lambda: submit(tenant, NOT_JSON), 0),
        (lambda: batch(NOT_JSON), 0),
    ):
        woken.clear()
        with django_capture_on_commit_callbacks(execute=True):
            send()
            assert not woken
        if wake_ups:
            assert len(woken) == 1
        assert len(woken) <= 1
