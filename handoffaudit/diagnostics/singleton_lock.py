"""A database lock for work that one process at a time may do; the lock expires if its process dies."""

from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Q
from django.utils import timezone

from handoffaudit.diagnostics.models import Watermark

CLAIMED_FOR: Final = timedelta(minutes=2)

BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


def acquire(name: str) -> datetime | None:
    """Take the lock, and return the time until which it is held, or None if another process holds it."""
    now = timezone.now()
    Watermark.objects.get_or_create(name=name, defaults={"at": BEGINNING})
    until = now + CLAIMED_FOR
    free = Q(at__lt=now) | Q(at__gt=now + 2 * CLAIMED_FOR)
    return until if Watermark.objects.filter(free, name=name).update(at=until) else None


def renew(name: str, claim: datetime) -> datetime | None:
    """Extend the lock from now on, and return its new end, or None if the lock was lost."""
    until = timezone.now() + CLAIMED_FOR
    return until if Watermark.objects.filter(name=name, at=claim).update(at=until) else None


def release(name: str, claim: datetime | None, pause: timedelta = timedelta()) -> None:
    """Release the lock; with a pause, no process can take the lock before the pause is over."""
    if claim is not None:
        until = timezone.now() + pause if pause else BEGINNING
        Watermark.objects.filter(name=name, at=claim).update(at=until)


def is_free(name: str) -> bool:
    now = timezone.now()
    return not Watermark.objects.filter(name=name, at__range=(now, now + 2 * CLAIMED_FOR)).exists()
