"""How much waits, and how much somebody has done today."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.decisions import decisions, standing
from handoffaudit.handoffs.reviewing.queueing import (
    MAY_BE_LEFT_OUT,
    WAITS,
    Marks,
    part_of,
    seen_in,
)
from handoffaudit.handoffs.states import REVIEWABLE

MOST_COUNTED = 1000
MOST_LOOKED_AT = 2000


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait; `more`: at least so many."""

    number: int
    more: bool = False

    @classmethod
    def of(cls, counted: int, most: int) -> "Waiting":
        return cls(min(counted, most), more=counted > most)


@dataclass(frozen=True, slots=True)
class Progress:
    """What waits in the view `all`. `decided_today`: how many the person has decided since midnight, without those
    that were taken back."""

    waiting: Waiting
    decided_today: int


def progress(tenant: Tenant, person: Person, *, left_out: Marks | None = None) -> Progress:
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0)
    return Progress(waiting(tenant, left_out=left_out, most=MOST_COUNTED), _decided_since(tenant, person, midnight))


def waiting(tenant: Tenant, *, left_out: Marks | None = None, most: int = MOST_COUNTED) -> Waiting:
    """What the view `all` has, for anybody. Where much is left out, it is what remains of the newest rejected ones: to
    go over all of them would take seconds, and each page of the menu asks."""
    rows = seen_in(tenant, None, view="all", left_out=left_out).filter(WAITS, state__in=REVIEWABLE)
    if left_out is None or left_out.query.is_empty():
        return Waiting.of(rows.order_by()[: most + 1].count(), most)
    kept = rows.exclude(MAY_BE_LEFT_OUT).order_by()[: most + 1].count()
    if kept > most:
        return Waiting(most, more=True)
    newest = part_of(queries.of_tenant(tenant), "rejected").order_by("-id")[:MOST_LOOKED_AT].values("pk")
    number = kept + rows.filter(MAY_BE_LEFT_OUT, pk__in=newest).count()
    return Waiting(min(number, most), more=number > most or newest.count() == MOST_LOOKED_AT)


def _decided_since(tenant: Tenant, person: Person, since: datetime) -> int:
    actor = Actor.person(person)
    rows = decisions(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    return standing(rows).values("handoff").distinct().count()
