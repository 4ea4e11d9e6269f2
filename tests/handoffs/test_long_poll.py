"""Tests of requests that wait for a verdict or a decision."""

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
import redis
from django.db import connections

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, long_poll, queries
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, State, new_id
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from tests.handoffs.support import SENDER, held, judged, payload, submit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def waiters(monkeypatch) -> Iterator[long_poll._Waiters]:
    fresh = long_poll._Waiters()
    monkeypatch.setattr(long_poll, "_waiters", fresh)
    # The interval is so long that no waiter finds the verdict by its own look.
    monkeypatch.setattr(long_poll, "RECHECK_SECONDS", 300.0)
    yield fresh
    assert fresh.count_waiting() == 0


def later(action) -> threading.Thread:
    def run() -> None:
        time.sleep(0.1)
        try:
            action()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait(tenant: Tenant, pk: object, states=WAITING_STATES, seconds: float = 300) -> tuple[Handoff, float]:
    started = time.monotonic()
    handoff = long_poll.wait_while(lambda: queries.get(tenant, str(pk)), states, seconds)
    return handoff, time.monotonic() - started


def test_a_verdict_is_heard_of(tenant: Tenant) -> None:
    receipt = submit(tenant, payload())
    thread = later(judge.drain)
    handoff, took = wait(tenant, receipt.id)
    thread.join()
    assert handoff.state == State.ACCEPTED
    assert took < 60


def test_a_verdict_that_another_process_stored_is_found(tenant: Tenant, monkeypatch, settings) -> None:
    """Without Redis, processes cannot notify each other."""
    settings.REDIS_URL = ""
    receipt = submit(tenant, payload())
    monkeypatch.setattr(long_poll, "announce", lambda _: None)
    thread = later(judge.drain)
    handoff, took = wait(tenant, receipt.id)
    thread.join()
    assert handoff.state == State.ACCEPTED
    assert took < 60


def test_a_decision_is_heard_of(tenant: Tenant) -> None:
    handoff = judged(tenant, held())

    def decide() -> None:
        decisions.decide_handoff(
            tenant=tenant,
            reference=str(handoff.pk),
            decision=Decision.DECLINE,
            note="",
            actor=SENDER,
            seen_version=None,
        )

    thread = later(decide)
    found, took = wait(tenant, handoff.pk, (State.HELD,))
    thread.join()
    assert found.state == State.DECLINED
    assert took < 60


def test_what_is_there_already_is_not_waited_for(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    assert wait(tenant, handoff.pk)[1] < 60


def test_after_the_time_it_is_shown_as_it_stands(tenant: Tenant) -> None:
    receipt = submit(tenant, payload())
    handoff, took = wait(tenant, receipt.id, seconds=0.2)
    assert handoff.state == State.RECEIVED
    assert 0.2 <= took < 60


def test_the_last_places_are_for_other_tenants(waiters: long_poll._Waiters, settings) -> None:
    settings.MAX_WAITING_REQUESTS = 4
    one = uuid.uuid4()
    mine = [waiters.add(one, 1, tenant_id=1) for _ in range(2)]
    assert not long_poll.are_too_many(1)
    mine.append(waiters.add(one, 1, tenant_id=1))
    assert long_poll.are_too_many(1)
    assert not long_poll.are_too_many(2)
    for waiter in mine:
        waiters.remove(one, waiter)


def test_who_waits_is_counted_and_the_number_has_a_limit(waiters: long_poll._Waiters, settings) -> None:
    settings.MAX_WAITING_REQUESTS = 2
    one, other = uuid.uuid4(), uuid.uuid4()
    first, second = waiters.add(one, 1, 1), waiters.add(one, 1, 2)
    assert long_poll.are_too_many(3)
    waiters.remove(one, first)
    assert not long_poll.are_too_many(3)
    third = waiters.add(other, 1, 1)
    waiters.tell([one])
    assert second.event.is_set()
    assert not third.event.is_set()
    waiters.remove(one, second)
    waiters.remove(other, third)


@pytest.mark.services
def test_redis_carries_it_between_processes(tenant: Tenant, settings, redis_url: str, monkeypatch, waiters) -> None:
    settings.REDIS_URL = redis_url
    receipt = submit(tenant, payload())
    published = redis.Redis.from_url(redis_url)

    def from_another_process() -> None:
        """Notify this process through Redis alone."""
        with monkeypatch.context() as patch:
            patch.setattr(long_poll, "announce", lambda _: None)
            judge.drain()
        # Repeat the message until it is received: a message before the subscription is lost.
        while waiters.count_waiting():
            published.publish(long_poll.CHANNEL, new_id().bytes + uuid.UUID(receipt.id).bytes)
            time.sleep(0.02)

    thread = later(from_another_process)
    handoff, took = wait(tenant, receipt.id)
    thread.join()
    published.close()
    assert handoff.state == State.ACCEPTED
    assert took < 60


@pytest.mark.services
def test_changes_are_published_after_they_are_stored(tenant: Tenant, settings, redis_url: str, monkeypatch) -> None:
    settings.REDIS_URL = redis_url
    monkeypatch.setattr(long_poll, "_publisher", None)
    with redis.Redis.from_url(redis_url) as client, client.pubsub() as heard:
        heard.subscribe(long_poll.CHANNEL)
        assert heard.get_message(timeout=60)["type"] == "subscribe"
        ids = {uuid.UUID(submit(tenant, payload()).id) for _ in range(3)}
        judge.drain()
        # All users of a Redis server share its channels.
        told: set[uuid.UUID] = set()
        while not ids <= told and (message := heard.get_message(timeout=60)):
            data = message["data"]
            told |= {uuid.UUID(bytes=data[at : at + 16]) for at in range(0, len(data), 16)}
    assert ids <= told
    long_poll._publisher.close()


def test_where_redis_is_away_who_waits_looks_for_itself(tenant: Tenant, settings, monkeypatch, waiters) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(long_poll, "_publisher", None)
    monkeypatch.setattr(long_poll, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(waiters, "_subscribe", lambda: None)
    monkeypatch.setattr(waiters, "tell", lambda _: None)
    receipt = submit(tenant, payload())
    thread = later(judge.drain)
    handoff, took = wait(tenant, receipt.id)
    thread.join()
    assert handoff.state == State.ACCEPTED
    assert took < 60


def test_a_batch_is_waited_for_until_its_last_verdict(tenant: Tenant) -> None:
    pks = {uuid.UUID(submit(tenant, payload()).id) for _ in range(3)}
    thread = later(judge.drain)
    started = time.monotonic()
    long_poll.wait_for_all(tenant.pk, pks, WAITING_STATES, 300)
    thread.join()
    assert time.monotonic() - started < 60
    assert set(Handoff.objects.filter(pk__in=pks).values_list("state", flat=True)) == {State.ACCEPTED}


def test_a_batch_counts_as_one_waiting_request(tenant: Tenant, waiters: long_poll._Waiters) -> None:
    pks = {uuid.UUID(submit(tenant, payload()).id) for _ in range(3)}
    seen: list[int] = []
    thread = later(lambda: seen.append(waiters.count_waiting()))
    long_poll.wait_for_all(tenant.pk, pks, WAITING_STATES, 0.4)
    thread.join()
    assert seen == [1]


def test_nothing_is_waited_for_in_an_empty_batch(tenant: Tenant) -> None:
    started = time.monotonic()
    long_poll.wait_for_all(tenant.pk, set(), WAITING_STATES, 300)
    assert time.monotonic() - started < 60
