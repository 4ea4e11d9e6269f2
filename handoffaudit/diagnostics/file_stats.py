"""Counts of handoff files and log lines, stored with the data, and statistics of handoff files computed from them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import reduce
from operator import add, attrgetter
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import F, Q, QuerySet, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.filters import HEALTH_KINDS
from handoffaudit.diagnostics.models import HealthCount, LogCount
from handoffaudit.handoffs.counts import Aggregate
from handoffaudit.handoffs.db import TimeStep
from handoffaudit.handoffs.periods import TimeBucket, Window
from handoffaudit.handoffs.rates import Share
from handoffaudit.validation.formats.file_report import Fallback, Reason, Source


class HealthKey(NamedTuple):
    """The key under which a file report or a health line is counted.

    `hour` is the hour of the report or line, in UTC. `reason` is empty if the file was used. `fallback` is empty if the
    response text was not tried.
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


def count_health(tenant_id: int, deltas: HealthDeltas) -> None:
    """Add the numbers to `HealthCount`. Texts must be storable and fit into their columns."""
    HEALTH_COUNTS.add({(tenant_id, *place): (number,) for place, number in deltas.items()})


def count_lines(tenant_id: int, deltas: LogDeltas) -> None:
    """Add the numbers to `LogCount`. In a transaction that also calls `count_health`, call this function second."""
    LOG_COUNTS.add({(tenant_id, *place): (number,) for place, number in deltas.items()})


REASONS = tuple(one.value for one in Reason)

# The name for unused files without a reason, which log lines can report.
OTHER = "other"

USED_SOURCE = Source.HANDOFF_JSON.value

FALLBACK_OK, FALLBACK_FAILED = Fallback.OK.value, Fallback.FAILED.value

# All reasons of reports and log lines. Some logs of other tools give only the outcome of the fallback as the reason.
GIVEN = (*REASONS, FALLBACK_OK, FALLBACK_FAILED, OTHER)

# The numbers of a `FileTally` for these reasons.
_numbers = attrgetter(*GIVEN)

# A share of fewer files than this means little.
FEW = 20


@dataclass(frozen=True, slots=True)
class Change:
    """A share in a period and in the previous period."""

    now: Share
    before: Share

    @property
    def points(self) -> float | None:
        """Return the change in percentage points, or None if one of the two totals is 0."""
        if not self.now.total or not self.before.total:
            return None
        return round(100 * (self.now.part / self.now.total - self.before.part / self.before.total), 1)

    @property
    def direction(self) -> str:
        """Return `better`, `worse`, `same` or `none` (no comparison is possible), if a larger share is better."""
        if self.points is None:
            return "none"
        return "same" if not self.points else "better" if self.points > 0 else "worse"

    @property
    def fewer(self) -> str:
        """Return `better`, `worse`, `same` or `none`, if a smaller share is better."""
        return {"better": "worse", "worse": "better"}.get(self.direction, self.direction)

    @property
    def few(self) -> bool:
        """Return whether one of the two shares has too few items for a comparison."""
        return min(self.now.total, self.before.total) < FEW


