"""Work that one process does at a time, whichever: a claim in the database, which runs out where its process died."""

from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Q
from django.utils import timezone

from handoffaudit.diagnostics.models import Watermark

CLAIMED_FOR: Final = timedelta(minutes=2)

BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


def acquire(name: str) -> datetime | None:
    """Until when this process alone may do it: the claim. None where another does."""
    now = timezone.now()
    Watermark.objects.get_or_create(name=name, defaults={"at": BEGINNING})
    until = now + CLAIMED_FOR
    free = Q(at__lt=now) | Q(at__gt=now + 2 * CLAIMED_FOR)
    return until if Watermark.objects.filter(free, name=name).update(at=until) else None


def renew(name: str, claim: datetime) -> datetime | None:
    """The claim for as long from now; None where it was lost."""
    until = timezone.now() + CLAIMED_FOR
    return until if Watermark.objects.filter(name=name, at=claim).update(at=until) else None


def release(name: str, claim: datetime | None, pause: timedelta = timedelta()) -> None:
    """Gives it back; with a pause nobody takes it before."""
    if claim is not None:
        until = timezone.now() + pause if pause else BEGINNING
        Watermark.objects.filter(name=name, at=claim).update(at=until)


def is_free(name: str) -> bool:
    now = timezone.now()
    return not Watermark.objects.filter(name=name, at__range=(now, now + 2 * CLAIMED_FOR)).exists()
