"""Tests of the API of webhooks: created with a secret that is shown once, listed, tested, deleted."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs.models import Subscriber
from handoffaudit.handoffs.webhooks import client as webhooks
from tests.api.support import client, make_key, problem
from tests.handoffs.webhooks.conftest import local, receiver  # noqa: F401
from tests.handoffs.webhooks.receiver import Receiver

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_admin(tenant: Tenant) -> Iterator[httpx.Client]:
    with client(make_key(tenant, "admin", name="ops")) as api:
        yield api


def asked(address: str, **changes: object) -> dict[str, object]:
    return {"name": "CI", "address": address, "events": ["verdict", "group"], "states": ["held"], **changes}


def test_one_is_made_tried_and_deleted(as_admin: httpx.Client, receiver: Receiver, tenant: Tenant) -> None:  # noqa: F811
    made = as_admin.post("/webhooks", json=asked(receiver.url))
    assert made.status_code == 201
    shown = made.json()
    secret = shown.pop("secret")
    assert secret == Subscriber.objects.get().secret
    assert (shown["kind"], shown["events"], shown["states"]) == ("webhook", ["verdict", "group"], ["held"])
    listed = as_admin.get("/webhooks")
    assert listed.json() == {"items": [shown], "next": None}
    assert secret not in listed.text
    tested = as_admin.post(f"/webhooks/{shown['id']}/test").json()
    assert (tested["delivered"], tested["status"], tested["error"]) == (True, 204, None)
    assert as_admin.delete(f"/webhooks/{shown['id']}").status_code == 204
    assert as_admin.get("/webhooks").json()["items"] == []
    told = AuditEntry.objects.filter(tenant=tenant, action__startswith="subscriber.").order_by("number")
    assert [(one.action, one.actor) for one in told] == [
        ("subscriber.create", "key ops"),
        ("subscriber.delete", "key ops"),
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"address": "http://127.0.0.1:9/x"}, "address"),
        ({"address": "https://10.0.0.1/x"}, "address"),
        ({"events": ["everything"]}, "events"),
        ({"states": ["approved"]}, "states"),
        ({"kind": "pigeon"}, "kind"),
        ({"name": ""}, "name"),
    ],
)
def test_what_cannot_be_is_refused_as_on_the_page(
    as_admin: httpx.Client, changes: dict[str, object], field: str
) -> None:
    refused = problem(as_admin.post("/webhooks", json=asked("https://93.184.216.34/") | changes), 422)
    assert refused["field"] == field
    assert not Subscriber.objects.exists()


@pytest.mark.parametrize(("method", "rest"), [("DELETE", ""), ("POST", "/test")])
def test_another_tenants_does_not_exist(
    as_admin: httpx.Client,
    other_tenant: Tenant,
    receiver: Receiver,  # noqa: F811
    method: str,
    rest: str,
) -> None:
    with client(make_key(other_tenant, "admin")) as theirs:
        made = theirs.post("/webhooks", json=asked(receiver.url)).json()
    problem(as_admin.request(method, f"/webhooks/{made['id']}{rest}"), 404)
    assert Subscriber.objects.count() == 1
    assert as_admin.get("/webhooks").json()["items"] == []


def test_one_tenant_cannot_occupy_the_server_with_slow_receivers(
    as_admin: httpx.Client,
    receiver: Receiver,  # noqa: F811
    tenant: Tenant,
    other_tenant: Tenant,
) -> None:
    """A test occupies a thread of the web server until the receiver answers."""
    test = f"/webhooks/{as_admin.post('/webhooks', json=asked(receiver.url)).json()['id']}/test"
    with webhooks.take_place(tenant.pk), webhooks.take_place(tenant.pk):
        for busy in (as_admin.post(test), as_admin.post("/webhooks", json=asked(receiver.url))):
            assert (problem(busy, 503)["title"], busy.headers["Retry-After"]) == ("Busy with webhooks", "10")
        with webhooks.take_place(other_tenant.pk):
            pass
    assert as_admin.post(test).json()["delivered"] is True


def test_all_tenants_together_leave_threads_for_other_requests() -> None:
    with ExitStack() as places:
        for number in range(webhooks.MOST_WAITS):
            places.enter_context(webhooks.take_place(number))
        with pytest.raises(webhooks.Busy), webhooks.take_place(webhooks.MOST_WAITS):
            pass
