"""The compliance report, built from stored counts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final

from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import FileTally, Pair, Runtime
from handoffaudit.diagnostics.news import has_moved
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.compiled_queries import TENANT, TIME, ClosedDays, CompiledQuery, Parameter
from handoffaudit.handoffs.counts import DAILY_COUNTS, HOURLY_TOTALS, widen_to_days
from handoffaudit.handoffs.models import HourlyTotal
from handoffaudit.handoffs.periods import TimeBucket, TimeScale, Window
from handoffaudit.handoffs.rates import OutcomeCounts, Share, outcome_counts_of, sum_outcomes


@dataclass(frozen=True, slots=True)
class FileCompliance:
    """The file compliance: overall, by runtime, and by phase and agent.

    `other_runtimes` sums the runtimes that are not listed, and `others` the pairs that are not listed.
    """

    overall: FileTally
    runtimes: Sequence[Runtime]
    other_runtimes: FileTally
    pairs: Sequence[Pair]
    others: FileTally


@dataclass(frozen=True, slots=True)
class OutcomeLine:
    """The outcomes of handoffs that share `names`: a type, an agent, a route (source first) or a code."""

    names: tuple[str, ...]
    judged: OutcomeCounts


@dataclass(frozen=True, slots=True)
class OutcomeLines:
    """The lines with the most handoffs; `others` sums the rest."""

    lines: Sequence[OutcomeLine]
    others: OutcomeCounts = field(default_factory=OutcomeCounts)


@dataclass(frozen=True, slots=True)
class HandoffAcceptance:
    """The outcomes of handoffs: overall, in the previous period, by kind of line, and over time."""

    overall: OutcomeCounts
    before: OutcomeCounts
    by: dict[str, OutcomeLines]
    over_time: Sequence[TimeBucket[OutcomeCounts]]


# The kinds of lines in the order of the report, with their labels.
KINDS = {
    "type": "type",
    "source": "source agent",
    "target": "target agent",
    "source_target": "source and target",
    "code": "code",
}


@dataclass(frozen=True, slots=True)
class ComplianceReport:
    tenant: str
    window: Window
    made_at: datetime
    files: FileCompliance
    validation: HandoffAcceptance


def list_all_pairs(ran: Iterable[Pair], known: Iterable[tuple[str, str]]) -> list[Pair]:
    """Return all pairs, sorted by phase and agent. Known pairs that did not run have an empty tally."""
    found = {(pair.phase, pair.agent): pair for pair in ran}
    for phase, agent in known:
        found.setdefault((phase, agent), Pair(phase, agent, FileTally()))
    return [found[key] for key in sorted(found)]


def largest_lines(
    judged: Iterable[tuple[tuple[str, ...], OutcomeCounts]], whole: OutcomeCounts, number: int
) -> OutcomeLines:
    """Return the `number` lines with the most handoffs; `others` is the difference between `whole` and these lines."""
    ordered = sorted(judged, key=lambda one: (-one[1].total, one[0]))[:number]
    return OutcomeLines([OutcomeLine(*one) for one in ordered], whole.rest(OutcomeCounts.of(one for _, one in ordered)))


# At most this many combinations of source and target are read. The lines for others contain the remaining handoffs.
MOST_COMBINATIONS = 20_000

MOST_LINES = 200

MOST_EXPECTED = 200


def build_report(
    tenant: Tenant, window: Window, now: datetime, expected: Iterable[tuple[str, str]] = ()
) -> ComplianceReport:
    """Build the compliance report of a window.

    `expected` are pairs of (phase, agent) that are listed even if they never ran.
    """
    return ComplianceReport(
        tenant=tenant.slug,
        window=window,
        made_at=now.astimezone(UTC),
        files=_build_files(tenant, window, expected),
        validation=_build_validation(tenant, window),
    )


def parse_expected_pairs(values: Iterable[str]) -> list[tuple[str, str]]:
    """Return the (phase, agent) pairs of values such as `plan/planner`.

    Raise `FilterError` for an invalid value, or for more than `MOST_EXPECTED` values.
    """
    pairs = []
    for value in values:
        phase, slash, agent = value.partition("/")
        if not slash or not phase.strip() or not agent.strip() or len(value) > 400 or "\x00" in value:
            remedy = "give a phase and an agent, separated by a slash (plan/planner), in at most 400 characters."
            raise FilterError("expect", value[:40], remedy)
        pairs.append((phase.strip(), agent.strip()))
    if len(pairs) > MOST_EXPECTED:
        raise FilterError("expect", f"{len(pairs)} pairs", f"give at most {MOST_EXPECTED}.")
    return pairs


def count_judged(tenant: Tenant, since: datetime, until: datetime) -> OutcomeCounts:
    """Return the outcomes of all handoffs whose time (`Handoff.at`) is in that period."""
    rows = HOURLY_TOTALS.read(tenant, since, until, code="").order_by()
    return _sum_judged(rows.values_list("code", "state").annotate(Sum("number"))).get("", OutcomeCounts())


def _build_files(tenant: Tenant, window: Window, expected: Iterable[tuple[str, str]]) -> FileCompliance:
    ran, overall = file_stats.pairs_and_overall(tenant, window.since, window.until)
    runtimes = file_stats.runtimes(tenant, window.since, window.until)
    is_all = len(runtimes) < file_stats.MOST_RUNTIMES
    return FileCompliance(
        overall=overall,
        runtimes=runtimes,
        other_runtimes=FileTally() if is_all else overall.rest(FileTally.of(one.tally for one in runtimes)),
        pairs=list_all_pairs(ran, [*file_stats.known_pairs(tenant), *expected]),
        others=overall.rest(FileTally.of(pair.tally for pair in ran)),
    )


def _build_validation(tenant: Tenant, window: Window) -> HandoffAcceptance:
    closed = ClosedDays(tenant.pk, timezone.now())
    over_time = _count_over_time(closed, window)
    overall = OutcomeCounts.of(one.value for one in over_time)
    return HandoffAcceptance(
        overall=overall,
        before=count_judged(tenant, window.before_since, window.before_until),
        by={**_group_by_names(tenant, window, overall, closed), "code": _group_by_code(closed, window)},
        over_time=over_time,
    )


def _group_by_names(
    tenant: Tenant, window: Window, overall: OutcomeCounts, closed: ClosedDays
) -> dict[str, OutcomeLines]:
    """Return the lines by type, source, target and route. One query returns the last three kinds."""
    sum_by = partial(sum_outcomes, tenant, window.since, window.until, most=MOST_COMBINATIONS, closed=closed)
    types, sums = sum_by("handoff_type"), sum_by("source_agent_id", "target_agent_id")
    pairs = {names: outcome_counts_of(one) for names, one in sums.items()}
    sources: defaultdict[tuple[str, ...], list[OutcomeCounts]] = defaultdict(list)
    targets: defaultdict[tuple[str, ...], list[OutcomeCounts]] = defaultdict(list)
    for (source, target), judged in pairs.items():
        sources[source,].append(judged)
        targets[target,].append(judged)
    found: dict[str, dict[tuple[str, ...], OutcomeCounts]] = {
        "type": {names: outcome_counts_of(one) for names, one in types.items()},
        "source": {names: OutcomeCounts.of(several) for names, several in sources.items()},
        "target": {names: OutcomeCounts.of(several) for names, several in targets.items()},
        "source_target": pairs,
    }
    return {
        name: largest_lines(((names, judged) for names, judged in lines.items() if judged.total), overall, MOST_LINES)
        for name, lines in found.items()
    }


def _group_by_code(closed: ClosedDays, window: Window) -> OutcomeLines:
    """Return the lines by code. A handoff with several codes counts for each code, so there is no line for others."""
    grouped = closed.sum_hours(_CODES, *_widen(window), ("code", "state"))
    lines = [OutcomeLine((code,), judged) for code, judged in _sum_judged(grouped).items() if judged.total]
    return OutcomeLines(sorted(lines, key=lambda line: (-line.judged.total, line.names))[:MOST_LINES])


def _count_over_time(closed: ClosedDays, window: Window) -> list[TimeBucket[OutcomeCounts]]:
    query = _compile_steps(window.scale.step, window.scale.begin)
    found = _sum_judged(closed.sum_hours(query, *_widen(window), ("step", "state")))
    return window.scale.fill(found, OutcomeCounts())


def _widen(window: Window) -> tuple[datetime, datetime]:
    since, until = widen_to_days(window.since, window.until)
    return since or window.since, until or window.until


_HOURS: Final = HourlyTotal.objects.filter(
    tenant=TENANT, hour__gte=Parameter("since", TIME), hour__lt=Parameter("until", TIME)
).order_by()

_CODES: Final = CompiledQuery(lambda: _HOURS.exclude(code="").values_list("code", "state", "number"))


@lru_cache(maxsize=16)
def _compile_steps(step: timedelta, begin: datetime) -> CompiledQuery:
    scale = TimeScale(begin, begin, step, begin=begin)
    return CompiledQuery(
        lambda: _HOURS.filter(code="").annotate(step=scale.index_of("hour")).values_list("step", "state", "number")
    )


def _sum_judged(rows: Iterable[tuple[Any, ...]]) -> dict[Any, OutcomeCounts]:
    """Return outcomes by key from rows of (key, state, number).

    The rows are by state, because the database sums by state faster than by outcome.
    """
    found: defaultdict[Any, dict[str, int]] = defaultdict(dict)
    for key, state, number in rows:
        found[key][state] = number
    return {key: OutcomeCounts.of_states(states) for key, states in found.items()}


WEEKS: Final = 12
MOST_AGENTS_OF_WEEKS: Final = 100

_WEEK: Final = timedelta(days=7)

_JUDGED: Final = ("accepted", "decided", "stopped")


@dataclass(frozen=True, slots=True)
class WeeksOfAgent:
    """The rates of an agent by week, oldest first, and over all weeks."""

    agent: str
    weeks: Sequence[Share]

    @property
    def whole(self) -> Share:
        return Share(sum(one.part for one in self.weeks), sum(one.total for one in self.weeks))

    @property
    def tones(self) -> list[str]:
        """Return `fell` or `rose` for each week that is unusual for the agent (`news.has_moved`), else empty text."""
        whole = self.whole
        rests = [Share(whole.part - one.part, whole.total - one.total) for one in self.weeks]
        return [
            "" if not has_moved(rest, one) else "fell" if one.value < rest.value else "rose"
            for one, rest in zip(self.weeks, rests, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class WeekTable:
    """Rates by agent and week, agents with the most handoffs or files first.

    `weeks` has the Monday (UTC) of each week. `more` is true if further agents are left out.
    """

    weeks: Sequence[date]
    agents: Sequence[WeeksOfAgent]
    more: bool


def acceptance_by_week(tenant: Tenant, now: datetime, weeks: int = WEEKS) -> WeekTable:
    """Return the acceptance rates of agents in the current week and the weeks before it.

    One statement sums the counts by agent and week, and selects the agents with the most handoffs from these sums.
    """
    mondays = _mondays(now, weeks)
    days = (mondays[0], now.astimezone(UTC).date())
    rows = DAILY_COUNTS.read(tenant, code="").filter(day__range=days).order_by()
    stepped = rows.annotate(step=_scale_of_weeks(mondays, now).index_of("day")).values_list("source_agent_id", "step")
    weekly, params = stepped.annotate(**{name: Sum(name) for name in _JUDGED}).query.sql_with_params()
    sql = f"""
        WITH weekly AS ({weekly}), busiest AS (
            SELECT source_agent_id AS agent, SUM({" + ".join(_JUDGED)}) AS number FROM weekly
            GROUP BY source_agent_id ORDER BY number DESC, agent LIMIT {MOST_AGENTS_OF_WEEKS + 1}
        ) SELECT agent, step, {", ".join(f"CAST({name} AS bigint)" for name in _JUDGED)}
        FROM busiest JOIN weekly ON source_agent_id = agent ORDER BY number DESC, agent
    """  # noqa: S608
    found: dict[str, dict[int, Share]] = {}
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        for agent, week, *numbers in cursor.fetchall():
            found.setdefault(agent, {})[week] = OutcomeCounts(*numbers).share
    kept = dict(islice(found.items(), MOST_AGENTS_OF_WEEKS))
    return _table(mondays, kept, more=len(found) > MOST_AGENTS_OF_WEEKS)


def file_compliance_by_week(tenant: Tenant, now: datetime, weeks: int = WEEKS) -> WeekTable:
    """Return the file compliance of agents in the current week and the weeks before it."""
    mondays = _mondays(now, weeks)
    found: dict[str, dict[int, Share]] = {}
    for agent, week, tally in file_stats.by_agent_over_time(tenant, _scale_of_weeks(mondays, now)):
        found.setdefault(agent, {})[week] = tally.share
    ordered = sorted(found, key=lambda agent: (-sum(one.total for one in found[agent].values()), agent))
    kept = {agent: found[agent] for agent in ordered[:MOST_AGENTS_OF_WEEKS]}
    return _table(mondays, kept, more=len(ordered) > MOST_AGENTS_OF_WEEKS)


def _mondays(now: datetime, weeks: int) -> list[date]:
    today = now.astimezone(UTC).date()
    last = today - timedelta(days=today.weekday())
    return [last - back * _WEEK for back in range(weeks - 1, -1, -1)]


def _scale_of_weeks(mondays: Sequence[date], now: datetime) -> TimeScale:
    begin = datetime.combine(mondays[0], time(), UTC)
    return TimeScale(begin, now, _WEEK, begin)


def _table(mondays: list[date], found: dict[str, dict[int, Share]], *, more: bool) -> WeekTable:
    nothing = Share(0, 0)
    agents = [
        WeeksOfAgent(agent, [weeks.get(number, nothing) for number in range(len(mondays))])
        for agent, weeks in found.items()
    ]
    return WeekTable(mondays, agents, more)


WEEK_TABLES: Final[dict[str, Callable[..., WeekTable]]] = {
    "acceptance_rate": acceptance_by_week,
    "file_compliance": file_compliance_by_week,
}


@dataclass(frozen=True, slots=True)
class WeekRate:
    """A rate of an agent in a week. `rate` is a key of `WEEK_TABLES`, `week` the Monday."""

    rate: str
    agent: str
    week: date
    share: Share


def list_week_rates(tenant: Tenant, now: datetime) -> Iterator[WeekRate]:
    """Yield, for all `WEEK_TABLES`, the rate of each agent in each week in which the agent has handoffs or files."""
    for rate, load in WEEK_TABLES.items():
        table = load(tenant, now)
        for one in table.agents:
            for week, share in zip(table.weeks, one.weeks, strict=True):
                if share.total:
                    yield WeekRate(rate, one.agent, week, share)
