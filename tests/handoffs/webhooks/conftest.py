"""A receiver, webhooks with its address, and one pass of the worker that delivers to them."""

from collections.abc import Callable, Iterator
from ipaddress import ip_network

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.env import PrivateTargets
from handoffaudit.handoffs.models import Delivery, Subscriber
from handoffaudit.handoffs.webhooks import delivery, events, subscriptions
from handoffaudit.handoffs.webhooks.subscriptions import SubscriptionValues
from tests.handoffs.webhooks.receiver import Receiver, running

Subscribe = Callable[..., Subscriber]


@pytest.fixture
def local(settings) -> None:
    """Allow webhooks to servers on this machine."""
    settings.WEBHOOK_PRIVATE = PrivateTargets(networks=(ip_network("127.0.0.0/8"),))


@pytest.fixture
def receiver(local: None) -> Iterator[Receiver]:
    with running() as server:
        yield server


@pytest.fixture
def subscribe(tenant: Tenant, receiver: Receiver) -> Subscribe:
    """Return a function that creates a webhook of `tenant` to the receiver, for all events by default."""

    def subscribe(**changes: object) -> Subscriber:
        of = changes.pop("tenant", tenant)
        kind = changes.pop("kind", "webhook")
        wanted = {"name": "CI", "address": receiver.url, "events": ["verdict", "decision", "alert"], **changes}
        return subscriptions.create(tenant=of, kind=kind, wanted=SubscriptionValues(**wanted), actor="ada")

    return subscribe


@pytest.fixture
def tell(db: None) -> Callable[[], list[Delivery]]:
    """Gather all events and send all due deliveries, as one pass of a worker; return all deliveries in order."""

    def tell() -> list[Delivery]:
        events.dispatch()
        delivery.drain()
        return list(Delivery.objects.order_by("id"))

    return tell
