"""Tests of webhooks that are created, changed, switched and deleted."""

import hashlib

import pytest
from django.utils import timezone

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs.models import Delivery, Subscriber
from handoffaudit.handoffs.webhooks import subscriptions
from handoffaudit.handoffs.webhooks.subscriptions import SubscriptionValues
from tests.handoffs.support import judged, payload
from tests.handoffs.webhooks.conftest import Subscribe
from tests.handoffs.webhooks.receiver import Receiver

pytestmark = pytest.mark.django_db


def test_each_has_a_secret_of_its_own(subscribe: Subscribe) -> None:
    one, other = subscribe(), subscribe()
    assert len(one.secret) == 64
    assert one.secret != other.secret


def test_a_new_secret_takes_the_place_of_the_old_one(tenant: Tenant, subscribe: Subscribe) -> None:
    before = subscribe()
    after = subscriptions.rotate(tenant=tenant, pk=before.pk, actor="ada")
    assert after.secret not in ("", before.secret)
    assert subscriptions.get(tenant, before.pk).secret == after.secret


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": " "}),
        ("name", {"name": "x" * 101}),
        ("name", {"name": "a\nb"}),
        ("events", {"events": []}),
        ("events", {"events": ["deploy"]}),
        ("states", {"states": ["superseded"]}),
        ("address", {"address": "https://10.0.0.1/"}),
        ("address", {"address": "ftp://hooks.example/"}),
        ("kind", {"kind": "pigeon"}),
        ("kind", {"kind": "email", "address": "team@example.com", "events": ["alert"]}),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(subscribe: Subscribe, field: str, changes: dict) -> None:
    with pytest.raises(Refused) as refused:
        subscribe(**changes)
    assert refused.value.field == field
    assert not Subscriber.objects.exists()


@pytest.mark.parametrize(
    "address", ["team", "a@b@c", "team@example.com\nBcc: all@example.com", "team@example.com, x@y.z"]
)
def test_a_mail_goes_to_one_address(subscribe: Subscribe, settings, address: str) -> None:
    settings.EMAIL_SET_UP = True
    with pytest.raises(Refused, match="not an e-mail address"):
        subscribe(kind="email", address=address, events=["alert"])


def test_mails_tell_of_alerts_and_decisions_only(subscribe: Subscribe, settings) -> None:
    settings.EMAIL_SET_UP = True
    with pytest.raises(Refused, match="not a valid event"):
        subscribe(kind="email", address="team@example.com", events=["verdict"])


def test_there_are_so_many_and_no_more(subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 2)
    subscribe(), subscribe()
    with pytest.raises(Refused, match="2 webhooks already"):
        subscribe()


def test_a_change_keeps_the_secret(tenant: Tenant, subscribe: Subscribe, receiver: Receiver) -> None:
    before = subscribe()
    wanted = SubscriptionValues("Pager", receiver.url, ["alert"], ["held"])
    after = subscriptions.change(tenant=tenant, pk=before.pk, wanted=wanted, actor="ada")
    assert (after.name, after.events, after.states, after.secret) == ("Pager", ["alert"], ["held"], before.secret)


def test_all_of_it_is_in_the_audit_log_but_no_secret(tenant: Tenant, subscribe: Subscribe, receiver: Receiver) -> None:
    one = subscribe()
    subscriptions.change(
        tenant=tenant, pk=one.pk, wanted=SubscriptionValues("CI", receiver.url, ["alert"]), actor="ada"
    )
    changed = subscriptions.rotate(tenant=tenant, pk=one.pk, actor="ada")
    subscriptions.switch(tenant=tenant, pk=one.pk, on=False, actor="ada")
    subscriptions.switch(tenant=tenant, pk=one.pk, on=False, actor="ada")
    subscriptions.switch(tenant=tenant, pk=one.pk, on=True, actor="ada")
    subscriptions.delete(tenant=tenant, pk=one.pk, actor="ada")
    entries = list(AuditEntry.objects.order_by("number"))
    actions = ["create", "change", "rotate", "pause", "resume", "delete"]
    assert [entry.action for entry in entries] == [f"subscriber.{action}" for action in actions]
    assert entries[1].detail == {"events": ["alert"]}
    assert all(secret not in str(entry.detail) for entry in entries for secret in (one.secret, changed.secret))


@pytest.mark.parametrize("kind", ["slack", "teams"])
def test_the_audit_log_has_no_address_of_a_chat(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, kind: str
) -> None:
    one = subscribe(kind=kind, address=f"{receiver.url}/B0SECRET")
    wanted = SubscriptionValues("CI", f"{receiver.url}/T1SECRET", ["alert"])
    subscriptions.change(tenant=tenant, pk=one.pk, wanted=wanted, actor="ada")
    created, changed = [entry.detail for entry in AuditEntry.objects.order_by("number")]
    assert "SECRET" not in f"{created} {changed}"
    assert (created["address"], changed["address"]) == ("127.0.0.1", "127.0.0.1")
    assert created["address_sha256"] == hashlib.sha256(f"{receiver.url}/B0SECRET".encode()).hexdigest()
    assert changed["address_sha256"] != created["address_sha256"]


def test_other_tenants_have_no_hand_in_it(other_tenant: Tenant, subscribe: Subscribe) -> None:
    one = subscribe()
    for call in (subscriptions.rotate, subscriptions.delete):
        with pytest.raises(Subscriber.DoesNotExist):
            call(tenant=other_tenant, pk=one.pk, actor="eve")
    with pytest.raises(Subscriber.DoesNotExist):
        subscriptions.switch(tenant=other_tenant, pk=one.pk, on=False, actor="eve")
    assert subscriptions.list_subscribers(other_tenant) == []


def test_who_is_deleted_takes_the_log_along(tenant: Tenant, subscribe: Subscribe, tell) -> None:
    one = subscribe()
    judged(tenant, payload())
    assert len(tell()) == 1
    subscriptions.delete(tenant=tenant, pk=one.pk, actor="ada")
    assert not Delivery.objects.exists()


def test_what_waits_when_it_is_switched_off_is_sent_when_it_is_switched_on(
    tenant: Tenant, subscribe: Subscribe, receiver: Receiver, tell
) -> None:
    one = subscribe()
    receiver.says(500, 200)
    judged(tenant, payload())
    tell()
    subscriptions.switch(tenant=tenant, pk=one.pk, on=False, actor="ada")
    judged(tenant, payload())
    tell()
    assert len(receiver.requests) == 1
    subscriptions.switch(tenant=tenant, pk=one.pk, on=True, actor="ada")
    (delivery,) = tell()
    assert delivery.delivered_at
    assert len(receiver.requests) == 2


def test_that_somebody_hears_is_known_at_once_where_it_was_changed(tenant: Tenant, subscribe: Subscribe) -> None:
    subscriptions._clear_cache()
    assert not subscriptions.has_active()
    one = subscribe()
    assert subscriptions.has_active()
    subscriptions.delete(tenant=tenant, pk=one.pk, actor="ada")
    subscriptions._clear_cache()
    assert not subscriptions.has_active()
    assert one.created_at <= timezone.now()
