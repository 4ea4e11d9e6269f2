"""The report of one agent: its introduced and inherited findings, the origin of inherited findings, and its routes."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import Q

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.agents import Agent, AgentRoute, TraceStats, agents_of, load_routes
from handoffaudit.diagnostics.file_stats import FileTally, Pair
from handoffaudit.diagnostics.models import Attribution, HealthCount, RetentionRun
from handoffaudit.handoffs.compiled_queries import sum_rows
from handoffaudit.handoffs.counts import HOURLY_SOURCES, midnight_of
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.periods import TimeBucket, Window
from handoffaudit.handoffs.rates import OutcomeCounts
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import known_agents
from handoffaudit.policy.retention import Data
from handoffaudit.validation.text import nearest

# The report reads at most this many of the newest findings of an agent.
MOST_FINDINGS: Final = 5_000

# The report looks up at most this many handoffs from which findings were inherited, the most frequent first.
_MOST_ORIGINS: Final = 2_000

_NEWEST: Final = 10

_MOST_NEAR: Final = 5


@dataclass(frozen=True, slots=True)
class Findings:
    """The numbers of findings that the agent introduced (`caused`) and inherited (`passed_on`)."""

    caused: int = 0
    passed_on: int = 0

    @property
    def total(self) -> int:
        return self.caused + self.passed_on


@dataclass(frozen=True, slots=True)
class CodeFindings:
    code: str
    findings: Findings


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The report of one agent in a window.

    `origins` lists the agents from which findings were inherited, with the numbers of findings. `files` has one entry
    for each phase. `hours` counts the handoffs that the agent sent in each hour of the day (UTC), without days for
    which retention left only daily counts. `newest` lists the newest handoffs from or to the agent, also from outside
    the window. `sampled` means that only the newest findings or handoffs were read.
    """

    agent: Agent
    hands_to: tuple[AgentRoute, ...]
    gets_from: tuple[AgentRoute, ...]
    findings: Findings
    codes: tuple[CodeFindings, ...]
    origins: tuple[tuple[str, int], ...]
    over_time: tuple[TimeBucket[Findings], ...]
    files: tuple[Pair, ...]
    hours: tuple[int, ...]
    newest: tuple[Handoff, ...]
    sampled: bool

    @property
    def files_overall(self) -> FileTally:
        return FileTally.of(pair.tally for pair in self.files)


def load_report(tenant: Tenant, name: str, window: Window) -> AgentReport:
    """Return the report of an agent for the handoffs of the window."""
    seen = load_routes(tenant, window.since, window.until, name)
    found, more = _load_findings(tenant, name, window)
    findings = _sum(found)
    agent = next((one for one in agents_of(seen.listed) if one.name == name), None)
    return AgentReport(
        agent=agent or Agent(name, 0, 0, OutcomeCounts(), TraceStats()),
        hands_to=tuple(edge for edge in seen.listed if edge.source == name),
        gets_from=tuple(edge for edge in seen.listed if edge.target == name),
        findings=findings,
        codes=tuple(_group_by_code(found)),
        origins=tuple(_count_origins(tenant, found)),
        over_time=tuple(_count_over_time(window, found)),
        files=tuple(file_stats.pairs(tenant, window.since, window.until, agent=name)),
        hours=_hours(tenant, name, window),
        newest=tuple(_list_newest(tenant, name)),
        sampled=more or seen.sampled,
    )