@dataclass(frozen=True, slots=True)
class FileTally:
    """Counts of handoff files: used, unused by reason, and the outcomes of reading the response text instead.

    `fallback_ok` and `fallback_failed` count every file for which the response text was tried. `text_fallback_ok` and
    `text_fallback_fail` count only unused files whose log line gives the fallback as its sole reason. `other` counts
    unused files without a reason.
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

    def reason_share(self, reason: str) -> Share:
        return Share(self.reasons[reason], self.total)

    @property
    def reason_shares(self) -> dict[str, Share]:
        reasons = self.reasons
        total = self.used + sum(reasons.values())
        return {reason: Share(number, total) for reason, number in reasons.items()}

    @property
    def file_reason_shares(self) -> dict[str, Share]:
        return {reason: Share(number, self.total) for reason, number in self.file_reasons.items()}

    def __add__(self, other: "FileTally") -> "FileTally":
        return FileTally(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(FileTally)))

    def rest(self, listed: "FileTally") -> "FileTally":
        """Return these counts minus the counts `listed`.

        Each result is at least 0, although the counts may have grown between two queries.
        """
        return FileTally(*(max(0, getattr(self, one.name) - getattr(listed, one.name)) for one in fields(FileTally)))


# At most this many pairs are listed, pairs with the most unused files first. The other pairs are summed.
MOST_PAIRS = 2_000

MOST_RUNTIMES = 100

MOST_STEPS = 5_000

# A file counts as used only without a reason and a fallback. A line that reports a fallback is about an unused file,
# even if the line names the handoff file as the source.
_USED = Q(source=USED_SOURCE, reason="", fallback="")

_NO_FILE_REASON = ~_USED & ~Q(reason__in=REASONS)

_FALLBACK_READ = Q(fallback=FALLBACK_OK) | Q(reason=FALLBACK_OK)

_FALLBACK_FAILED = Q(fallback=FALLBACK_FAILED) | Q(reason=FALLBACK_FAILED)

_SUMS = {
    "used": _USED,
    **{reason: Q(reason=reason) for reason in REASONS},
    "other": _NO_FILE_REASON & ~_FALLBACK_READ & ~_FALLBACK_FAILED,
    "fallback_ok": _FALLBACK_READ,
    "fallback_failed": _FALLBACK_FAILED,
    "text_fallback_ok": _NO_FILE_REASON & _FALLBACK_READ,
    # A line that gives both outcomes counts once, as a successful fallback.
    "text_fallback_fail": _NO_FILE_REASON & _FALLBACK_FAILED & ~_FALLBACK_READ,
}


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
    return _make_tally(_filter_counts(tenant, since, until).aggregate(**_build_sums()))


def pairs(tenant: Tenant, since: datetime, until: datetime) -> list[Pair]:
    """Return the pairs with the most unused files, at most `MOST_PAIRS`."""
    rows = _group(_filter_counts(tenant, since, until), "phase", "agent")[:MOST_PAIRS]
    return [Pair(row["phase"], row["agent"], _make_tally(row)) for row in rows]


def runtimes(tenant: Tenant, since: datetime, until: datetime) -> list[Runtime]:
    """Return the runtimes with the most unused files, at most `MOST_RUNTIMES`, sorted by name."""
    rows = _group(_filter_counts(tenant, since, until), "runtime")[:MOST_RUNTIMES]
    return sorted((Runtime(row["runtime"], _make_tally(row)) for row in rows), key=lambda one: one.name)


def over_time(tenant: Tenant, window: Window) -> list[TimeBucket[FileTally]]:
    """Return all time buckets of the window, oldest first."""
    rows = _filter_counts(tenant, window.since, window.until).annotate(step=window.scale.index_of("hour"))
    found = {row["step"]: _make_tally(row) for row in _group(rows, "step")}
    return window.scale.fill(found, FileTally())


def by_agent_and_step(
    tenant: Tenant, since: datetime, until: datetime, step: TimeStep
) -> Iterator[tuple[str, int, FileTally]]:
    """Yield the counts of each agent in each time step; at most `MOST_STEPS` rows, those with the most unused first."""
    rows = _group(_filter_counts(tenant, since, until).annotate(step=step), "agent", "step")
    return ((row["agent"], row["step"], _make_tally(row)) for row in rows[:MOST_STEPS])


def known_pairs(tenant: Tenant) -> list[tuple[str, str]]:
    """Return all (phase, agent) pairs that were ever seen, sorted, at most `MOST_PAIRS`.

    The query finds each pair as the next greater pair in an index. DISTINCT would read every row.
    """
    table = HealthCount._meta.db_table  # noqa: SLF001 -- Django's documented API
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


def _filter_counts(tenant: Tenant, since: datetime, until: datetime) -> "QuerySet[HealthCount]":
    return HEALTH_COUNTS.read(tenant, since, until)


def _build_sums() -> dict[str, Any]:
    return {name: Sum("number", filter=condition, default=0) for name, condition in _SUMS.items()}


def _group(rows: "QuerySet[HealthCount]", *by: str) -> Any:
    summed = rows.order_by().values(*by).annotate(**_build_sums())
    unused = reduce(add, (F(reason) for reason in GIVEN))
    return summed.annotate(unused=unused).order_by("-unused", *by)


def _make_tally(row: Mapping[str, Any]) -> FileTally:
    return FileTally(**{name: row[name] for name in _SUMS})
