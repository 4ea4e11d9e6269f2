"""Tests of the webhook event for a muted finding group that returns: signed, and sent once each time."""

from collections.abc import Callable

import orjson
import pytest
from django.core import mail
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution, group_store
from handoffaudit.diagnostics.models import FindingGroup, TracedHandoff
from handoffaudit.handoffs.leases import NamedLease
from handoffaudit.handoffs.models import Delivery, Subscriber
from handoffaudit.handoffs.webhooks import delivery, subscriptions
from handoffaudit.handoffs.webhooks.client import sign
from handoffaudit.validation.layers.chain import CIRCULAR
from tests.diagnostics.groups.support import found, group
from tests.diagnostics.groups.test_mutes import mute
from tests.handoffs.support import at_once, circular, judged
from tests.handoffs.webhooks.conftest import local, receiver, subscribe, tell
from tests.handoffs.webhooks.receiver import Receiver

pytestmark = pytest.mark.django_db
__all__ = ["local", "receiver", "subscribe", "tell"]

Subscribe = Callable[..., Subscriber]
Tell = Callable[[], list[Delivery]]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep deliveries from going out until a test sends them."""
    monkeypatch.setattr(delivery, "notify_webhook_workers", lambda: None)


def regressed(tenant: Tenant) -> FindingGroup:
    """Mute a group until it has twice as many handoffs, and submit that many."""
    mute(tenant, "double")
    found(tenant, group(tenant).number)
    return group(tenant)


def test_it_is_told_once_and_signed(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell: Tell) -> None:
    subscriber = subscribe(events=["group"])
    found(tenant)
    one = regressed(tenant)
    found(tenant)
    tell()
    tell()
    (request,) = receiver.requests
    assert request.headers["handoffaudit-event"] == "group"
    at = request.headers["handoffaudit-signature"].partition(",")[0].removeprefix("t=")
    assert request.headers["handoffaudit-signature"] == sign(subscriber.secret, request.body, int(at))
    told = request.told["group"]
    assert (told["id"], told["change"], told["number"]) == (one.pk, "regressed", 2)
    assert (told["code"], told["title"], told["path"]) == ("chain.circular", CIRCULAR.title, "target_agent_id")
    assert told["routes"] == [{"source_agent_id": "researcher", "target_agent_id": "planner", "handoffs": 2}]
    assert (told["muted_by"], told["muted_note"]) == ("rui", "known, mended next week")
    assert told["link"] == f"/t/acme/groups/{one.pk}/"


def test_each_coming_back_is_told(tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell: Tell) -> None:
    subscribe(events=["group"])
    found(tenant)
    regressed(tenant)
    regressed(tenant)
    tell()
    assert [told["group"]["number"] for told in receiver.told] == [2, 4]


def test_who_did_not_ask_is_paused_or_is_elsewhere_hears_nothing(
    tenant: Tenant, other_tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell: Tell
) -> None:
    subscribe(events=["alert"])
    subscribe(events=["group"], tenant=other_tenant)
    paused = subscribe(events=["group"], name="Paused")
    subscriptions.switch(tenant=tenant, pk=paused.pk, on=False, actor="ada")
    found(tenant)
    regressed(tenant)
    tell()
    assert receiver.requests == []
    assert not Delivery.objects.exists()


def test_unmuted_or_seen_by_a_person_it_is_no_news(tenant: Tenant, subscribe: Subscribe, tell: Tell) -> None:
    subscribe(events=["group"])
    found(tenant)
    one = mute(tenant, "double")
    group_store.unmute_group(tenant=tenant, group=one.pk, actor="rui")
    found(tenant, 3)
    assert tell() == []


def test_what_is_undone_is_not_told(tenant: Tenant, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe(events=["group"])
    found(tenant)
    mute(tenant, "double")
    right = group_store.notify_regressed

    def breaks(*given: object) -> None:
        right(*given)  # type: ignore[arg-type]
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(group_store, "notify_regressed", breaks)
        found(tenant)
    assert not Delivery.objects.exists()
    attribution.run()
    assert Delivery.objects.count() == 1


def test_people_hear_of_it_by_mail(tenant: Tenant, subscribe: Subscribe, tell: Tell, settings) -> None:
    settings.EMAIL_SET_UP = True
    subscribe(kind="email", address="team@example.com", events=["group"])
    found(tenant)
    regressed(tenant)
    tell()
    (message,) = mail.outbox
    assert message.subject == f"[handoffaudit acme] Came back: {CIRCULAR.title} at target_agent_id"
    assert "2 handoffs have the finding now" in message.body
    assert "known, mended next week" in message.body


@pytest.mark.django_db(transaction=True)
def test_counted_by_two_at_once_it_is_told_once(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test runs without the lease that excludes a second process, as after the lease has expired."""
    monkeypatch.setattr(NamedLease, "acquire", lambda lease: timezone.now() + lease.LENGTH)
    monkeypatch.setattr(NamedLease, "renew", lambda lease, held_until: held_until)
    subscribe(events=["group"])
    found(tenant, 2)
    for times in range(1, 4):
        mute(tenant, "double")
        for _ in range(group(tenant).number):
            judged(tenant, circular())
        at_once(attribution.run, attribution.run)
        attribution.run()
        assert group(tenant).number == TracedHandoff.objects.count()
        tell()
        assert [orjson.loads(one.body)["group"]["change"] for one in receiver.requests] == ["regressed"] * times
