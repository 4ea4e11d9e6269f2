"""One agent: what it caused and what it only passed on, from whom it got that, and with whom it works."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_counts
from handoffaudit.diagnostics.agents import Agent, agents_of
from handoffaudit.diagnostics.edges import Edge, Told, edges
from handoffaudit.diagnostics.file_counts import Pair
from handoffaudit.diagnostics.models import Attribution, HealthCount
from handoffaudit.diagnostics.tallies import FileTally, Judged
from handoffaudit.diagnostics.windows import HOUR, Window
from handoffaudit.handoffs.models import Handoff, HourlyCount
from handoffaudit.handoffs.outcome_sums import sums_by
from handoffaudit.policy import kinds
from handoffaudit.policy.known_agents import known_agents
from handoffaudit.validation.text import nearest

# The newest findings of an agent that are read.
MOST_FINDINGS: Final = 5_000
# Handoffs that findings were passed on from, the most frequent ones.
_MOST_ORIGINS: Final = 2_000
_NEWEST: Final = 10
_MOST_NEAR: Final = 5
_MOST_LOOKUPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Findings:
    """How many the agent `caused`, and how many it `passed_on`."""

    caused: int = 0
    passed_on: int = 0

    @property
    def total(self) -> int:
        return self.caused + self.passed_on


@dataclass(frozen=True, slots=True)
class OfCode:
    code: str
    findings: Findings


@dataclass(frozen=True, slots=True)
class Stretch:
    since: datetime
    until: datetime
    findings: Findings


@dataclass(frozen=True, slots=True)
class AgentReport:
    """`origins`: the agents whose findings it passed on, and how many. `files` by phase. `hours`: how many handoffs it
    handed on in each hour of the day, UTC. `sampled`: findings are the newest ones only."""

    agent: Agent
    hands_to: tuple[Edge, ...]
    gets_from: tuple[Edge, ...]
    findings: Findings
    codes: tuple[OfCode, ...]
    origins: tuple[tuple[str, int], ...]
    over_time: tuple[Stretch, ...]
    files: tuple[Pair, ...]
    hours: tuple[int, ...]
    newest: tuple[Handoff, ...]
    sampled: bool

    @property
    def files_overall(self) -> FileTally:
        return sum((pair.tally for pair in self.files), FileTally())


def report(tenant: Tenant, name: str, window: Window) -> AgentReport:
    """Of handoffs received in the window."""
    seen = edges(tenant, window.since, window.until, name)
    rows = Attribution.objects.filter(tenant=tenant, agent=name, at__gte=window.since, at__lt=window.until)
    found = list(rows.order_by("-at").values_list("at", "code", "caused", "origin")[:MOST_FINDINGS])
    caused = sum(1 for row in found if row[2])
    agent = next((one for one in agents_of(seen.listed) if one.name == name), None)
    return AgentReport(
        agent=agent or Agent(name, 0, 0, Judged(), Told()),
        hands_to=tuple(edge for edge in seen.listed if edge.source == name),
        gets_from=tuple(edge for edge in seen.listed if edge.target == name),
        findings=Findings(caused, len(found) - caused),
        codes=tuple(_by_code((code, own) for _, code, own, _ in found)),
        origins=tuple(_origins(tenant, Counter(origin for _, _, own, origin in found if not own and origin))),
        over_time=tuple(_over_time(window, [(at, own) for at, _, own, _ in found])),
        files=tuple(pair for pair in file_counts.pairs(tenant, window.since, window.until) if pair.agent == name),
        hours=_hours(tenant, name, window),
        newest=tuple(_newest(tenant, name)),
        sampled=len(found) == MOST_FINDINGS or seen.sampled,
    )


def is_known(tenant: Tenant, name: str) -> bool:
    """Whether the agent was ever seen, is declared, or is in the registry."""
    if not name or "\x00" in name:
        return False
    if _newest(tenant, name, 1) or HealthCount.objects.filter(tenant=tenant, agent=name).exists():
        return True
    declared = {one for row in kinds.agents.current(tenant).rows for one in (row.source, *row.targets)}
    return name in declared or name in (known_agents() or ())


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """The names of agents that look like it."""
    return nearest(name, known, _MOST_NEAR)


def _by_code(found: Iterable[tuple[str, bool]]) -> list[OfCode]:
    """The code that most findings have first."""
    numbers = Counter(found)
    codes = {code for code, _ in numbers}
    listed = [OfCode(code, Findings(numbers[code, True], numbers[code, False])) for code in codes]
    return sorted(listed, key=lambda one: (-one.findings.total, one.code))


def _origins(tenant: Tenant, numbers: Mapping[UUID, int]) -> list[tuple[str, int]]:
    most = dict(Counter(numbers).most_common(_MOST_ORIGINS))
    found: Counter[str] = Counter()
    sources = Handoff.objects.filter(tenant=tenant, pk__in=most).values_list("id", "source_agent_id")
    for pk, source in sources:
        found[source] += most[pk]
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))


def _over_time(window: Window, found: Sequence[tuple[datetime, bool]]) -> Iterator[Stretch]:
    seconds = window.step.total_seconds()
    first = window.since.timestamp() // seconds
    numbers = Counter((int(at.timestamp() // seconds - first), own) for at, own in found)
    for place, (since, until) in enumerate(window.stretches()):
        yield Stretch(since, until, Findings(numbers[place, True], numbers[place, False]))


def _hours(tenant: Tenant, name: str, window: Window) -> tuple[int, ...]:
    rows = HourlyCount.objects.filter(
        tenant=tenant, hour__gte=window.since, hour__lt=window.until, code="", source_agent_id=name
    )
    types = sums_by(tenant, window.since, window.until, "handoff_type", narrowed=Q(source_agent_id=name))
    hours = [window.since + number * HOUR for number in range((window.until - window.since) // HOUR)]
    if len(types) * len(hours) <= _MOST_LOOKUPS:
        # Each a place in the index, which has the hour and the type before the source: a range would read all of them.
        rows = rows.filter(hour__in=hours, handoff_type__in=[name for (name,) in types])
    numbers: Counter[int] = Counter()
    for hour, number in rows.order_by().values_list("hour").annotate(Sum("number")):
        numbers[hour.hour] += number
    return tuple(numbers[hour] for hour in range(24))


def _newest(tenant: Tenant, name: str, most: int = _NEWEST) -> list[Handoff]:
    """From it and to it. Each way has an index of its own."""
    handoffs = Handoff.objects.filter(tenant=tenant)
    ways = (Q(source_agent_id=name), Q(target_agent_id=name))
    found = {row.pk: row for way in ways for row in handoffs.filter(way).order_by("-id")[:most]}
    return [found[pk] for pk in sorted(found, reverse=True)[:most]]
