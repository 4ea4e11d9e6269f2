"""Sums of the stored counts over periods of whole hours, and the rates that pages and reports show.

A sum reads the daily counts of the days in the period, and hourly counts at both ends of the period.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from math import sqrt
from operator import itemgetter
from typing import Any, Final, NamedTuple

from django.db.models import F, Q, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.compiled_queries import (
    DAY,
    TENANT,
    TEXT,
    TIME,
    ClosedDays,
    CompiledQuery,
    Parameter,
    Statement,
    merge_rows,
    sum_rows,
)
from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.models import DailyCount, DailyPair, HourlyCount, HourlySource, State
from handoffaudit.handoffs.periods import PeriodSplit, split_period

# A share of fewer items than this means little.
FEW: Final = 20

# PostgreSQL sums bigint columns as numeric, which the driver is slow to read.
SUMS: Final = tuple(f"CAST(COALESCE(SUM({column}), 0) AS bigint)" for column in OUTCOMES)

TOTAL: Final = " + ".join(f"COALESCE(SUM({column}), 0)" for column in OUTCOMES)


class Sums(NamedTuple):
    """The numbers of handoffs by outcome. `decided` handoffs were approved, `stopped` handoffs are blocked."""

    accepted: int = 0
    decided: int = 0
    stopped: int = 0
    superseded: int = 0

    @property
    def total(self) -> int:
        return self.accepted + self.decided + self.stopped + self.superseded


Names = tuple[str, ...]

# The condition for handoffs with a source agent.
HAS_SOURCE: Final = ~Q(source_agent_id="")


def sum_outcomes(
    tenant: Tenant,
    since: datetime,
    until: datetime,
    *columns: str,
    codes: Sequence[str] = ("",),
    narrowed: Q | None = None,
    most: int | None = None,
    closed: ClosedDays | None = None,
) -> dict[Names, Sums]:
    """Return the outcomes of the handoffs from `since` to before `until` by the values of columns, largest total first.

    The time of a handoff is `Handoff.at`. `columns` are among `code`, `handoff_type` and `source_agent_id`; or
    `target_agent_id`, which excludes `code` and `handoff_type`. `codes` are the rule codes to count; the empty code
    counts the handoffs themselves. `narrowed` is a further condition. `most` limits the number of groups. For the days
    in `closed`, the sums that this process keeps are used.
    """
    if not codes:
        return {}
    list_parts = partial(_list_parts, tenant, columns=columns, codes=codes, narrowed=narrowed or Q())
    split, kept = split_period(since, until, timezone.now()), None
    if closed:
        old, new = split.split_at(closed.end)
        kept = closed.sum_rows(old.since, columns, SUMS, (old, tuple(codes), narrowed), lambda: list_parts(old))
        split = split if kept is None else new
    tail = "" if most is None or kept is not None else f"ORDER BY {TOTAL} DESC LIMIT {most}"
    parts, place = list(list_parts(split)), len(columns)
    rows = sum_rows(parts, columns, SUMS, tail) if parts else []
    rows = merge_rows(kept, rows, place) if kept else rows
    found = [(-total, row[:place], Sums._make(row[place:])) for row in rows if (total := sum(row[place:])) > 0]
    found.sort(key=itemgetter(0, 1))
    return {names: sums for _, names, sums in found[:most]}


def _list_parts(
    tenant: Tenant, split: PeriodSplit, columns: Names, codes: Sequence[str], narrowed: Q
) -> Iterator[Statement]:
    """Yield the statements to sum. Their rows have the columns and the numbers of each outcome."""
    values = {"tenant": tenant.pk} | {f"code_{place}": code for place, code in enumerate(codes)}
    if split.first < split.after:
        days = {"since": split.first, "until": split.after}
        yield _compile_days(columns, len(codes), narrowed).statement(**values, **days)
    by_source = (*columns, *codes) == ("source_agent_id", "") and narrowed in (Q(), HAS_SOURCE)
    for intervals, sign in ((split.added, ""), (split.taken, "-")):
        hours = _compile_sources(narrowed, sign) if by_source else _compile_hours(columns, len(codes), narrowed, sign)
        for begin, end in intervals:
            yield hours.statement(**values, since=begin, until=end)


@lru_cache(maxsize=256)
def _compile_days(columns: Names, codes: int, narrowed: Q) -> CompiledQuery:
    def build() -> "QuerySet[Any, Any]":
        daily: QuerySet[Any] = DailyPair.objects.filter(tenant=TENANT)
        if "target_agent_id" not in columns:
            daily = DailyCount.objects.filter(tenant=TENANT, code__in=_name_codes(codes))
        rows = daily.filter(narrowed, day__gte=Parameter("since", DAY), day__lt=Parameter("until", DAY))
        return rows.order_by().values_list(*columns, *OUTCOMES)

    return CompiledQuery(build)


@lru_cache(maxsize=256)
def _compile_sources(narrowed: Q, sign: str) -> CompiledQuery:
    # A busy tenant has a thousand routes in each hour, but far fewer source agents.
    taken = {f"taken_{name}": -F(name) for name in OUTCOMES}

    def build() -> "QuerySet[Any, Any]":
        rows = HourlySource.objects.filter(narrowed, tenant=TENANT).order_by()
        rows = rows.filter(hour__gte=Parameter("since", TIME), hour__lt=Parameter("until", TIME))
        if sign:
            return rows.annotate(**taken).values_list("source_agent_id", *taken)
        return rows.values_list("source_agent_id", *OUTCOMES)

    return CompiledQuery(build)


@lru_cache(maxsize=256)
def _compile_hours(columns: Names, codes: int, narrowed: Q, sign: str) -> CompiledQuery:
    # If the index narrowed the rows by several codes, PostgreSQL would read the hours once for each code.
    # `code_of_many` keeps the codes out of the search in the index.
    names = _name_codes(codes)
    counted: dict[str, Any] = {"code": names[0]} if codes == 1 else {"code_of_many__in": names}
    # A row with another outcome yields NULL instead of 0, because SUM skips NULL but has to add a zero.
    outcomes = {name: RawSQL(f"CASE WHEN {sql} THEN {sign}number END", ()) for name, sql in _OUTCOMES.items()}  # noqa: S611

    def build() -> "QuerySet[Any, Any]":
        hourly = HourlyCount.objects.filter(tenant=TENANT).alias(code_of_many=Coalesce("code", Value("")))
        rows = hourly.filter(narrowed, **counted).order_by()
        rows = rows.filter(hour__gte=Parameter("since", TIME), hour__lt=Parameter("until", TIME))
        return rows.annotate(**outcomes).values_list(*columns, *OUTCOMES)

    return CompiledQuery(build)


def _name_codes(number: int) -> list[Parameter]:
    return [Parameter(f"code_{place}", TEXT) for place in range(number)]


# The conditions are written once, because Django needs a millisecond to compile the conditions of a page.
_OUTCOMES: Final = {
    name: "state IN ({})".format(", ".join(f"'{state.value}'" for state in states)) for name, states in OUTCOMES.items()
}


# Pages, reports and the API reference show these definitions.
ACCEPTANCE_RATE: Final = (
    "Accepted without a person, of all final attempts. Approvals count in the total only; superseded attempts are left "
    "out."
)

BLOCK_RATE: Final = (
    "Blocked (rejected, held or declined), of all final attempts. Approvals count in the total only; superseded "
    "attempts are left out."
)

REJECTION_RATE: Final = "Rejected or declined, of all final attempts. Superseded attempts are left out."

# Rates count neither unjudged nor superseded handoffs. The final attempt counts in place of a superseded one.
JUDGED_STATES: Final[Mapping[str, tuple[State, ...]]] = {
    name: OUTCOMES[name] for name in ("accepted", "decided", "stopped")
}

BLOCKED: Final = JUDGED_STATES["stopped"]

FINAL: Final = tuple(state for states in JUDGED_STATES.values() for state in states)

_COUNTS_AS: Final = {str(state): name for name, states in JUDGED_STATES.items() for state in states}

_REJECTED: Final = (State.REJECTED, State.DECLINED)

# The z-value of a 95 % confidence interval, for Wilson's lower bound.
_Z: Final = 1.96


@dataclass(frozen=True, slots=True)
class Share:
    """A number of handoffs or files, `part`, out of `total`."""

    part: int
    total: int

    @property
    def percent(self) -> float | None:
        """Return the share in percent with one decimal, or None if the total is 0.

        The result is 100 only if `part` is the total, and 0 only if `part` is 0.
        """
        if not self.total:
            return None
        rounded = round(100 * self.part / self.total, 1)
        if 0 < self.part < self.total:
            return min(max(rounded, 0.1), 99.9)
        return rounded

    @property
    def value(self) -> float:
        """Return the share from 0 to 1; 0 if the total is 0."""
        return self.part / self.total if self.total else 0.0

    @property
    def percent_told(self) -> str:
        """Return the percentage as text: `99.5%`, or `n/a`."""
        return "n/a" if self.percent is None else f"{self.percent:.1f}%"

    def __str__(self) -> str:
        """Return the share as text: `199/200 (99.5%)`, or `0/0 (n/a)`."""
        return f"{self.part}/{self.total} ({self.percent_told})"

    @property
    def at_least(self) -> float:
        """Return Wilson's lower bound of the share, from 0 to 1, at 95 % confidence.

        Sorting by the bound ranks 30 of 40 above 1 of 1, because a single case may be chance.
        """
        if not self.total:
            return 0.0
        share, number = self.part / self.total, self.total
        middle = share + _Z**2 / (2 * number)
        margin = _Z * sqrt(share * (1 - share) / number + _Z**2 / (4 * number**2))
        return max(0.0, (middle - margin) / (1 + _Z**2 / number))


@dataclass(frozen=True, slots=True)
class ShareChange:
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
class OutcomeCounts:
    """The numbers of final attempts from which rates are computed.

    `accepted` handoffs needed no person, `decided` handoffs were approved by a person, and `stopped` handoffs are
    blocked: rejected, held or declined.
    """

    accepted: int = 0
    decided: int = 0
    stopped: int = 0

    @classmethod
    def of_states(cls, states: Mapping[str, int]) -> "OutcomeCounts":
        """Return the counts for these numbers of handoffs by state. States that count in no rate are ignored."""
        found = dict.fromkeys(JUDGED_STATES, 0)
        for state, number in states.items():
            if name := _COUNTS_AS.get(state):
                found[name] += number
        return cls(**found)

    @classmethod
    def of(cls, several: "Iterable[OutcomeCounts]") -> "OutcomeCounts":
        """Return the sum of several counts."""
        accepted = decided = stopped = 0
        for one in several:
            accepted += one.accepted
            decided += one.decided
            stopped += one.stopped
        return cls(accepted, decided, stopped)

    @property
    def total(self) -> int:
        return self.accepted + self.decided + self.stopped

    @property
    def share(self) -> Share:
        """Return the acceptance rate (`ACCEPTANCE_RATE`)."""
        return Share(self.accepted, self.total)

    @property
    def blocked_share(self) -> Share:
        """Return the block rate (`BLOCK_RATE`)."""
        return Share(self.stopped, self.total)

    def __add__(self, other: "OutcomeCounts") -> "OutcomeCounts":
        return OutcomeCounts(self.accepted + other.accepted, self.decided + other.decided, self.stopped + other.stopped)

    def rest(self, listed: "OutcomeCounts") -> "OutcomeCounts":
        """Return these counts minus the counts `listed`.

        Each result is at least 0, although the counts may have changed between two queries.
        """
        return OutcomeCounts(
            max(0, self.accepted - listed.accepted),
            max(0, self.decided - listed.decided),
            max(0, self.stopped - listed.stopped),
        )


def outcome_counts_of(sums: Sums) -> OutcomeCounts:
    """Return the final attempts among summed outcomes."""
    return OutcomeCounts(sums.accepted, sums.decided, sums.stopped)


def rejection_rate(states: Mapping[str, int]) -> Share:
    """Return the rejection rate (`REJECTION_RATE`) for these numbers of handoffs by state."""
    return Share(sum(states.get(state, 0) for state in _REJECTED), OutcomeCounts.of_states(states).total)
