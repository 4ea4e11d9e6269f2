"""Statistics of finding groups: their numbers over days, and how many of their handoffs wait for review."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, GroupedHandoff
from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.handoffs.review.assignments import reassignments_in_force
from handoffaudit.handoffs.review.queue import WAITS

DAYS_LISTED: Final = 14

WEEK: Final = 7

# Only this many of the newest held handoffs, and of the newest rejected ones that wait, are looked at.
MOST_WAITING: Final = 10_000

# The states of the review queue, each read from one index.
_WAITS: Final = ("state = 'held'", "state = 'rejected'")

_LEAST_GROWTH: Final = 10

_HANDOFFS: Final = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API

_MEMBERS: Final = GroupedHandoff._meta.db_table  # noqa: SLF001 -- Django's documented API


def days_of(groups: Sequence[FindingGroup], number: int = DAYS_LISTED) -> dict[int, tuple[int, ...]]:
    """Return how many handoffs of each group arrived on each of the last days (UTC), today's number last."""
    first = timezone.now().date() - timedelta(days=number - 1)
    found: dict[int, list[int]] = {group.pk: [0] * number for group in groups}
    rows = FindingGroupDay.objects.filter(group__in=list(found), day__gte=first)
    for group, day, count in rows.values_list("group_id", "day", "number"):
        # A handoff dated by a clock that is ahead counts as today's.
        found[group][min((day - first).days, number - 1)] += count
    return {group: tuple(max(0, count) for count in counts) for group, counts in found.items()}


def is_growing(days: Sequence[int]) -> bool:
    """Return whether the last week has at least 10 handoffs, and half as many again as the week before."""
    last, before = sum(days[-WEEK:]), sum(days[-2 * WEEK : -WEEK])
    return last >= _LEAST_GROWTH and 2 * last >= 3 * before


def growth(groups: "QuerySet[FindingGroup]") -> dict[int, int]:
    """Return how many more handoffs the last week has than the week before, for the groups that have more."""
    today = timezone.now().date()
    since, before = today - timedelta(days=WEEK), today - timedelta(days=2 * WEEK)
    rows = FindingGroupDay.objects.filter(group__in=groups.values("pk"), day__gt=before).order_by()
    summed = rows.values("group").annotate(
        last=Sum("number", filter=Q(day__gt=since), default=0),
        earlier=Sum("number", filter=Q(day__lte=since), default=0),
    )
    return {row["group"]: more for row in summed if (more := row["last"] - row["earlier"]) > 0}


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many handoffs of each group wait for a person now.

    `more` means that more handoffs wait than were looked at, so that each number is a minimum.
    """

    numbers: Mapping[int, int]
    more: bool = False


def waiting_in(tenant: Tenant, groups: Sequence[FindingGroup]) -> Waiting:
    """Return the waiting handoffs of some groups; all their handoffs are looked at, unless there are very many."""
    if sum(group.number for group in groups) > 2 * MOST_WAITING:
        return waiting(tenant)
    handoffs = Handoff.objects.filter(WAITS, tenant=tenant, pk=OuterRef("handoff"))
    members = GroupedHandoff.objects.filter(Exists(handoffs), group__in=[group.pk for group in groups])
    there = members.exclude(handoff__in=reassignments_in_force(tenant).values("handoff"))
    return Waiting(dict(there.order_by().values_list("group").annotate(Count("handoff"))))


def waiting(tenant: Tenant) -> Waiting:
    """Return the waiting handoffs of all groups, as the review queue has them, muted groups included."""
    held, rejected = (
        f'''SELECT id FROM "{_HANDOFFS}" WHERE tenant_id = %s AND {waits} ORDER BY id DESC LIMIT {MOST_WAITING}'''  # noqa: S608
        for waits in _WAITS
    )
    # With a subquery, PostgreSQL would go through all members of groups; with an array, it looks up each element.
    among = (
        f"= ANY(ARRAY({held}) || ARRAY({rejected}))"
        if db.is_postgresql()
        else f"IN (SELECT id FROM ({held}) UNION ALL SELECT id FROM ({rejected}))"  # noqa: S608
    )
    sql = f'''SELECT group_id, COUNT(*) FROM "{_MEMBERS}" WHERE tenant_id = %s AND handoff {among} GROUP BY group_id'''  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [tenant.pk] * 3)
        numbers = Counter(dict(cursor.fetchall()))
    passed_on = GroupedHandoff.objects.filter(
        tenant=tenant, handoff__in=reassignments_in_force(tenant).values("handoff")
    )
    numbers.subtract(Counter(passed_on.values_list("group", flat=True)))
    return Waiting({group: number for group, number in numbers.items() if number > 0}, more=_is_more(tenant))


def _is_more(tenant: Tenant) -> bool:
    """Return whether more handoffs of one of the two states wait than are looked at."""
    handoffs = Handoff.objects.filter(tenant=tenant).order_by()
    either = (handoffs.filter(state=State.HELD), handoffs.filter(state=State.REJECTED))
    return any(rows[: MOST_WAITING + 1].count() > MOST_WAITING for rows in either)
