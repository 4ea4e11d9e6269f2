"""Numbers for pages, read from the kept counts; what still waits to be judged is counted live, up to a bound."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import F, Min, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import WAITING_STATES, Finding, Handoff, HourlyTotal, State
from handoffaudit.handoffs.time_steps import TimeStep

COUNTED_LIVE = 10_000
MENU_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Bucket:
    """A stretch of time from `start` on, and how many handoffs received in it stand in each state."""

    start: datetime
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a person or a worker. Numbers of unjudged ones stop at `COUNTED_LIVE`."""

    held: int
    oldest_held_at: datetime | None
    overdue: int
    rejected_undecided: int
    unjudged: int
    oldest_unjudged_at: datetime | None
    parked: int


@dataclass(frozen=True, slots=True)
class KnownValues:
    types: list[str]
    sources: list[str]
    targets: list[str]
    codes: list[str]


def state_totals(tenant: Tenant, since: datetime | None = None, until: datetime | None = None) -> dict[str, int]:
    """By state; hours are counted whole."""
    totals = dict.fromkeys(State.values, 0)
    rows = _hours(tenant, since, until).filter(code="").values("state").annotate(sum=Sum("number"))
    totals |= {row["state"]: row["sum"] for row in rows}
    for state in WAITING_STATES:
        totals[state] = Handoff.objects.filter(tenant=tenant, state=state)[:COUNTED_LIVE].count()
    return totals


def over_time(tenant: Tenant, since: datetime, until: datetime, buckets: int = 30) -> list[Bucket]:
    """The stretch cut into at most that many equal parts of whole hours, oldest first; empty ones included."""
    start = since.replace(minute=0, second=0, microsecond=0)
    hours = max(1, -(-int((until - start).total_seconds()) // 3600))
    step = timedelta(hours=-(-hours // buckets))
    place = TimeStep(F("hour"), seconds=int(step.total_seconds()), begin=int(start.timestamp()))
    rows = _hours(tenant, start, until).filter(code="").order_by().values_list(place, "state")
    found: dict[int, dict[str, int]] = {}
    for index, state, number in rows.annotate(sum=Sum("number")):
        found.setdefault(index, {})[state] = number
    return [
        Bucket(start + index * step, found.get(index, {})) for index in range(-(-hours // (step // timedelta(hours=1))))
    ]


def top_codes(
    tenant: Tenant, since: datetime | None = None, until: datetime | None = None, limit: int = 8
) -> list[tuple[str, int]]:
    """The codes that most handoffs have, and how many have each."""
    found = _hours(tenant, since, until).exclude(code="")
    rows = found.values("code").annotate(sum=Sum("number"))
    return [(row["code"], row["sum"]) for row in rows.filter(sum__gt=0).order_by("-sum", "code")[:limit]]


def waiting(tenant: Tenant) -> Waiting:
    handoffs = Handoff.objects.filter(tenant=tenant)
    held = handoffs.filter(state=State.HELD)
    unjudged = handoffs.filter(state__in=WAITING_STATES, parked=False)
    return Waiting(
        held=_ever(tenant, State.HELD),
        oldest_held_at=held.order_by("id").values_list("received_at", flat=True).first(),
        overdue=held.filter(review_due_at__lt=timezone.now())[:COUNTED_LIVE].count(),
        rejected_undecided=_ever(tenant, State.REJECTED),
        unjudged=unjudged[:COUNTED_LIVE].count(),
        oldest_unjudged_at=unjudged.aggregate(oldest=Min("received_at"))["oldest"],
        parked=handoffs.filter(state__in=WAITING_STATES, parked=True)[:COUNTED_LIVE].count(),
    )


def _ever(tenant: Tenant, state: State) -> int:
    """How many stand in that state, whenever they came."""
    return HourlyTotal.objects.filter(tenant=tenant, code="", state=state).aggregate(sum=Sum("number"))["sum"] or 0


def known_values(tenant: Tenant) -> KnownValues:
    """What can be filtered by, for menus: at most so many of each, in the alphabet's order."""
    return KnownValues(
        types=_distinct(tenant, Handoff, "handoff_type"),
        sources=_distinct(tenant, Handoff, "source_agent_id"),
        targets=_distinct(tenant, Handoff, "target_agent_id"),
        codes=_distinct(tenant, Finding, "code"),
    )


def _distinct(tenant: Tenant, model: type[Handoff | Finding], column: str) -> list[str]:
    """Steps through an index that begins with the tenant and the column, from each value to the next greater one:
    DISTINCT would read every row."""
    table = model._meta.db_table  # noqa: SLF001 -- Django's documented API
    following = f'SELECT MIN("{column}") FROM "{table}" WHERE tenant_id = %s AND "{column}" >'  # noqa: S608
    sql = f"""
        WITH RECURSIVE known(value) AS (
            {following} '' UNION ALL SELECT ({following} known.value) FROM known WHERE known.value IS NOT NULL
        ) SELECT value FROM known WHERE value IS NOT NULL LIMIT {MENU_LENGTH}
    """  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [tenant.pk, tenant.pk])
        return [value for (value,) in cursor.fetchall()]


def _hours(tenant: Tenant, since: datetime | None, until: datetime | None) -> "QuerySet[HourlyTotal]":
    rows = HourlyTotal.objects.filter(tenant=tenant)
    if since:
        rows = rows.filter(hour__gte=since.replace(minute=0, second=0, microsecond=0))
    return rows.filter(hour__lt=until) if until else rows
