"""Who hands to whom in a period: how many handoffs, how many accepted, how long it took."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from statistics import median
from typing import Final

from django.db.models import Q

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import TracedHandoff
from handoffaudit.handoffs.db import collect_values, split_values, sum_rows
from handoffaudit.handoffs.outcome_sums import sum_outcomes
from handoffaudit.handoffs.rates import OutcomeCounts, Share, outcome_counts_of

# Those with the most handoffs are told apart; what is left of the whole is summed.
MOST_EDGES: Final = 5_000
# Times and findings are those of the newest handoffs, so many at most.
MOST_TRACED: Final = 10_000

_PAIR: Final = ("source_agent_id", "target_agent_id")


@dataclass(slots=True)
class Told:
    """What was worked out of traces: `seconds` that the source took, where they are known, and its findings."""

    seconds: list[float] = field(default_factory=list)
    caused: int = 0
    passed_on: int = 0

    @property
    def median_seconds(self) -> float | None:
        return median(self.seconds) if self.seconds else None

    @classmethod
    def of(cls, several: "Iterable[Told]") -> "Told":
        whole = cls()
        for one in several:
            whole.seconds += one.seconds
            whole.caused += one.caused
            whole.passed_on += one.passed_on
        return whole


@dataclass(frozen=True, slots=True)
class Edge:
    """`number`: handoffs that are judged, those superseded since among them."""

    source: str
    target: str
    number: int
    judged: OutcomeCounts
    told: Told = field(default_factory=Told)

    @property
    def share(self) -> Share:
        """Of those accepted without a person."""
        return self.judged.share

    @property
    def median_seconds(self) -> float | None:
        return self.told.median_seconds


@dataclass(frozen=True, slots=True)
class Edges:
    """Those with the most handoffs first. `nameless`: handoffs that did not name both agents. `sampled`: times and
    findings are of the newest handoffs only. `more`: whether there are edges beyond these."""

    listed: tuple[Edge, ...]
    nameless: int = 0
    sampled: bool = False
    more: bool = False

    @property
    def number(self) -> int:
        return sum(edge.number for edge in self.listed)


def edges(tenant: Tenant, since: datetime, until: datetime, agent: str = "") -> Edges:
    """Of handoffs received from `since` on and before `until`, in whole hours. `agent`: only from it and to it."""
    narrowed = _of(agent) if agent else None
    found = sum_outcomes(tenant, since, until, *_PAIR, narrowed=narrowed, most=MOST_EDGES + 1)
    told, sampled = _traced(tenant, since, until, agent)
    listed = [
        Edge(source, target, sums.total, outcome_counts_of(sums), told.get((source, target)) or Told())
        for (source, target), sums in islice(found.items(), MOST_EDGES)
    ]
    named = tuple(edge for edge in listed if edge.source and edge.target)
    return Edges(
        listed=named,
        nameless=sum(edge.number for edge in listed) - sum(edge.number for edge in named),
        sampled=sampled,
        more=len(found) > MOST_EDGES,
    )


def _of(agent: str) -> Q:
    return Q(source_agent_id=agent) | Q(target_agent_id=agent)


def _traced(tenant: Tenant, since: datetime, until: datetime, agent: str) -> tuple[dict[tuple[str, str], Told], bool]:
    """By source and target, and whether there were more than are read."""
    rows = TracedHandoff.objects.filter(tenant=tenant, at__gte=since, at__lt=until).order_by("-at")
    if agent:
        rows = rows.filter(_of(agent))
    newest = rows.values_list(*_PAIR, "took_seconds", "caused", "passed_on")[:MOST_TRACED]
    sums = (f"CAST(SUM({name}) AS bigint)" for name in ("caused", "passed_on"))
    found, read = {}, 0
    for source, target, seconds, caused, passed_on, number in sum_rows(
        [newest], _PAIR, [collect_values("took_seconds"), *sums, "COUNT(*)"]
    ):
        found[source, target] = Told(split_values(seconds), caused, passed_on)
        read += number
    return found, read == MOST_TRACED


def pairs_seen(tenant: Tenant, since: datetime, until: datetime) -> list[tuple[str, str]]:
    """The sources and targets of edges with the most handoffs, in the order of their names."""
    named = ~Q(source_agent_id="") & ~Q(target_agent_id="")
    found = sum_outcomes(tenant, since, until, *_PAIR, narrowed=named, most=MOST_EDGES)
    return sorted((source, target) for source, target in islice(found, MOST_EDGES))


@dataclass(frozen=True, slots=True)
class Source:
    """An agent as one that hands on."""

    name: str
    number: int
    judged: OutcomeCounts


def busiest(tenant: Tenant, since: datetime, until: datetime, most: int) -> list[Source]:
    """The agents that handed on most."""
    found = sum_outcomes(tenant, since, until, "source_agent_id", narrowed=~Q(source_agent_id=""))
    return [Source(name, sums.total, outcome_counts_of(sums)) for (name,), sums in islice(found.items(), most)]


def folded(listed: Iterable[Edge], kept: frozenset[str], others: str) -> list[Edge]:
    """The edges with every agent that is not kept as one, `others`; in the order of source and target."""
    return folded_sides(listed, kept, kept, others)


def folded_sides(listed: Iterable[Edge], sources: frozenset[str], targets: frozenset[str], others: str) -> list[Edge]:
    """The same, where an agent may be kept on one side only."""
    found: defaultdict[tuple[str, str], list[Edge]] = defaultdict(list)
    for edge in listed:
        source = edge.source if edge.source in sources else others
        target = edge.target if edge.target in targets else others
        found[source, target].append(edge)
    return [_as_one(names, found[names]) for names in sorted(found)]


def _as_one(names: tuple[str, str], several: Sequence[Edge]) -> Edge:
    if len(several) == 1:
        [one] = several
        return Edge(*names, one.number, one.judged, one.told)
    return Edge(
        *names,
        sum(edge.number for edge in several),
        OutcomeCounts.of(edge.judged for edge in several),
        Told.of(edge.told for edge in several),
    )
