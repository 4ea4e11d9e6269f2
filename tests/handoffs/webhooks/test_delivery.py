"""Tests of deliveries: signed, in order, retried after a failure, and given up in the end."""

import hashlib
import hmac
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs import alerts, counts
from handoffaudit.handoffs.models import Alert, Delivery, Subscriber
from handoffaudit.handoffs.webhooks import delivery, events, log, messages
from handoffaudit.handoffs.webhooks import delivery as webhooks_delivery
from tests.handoffs.support import at_once, judged, payload
from tests.handoffs.webhooks.conftest import Subscribe
from tests.handoffs.webhooks.receiver import Receiver, running

pytestmark = pytest.mark.django_db


def make_due() -> None:
    """Make all waiting deliveries due."""
    Delivery.objects.filter(due_at__isnull=False).update(due_at=timezone.now() - timedelta(seconds=1))


def happen(tenant: Tenant, number: int = 1) -> list[str]:
    """Store that many verdicts, and return the ids of their handoffs."""
    pks = [str(judged(tenant, payload()).pk) for _ in range(number)]
    events.dispatch()
    return pks


def seen(receiver: Receiver) -> list[str]:
    return [told["handoff"]["id"] for told in receiver.told]


def test_a_request_is_signed(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell) -> None:
    subscriber = subscribe()
    judged(tenant, payload())
    (delivery,) = tell()
    (request,) = receiver.requests
    at, signed = (part.partition("=")[2] for part in request.headers["handoffaudit-signature"].split(","))
    expected = hmac.new(subscriber.secret.encode(), at.encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert signed == expected
    assert abs(int(at) - time.time()) < 300
    assert request.headers["handoffaudit-event"] == "verdict"
    assert request.headers["handoffaudit-delivery"] == str(delivery.pk) == request.told["id"]
    assert request.headers["content-type"] == "application/json"
    assert (delivery.tries, delivery.last_status, delivery.due_at, delivery.claim) == (1, 204, None, None)


def test_what_failed_is_tried_again_with_the_same_body(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    subscribe()
    receiver.says(500, 200)
    judged(tenant, payload())
    (first,) = tell()
    assert (first.tries, first.last_status, first.delivered_at) == (1, 500, None)
    assert (
        0.8 * webhooks_delivery.PAUSES[0] - 5
        < (first.due_at - timezone.now()).total_seconds()
        < 1.2 * webhooks_delivery.PAUSES[0]
    )
    assert "answered 500" in first.last_error
    webhooks_delivery.drain()
    assert len(receiver.requests) == 1
    make_due()
    (second,) = tell()
    assert second.delivered_at
    assert receiver.requests[0].body == receiver.requests[1].body


def test_after_the_last_try_it_is_given_up_and_people_are_told(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    subscribe(events=["verdict"])
    receiver.says(503)
    judged(tenant, payload())
    for _ in range(webhooks_delivery.TRIES + 2):
        tell()
        make_due()
    (delivery,) = Delivery.objects.all()
    assert len(receiver.requests) == delivery.tries == webhooks_delivery.TRIES
    assert (delivery.due_at, bool(delivery.gave_up_at)) == (None, True)
    assert [alert.kind for alert in alerts.list_open(tenant)] == ["webhook_failing"]


def test_later_ones_wait_for_one_that_failed_and_come_in_order(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver
) -> None:
    subscribe(events=["verdict"])
    receiver.says(500, 200)
    pks = happen(tenant, 3)
    webhooks_delivery.drain()
    assert seen(receiver) == pks[:1]
    make_due()
    webhooks_delivery.drain()
    assert seen(receiver) == [pks[0], *pks]


def test_one_that_is_refused_holds_nobody_up(tenant: Tenant, subscribe: Subscribe, receiver: Receiver) -> None:
    subscribe(events=["verdict"])
    receiver.says(400, 200)
    pks = happen(tenant, 3)
    webhooks_delivery.drain()
    assert seen(receiver) == pks
    assert Delivery.objects.filter(delivered_at=None).count() == 1


def test_who_is_back_gets_at_once_what_waits_for_hours(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver
) -> None:
    subscribe(events=["verdict"])
    pks = happen(tenant, 2)
    first = Delivery.objects.earliest("id")
    first.tries, first.due_at = 6, timezone.now() + timedelta(hours=3)
    first.save()
    webhooks_delivery.drain()
    assert seen(receiver) == [pks[1], pks[0]]


def test_one_receiver_that_is_away_keeps_no_other_waiting(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver
) -> None:
    with running() as other:
        subscribe(name="Away", events=["verdict"], address=other.url)
    subscribe(name="There", events=["verdict"])
    pks = happen(tenant, 2)
    webhooks_delivery.drain(reliable=True)
    assert seen(receiver) == pks
    away = Delivery.objects.filter(subscriber__name="Away").order_by("id")
    assert [one.tries for one in away] == [1, 0]
    assert "No connection" in away[0].last_error


def test_reliable_senders_leave_out_who_fails(tenant: Tenant, subscribe: Subscribe, receiver: Receiver) -> None:
    subscribe()
    receiver.says(500)
    happen(tenant)
    webhooks_delivery.drain()
    make_due()
    assert delivery.list_ready(reliable=True) == []
    assert len(delivery.list_ready()) == 1


def test_what_cannot_even_be_tried_counts_as_a_try(
    tenant: Tenant, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("our own bug")

    monkeypatch.setattr(messages, "send", broken)
    subscribe()
    happen(tenant)
    assert webhooks_delivery.drain() == 1
    delivery = Delivery.objects.get()
    assert (delivery.tries, delivery.claim, delivery.delivered_at) == (1, None, None)
    assert "internal error" in delivery.last_error


def test_a_receiver_that_wants_nothing_more_is_switched_off(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver
) -> None:
    subscribe(events=["verdict"])
    receiver.says(410)
    happen(tenant, 2)
    webhooks_delivery.drain()
    assert not Subscriber.objects.get().active
    assert len(receiver.requests) == 1
    assert AuditEntry.objects.latest("number").detail == {"why": "the receiver answered 410 Gone"}
    assert Alert.objects.get().kind == "webhook_failing"
    assert not Delivery.objects.filter(due_at__isnull=False).exists()
    counts.flush_totals()
    assert counts.read_totals()[counts.Total.DELIVERIES] == {"failed": 1, "given_up": 1}


@pytest.mark.parametrize(("asked", "least", "most"), [("600", 595, 601), ("1", 3, 13), ("99999999", 21590, 21601)])
def test_a_receiver_may_ask_for_more_time_within_bounds(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell, asked: str, least: int, most: int
) -> None:
    subscribe()
    receiver.answers = [(429, {"Retry-After": asked}, b"")]
    judged(tenant, payload())
    (delivery,) = tell()
    assert least < (delivery.due_at - timezone.now()).total_seconds() < most


def test_what_a_receiver_says_is_kept_without_the_secret(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    subscriber = subscribe()
    receiver.answers = [(500, {}, f"broken with {subscriber.secret}".encode())]
    judged(tenant, payload())
    (delivery,) = tell()
    assert "Its answer: broken with …" in delivery.last_error


def test_what_a_killed_worker_had_is_sent_when_its_claim_runs_out(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver
) -> None:
    subscribe()
    happen(tenant)
    assert delivery.take()
    assert webhooks_delivery.drain() == 0
    make_due()
    assert webhooks_delivery.drain() == 1


def test_what_came_of_a_claim_that_ran_out_counts_no_more(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver
) -> None:
    subscribe()
    receiver.says(500)
    happen(tenant)
    late = delivery.take()
    assert late is not None
    make_due()
    taken = delivery.take()
    webhooks_delivery._send_all(late)
    assert Delivery.objects.get().claim == taken.token


@pytest.mark.django_db(transaction=True)
def test_several_threads_send_each_once_and_in_order(tenant: Tenant, subscribe: Subscribe, receiver: Receiver) -> None:
    subscribe(events=["verdict"])
    pks = happen(tenant, 25)
    results = at_once(*[webhooks_delivery.drain] * 4)
    webhooks_delivery.drain()
    assert not [result for result in results if isinstance(result, Exception)]
    assert seen(receiver) == pks


def test_what_waited_too_long_behind_others_is_given_up(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver
) -> None:
    subscribe()
    happen(tenant)
    Delivery.objects.update(created_at=timezone.now() - timedelta(days=4))
    webhooks_delivery.drain()
    delivery = Delivery.objects.get()
    assert (bool(delivery.gave_up_at), receiver.requests) == (True, [])


@pytest.mark.parametrize("result", ["delivered", "refused", "too old", "untried"])
def test_an_old_delivery_is_sent_again_when_a_person_asks(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, result: str, tell
) -> None:
    subscriber = subscribe(events=["verdict"])
    happen(tenant)
    receiver.says(*{"delivered": [200], "refused": [400]}.get(result, []), 200)
    created_at = timezone.now() - timedelta(days=4)
    Delivery.objects.update(created_at=created_at if result == "too old" else timezone.now())
    (delivery,) = Delivery.objects.all() if result == "untried" else tell()
    assert bool(delivery.delivered_at) is (result == "delivered")
    Delivery.objects.update(created_at=created_at)
    log.send_again(tenant=tenant, subscriber=subscriber.pk, pk=delivery.pk, actor="ada")
    (delivery,) = tell()
    assert (bool(delivery.delivered_at), delivery.gave_up_at) == (True, None), delivery.last_error


def test_an_address_that_is_no_longer_good_is_not_sent_to(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, settings, tell
) -> None:
    from handoffaudit.env import PrivateTargets

    subscribe()
    settings.WEBHOOK_PRIVATE = PrivateTargets()
    judged(tenant, payload())
    (delivery,) = tell()
    assert receiver.requests == []
    assert "not a public address" in delivery.last_error
