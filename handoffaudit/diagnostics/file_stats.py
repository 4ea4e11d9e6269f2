"""Counts of handoff files and log lines, stored with the data, and statistics of handoff files computed from them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.filters import HEALTH_KINDS
from handoffaudit.diagnostics.models import DailyFileCount, HealthCount, HourlyFileCount, LogCount
from handoffaudit.handoffs import compiled_queries
from handoffaudit.handoffs.compiled_queries import CompiledQuery, Parameter, Statement, sum_rows
from handoffaudit.handoffs.counts import Aggregate, Key
from handoffaudit.handoffs.periods import TimeBucket, TimeScale, Window, split_period
from handoffaudit.handoffs.rates import Share
from handoffaudit.validation.formats.file_report import Fallback, Reason, Source


class HealthKey(NamedTuple):
    """The key under which a file report or a health line is counted.

    `hour` is the hour of the report or line, in UTC. `reason` is empty if the file was used, or if a line gives no
    reason. `fallback` is empty if the response text was not tried, or if a line gives no fallback.
    """

    hour: datetime
    agent: str
    phase: str
    runtime: str
    source: str
    reason: str
    fallback: str


class LogKey(NamedTuple):
    """The key under which a log line is counted; see `LogCount`."""

    hour: datetime
    kind: str
    event: str
    level: str
    component: str


HealthDeltas = Counter[HealthKey]

LogDeltas = Counter[LogKey]

HEALTH_COUNTS: Final = Aggregate(HealthCount, ("tenant", *HealthKey._fields))

LOG_COUNTS: Final = Aggregate(LogCount, ("tenant", *LogKey._fields))


REASONS = tuple(one.value for one in Reason)
# The name for unused files without a reason and without a fallback. Only log lines report such files.
OTHER = "other"

USED_SOURCE = Source.HANDOFF_JSON.value

FALLBACK_OK, FALLBACK_FAILED = Fallback.OK.value, Fallback.FAILED.value

# All reasons of reports and log lines. Some logs of other tools give only the outcome of the fallback as the reason.
GIVEN = (*REASONS, FALLBACK_OK, FALLBACK_FAILED, OTHER)

# The numbers of a `FileTally` for these reasons.
_numbers = attrgetter(*GIVEN)


@dataclass(frozen=True, slots=True)
class FileTally:
    """Counts of handoff files: used, unused by reason, and the outcomes of reading the response text instead.

    `fallback_ok` and `fallback_failed` count all files for which reading the response text succeeded or failed.
    `text_fallback_ok` and `text_fallback_fail` count only unused files whose log line gives the fallback as its sole
    reason. `other` counts unused files whose log line gives neither a reason nor a fallback.
    """

    used: int = 0
    file_missing: int = 0
    json_parse_error: int = 0
    schema_invalid: int = 0
    other: int = 0
    fallback_ok: int = 0
    fallback_failed: int = 0
    text_fallback_ok: int = 0
    text_fallback_fail: int = 0

    @property
    def unused(self) -> int:
        return sum(_numbers(self))

    @property
    def total(self) -> int:
        return self.used + self.unused

    @property
    def share(self) -> Share:
        """Return the share of files that were used."""
        return Share(self.used, self.total)

    @property
    def unused_share(self) -> Share:
        return Share(self.unused, self.total)

    @property
    def reasons(self) -> dict[str, int]:
        return dict(zip(GIVEN, _numbers(self), strict=True))

    @property
    def file_reasons(self) -> dict[str, int]:
        """Return the counts of the three file reasons, and of all other unused files as `other`, for tables."""
        found = {reason: getattr(self, reason) for reason in REASONS}
        return found | {OTHER: self.unused - sum(found.values())}

    @property
    def main_reason(self) -> str:
        """Return the most frequent reason, or an empty text if all files were used."""
        return max(self.reasons, key=lambda reason: self.reasons[reason]) if self.unused else ""

    @property
    def reason_shares(self) -> dict[str, Share]:
        return self._share_each(self.reasons)

    @property
    def file_reason_shares(self) -> dict[str, Share]:
        return self._share_each(self.file_reasons)

    def _share_each(self, numbers: Mapping[str, int]) -> dict[str, Share]:
        total = self.total
        return {reason: Share(number, total) for reason, number in numbers.items()}

    @classmethod
    def of(cls, several: "Iterable[FileTally]") -> "FileTally":
        """Return the sum of several tallies."""
        return cls(*map(sum, zip(*map(_counts, several), strict=True)))

    def rest(self, listed: "FileTally") -> "FileTally":
        """Return these counts minus the counts `listed`.

        Each result is at least 0, although the counts may have grown between two queries.
        """
        return FileTally(*(max(0, one - other) for one, other in zip(_counts(self), _counts(listed), strict=True)))


_counts: Final = attrgetter(*(one.name for one in fields(FileTally)))


# At most this many pairs of phase and agent are listed, those with the most unused files first. The others are summed.
MOST_PAIRS = 2_000
MOST_RUNTIMES = 100
MOST_STEPS = 5_000

# A file with a reason or a fallback does not count as used. A line that reports a fallback is about an unused file,
# even if the line names the handoff file as the source.
_USED = Q(source=USED_SOURCE, reason="", fallback="")

_NO_FILE_REASON = ~_USED & ~Q(reason__in=REASONS)

_FALLBACK_READ = Q(fallback=FALLBACK_OK) | Q(reason=FALLBACK_OK)

_FALLBACK_FAILED = Q(fallback=FALLBACK_FAILED) | Q(reason=FALLBACK_FAILED)

TALLY_CONDITIONS = {
    "used": _USED,
    **{reason: Q(reason=reason) for reason in REASONS},
    "other": _NO_FILE_REASON & ~_FALLBACK_READ & ~_FALLBACK_FAILED,
    "fallback_ok": _FALLBACK_READ,
    "fallback_failed": _FALLBACK_FAILED,
    "text_fallback_ok": _NO_FILE_REASON & _FALLBACK_READ,
    # A line that gives both outcomes counts once, as a successful fallback.
    "text_fallback_fail": _NO_FILE_REASON & _FALLBACK_FAILED & ~_FALLBACK_READ,
}


_NUMBERS: Final = tuple(TALLY_CONDITIONS)
_STEP: Final = "step"
_WHY: Final = ("source", "reason", "fallback")

_DAY: Final = timedelta(days=1)

# PostgreSQL sums bigint columns as numeric, which the driver is slow to read.
_SUMMED: Final = tuple(f"CAST(COALESCE(SUM({name}), 0) AS bigint)" for name in _NUMBERS)

_UNUSED: Final = " + ".join(f"COALESCE(SUM({name}), 0)" for name in GIVEN)

_TOTAL: Final = f"COALESCE(SUM(used), 0) + {_UNUSED}"
# The total of the agent is the same in all of its rows, so that sorting keeps these rows together.
_BUSIEST: Final = f"SUM({_TOTAL}) OVER (PARTITION BY agent)"

DAILY_FILES: Final = Aggregate(DailyFileCount, ("tenant", "day", "agent", "phase", "runtime"), _NUMBERS)

HOURLY_FILES: Final = Aggregate(HourlyFileCount, ("tenant", "hour", *_WHY))


@lru_cache(maxsize=1024)
def _numbers_of(source: str, reason: str, fallback: str) -> tuple[int, ...]:
    """Return the numbers of a `FileTally` for one file, by the conditions that the database queries use."""
    values = dict(zip(_WHY, (source, reason, fallback), strict=True))
    return tuple(int(_holds(condition, values)) for condition in TALLY_CONDITIONS.values())


def _holds(condition: Q, values: Mapping[str, str]) -> bool:
    found = (_holds(one, values) if isinstance(one, Q) else _matches(one, values) for one in condition.children)
    return (all(found) if condition.connector == Q.AND else any(found)) != condition.negated


def _matches(condition: Any, values: Mapping[str, str]) -> bool:
    name, wanted = condition
    column, _, lookup = name.partition("__")
    return values[column] in (wanted if lookup == "in" else (wanted,))


def _write_sql(condition: Any) -> str:
    """Return a condition as SQL. Django needs some milliseconds to compile the conditions of a page."""
    if isinstance(condition, Q):
        joined = f" {condition.connector} ".join(map(_write_sql, condition.children))
        return f"{'NOT ' if condition.negated else ''}({joined})"
    name, wanted = condition
    column, _, lookup = name.partition("__")
    values = ", ".join(f"'{value}'" for value in (wanted if lookup == "in" else (wanted,)))
    return f"{column} IN ({values})"


_CONDITIONS: Final = {name: _write_sql(condition) for name, condition in TALLY_CONDITIONS.items()}


def count_health(tenant_id: int, deltas: HealthDeltas) -> None:
    """Add the numbers to the hourly and the daily counts. Texts must be storable and fit into their columns."""
    HEALTH_COUNTS.add({(tenant_id, *place): (number,) for place, number in deltas.items()})
    daily: dict[Key, tuple[int, ...]] = {}
    hourly: Counter[Key] = Counter()
    for (hour, agent, phase, runtime, *why), number in deltas.items():
        hourly[tenant_id, hour, *why] += number
        place = (tenant_id, hour.astimezone(UTC).date(), agent, phase, runtime)
        before = daily.get(place, (0,) * len(_NUMBERS))
        daily[place] = tuple(known + number * one for known, one in zip(before, _numbers_of(*why), strict=True))
    DAILY_FILES.add(daily)
    HOURLY_FILES.add({place: (number,) for place, number in hourly.items()})


def count_lines(tenant_id: int, deltas: LogDeltas) -> None:
    """Add the numbers to `LogCount`. In a transaction that also calls `count_health`, call this function second."""
    LOG_COUNTS.add({(tenant_id, *place): (number,) for place, number in deltas.items()})


@dataclass(frozen=True, slots=True)
class Pair:
    phase: str
    agent: str
    tally: FileTally


@dataclass(frozen=True, slots=True)
class Runtime:
    """The handoff files of a runtime; `name` is empty for reports without a runtime."""

    name: str
    tally: FileTally


def overall(tenant: Tenant, since: datetime, until: datetime) -> FileTally:
    return FileTally(*next(iter(_sum(tenant, since, until)), ()))


def pairs(tenant: Tenant, since: datetime, until: datetime, agent: str | None = None) -> list[Pair]:
    """Return the pairs with the most unused files, at most `MOST_PAIRS`; with `agent`, those of this agent."""
    rows = _sum(tenant, since, until, "phase", "agent", most=MOST_PAIRS, agent=agent)
    return [Pair(phase, agent, FileTally(*numbers)) for phase, agent, *numbers in rows]


def pairs_and_overall(tenant: Tenant, since: datetime, until: datetime) -> tuple[list[Pair], FileTally]:
    """Return the pairs as `pairs` does, and the tally of all pairs, also of those that are not listed."""
    found = pairs(tenant, since, until)
    is_all = len(found) < MOST_PAIRS
    return found, FileTally.of(one.tally for one in found) if is_all else overall(tenant, since, until)


def runtimes(tenant: Tenant, since: datetime, until: datetime) -> list[Runtime]:
    """Return the runtimes with the most unused files, at most `MOST_RUNTIMES`, sorted by name."""
    rows = _sum(tenant, since, until, "runtime", most=MOST_RUNTIMES)
    return sorted((Runtime(name, FileTally(*numbers)) for name, *numbers in rows), key=lambda one: one.name)


def over_time(tenant: Tenant, window: Window) -> list[TimeBucket[FileTally]]:
    """Return all time buckets of the window, oldest first."""
    if window.scale.step % _DAY:
        return window.scale.fill(_tally_by_hours(tenant, window), FileTally())
    rows = _sum(tenant, window.since, window.until, _STEP, scale=window.scale)
    return window.scale.fill({step: FileTally(*numbers) for step, *numbers in rows}, FileTally())


def _tally_by_hours(tenant: Tenant, window: Window) -> dict[int, FileTally]:
    """Return the tally of each time bucket that has files, by its number, for buckets that are not whole days."""
    rows = HOURLY_FILES.read(tenant, window.since, window.until).values_list("hour", *_WHY, "number")
    scale = window.scale
    found: dict[int, list[FileTally]] = {}
    for hour, *why, number in rows:
        tally = FileTally(*(number * one for one in _numbers_of(*why)))
        found.setdefault((hour - scale.begin) // scale.step, []).append(tally)
    return {step: FileTally.of(tallies) for step, tallies in found.items()}


def by_agent_over_time(tenant: Tenant, scale: TimeScale) -> Iterator[tuple[str, int, FileTally]]:
    """Yield the counts of each agent in each time bucket; at most `MOST_STEPS` rows, agents with most files first."""
    rows = _sum(tenant, scale.since, scale.until, "agent", _STEP, scale=scale, most=MOST_STEPS, order=_BUSIEST)
    return ((agent, step, FileTally(*numbers)) for agent, step, *numbers in rows)


def known_pairs(tenant: Tenant) -> list[tuple[str, str]]:
    """Return all (phase, agent) pairs that were ever seen, sorted, at most `MOST_PAIRS`.

    The query finds each pair as the next greater pair in an index. DISTINCT would read every row.
    """
    table = DailyFileCount._meta.db_table  # noqa: SLF001 -- Django's documented API
    # The subquery names the last pair itself, because PostgreSQL would not use a value from a join as a bound of the
    # index.
    sql = f"""
        WITH RECURSIVE known(phase, agent, number) AS (
            SELECT phase, agent, 1 FROM "{table}" WHERE id = (
                SELECT id FROM "{table}" WHERE tenant_id = %s ORDER BY phase, agent LIMIT 1
            )
            UNION ALL SELECT later.phase, later.agent, known.number + 1 FROM known JOIN "{table}" later ON later.id = (
                SELECT id FROM "{table}" WHERE tenant_id = %s AND (phase, agent) > (known.phase, known.agent)
                ORDER BY phase, agent LIMIT 1
            ) WHERE known.number < {MOST_PAIRS}
        ) SELECT phase, agent FROM known ORDER BY phase, agent
    """  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [tenant.pk, tenant.pk])
        return [(phase, agent) for phase, agent in cursor.fetchall()]


def has_any(tenant: Tenant) -> bool:
    return HealthCount.objects.filter(tenant=tenant).exists()


def has_log_counts(tenant: Tenant) -> bool:
    """Return whether the tenant has uploaded logs with health lines, which are counted as file reports are."""
    return LogCount.objects.filter(tenant=tenant, kind__in=HEALTH_KINDS).exists()


def _sum(
    tenant: Tenant,
    since: datetime,
    until: datetime,
    *by: str,
    scale: TimeScale | None = None,
    most: int | None = None,
    agent: str | None = None,
    order: str = _UNUSED,
) -> list[tuple[Any, ...]]:
    """Return a row for each group of equal values in the columns `by`: these values and the numbers of a `FileTally`.

    Groups without files are left out. The groups with the largest `order` (SQL) come first. With `scale`, whose buckets
    are whole days from midnight, `_STEP` is a column: the number of the time bucket.
    """
    split = split_period(since, until, timezone.now())
    values: dict[str, Any] = {"tenant": tenant.pk, "agent": agent}
    step, of_agent = (scale.step, scale.begin) if scale else None, agent is not None
    parts: list[Statement] = []
    if split.first < split.after:
        parts.append(_compile(by, step, of_agent=of_agent).statement(**values, since=split.first, until=split.after))
    # The later hours of the current day are subtracted, too: log lines from a clock that is ahead count in these hours.
    for intervals, number in ((split.added, "number"), ((*split.taken, *split.future), "-number")):
        hours = _compile(by, step, number, of_agent=of_agent)
        parts += [hours.statement(**values, since=begin, until=end) for begin, end in intervals]
    tail = f"HAVING {_TOTAL} > 0 ORDER BY {', '.join((f'{order} DESC', *by))}"
    return sum_rows(parts, by, _SUMMED, tail if most is None else f"{tail} LIMIT {most}") if parts else []


@lru_cache(maxsize=64)
def _compile(
    by: tuple[str, ...], step: tuple[timedelta, datetime] | None, number: str = "", *, of_agent: bool
) -> CompiledQuery:
    """Return the query for `by` and the numbers of a `FileTally`, from daily or, with `number` (SQL), hourly counts."""
    time, kind = ("hour", compiled_queries.TIME) if number else ("day", compiled_queries.DAY)
    bounds: dict[str, Any] = {f"{time}__gte": Parameter("since", kind), f"{time}__lt": Parameter("until", kind)}
    if of_agent:
        bounds["agent"] = Parameter("agent", compiled_queries.TEXT)

    def build() -> "QuerySet[Any, Any]":
        rows: Any = (HealthCount if number else DailyFileCount).objects.filter(tenant=compiled_queries.TENANT, **bounds)
        if number:
            cases = {name: f"CASE WHEN {sql} THEN {number} END" for name, sql in _CONDITIONS.items()}
            rows = rows.annotate(**{name: RawSQL(sql, ()) for name, sql in cases.items()})  # noqa: S611
        if step:
            rows = rows.annotate(**{_STEP: TimeScale(step[1], step[1], *step).index_of(time)})
        found: QuerySet[Any, Any] = rows.order_by().values_list(*by, *_NUMBERS)
        return found

    return CompiledQuery(build)
