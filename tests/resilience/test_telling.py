"""Tests of a worker that is killed before or during a webhook delivery: no delivery is lost."""

from collections.abc import Iterator

import pytest

from tests.handoffs.support import payload
from tests.handoffs.webhooks.receiver import Receiver, raw, running
from tests.resilience.conftest import BOTH
from tests.resilience.processes import Installation, eventually, kill

SUBSCRIBE = """
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.webhooks import subscriptions
wanted = subscriptions.SubscriptionValues("CI", {address!r}, ["verdict"])
print(subscriptions.create(tenant=Tenant.objects.get(), kind="webhook", wanted=wanted, actor="tests").pk)
"""
MOVE = """
from django.utils import timezone
from handoffaudit.handoffs.models import Delivery, Subscriber
Subscriber.objects.update(address={address!r})
# The lease has expired.
Delivery.objects.filter(delivered_at=None).update(due_at=timezone.now())
"""
FORGET = """
from handoffaudit.handoffs.models import Delivery, Gathering, Subscriber
for model in (Delivery, Subscriber, Gathering):
    model.objects.all().delete()
"""


@pytest.fixture
def telling(installation: Installation) -> Iterator[Installation]:
    installation.environment["HANDOFFAUDIT_WEBHOOK_PRIVATE"] = "127.0.0.0/8"
    yield installation
    installation.run(FORGET)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running() as server:
        yield server


@pytest.mark.nightly
@BOTH
def test_a_worker_killed_while_it_sends_loses_nothing(telling: Installation, receiver: Receiver) -> None:
    telling.web()
    with (
        telling.client() as client,
        raw(lambda connection: connection.recv(65536) and connection.recv(1) and None) as hangs,
    ):
        telling.run(SUBSCRIBE.format(address=hangs))
        first = telling.worker()
        documents = [payload(handoff_id=f"h{number}") for number in range(20)]
        client.post("/handoffs/batch", json=documents)
        eventually(lambda: telling.query("SELECT 1 FROM handoffs_delivery WHERE claim IS NOT NULL"), 60, telling.log())
        kill(first)
        telling.run(MOVE.format(address=receiver.url))
        telling.worker()
        told = {f"h{number}" for number in range(20)}
        eventually(lambda: {one["handoff"]["handoff_id"] for one in receiver.told} == told, 60, telling.log())
    eventually(lambda: not telling.query("SELECT 1 FROM handoffs_delivery WHERE delivered_at IS NULL"), 60)
    ((number,),) = telling.query("SELECT count(*) FROM handoffs_delivery")
    assert number == 20
