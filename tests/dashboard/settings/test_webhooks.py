"""Tests of the webhook settings: receivers, their health, a test delivery, and the log."""

from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Person, Tenant
from handoffaudit.env import PrivateTargets
from handoffaudit.handoffs.models import Delivery, Subscriber
from handoffaudit.handoffs.webhooks import client as webhooks_client
from handoffaudit.handoffs.webhooks import delivery as webhooks_delivery
from handoffaudit.handoffs.webhooks import events, log
from tests.handoffs.webhooks.receiver import Receiver, running
from tests.pages import attributes, links, text_of

PAGE = "/t/acme/settings/webhooks/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def receiver(settings) -> Iterator[Receiver]:
    settings.WEBHOOK_PRIVATE = PrivateTargets(networks=(ip_network("127.0.0.0/8"),))
    with running() as server:
        yield server


@pytest.fixture
def client(client: Client, admin: Person) -> Client:
    client.force_login(admin)
    return client


@pytest.fixture
def subscriber(client: Client, receiver: Receiver) -> Subscriber:
    client.post(f"{PAGE}create/", {"kind": "webhook", "name": "CI", "address": receiver.url, "events": ["verdict"]})
    return Subscriber.objects.get()


def address(subscriber: Subscriber, what: str = "") -> str:
    return f"{PAGE}{subscriber.pk}/{what}"


def test_findings_that_came_back_can_be_chosen(client: Client, subscriber: Subscriber) -> None:
    assert "a muted finding group has grown past its limit" in text_of(client.get(address(subscriber)))
    wanted = {"name": "CI", "address": subscriber.address, "events": ["group"]}
    client.post(address(subscriber, "change/"), wanted)
    assert Subscriber.objects.get().events == ["group"]
    assert 'value="group" checked' in client.get(address(subscriber)).text


def test_a_form_says_why_nothing_is_saved_if_too_many_requests_wait_for_receivers(
    client: Client, subscriber: Subscriber, tenant: Tenant
) -> None:
    wanted = {"kind": "webhook", "name": "CI", "address": f"{subscriber.address}/new", "events": ["verdict"]}
    with webhooks_client.take_place(tenant.pk), webhooks_client.take_place(tenant.pk):
        for page in (client.post(f"{PAGE}create/", wanted), client.post(address(subscriber, "change/"), wanted)):
            assert page.status_code == 400
            assert text_of(page, ".field-error").startswith("Too many webhooks are tested or saved at this moment")


def test_the_secret_is_shown_when_it_is_made_and_never_again(client: Client, receiver: Receiver) -> None:
    wanted = {"kind": "webhook", "name": "CI", "address": receiver.url, "events": ["verdict", "alert"]}
    made = client.post(f"{PAGE}create/", wanted, follow=True)
    subscriber = Subscriber.objects.get()
    assert subscriber.secret in made.text
    for page in (PAGE, address(subscriber)):
        assert subscriber.secret not in client.get(page).text
    changed = client.post(address(subscriber, "rotate/"), follow=True)
    now = Subscriber.objects.get().secret
    assert now != subscriber.secret
    assert now in changed.text


def test_what_is_wrong_is_told_at_its_field_and_nothing_is_lost(client: Client) -> None:
    wanted = {"kind": "webhook", "name": "CI", "address": "https://10.0.0.1/x", "events": ["alert"], "states": ["held"]}
    page = client.post(f"{PAGE}create/", wanted)
    assert page.status_code == 400
    assert "10.0.0.1 is not a public address" in page.text
    assert "HANDOFFAUDIT_WEBHOOK_PRIVATE=10.0.0.1" in page.text
    assert 'value="https://10.0.0.1/x"' in page.text
    assert 'aria-describedby="address_error"' in page.text
    assert not Subscriber.objects.exists()


def test_without_a_mail_server_the_page_says_what_to_set(client: Client) -> None:
    page = client.get(PAGE)
    assert "HANDOFFAUDIT_EMAIL_URL" in page.text
    assert "No webhooks yet" in page.text


def test_mails_have_no_secret(client: Client, settings) -> None:
    settings.EMAIL_SET_UP = True
    wanted = {"kind": "email", "name": "Team", "address": "team@example.com", "events": ["alert"]}
    assert client.post(f"{PAGE}create/", wanted).status_code == 302
    subscriber = Subscriber.objects.get()
    assert client.post(address(subscriber, "rotate/")).status_code == 404
    assert "New secret" not in client.get(address(subscriber)).text
    assert "The test arrived" in client.post(address(subscriber, "test/")).text
    assert [(one.to, one.subject) for one in mail.outbox] == [(["team@example.com"], "[handoffaudit acme] A test")]


def test_a_test_says_what_came_back(client: Client, subscriber: Subscriber, receiver: Receiver) -> None:
    receiver.answers = [(200, {}, b"thank you"), (500, {}, b"<b>broken</b>")]
    good = client.post(address(subscriber, "test/"))
    assert "The test arrived: it answered 200 in" in text_of(good)
    assert "thank you" in good.text
    bad = client.post(address(subscriber, "test/"), headers={"HX-Request": "true", "HX-Target": "tested"})
    # The page takes its facts and its log from the answer, too.
    assert [one.event for one in bad.context["deliveries"]] == ["test", "test"]
    assert all(f'id="{part}"' in bad.text for part in ("tested", "facts", "deliveries"))
    assert "The test did not arrive. The receiver answered 500" in text_of(bad)
    assert "&lt;b&gt;broken" in bad.text
    assert [told["event"] for told in receiver.told] == ["test", "test"]
    log = client.get(address(subscriber))
    assert log.text.count(">test</a>") == 2


