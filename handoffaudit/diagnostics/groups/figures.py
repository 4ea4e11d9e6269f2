"""Numbers of groups: over days, and how much of each waits for review."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.db import connection
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, GroupedHandoff
from handoffaudit.handoffs import bulk
from handoffaudit.handoffs.models import Handoff

DAYS_LISTED: Final = 14
WEEK: Final = 7
# Of the handoffs that wait, so many of the newest are looked at.
MOST_WAITING: Final = 1_500
_LEAST_GROWTH: Final = 10
_HANDOFFS: Final = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
_MEMBERS: Final = GroupedHandoff._meta.db_table  # noqa: SLF001 -- Django's documented API


def days_of(groups: Sequence[FindingGroup], number: int = DAYS_LISTED) -> dict[int, tuple[int, ...]]:
    """Of each group, how many of its handoffs came on each of the last days (UTC), today's last."""
    first = timezone.now().date() - timedelta(days=number - 1)
    found: dict[int, list[int]] = {group.pk: [0] * number for group in groups}
    rows = FindingGroupDay.objects.filter(group__in=list(found), day__gte=first)
    for group, day, count in rows.values_list("group_id", "day", "number"):
        # What came from a clock that is ahead counts as today's.
        found[group][min((day - first).days, number - 1)] += count
    return {group: tuple(max(0, count) for count in counts) for group, counts in found.items()}


def is_growing(days: Sequence[int]) -> bool:
    """Whether the last week has at least half as many again as the week before, and not just a few."""
    last, before = sum(days[-WEEK:]), sum(days[-2 * WEEK : -WEEK])
    return last >= _LEAST_GROWTH and 2 * last >= 3 * before


def growth(groups: "QuerySet[FindingGroup]") -> dict[int, int]:
    """How many more handoffs the last week has than the week before, of those groups that have more."""
    today = timezone.now().date()
    since, before = today - timedelta(days=WEEK), today - timedelta(days=2 * WEEK)
    rows = FindingGroupDay.objects.filter(group__in=groups.values("pk"), day__gt=before).order_by()
    summed = rows.values("group").annotate(
        last=Sum("number", filter=Q(day__gt=since), default=0),
        earlier=Sum("number", filter=Q(day__lte=since), default=0),
    )
    return {row["group"]: more for row in summed if (more := row["last"] - row["earlier"]) > 0}


def waiting(tenant: Tenant) -> Counter[int]:
    """How many handoffs of each group wait for a person now, of the newest that do."""
    held, rejected = (
        f'''SELECT id FROM "{_HANDOFFS}" WHERE tenant_id = %s AND {waits} ORDER BY id DESC LIMIT {MOST_WAITING}'''  # noqa: S608
        for waits in ("state = 'held'", "state = 'rejected' AND approvable")
    )
    # From a subquery, PostgreSQL would go through all members of groups; those of an array it looks up.
    among = (
        f"= ANY(ARRAY({held}) || ARRAY({rejected}))"
        if bulk.on_postgresql()
        else f"IN (SELECT id FROM ({held}) UNION ALL SELECT id FROM ({rejected}))"  # noqa: S608
    )
    sql = f'''SELECT group_id, COUNT(*) FROM "{_MEMBERS}" WHERE tenant_id = %s AND handoff {among} GROUP BY group_id'''  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [tenant.pk] * 3)
        return Counter(dict(cursor.fetchall()))
