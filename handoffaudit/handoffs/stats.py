"""Statistics of handoffs for pages, from the stored counts; unjudged and overdue handoffs are counted up to a limit."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from django.db import connection, router
from django.db.models import Count, Min, Model, Q, QuerySet, Subquery, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db
from handoffaudit.handoffs.compiled_queries import (
    TENANT,
    TIME,
    ClosedDays,
    CompiledQuery,
    Parameter,
    convert_time,
    count_rows,
    sum_rows,
)
from handoffaudit.handoffs.counts import widen_to_days
from handoffaudit.handoffs.filters import first_id_at, is_in_states, is_overdue
from handoffaudit.handoffs.models import WAITING_STATES, Finding, Handoff, HourlyTotal, JudgeLease, State
from handoffaudit.handoffs.periods import HOUR, TimeBucket, TimeScale
from handoffaudit.validation.times import hour_of

BEGINNING, END = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)

COUNTED_LIVE = 10_000

MENU_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Waiting:
    """The handoffs that wait for a person or a verdict.

    `overdue`, `unjudged` and `parked` are counted up to `COUNTED_LIVE`. `unjudged` does not include parked handoffs.
    """

    held: int
    oldest_held_at: datetime | None
    overdue: int
    rejected_undecided: int
    unjudged: int
    oldest_unjudged_at: datetime | None
    parked: int


@dataclass(frozen=True, slots=True)
class Unjudged:
    """The handoffs that wait for a verdict. Each number stops at `COUNTED_LIVE`.

    `by_state` includes parked handoffs; `number` and `oldest_at` do not.
    """

    by_state: Mapping[State, int]
    number: int
    oldest_at: datetime | None
    parked: int


@dataclass(frozen=True, slots=True)
class KnownValues:
    types: list[str]
    sources: list[str]
    targets: list[str]
    codes: list[str]


def sum_states(several: Iterable[Mapping[str, int] | Mapping[State, int]]) -> dict[str, int]:
    """Add up the numbers of handoffs by state from several mappings. A missing state gets 0."""
    totals = dict.fromkeys(State.values, 0)
    for numbers in several:
        for state, number in numbers.items():
            totals[state] += number
    return totals


def count_over_time(
    tenant: Tenant, since: datetime, until: datetime, buckets: int = 30
) -> list[TimeBucket[Mapping[str, int]]]:
    """Return the counts by state for at most `buckets` time buckets, oldest first.

    Each time bucket lasts the same whole number of hours, but the last one ends at `until`. Empty time buckets are
    included.
    """
    start = hour_of(since)
    hours = max(1, -(-int((until - start).total_seconds()) // 3600))
    step = timedelta(hours=-(-hours // buckets))
    scale = TimeScale(start, until if until > start else start + HOUR, step, begin=start)
    first, end = widen_to_days(start, until)
    found: dict[int, dict[str, int]] = {}
    for index, state, number in _over_time(scale.step, scale.begin).rows(tenant=tenant.pk, since=first, until=end):
        found.setdefault(index, {})[state] = number
    return scale.fill(found, {})


# The statement contains the start of the first time bucket, so it is compiled once an hour for each period.
@lru_cache(maxsize=64)
def _over_time(step: timedelta, begin: datetime) -> CompiledQuery:
    scale = TimeScale(begin, begin, step, begin=begin)
    return CompiledQuery(
        lambda: (
            _HOURS.filter(code="", hour__gte=_SINCE, hour__lt=_UNTIL)
            .order_by()
            .values_list(scale.index_of("hour"), "state")
            .annotate(sum=Sum("number"))
        )
    )


def count_top_codes(
    tenant: Tenant,
    since: datetime = BEGINNING,
    until: datetime = END,
    limit: int = 8,
    closed: ClosedDays | None = None,
) -> list[tuple[str, int]]:
    """Return the rule codes with the most handoffs, each with its number of handoffs."""
    closed = closed or ClosedDays(tenant.pk, timezone.now())
    first, end = widen_to_days(hour_of(since), until)
    numbers = closed.sum_hours(_CODES, first or since, end or until, ("code",))
    found = sorted((-number, code) for code, number in numbers if number > 0)
    return [(code, -number) for number, code in found[:limit]]


def count_waiting(tenant: Tenant, unjudged: Unjudged | None = None) -> Waiting:
    """Count the handoffs that wait for a person or a verdict. Pass `unjudged` to avoid a second count."""
    unjudged = unjudged or count_unjudged(tenant)
    # A replica may not have a new tenant yet.
    [(held, rejected, overdue)] = _WAITING.rows(tenant=tenant.pk, now=timezone.now()) or [(0, 0, 0)]
    oldest_held = find_first_received(Handoff.objects.filter(tenant=tenant, state=State.HELD))
    return Waiting(
        held=held or 0,
        oldest_held_at=oldest_held.received_at if oldest_held else None,
        overdue=overdue,
        rejected_undecided=rejected or 0,
        unjudged=unjudged.number,
        oldest_unjudged_at=unjudged.oldest_at,
        parked=unjudged.parked,
    )


def count_unjudged(tenant: Tenant) -> Unjudged:
    """Count the handoffs that wait for a verdict, in one query unless their number exceeds `COUNTED_LIVE`."""
    rows = _UNJUDGED.statement(tenant=tenant.pk)._replace(is_limited=True)
    # The other counts of a page may come from the replica. These counts come from there, too, so that all counts belong
    # to the same moment.
    reader = router.db_for_read(Handoff)
    [(*numbers, parked, oldest_at)] = sum_rows([rows], (), _UNJUDGED_NUMBERS, using=reader)
    oldest_at = convert_time(oldest_at)
    by_state = dict(zip(WAITING_STATES, numbers, strict=True))
    every = sum(numbers)
    if every <= COUNTED_LIVE:
        return Unjudged(by_state, every - parked, oldest_at, parked)
    waiting = Handoff.objects.filter(tenant=tenant, state__in=WAITING_STATES)
    oldest = find_oldest_unjudged(tenant.pk)
    return Unjudged(
        {state: waiting.filter(state=state)[:COUNTED_LIVE].count() for state in WAITING_STATES},
        waiting.filter(parked=False)[:COUNTED_LIVE].count(),
        oldest.since if oldest else None,
        Handoff.objects.filter(is_in_states(WAITING_STATES), tenant=tenant, parked=True)[:COUNTED_LIVE].count(),
    )


def _sum_of_state(state: State) -> Subquery:
    hours = _HOURS.filter(code="", state=state).order_by().values("state").annotate(sum=Sum("number"))
    return Subquery(hours.values("sum"))


def _build_waiting() -> "QuerySet[Tenant, Any]":
    overdue = Handoff.objects.filter(is_overdue(Parameter("now", TIME)), tenant=TENANT)
    return _THE_TENANT.values_list(
        _sum_of_state(State.HELD),
        _sum_of_state(State.REJECTED),
        count_rows(overdue.values("pk"), COUNTED_LIVE),
    )


_THE_TENANT: Final = Tenant.objects.filter(pk=TENANT)

_HOURS: Final = HourlyTotal.objects.filter(tenant=TENANT)

_SINCE, _UNTIL = Parameter("since", TIME), Parameter("until", TIME)

_CODES: Final = CompiledQuery(
    lambda: _HOURS.filter(hour__gte=_SINCE, hour__lt=_UNTIL).exclude(code="").order_by().values_list("code", "number")
)

_WAITING: Final = CompiledQuery(_build_waiting)

_UNJUDGED: Final = CompiledQuery(
    lambda: (
        Handoff.objects.filter(tenant=TENANT, state__in=WAITING_STATES)
        .order_by()
        .values_list("state", "parked", "received_at")[: COUNTED_LIVE + 1]
    )
)

_UNJUDGED_NUMBERS: Final = (
    *(f"COUNT(*) FILTER (WHERE state = '{state.value}')" for state in WAITING_STATES),
    'COUNT(*) FILTER (WHERE "parked")',
    'MIN("received_at") FILTER (WHERE NOT "parked")',
)


def list_known_values(tenant: Tenant) -> KnownValues:
    """Return the values for filter menus, at most `MENU_LENGTH` of each kind, in alphabetical order."""
    found: list[list[str]] = [[] for _ in _COLUMNS]
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN, {"most": MENU_LENGTH, "tenant": tenant.pk})
        for number, value in cursor.fetchall():
            found[number].append(value)
    return KnownValues(*found)


def list_agents_from(tenant: Tenant, text: str, most: int) -> tuple[list[str], list[str]]:
    """Return the first `most` sources and targets that are not before `text`, in the order of the database."""
    found: tuple[list[str], list[str]] = ([], [])
    with connection.cursor() as cursor:
        cursor.execute(_AGENTS, {"most": most, "tenant": tenant.pk, "text": text})
        for number, value in cursor.fetchall():
            found[number].append(value)
    return found


def _distinct(model: type[Handoff | Finding], column: str, first: str = "> ''") -> str:
    """Return the SQL for the distinct values of a column, in ascending order.

    `first` is the SQL condition that the least value must fulfil, such as `>= 'b'`. The statement finds each value as
    the next greater value in an index on the tenant and the column. DISTINCT would read every row.
    """
    table = model._meta.db_table  # noqa: SLF001 -- Django's documented API
    following = f'SELECT MIN("{column}") FROM "{table}" WHERE tenant_id = %(tenant)s AND "{column}"'  # noqa: S608
    return f"""
        WITH RECURSIVE known(value) AS (
            {following} {first} UNION ALL SELECT ({following} > known.value) FROM known WHERE known.value IS NOT NULL
        ) SELECT value FROM known WHERE value IS NOT NULL LIMIT %(most)s
    """  # noqa: S608


_AGENTS: Final = " UNION ALL ".join(
    f"SELECT {number}, value FROM ({_distinct(Handoff, column, '>= %(text)s')}) AS agents_{number}"  # noqa: S608
    for number, column in enumerate(("source_agent_id", "target_agent_id"))
)


# The columns are in the order of the fields of `KnownValues`.
_COLUMNS: Final[tuple[tuple[type[Handoff | Finding], str], ...]] = (
    (Handoff, "handoff_type"),
    (Handoff, "source_agent_id"),
    (Handoff, "target_agent_id"),
    (Finding, "code"),
)

_KNOWN: Final = " UNION ALL ".join(
    f"SELECT {number}, value FROM ({_distinct(model, column)}) AS known_{number}"  # noqa: S608
    for number, (model, column) in enumerate(_COLUMNS)
)


# A handoff that waits for the LLM was tried before and has no lease. All others wait for a worker or are being judged.
_FOR_WORKER = Q(tries=0) | Q(claim_expires_at__isnull=False)


def find_first_received(rows: "QuerySet[Handoff]") -> Handoff | None:
    """Return the handoff that was received first, with the columns that callers read, or None if there is none.

    The id of a handoff with `sent_at` contains that time. So a handoff that arrived long after `sent_at` can have the
    first id although other handoffs were received earlier. Such a handoff is compared with at most `COUNTED_LIVE`
    handoffs whose ids have a time up to one second after its receipt. Handoffs with later ids were received later.
    """
    rows = rows.only("received_at", "sent_at", "tries", "claim_expires_at").order_by("id")
    first = rows.first()
    if first and first.sent_at:
        before = rows.filter(pk__lt=first_id_at(first.received_at + timedelta(seconds=1)))[:COUNTED_LIVE]
        return rows.filter(pk__in=before.values("pk")).order_by("received_at", "id").first() or first
    return first


@dataclass(frozen=True, slots=True)
class Oldest:
    """The unparked handoff that has waited longest for a verdict; `for_model` is True if it waits for the LLM."""

    since: datetime
    for_model: bool


def find_oldest_unjudged(tenant_id: int) -> Oldest | None:
    """Return the unjudged handoff that has waited longest, or None if none waits."""
    first = min(_list_first_received(Q(tenant=tenant_id)), key=lambda row: row.received_at, default=None)
    return Oldest(first.received_at, bool(first.tries) and first.claim_expires_at is None) if first else None


def find_oldest_for_worker(tenant_id: int) -> datetime | None:
    """Return the time of receipt of the oldest handoff that waits for a worker or is being judged, or None."""
    return min((row.received_at for row in _list_first_received(_FOR_WORKER & Q(tenant=tenant_id))), default=None)


def _list_first_received(condition: Q) -> list[Handoff]:
    """Return, for each state, the unjudged handoff that was received first, without parked handoffs."""
    rows = Handoff.objects.filter(condition, parked=False)
    # A single query over both states would have to sort their rows.
    return [row for state in WAITING_STATES if (row := find_first_received(rows.filter(state=state)))]


@dataclass(frozen=True, slots=True)
class WorkerQueue:
    """The handoffs of all tenants that wait for a worker. All numbers stop at `COUNTED_LIVE`.

    `leased` handoffs are being judged. The leases of `expired` handoffs are over, and any worker may take them, so
    `waiting` includes them. `oldest_at` is the time of receipt of the oldest of all these handoffs.
    """

    waiting: int
    leased: int
    expired: int
    oldest_at: datetime | None


def measure_worker_queue() -> WorkerQueue:
    """Count the waiting handoffs of all tenants up to `COUNTED_LIVE`, in two queries.

    Handoffs that wait for the LLM are not counted. The first query still reads them in the index, and skips them, as
    does the query with which a worker looks for new handoffs. The health of the workers concerns the operator and no
    single tenant.
    """
    # SQLite uses the partial index only if the statement repeats the condition of the index without parameters.
    rows = Handoff.objects.extra(where=["state IN ('received', 'validating')"]).filter(parked=False)
    now = timezone.now()
    is_named = Q(pk__in=JudgeLease.select_handoffs("expires_at >= %s", [now]))
    is_left = Q(pk__in=JudgeLease.select_handoffs("expires_at < %s", [now]))
    # PostgreSQL reads the rows in the order of the index only if ORDER BY names each column of the index.
    new = rows.filter(claim_expires_at=None, tries=0).order_by("claim_expires_at", "id")[:COUNTED_LIVE]
    untried = _count_leases(new, is_named, is_left)
    is_leased, is_over = Q(claim__isnull=False, claim_expires_at__gte=now), Q(claim_expires_at__lt=now)
    taken = rows.filter(claim_expires_at__isnull=False).order_by("claim_expires_at", "id")[:COUNTED_LIVE]
    tried = _count_leases(taken, is_leased, is_over)
    leased = untried["leased"] + tried["leased"]
    oldest = [at for at in (untried["oldest"], tried["oldest"]) if at]
    return WorkerQueue(
        waiting=min(untried["number"] + tried["number"] - leased, COUNTED_LIVE),
        leased=min(leased, COUNTED_LIVE),
        expired=min(untried["expired"] + tried["expired"], COUNTED_LIVE),
        oldest_at=min(oldest, default=None),
    )


def _count_leases(rows: "QuerySet[Handoff]", is_leased: Q, is_expired: Q) -> dict[str, Any]:
    return rows.aggregate(
        number=Count("pk"),
        leased=Count("pk", filter=is_leased),
        expired=Count("pk", filter=is_expired),
        oldest=Min("received_at"),
    )


def list_by_prefix(model: type[Model], column: str, tenant_id: int, prefix: str, most: int) -> list[str]:
    """Return the first distinct values of a text column that begin with `prefix`, in the order of their bytes.

    The column follows the tenant in an index, on PostgreSQL with the operator class `varchar_pattern_ops`. The
    statement finds each value as the next greater value in that index.
    """
    table, marks = model._meta.db_table, ("~>=~", "~>~", "~<~") if db.is_postgresql() else (">=", ">", "<")  # noqa: SLF001
    order = f'"{column}" USING ~<~' if db.is_postgresql() else f'"{column}"'
    end = _end_of_prefix(prefix)
    before_end = f'AND "{column}" {marks[2]} %(end)s' if end else ""
    following = f"""
        SELECT "{column}" FROM "{table}" WHERE tenant_id = %(tenant)s AND "{column}" {{}} {before_end}
        ORDER BY {order} LIMIT 1
    """  # noqa: S608
    sql = f"""
        WITH RECURSIVE known(value) AS (
            SELECT ({following.format(f"{marks[0]} %(prefix)s")})
            UNION ALL SELECT ({following.format(f"{marks[1]} known.value")}) FROM known WHERE known.value IS NOT NULL
        ) SELECT value FROM known WHERE value IS NOT NULL LIMIT %(most)s
    """  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, {"tenant": tenant_id, "prefix": prefix, "end": end, "most": most})
        return [value for (value,) in cursor.fetchall()]


def _end_of_prefix(prefix: str) -> str:
    """Return the least text above all texts with the prefix; an empty text if there is none."""
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return ""
    # The code points from D800 to DFFF are no characters.
    last = "\ue000" if kept[-1] == "\ud7ff" else chr(ord(kept[-1]) + 1)
    return kept[:-1] + last