def is_known(tenant: Tenant, name: str) -> bool:
    """Return whether the agent was ever seen, is in a declared route, or is one of `known_agents`."""
    if not name or "\x00" in name:
        return False
    seen = [Handoff.objects.filter(tenant=tenant).filter(way) for way in _build_conditions(name)]
    if any(rows.exists() for rows in (*seen, HealthCount.objects.filter(tenant=tenant, agent=name))):
        return True
    declared = {one for row in kinds.agents.current(tenant).rows for one in (row.source, *row.targets)}
    return name in declared or name in (known_agents() or ())


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the names of known agents that resemble the name."""
    return nearest(name, known, _MOST_NEAR)


@dataclass(frozen=True, slots=True)
class _FindingCount:
    """The number of introduced or inherited findings with one code, one time bucket and one origin."""

    step: int
    code: str
    caused: bool
    origin: UUID | None
    number: int


def _load_findings(tenant: Tenant, name: str, window: Window) -> tuple[list[_FindingCount], bool]:
    """Return the agent's newest findings in the window by time bucket, code and origin, and whether there are more."""
    rows = Attribution.objects.filter(tenant=tenant, agent=name, at__gte=window.since, at__lt=window.until)
    stepped = rows.annotate(step=window.scale.index_of("at"))
    columns = ("step", "code", "caused", "origin")
    newest = stepped.order_by("-at").values_list(*columns)[:MOST_FINDINGS]
    found = [
        # SQLite stores booleans and UUIDs in other types.
        _FindingCount(step, code, bool(caused), origin and UUID(str(origin)), number)
        for step, code, caused, origin, number in sum_rows([newest], columns, ["COUNT(*)"])
    ]
    is_full = sum(one.number for one in found) == MOST_FINDINGS
    return found, is_full and rows[: MOST_FINDINGS + 1].count() > MOST_FINDINGS


def _sum(found: Iterable[_FindingCount]) -> Findings:
    caused = passed_on = 0
    for one in found:
        if one.caused:
            caused += one.number
        else:
            passed_on += one.number
    return Findings(caused, passed_on)


def _group_by_code(found: Iterable[_FindingCount]) -> list[CodeFindings]:
    """Return the findings by code, the most frequent code first."""
    by_code: defaultdict[str, list[_FindingCount]] = defaultdict(list)
    for one in found:
        by_code[one.code].append(one)
    listed = [CodeFindings(code, _sum(several)) for code, several in by_code.items()]
    return sorted(listed, key=lambda one: (-one.findings.total, one.code))


def _count_origins(tenant: Tenant, passed: Iterable[_FindingCount]) -> list[tuple[str, int]]:
    numbers: Counter[UUID] = Counter()
    for one in passed:
        if one.origin and not one.caused:
            numbers[one.origin] += one.number
    if not numbers:
        return []
    most = dict(numbers.most_common(_MOST_ORIGINS))
    found: Counter[str] = Counter()
    sources = Handoff.objects.filter(tenant=tenant, pk__in=most).values_list("id", "source_agent_id")
    for pk, source in sources:
        found[source] += most[pk]
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))


def _count_over_time(window: Window, found: Iterable[_FindingCount]) -> list[TimeBucket[Findings]]:
    by_step: defaultdict[int, list[_FindingCount]] = defaultdict(list)
    for one in found:
        by_step[one.step].append(one)
    return window.scale.fill({step: _sum(several) for step, several in by_step.items()}, _sum(()))


def _hours(tenant: Tenant, name: str, window: Window) -> tuple[int, ...]:
    rows = HOURLY_SOURCES.read(tenant, window.since, window.until, source_agent_id=name)
    added_up = RetentionRun.objects.filter(tenant=tenant, kind=Data.HOURLY_COUNTS.value).exclude(removed_before=None)
    if before := added_up.values_list("removed_before", flat=True).first():
        rows = rows.filter(hour__gte=midnight_of(before))
    numbers: Counter[int] = Counter()
    for hour, *outcomes in rows.values_list("hour", *HOURLY_SOURCES.numbers):
        numbers[hour.hour] += sum(outcomes)
    return tuple(numbers[hour] for hour in range(24))


def _build_conditions(name: str) -> tuple[Q, Q]:
    """Return two conditions, for handoffs from the agent and to the agent. Each condition has its own index."""
    return Q(source_agent_id=name), Q(target_agent_id=name)


def _list_newest(tenant: Tenant, name: str) -> list[Handoff]:
    handoffs = Handoff.objects.filter(tenant=tenant)
    found = {row.pk: row for way in _build_conditions(name) for row in handoffs.filter(way).order_by("-id")[:_NEWEST]}
    return [found[pk] for pk in sorted(found, reverse=True)[:_NEWEST]]
