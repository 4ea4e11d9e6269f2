"""Who sends what: deliveries that are due, taken by one thread for one subscriber, so that they go out in order and a
receiver that can't be reached keeps only itself waiting."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from handoffaudit.handoffs.models import Delivery, Subscriber
from handoffaudit.handoffs.webhooks.retrying import HOLDS_BACK

AT_ONCE = 10
# Longer than any one delivery takes; who has several renews it.
CLAIM_SECONDS = 30.0
LOOKED_AT = 50
# Answers by which a receiver that is there refuses this one delivery.
_REFUSED = Q(last_status__gte=400, last_status__lt=500) & ~Q(last_status__in=(408, 429))


@dataclass(frozen=True, slots=True)
class Claim:
    """Deliveries of one subscriber, in order, that one thread may send until the claim runs out."""

    token: uuid.UUID
    subscriber: Subscriber
    deliveries: list[Delivery]


def take(*, reliable: bool = False) -> Claim | None:
    """Takes some that are due, of one subscriber that nobody sends to now; None where there are none. `reliable`:
    leaves out subscribers of which something failed."""
    for pk in ready(reliable=reliable):
        now = timezone.now()
        with transaction.atomic():
            locked = Subscriber.objects.select_for_update(skip_locked=True, of=("self",)).select_related("tenant")
            subscriber = locked.filter(pk=pk, active=True).first()
            if subscriber is None or _of(pk).filter(due_at__gt=now, claim__isnull=False).exists():
                continue
            due = list(_of(pk).filter(due_at__lte=now).order_by("id")[:AT_ONCE])
            token = uuid.uuid4()
            _of(pk).filter(pk__in=[one.pk for one in due]).update(claim=token, due_at=_expiry())
        for one in due:
            one.subscriber, one.claim = subscriber, token
        if due:
            return Claim(token, subscriber, due)
    return None


def ready(*, reliable: bool = False) -> list[int]:
    """Subscribers to whom something may be sent now, those first that nothing failed for; at most `LOOKED_AT`."""
    now = timezone.now()
    of_it = Delivery.objects.filter(subscriber=OuterRef("pk"), due_at__isnull=False)
    later = of_it.filter(due_at__gt=now)
    found = (
        Subscriber.objects.filter(active=True)
        .annotate(
            first=Subquery(of_it.order_by("due_at").values("due_at")[:1]), fails=Exists(of_it.filter(tries__gt=0))
        )
        .filter(~Exists(later.filter(claim__isnull=False)), ~Exists(later.filter(_holds_back())), first__lte=now)
    )
    if reliable:
        found = found.filter(fails=False)
    return list(found.order_by("fails", "first").values_list("pk", flat=True)[:LOOKED_AT])


def held(claim: Claim, delivery: Delivery) -> "QuerySet[Delivery]":
    """The row of one of them, where the claim still stands."""
    return Delivery.objects.filter(pk=delivery.pk, claim=claim.token)


def renew(claim: Claim) -> None:
    _of(claim.subscriber.pk).filter(due_at__isnull=False, claim=claim.token).update(due_at=_expiry())


def release(claim: Claim) -> None:
    """Gives back what was not sent."""
    _of(claim.subscriber.pk).filter(due_at__isnull=False, claim=claim.token).update(claim=None, due_at=timezone.now())


def is_back(subscriber: Subscriber) -> None:
    """What waits for hours because nobody answered is due now: somebody does."""
    unreached = _of(subscriber.pk).filter(due_at__gt=timezone.now(), tries__gt=HOLDS_BACK)
    unreached.filter(claim=None, last_status=None).update(due_at=timezone.now())


def _of(subscriber: int) -> "QuerySet[Delivery]":
    return Delivery.objects.filter(subscriber=subscriber)


def _holds_back() -> Q:
    """What failed a few times keeps later ones waiting, so that they come in order."""
    return Q(tries__gt=0, tries__lte=HOLDS_BACK) & (Q(last_status=None) | ~_REFUSED)


def _expiry() -> datetime:
    return timezone.now() + timedelta(seconds=CLAIM_SECONDS)
