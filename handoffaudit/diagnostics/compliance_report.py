"""The compliance report, built from stored counts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db.models import F, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import FileTally, Pair, Runtime
from handoffaudit.diagnostics.news import has_moved
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.counts import DAILY_COUNTS, HOURLY_TOTALS
from handoffaudit.handoffs.db import TimeStep
from handoffaudit.handoffs.periods import TimeBucket, Window
from handoffaudit.handoffs.rates import OutcomeCounts, Share, outcome_counts_of, sum_outcomes


@dataclass(frozen=True, slots=True)
class FileCompliance:
    """The file compliance: overall, by runtime, and by phase and agent. `others` sums the pairs that are not listed."""

    overall: FileTally
    runtimes: Sequence[Runtime]
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
    """Return the (phase, agent) pairs of values such as `plan/planner`. Raise `FilterError` for an invalid value."""
    pairs = []
    for value in values:
        phase, slash, agent = value.partition("/")
        if not slash or not phase.strip() or not agent.strip() or len(value) > 400 or "\x00" in value:
            raise FilterError("expect", value[:40], "give a phase and an agent, separated by a slash (plan/planner).")
        pairs.append((phase.strip(), agent.strip()))
    if len(pairs) > MOST_EXPECTED:
        raise FilterError("expect", f"{len(pairs)} pairs", f"give at most {MOST_EXPECTED}.")
    return pairs


def count_judged(tenant: Tenant, since: datetime, until: datetime) -> OutcomeCounts:
    """Return the outcomes of all handoffs received in that time."""
    rows = HOURLY_TOTALS.read(tenant, since, until, code="").order_by()
    return _sum_judged(rows.values_list("code", "state").annotate(Sum("number"))).get("", OutcomeCounts())


def _build_files(tenant: Tenant, window: Window, expected: Iterable[tuple[str, str]]) -> FileCompliance:
    ran = file_stats.pairs(tenant, window.since, window.until)
    listed = sum((pair.tally for pair in ran), FileTally())
    # If no pair was left out, the sum of the listed pairs is the overall tally.
    is_all = len(ran) < file_stats.MOST_PAIRS
    overall = listed if is_all else file_stats.overall(tenant, window.since, window.until)
    return FileCompliance(
        overall=overall,
        runtimes=file_stats.runtimes(tenant, window.since, window.until),
        pairs=list_all_pairs(ran, [*file_stats.known_pairs(tenant), *expected]),
        others=overall.rest(listed),
    )


def _build_validation(tenant: Tenant, window: Window) -> HandoffAcceptance:
    over_time = _count_over_time(tenant, window)
    overall = OutcomeCounts.of(one.value for one in over_time)
    return HandoffAcceptance(
        overall=overall,
        before=count_judged(tenant, window.before_since, window.before_until),
        by={**_group_by_names(tenant, window, overall), "code": _group_by_code(tenant, window)},
        over_time=over_time,
    )


def _group_by_names(tenant: Tenant, window: Window, overall: OutcomeCounts) -> dict[str, OutcomeLines]:
    """Return the lines by type, source, target and route. One query returns the last three kinds."""
    since, until = window.since, window.until
    types = sum_outcomes(tenant, since, until, "handoff_type", most=MOST_COMBINATIONS)
    sums = sum_outcomes(tenant, since, until, "source_agent_id", "target_agent_id", most=MOST_COMBINATIONS)
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


def _group_by_code(tenant: Tenant, window: Window) -> OutcomeLines:
    """Return the lines by code. A handoff with several codes counts for each code, so there is no line for others."""
    rows = HOURLY_TOTALS.read(tenant, window.since, window.until).exclude(code="")
    grouped = rows.order_by().values_list("code", "state").annotate(Sum("number"))
    lines = [OutcomeLine((code,), judged) for code, judged in _sum_judged(grouped).items() if judged.total]
    return OutcomeLines(sorted(lines, key=lambda line: (-line.judged.total, line.names))[:MOST_LINES])


def _count_over_time(tenant: Tenant, window: Window) -> list[TimeBucket[OutcomeCounts]]:
    rows = HOURLY_TOTALS.read(tenant, window.since, window.until, code="")
    stepped = rows.order_by().annotate(step=window.scale.index_of("hour"))
    found = _sum_judged(stepped.values_list("step", "state").annotate(Sum("number")))
    return window.scale.fill(found, OutcomeCounts())


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


@dataclass(frozen=True, slots=True)
class WeeksOfAgent:
    """The rates of an agent by week, oldest first, and over all weeks."""

    agent: str
    weeks: Sequence[Share]

    @property
    def whole(self) -> Share:
        return Share(sum(one.part for one in self.weeks), sum(one.total for one in self.weeks))

    def tone(self, week: int) -> str:
        """Return `fell`, `rose` or an empty text: whether a week is unusual for this agent (`news.has_moved`)."""
        one, whole = self.weeks[week], self.whole
        rest = Share(whole.part - one.part, whole.total - one.total)
        if not has_moved(rest, one):
            return ""
        return "fell" if one.value < rest.value else "rose"


@dataclass(frozen=True, slots=True)
class WeekTable:
    """Rates by agent and week: the Mondays (UTC), the agents with the most handoffs or files first.

    `more` is true if further agents are left out.
    """

    weeks: Sequence[date]
    agents: Sequence[WeeksOfAgent]
    more: bool


def acceptance_by_week(tenant: Tenant, now: datetime, weeks: int = WEEKS) -> WeekTable:
    """Return the acceptance rates of agents in the current week and the weeks before it."""
    mondays = _mondays(now, weeks)
    rows = DAILY_COUNTS.read(tenant, code="").filter(day__gte=mondays[0]).order_by()
    judged = {name: Sum(name) for name in ("accepted", "decided", "stopped")}
    by_agent = rows.values_list("source_agent_id").annotate(number=Sum(F("accepted") + F("decided") + F("stopped")))
    agents = [agent for agent, _ in by_agent.order_by("-number", "source_agent_id")[: MOST_AGENTS_OF_WEEKS + 1]]
    found: dict[str, dict[int, Share]] = {agent: {} for agent in agents[:MOST_AGENTS_OF_WEEKS]}
    by_day = rows.filter(source_agent_id__in=found).values_list("source_agent_id", "day").annotate(**judged)
    for agent, day, *numbers in by_day:
        _add(found[agent], (day - mondays[0]).days // 7, OutcomeCounts(*numbers).share)
    return _table(mondays, found, more=len(agents) > MOST_AGENTS_OF_WEEKS)


def file_compliance_by_week(tenant: Tenant, now: datetime, weeks: int = WEEKS) -> WeekTable:
    """Return the file compliance of agents in the current week and the weeks before it."""
    mondays = _mondays(now, weeks)
    begin = datetime.combine(mondays[0], time(), UTC)
    week = TimeStep(F("hour"), seconds=int(_WEEK.total_seconds()), begin=int(begin.timestamp()))
    found: dict[str, dict[int, Share]] = {}
    for agent, number, tally in file_stats.by_agent_and_step(tenant, begin, now, week):
        _add(found.setdefault(agent, {}), number, tally.share)
    ordered = sorted(found, key=lambda agent: (-sum(one.total for one in found[agent].values()), agent))
    kept = {agent: found[agent] for agent in ordered[:MOST_AGENTS_OF_WEEKS]}
    return _table(mondays, kept, more=len(ordered) > MOST_AGENTS_OF_WEEKS)


def _mondays(now: datetime, weeks: int) -> list[date]:
    today = now.astimezone(UTC).date()
    last = today - timedelta(days=today.weekday())
    return [last - back * _WEEK for back in range(weeks - 1, -1, -1)]


def _add(weeks: dict[int, Share], number: int, share: Share) -> None:
    before = weeks.get(number, Share(0, 0))
    weeks[number] = Share(before.part + share.part, before.total + share.total)


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
    """Yield each rate, agent and week that has something to count."""
    for rate, load in WEEK_TABLES.items():
        table = load(tenant, now)
        for one in table.agents:
            for week, share in zip(table.weeks, one.weeks, strict=True):
                if share.total:
                    yield WeekRate(rate, one.agent, week, share)
