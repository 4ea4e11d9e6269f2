"""How much waits, and how much somebody has done today."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.decisions import decisions, standing
from handoffaudit.handoffs.reviewing.queueing import WAITS, Marks, seen_in
from handoffaudit.handoffs.states import REVIEWABLE

MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """What waits in the view `all`, counted up to `MOST_COUNTED`. `decided_today`: how many the person has decided
    since midnight, without those that were taken back."""

    waiting: int
    decided_today: int

    @property
    def complete(self) -> bool:
        """Whether all that waits was counted."""
        return self.waiting < MOST_COUNTED


def progress(tenant: Tenant, person: Person, *, left_out: Marks | None = None) -> Progress:
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0)
    number = waiting(tenant, left_out=left_out, most=MOST_COUNTED)
    return Progress(number, _decided_since(tenant, person, midnight))


def waiting(tenant: Tenant, *, left_out: Marks | None = None, most: int = 100) -> int:
    """How many the view `all` has, for anybody, counted up to `most`."""
    rows = seen_in(tenant, None, view="all", left_out=left_out)
    return rows.filter(WAITS, state__in=REVIEWABLE).order_by()[:most].count()


def _decided_since(tenant: Tenant, person: Person, since: datetime) -> int:
    actor = Actor.person(person)
    rows = decisions(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    return standing(rows).values("handoff").distinct().count()
