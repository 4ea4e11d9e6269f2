"""Tests of the threads of a worker that deliver webhooks."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connections
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import long_poll, notify
from handoffaudit.handoffs.models import Delivery
from handoffaudit.handoffs.webhooks import delivery, subscriptions
from tests.handoffs.support import judged, payload
from tests.handoffs.webhooks.conftest import Subscribe
from tests.handoffs.webhooks.receiver import Receiver, raw

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def teller(monkeypatch: pytest.MonkeyPatch, settings) -> Iterator[delivery._Worker]:
    settings.SWEEP_SECONDS = 3600
    teller = delivery._Worker()
    monkeypatch.setattr(delivery, "_worker", teller)
    yield teller
    teller.stop()
    for thread in (teller._thread, *teller._senders):
        if thread is not None:
            thread.join(60)
    connections.close_all()


def eventually(condition: Callable[[], object], act: Callable[[], None] = lambda: None) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        act()
        time.sleep(0.02)


def test_what_happens_is_told_at_once(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, teller: delivery._Worker
) -> None:
    subscribe(events=["verdict"])
    teller.wake()
    judged(tenant, payload())
    eventually(lambda: receiver.requests)


def test_what_failed_is_tried_again_by_the_same_worker(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, teller: delivery._Worker
) -> None:
    subscribe(events=["verdict"])
    receiver.says(500, 200)
    judged(tenant, payload())
    teller.wake()
    eventually(lambda: Delivery.objects.filter(tries=1, claim=None).exists())
    Delivery.objects.update(due_at=timezone.now())
    eventually(lambda: Delivery.objects.filter(tries=2).exclude(delivered_at=None).exists(), teller.wake)


def test_one_that_hangs_keeps_no_other_waiting(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, teller: delivery._Worker
) -> None:
    over = threading.Event()
    with raw(lambda _: over.wait(60) and None) as address:
        subscribe(name="Hangs", address=address, events=["verdict"])
        subscribe(name="There", events=["verdict"])
        judged(tenant, payload())
        teller.wake()
        eventually(lambda: receiver.requests)
        assert not Delivery.objects.filter(subscriber__name="Hangs", tries__gt=0).exists()
        over.set()


def test_where_nobody_hears_no_worker_is_woken(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    monkeypatch.setattr(notify, "notify_senders", lambda: woken.append(1))
    subscriptions._clear_cache()
    handoff = judged(tenant, payload())
    assert woken == []
    monkeypatch.setattr(subscriptions, "_cached_active", (time.monotonic() + 60, True))
    long_poll.announce([handoff.pk])
    assert woken == [1]


def test_the_message_names_the_task_that_workers_know() -> None:
    from handoffaudit.handoffs.tasks import tell_subscribers

    assert tell_subscribers.name == notify.TELLING
