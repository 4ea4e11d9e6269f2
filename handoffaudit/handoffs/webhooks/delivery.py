"""Webhook deliveries and the threads that send them: leases, order, retries after pauses, and giving up."""

import random
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from celery.signals import celeryd_after_setup, worker_shutting_down
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.handoffs import alerts, counts, leases, notify
from handoffaudit.handoffs.counts import Total
from handoffaudit.handoffs.db import release_connection
from handoffaudit.handoffs.models import Delivery, Subscriber
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.handoffs.webhooks import messages
from handoffaudit.handoffs.webhooks.client import Answer, Sender
from handoffaudit.handoffs.webhooks.events import dispatch
from handoffaudit.handoffs.webhooks.subscriptions import has_active, list_active
from handoffaudit.validation.text import clean

# The pauses between tries, in seconds. The delivery is given up if the try after the last pause fails.
PAUSES = (10, 30, 120, 600, 3600, 3 * 3600, 6 * 3600)
TRIES = len(PAUSES) + 1
LONGEST_ASKED = 6 * 3600.0
SPREAD = 0.2
# A delivery is given up if it waits this long without a try: behind failed deliveries, or while its webhook is paused.
TOO_OLD = timedelta(days=3)
# After more tries than this, later deliveries no longer wait for a failed delivery, because one event must not block a
# webhook.
HOLDS_BACK = 4


def pause_after(tries: int, retry_after: float | None, chance: random.Random) -> timedelta | None:
    """Return the pause after this many tries, or None after the last try.

    A receiver may request a longer pause, up to `LONGEST_ASKED` seconds.
    """
    if tries >= TRIES:
        return None
    seconds = PAUSES[tries - 1] * chance.uniform(1 - SPREAD, 1 + SPREAD)
    if retry_after is not None:
        seconds = max(seconds, min(retry_after, LONGEST_ASKED))
    return timedelta(seconds=seconds)


AT_ONCE = 10
# A single delivery takes less time than this. A worker with several deliveries renews the lease.
LEASE_SECONDS = 30.0
LOOKED_AT = 50
# The column with the end of a lease: a leased delivery is due again when its lease expires.
DUE = "due_at"

# The condition for deliveries that a reachable receiver refused. The statuses 408 and 429 ask for a retry instead.
_REFUSED = Q(last_status__gte=400, last_status__lt=500) & ~Q(last_status__in=(408, 429))


@dataclass(frozen=True, slots=True)
class DeliveryLease:
    """A lease on deliveries of one webhook, in order. One thread may send them until the lease expires."""

    token: uuid.UUID
    subscriber: Subscriber
    deliveries: list[Delivery]

    def filter_held(self, delivery: Delivery) -> "QuerySet[Delivery]":
        """Return the query for a delivery. The query finds nothing if the lease was lost."""
        return Delivery.objects.filter(pk=delivery.pk, claim=self.token)

    def renew(self) -> None:
        leases.renew(self._filter_unsent(), seconds=LEASE_SECONDS, until=DUE)

    def release(self) -> None:
        """Release the deliveries of the lease that were not sent."""
        leases.end(self._filter_unsent(), until=DUE, at=timezone.now())

    def _filter_unsent(self) -> "QuerySet[Delivery]":
        return _filter_deliveries(self.subscriber.pk).filter(due_at__isnull=False, claim=self.token)


def take(*, reliable: bool = False) -> DeliveryLease | None:
    """Lease up to `AT_ONCE` due deliveries of a webhook that no other thread serves.

    Return None if there is no such webhook. `reliable` skips webhooks with failed deliveries.
    """
    for pk in list_ready(reliable=reliable):
        now = timezone.now()
        with transaction.atomic():
            locked = Subscriber.objects.select_for_update(skip_locked=True, of=("self",)).select_related("tenant")
            subscriber = locked.filter(pk=pk, active=True).first()
            if subscriber is None or _filter_deliveries(pk).filter(due_at__gt=now, claim__isnull=False).exists():
                continue
            due = list(_filter_deliveries(pk).filter(due_at__lte=now).order_by("id")[:AT_ONCE])
            token = uuid.uuid4()
            leases.take(
                _filter_deliveries(pk).filter(pk__in=[one.pk for one in due]), token, seconds=LEASE_SECONDS, until=DUE
            )
        for one in due:
            one.subscriber, one.claim = subscriber, token
        if due:
            return DeliveryLease(token, subscriber, due)
    return None


