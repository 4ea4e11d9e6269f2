"""How much waits, and how much somebody has done today."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.decisions import decisions, standing
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.reviewing.queueing import Marks, part_of, seen_in

MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """What waits in the view `all`, by part; numbers stop at `MOST_COUNTED`. `decided_today`: how many the person has
    decided since midnight, without those that were taken back."""

    escalated: int
    held: int
    rejected: int
    decided_today: int

    @property
    def waiting(self) -> int:
        return self.escalated + self.held + self.rejected

    @property
    def complete(self) -> bool:
        """Whether all that waits was counted."""
        return max(self.escalated, self.held, self.rejected) < MOST_COUNTED


def progress(tenant: Tenant, person: Person, *, left_out: Marks | None = None) -> Progress:
    rows = seen_in(tenant, person, view="all", left_out=left_out)
    return Progress(
        escalated=_counted(rows, "escalated"),
        held=_counted(rows, "held"),
        rejected=_counted(rows, "rejected"),
        decided_today=_decided_since(tenant, person, timezone.localtime().replace(hour=0, minute=0, second=0)),
    )


def _counted(rows: "QuerySet[Handoff]", part: str) -> int:
    return part_of(rows, part).order_by()[:MOST_COUNTED].count()


def _decided_since(tenant: Tenant, person: Person, since: datetime) -> int:
    actor = Actor.person(person)
    rows = decisions(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    return standing(rows).values("handoff").distinct().count()