def test_the_log_shows_each_delivery_and_sends_it_again(
    client: Client, tenant: Tenant, subscriber: Subscriber, receiver: Receiver, submit
) -> None:
    receiver.says(500, 200)
    handoff = submit()
    events.dispatch()
    webhooks_delivery.drain()
    delivery = Delivery.objects.get()
    page = client.get(address(subscriber))
    assert "answered 500" in page.text
    assert "next try" in page.text
    payload = client.get(address(subscriber, f"deliveries/{delivery.pk}/"))
    assert str(handoff.pk) in payload.text
    assert client.post(address(subscriber, f"deliveries/{delivery.pk}/again/")).status_code == 302
    assert AuditEntry.objects.latest("number").action == "subscriber.again"
    webhooks_delivery.drain()
    assert [told["id"] for told in receiver.told] == [str(delivery.pk)] * 2
    assert Delivery.objects.get().delivered_at


def test_what_cannot_be_sent_again_says_why(client: Client, tenant: Tenant, subscriber: Subscriber) -> None:
    delivery = Delivery.objects.create(
        tenant=tenant, subscriber=subscriber, event="alert", about="it", payload="{}", created_at=timezone.now()
    )
    client.post(address(subscriber, "switch/"), {"on": "0"})
    page = client.post(address(subscriber, f"deliveries/{delivery.pk}/again/"), follow=True)
    assert "switch it on first" in page.text
    delivery.refresh_from_db()
    assert delivery.due_at is None


def test_the_log_is_read_page_by_page(client: Client, tenant: Tenant, subscriber: Subscriber) -> None:
    for number in range(60):
        Delivery.objects.create(
            tenant=tenant,
            subscriber=subscriber,
            event="alert",
            about=f"{number}",
            payload="{}",
            created_at=timezone.now(),
        )
    first = client.get(address(subscriber))
    (older,) = links(first, 'a[href*="?cursor="]')
    assert first.text.count(">alert</a>") == 50
    assert client.get(older).text.count(">alert</a>") == 10
    assert client.get(address(subscriber), {"cursor": "x"}).status_code == 400


def test_what_failed_is_found_among_much_that_waits(
    client: Client, tenant: Tenant, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "COUNTED_AT_MOST", 3)
    now = timezone.now()
    common = {"tenant": tenant, "subscriber": subscriber, "event": "verdict", "payload": "{}", "created_at": now}
    Delivery.objects.create(about="arrived", delivered_at=now, tries=1, last_status=200, **common)
    failed = Delivery.objects.create(about="failed", due_at=now, tries=2, last_error="refused", **common)
    for number in range(4):
        Delivery.objects.create(about=f"waits-{number}", due_at=now, **common)
    for page in (PAGE, address(subscriber)):
        told = text_of(client.get(page))
        assert "never" not in told
        assert "3+" in told
    only = client.get(f"{address(subscriber)}?state=failed")
    assert only.context["deliveries"] == [failed]
    refused = client.get(f"{address(subscriber)}?state=late")
    assert (refused.status_code, "write state=failed, or leave state out" in text_of(refused)) == (400, True)


def test_it_is_paused_changed_and_deleted(client: Client, subscriber: Subscriber, receiver: Receiver) -> None:
    client.post(address(subscriber, "switch/"), {"on": "0"})
    assert "paused" in client.get(PAGE).text
    changed = {"name": "Pager", "address": receiver.url, "events": ["alert"], "kind": "email"}
    assert client.post(address(subscriber, "change/"), changed).status_code == 302
    subscriber.refresh_from_db()
    assert (subscriber.name, subscriber.kind, subscriber.active) == ("Pager", "webhook", False)
    assert client.post(address(subscriber, "change/"), changed | {"name": ""}).status_code == 400
    assert client.post(address(subscriber, "delete/")).status_code == 302
    assert not Subscriber.objects.exists()


def test_the_audit_log_tells_of_it_in_words(client: Client, subscriber: Subscriber) -> None:
    assert "added the webhook" in client.get("/t/acme/settings/audit/").text


@pytest.mark.parametrize("kind", ["slack", "teams"])
def test_a_chat_is_chosen_and_has_no_secret(as_admin: Client, tenant: Tenant, receiver: Receiver, kind: str) -> None:
    wanted = {"kind": kind, "name": "Channel", "address": receiver.url, "events": ["verdict"], "states": ["held"]}
    page = as_admin.post(f"{PAGE}create/", wanted, follow=True)
    made = Subscriber.objects.get(tenant=tenant)
    assert (made.kind, made.secret, made.states) == (kind, "", ["held"])
    assert "New secret" not in page.text
    assert as_admin.post(f"{PAGE}{made.pk}/rotate/").status_code == 404
    refused = as_admin.post(f"{PAGE}create/", wanted | {"name": ""})
    assert attributes(refused, "input[name=kind][checked]", "value") == [kind]
