"""The delivery log of webhooks: health, list, test requests, and manual retries."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.filters import first_id_at, parse_cursor
from handoffaudit.handoffs.models import Delivery, Subscriber, new_id
from handoffaudit.handoffs.webhooks import events, messages
from handoffaudit.handoffs.webhooks.client import Answer, Sender, take_place
from handoffaudit.handoffs.webhooks.delivery import describe_failure, notify_webhook_workers

TEST = "test"
ASKED_AGAIN = "A person asked to send the delivery again."
COUNTED_AT_MOST = 1000
LATELY = timedelta(hours=24)
# The condition for deliveries that failed, and that wait for a retry or were given up.
_FAILED = Q(delivered_at=None, tries__gt=0)


@dataclass(frozen=True, slots=True)
class Health:
    """Delivery health of one webhook.

    `delivered_at` is the time of the last successful delivery. `failed` is the number of deliveries of the last 24
    hours that failed and were not delivered since. They wait for a retry, or were given up. `waiting` is the number of
    deliveries that are neither delivered nor given up. Numbers stop at `COUNTED_AT_MOST`.
    """

    delivered_at: datetime | None
    failed: int
    waiting: int

    @property
    def failed_text(self) -> str:
        return _format_count(self.failed)

    @property
    def waiting_text(self) -> str:
        return _format_count(self.waiting)


@dataclass(frozen=True, slots=True)
class Deliveries:
    """A page of deliveries, newest first, and the cursor of the next page."""

    items: list[Delivery]
    next: str | None


def _format_count(number: int) -> str:
    return f"{number:,}+" if number == COUNTED_AT_MOST else f"{number:,}"


def load_health(tenant: Tenant, subscribers: Iterable[Subscriber]) -> dict[int, Health]:
    """Return the delivery health of each webhook, by its ID."""
    return {one.pk: _make_health(tenant, one) for one in subscribers}


def _make_health(tenant: Tenant, subscriber: Subscriber) -> Health:
    rows = Delivery.objects.filter(tenant=tenant, subscriber=subscriber)
    # The latest delivery is among the newest delivered rows, even if it took hours of retries.
    newest = rows.filter(delivered_at__isnull=False).order_by("-id")[:COUNTED_AT_MOST]
    arrived = Delivery.objects.filter(pk__in=newest.values("pk")).aggregate(last=Max("delivered_at"))["last"]
    lately = rows.filter(_FAILED, id__gte=first_id_at(timezone.now() - LATELY))
    failed = lately[:COUNTED_AT_MOST].count()
    # For an active webhook, the index on `due_at` holds all waiting rows and no finished rows.
    left = rows.filter(due_at__isnull=False) if subscriber.active else rows.filter(delivered_at=None, gave_up_at=None)
    waiting = left[:COUNTED_AT_MOST].count()
    return Health(arrived, failed, waiting)


def list_deliveries(subscriber: Subscriber, *, failed: bool = False, cursor: str = "", limit: int = 50) -> Deliveries:
    """Return a page of all deliveries or, with `failed`, only of failed deliveries.

    Raise `FilterError` for an invalid cursor.
    """
    rows = Delivery.objects.filter(tenant=subscriber.tenant_id, subscriber=subscriber).order_by("-id").defer("payload")
    if failed:
        rows = rows.filter(_FAILED)
    if cursor:
        rows = rows.filter(id__lt=parse_cursor(cursor))
    found = list(rows[: limit + 1])
    return Deliveries(found[:limit], str(found[limit - 1].pk) if len(found) > limit else None)


def get(subscriber: Subscriber, pk: uuid.UUID) -> Delivery:
    """Return a delivery of a webhook. Raise `Delivery.DoesNotExist`."""
    return Delivery.objects.get(tenant=subscriber.tenant_id, subscriber=subscriber, pk=pk)


def send_test(subscriber: Subscriber) -> Answer:
    """Send a test event without retries, store its delivery in the log, and return the receiver's answer.

    Raise `Busy` if too many requests wait for receivers.
    """
    pk, now = new_id(), timezone.now()
    payload = events.dump(pk, TEST, now, subscriber.tenant.slug, {})
    about = f"test:{uuid.uuid4().hex}"
    delivery = Delivery(id=pk, tenant=subscriber.tenant, subscriber=subscriber, event=TEST, about=about, created_at=now)
    delivery.payload = payload
    with take_place(subscriber.tenant_id), Sender() as sender:
        answer = messages.send(sender, delivery)
    delivery.tries, delivery.last_status, delivery.last_ms = 1, answer.status, answer.ms
    delivery.last_error = describe_failure(answer)
    ended = timezone.now()
    delivery.delivered_at, delivery.gave_up_at = (ended, None) if answer.delivered else (None, ended)
    delivery.save(force_insert=True)
    return answer


@transaction.atomic
def send_again(*, tenant: Tenant, subscriber: int, pk: uuid.UUID, actor: str) -> Delivery:
    """Send a finished or waiting delivery of any age as soon as possible, with the full number of tries.

    Raise `Refused` if the webhook is paused, for a test event, and for a delivery that is being sent. Raise
    `Subscriber.DoesNotExist` or `Delivery.DoesNotExist` if the tenant has no such webhook or delivery.
    """
    lock_tenant(tenant)
    to = Subscriber.objects.get(tenant=tenant, pk=subscriber)
    found = Delivery.objects.select_for_update().get(tenant=tenant, subscriber=to, pk=pk)
    if not to.active:
        raise Refused("The webhook is paused: switch it on first.")
    if found.event == TEST:
        raise Refused("A test event cannot be sent again: send another test.")
    if found.claim is not None and found.due_at and found.due_at > timezone.now():
        raise Refused("The delivery is being sent at this moment.")
    found.due_at, found.tries, found.delivered_at, found.gave_up_at = timezone.now(), 0, None, None
    if found.last_ms is None:
        # A worker gives up an old delivery that has neither a try nor a `last_error`.
        found.last_error = ASKED_AGAIN
    found.save(update_fields=["due_at", "tries", "delivered_at", "gave_up_at", "last_error"])
    detail = {"delivery": str(found.pk), "event": found.event}
    audit.record(tenant=tenant, actor=actor, action="subscriber.again", target=to.name, detail=detail)
    transaction.on_commit(notify_webhook_workers)
    return found