def list_ready(*, reliable: bool = False) -> list[int]:
    """Return the ids of at most `LOOKED_AT` webhooks with a due delivery, webhooks without failures first.

    Webhooks that a thread serves, or whose deliveries must wait for a failed delivery, are left out.
    """
    now = timezone.now()
    unsent = Delivery.objects.filter(subscriber=OuterRef("pk"), due_at__isnull=False)
    later = unsent.filter(due_at__gt=now)
    found = (
        Subscriber.objects.filter(active=True)
        .annotate(
            first=Subquery(unsent.order_by("due_at").values("due_at")[:1]), fails=Exists(unsent.filter(tries__gt=0))
        )
        .filter(~Exists(later.filter(claim__isnull=False)), ~Exists(later.filter(_is_held_back())), first__lte=now)
    )
    if reliable:
        found = found.filter(fails=False)
    return list(found.order_by("fails", "first").values_list("pk", flat=True)[:LOOKED_AT])


def retry_now(subscriber: Subscriber) -> None:
    """Retry the deliveries that got no answer and have a long pause, now that the receiver responds again."""
    unreached = _filter_deliveries(subscriber.pk).filter(due_at__gt=timezone.now(), tries__gt=HOLDS_BACK)
    unreached.filter(claim=None, last_status=None).update(due_at=timezone.now())


def _filter_deliveries(subscriber: int) -> "QuerySet[Delivery]":
    return Delivery.objects.filter(subscriber=subscriber)


def _is_held_back() -> Q:
    """Return the condition for failed deliveries that later deliveries must wait for, so that the order is kept."""
    return Q(tries__gt=0, tries__lte=HOLDS_BACK) & (Q(last_status=None) | ~_REFUSED)


log = structlog.get_logger(__name__)

LONGEST_ERROR = 500
_chance = random.SystemRandom()


def drain(*, reliable: bool = False) -> int:
    """Send deliveries until none is due, and return the number of deliveries tried.

    `reliable` skips webhooks with failed deliveries, which take longest.
    """
    tried = 0
    while lease := take(reliable=reliable):
        tried += _send_all(lease)
    return tried


def describe_failure(answer: Answer) -> str:
    """Return why a delivery failed, with the text of the receiver's answer; an empty text if it was delivered."""
    response_text = f" Its answer: {answer.text}" if answer.text else ""
    return clean(answer.error + response_text if answer.error else "", LONGEST_ERROR)


def _send_all(lease: DeliveryLease) -> int:
    """Send the deliveries in order, release the rest after a failure, and return the number of deliveries tried."""
    renewed, tried = time.monotonic(), 0
    with Sender() as sender:
        for delivery in lease.deliveries:
            if time.monotonic() - renewed > LEASE_SECONDS / 3:
                renewed = time.monotonic()
                lease.renew()
            if _is_obsolete(lease, delivery):
                continue
            release_connection()
            answer = _try(sender, delivery)
            tried += 1
            if not _store(lease, delivery, answer):
                break
    lease.release()
    return tried


def _try(sender: Sender, delivery: Delivery) -> Answer:
    """Send one delivery, and count any exception as a failed try.

    Otherwise, a delivery that always raises an exception would be retried forever and block all later deliveries.
    """
    try:
        return messages.send(sender, delivery)
    except Exception:
        log.exception("a delivery could not be tried", delivery=str(delivery.pk))
        return Answer(None, 0, error="An internal error prevented the delivery: see the log of the worker.")


def _is_obsolete(lease: DeliveryLease, delivery: Delivery) -> bool:
    """End a delivery that waited too long without a try, or that a later mail replaces; return whether it ended."""
    now = timezone.now()
    if now - delivery.created_at > TOO_OLD and delivery.last_ms is None and not delivery.last_error:
        why = "The delivery waited for three days without a try: earlier deliveries failed, or the webhook was paused."
        _give_up(lease, delivery, {"last_error": why})
        return True
    later = messages.find_latest(delivery)
    if later.pk == delivery.pk:
        return False
    Delivery.objects.filter(pk=later.pk, claim=None).update(due_at=now)
    leases.end(lease.filter_held(delivery), until=DUE, delivered_at=now, last_error=messages.STANDS_FOR)
    return True


