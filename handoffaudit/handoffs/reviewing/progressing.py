"""How much waits, and how much somebody has done today."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.decisions import decisions, standing
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.reviewing import passing
from handoffaudit.handoffs.reviewing.queueing import MAY_BE_LEFT_OUT, Marks, part_of, seen_in

# As many as can be decided in one go: the page that does so counts as far.
MOST_COUNTED = 5000
MOST_LOOKED_AT = 2000
_HELD = Q(state=State.HELD)
_ESCALATED = Q(state=State.REJECTED, escalated=True)
_REJECTED = Q(state=State.REJECTED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait; `more`: at least so many."""

    number: int
    more: bool = False

    @classmethod
    def of(cls, counted: int, most: int) -> "Waiting":
        return cls(min(counted, most), more=counted > most)

    def up_to(self, most: int) -> "Waiting":
        """The same, counted up to `most`, which is not more than it was counted up to."""
        return Waiting(min(self.number, most), more=self.more or self.number > most)


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
    if left_out is None or left_out.query.is_empty():
        return Waiting.of(_counted(tenant, (_HELD, _REJECTED), most), most)
    kept = _counted(tenant, (_HELD, _ESCALATED), most)
    if kept > most:
        return Waiting(most, more=True)
    rows = seen_in(tenant, None, view="all", left_out=left_out).filter(MAY_BE_LEFT_OUT)
    newest = part_of(queries.of_tenant(tenant), "rejected").order_by("-id")[:MOST_LOOKED_AT].values("pk")
    number = kept + rows.filter(pk__in=newest).count()
    return Waiting(min(number, most), more=number > most or newest.count() == MOST_LOOKED_AT)


def _counted(tenant: Tenant, parts: Sequence[Q], most: int) -> int:
    """How many of those parts wait, up to one more than `most`. Each part stands in an index, and is asked for by
    itself: together, PostgreSQL would go through all of them to count a few."""
    rows = queries.of_tenant(tenant).exclude(pk__in=passing.in_force(tenant).values("handoff")).order_by()
    compiled = [rows.filter(part).values("pk")[: most + 1].query.sql_with_params() for part in parts]
    each = " UNION ALL ".join(f"SELECT * FROM ({sql}) AS part_{number}" for number, (sql, _) in enumerate(compiled))  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*) FROM (SELECT * FROM ({each}) AS waits LIMIT {most + 1}) AS few",  # noqa: S608
            [param for _, params in compiled for param in params],
        )
        return int(cursor.fetchone()[0])


def _decided_since(tenant: Tenant, person: Person, since: datetime) -> int:
    actor = Actor.person(person)
    rows = decisions(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    return standing(rows).values("handoff").distinct().count()