def _store(lease: DeliveryLease, delivery: Delivery, answer: Answer) -> bool:
    """Store the result of a try, and return whether the next delivery may be sent."""
    now, tries = timezone.now(), delivery.tries + 1
    counts.add_total(Total.DELIVERIES, "delivered" if answer.delivered else "failed")
    columns: dict[str, Any] = {
        "tries": tries,
        "last_status": answer.status,
        "last_ms": answer.ms,
        "last_error": describe_failure(answer),
    }
    if answer.delivered:
        leases.end(lease.filter_held(delivery), until=DUE, delivered_at=now, **columns)
        retry_now(lease.subscriber)
        return True
    log.warning("a delivery failed", subscriber=lease.subscriber.pk, tries=tries, status=answer.status)
    if answer.gone:
        _switch_off(lease, delivery, columns)
        return False
    pause = pause_after(tries, answer.retry_after, _chance)
    if pause is None:
        _give_up(lease, delivery, columns)
    else:
        leases.end(lease.filter_held(delivery), until=DUE, at=now + pause, **columns)
    return False


def _give_up(lease: DeliveryLease, delivery: Delivery, columns: dict[str, Any]) -> bool:
    with transaction.atomic():
        if ended := leases.end(lease.filter_held(delivery), until=DUE, gave_up_at=timezone.now(), **columns):
            counts.add_total(Total.DELIVERIES, "given_up")
            alerts.raise_alert(delivery.tenant_id, alerts.AlertKind.WEBHOOK_FAILING, 1)
    return ended


def _switch_off(lease: DeliveryLease, delivery: Delivery, columns: dict[str, Any]) -> None:
    """Pause a webhook that answered 410 Gone. Its waiting deliveries stay until a person resumes the webhook."""
    subscriber = lease.subscriber
    with transaction.atomic():
        if not _give_up(lease, delivery, columns):
            return
        if Subscriber.objects.filter(pk=subscriber.pk, active=True).update(active=False):
            tenant, name, detail = subscriber.tenant, subscriber.name, {"why": "the receiver answered 410 Gone"}
            audit.record(tenant=tenant, actor=SYSTEM.name, action="subscriber.pause", target=name, detail=detail)
        leases.end(_filter_deliveries(subscriber.pk).filter(due_at__isnull=False), until=DUE)


SENDERS = 8
# Sender threads that never serve a webhook with failed deliveries.
RESERVED = 2


class _Worker:
    """A thread that dispatches events, and up to `SENDERS` sender threads.

    All threads end with the process. The lease of a thread that died expires.
    """

    def __init__(self) -> None:
        self._wake_event = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._senders: list[threading.Thread | None] = [None] * SENDERS

    @property
    def runs(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        self._wake_event.set()
        with self._lock:
            if not self.runs:
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._wake_event.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._dispatch_and_send()
            except DatabaseError as error:
                log.warning("webhooks wait: the database can't be reached", error=str(error))
            except Exception:
                # An exception here is a bug of this product. It must not end the thread, because nothing would restart
                # the thread, and the next pass may succeed.
                log.exception("a pass over webhook events failed")
            finally:
                close_old_connections()
            self._wake_event.wait(settings.SWEEP_SECONDS)
            self._wake_event.clear()

    def _dispatch_and_send(self) -> None:
        if not list_active():
            return
        dispatch()
        self._send(range(RESERVED, SENDERS), reliable=False)
        self._send(range(RESERVED), reliable=True)

    def _send(self, places: range, *, reliable: bool) -> None:
        """Start a sender thread for each webhook with due deliveries, as long as one of `places` is free."""
        needed = len(list_ready(reliable=reliable))
        for place in places:
            sender = self._senders[place]
            if needed and not self._stop.is_set() and (sender is None or not sender.is_alive()):
                needed -= 1
                started = threading.Thread(target=_send_due, args=[reliable], name="sender", daemon=True)
                self._senders[place] = started
                started.start()


def _send_due(reliable: bool) -> None:  # noqa: FBT001 -- a thread passes positional arguments
    try:
        drain(reliable=reliable)
    except DatabaseError as error:
        log.warning("a delivery waits: the database can't be reached", error=str(error))
    except Exception:
        log.exception("deliveries could not be sent")
    finally:
        connections.close_all()


_worker = _Worker()


@celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def wake_senders(**_: object) -> None:
    """Dispatch events and send due deliveries in background threads of this process; return immediately."""
    _worker.wake()


def notify_webhook_workers() -> None:
    """Notify the workers that an event was stored. Call after the commit.

    If no webhook is active, do nothing. A lost notification only delays the event, because each worker also polls.
    """
    try:
        if not has_active():
            return
    except DatabaseError:
        return
    if _worker.runs:
        wake_senders()
    else:
        notify.notify_senders()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def stop_senders(**_: object) -> None:
    _worker.stop()
