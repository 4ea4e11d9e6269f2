"""The agents and routes of a period, compared with the declared routes, and the roles of agents.

A role is declared, or guessed from the name and the behaviour of the agent.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from itertools import islice
from statistics import median
from typing import Final

from django.db.models import Q
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import TracedHandoff
from handoffaudit.handoffs.compiled_queries import ClosedDays, collect_values, split_values, sum_rows
from handoffaudit.handoffs.models import AgentBehaviour
from handoffaudit.handoffs.rates import HAS_SOURCE, OutcomeCounts, Share, outcome_counts_of, sum_outcomes
from handoffaudit.policy import agents as policy_agents
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import ANYBODY, DeclaredRole, DeclaredRoutes, known_agents
from handoffaudit.policy.versions import Table
from handoffaudit.validation.agents import (
    WORKER,
    AgentRole,
    SourceRole,
    closest_agents,
    guess_by_behaviour,
    guess_by_name,
)
from handoffaudit.validation.text import storable

# At most this many routes are listed, routes with the most handoffs first.
MOST_ROUTES: Final = 5_000

# Times and findings cover at most this many of the newest handoffs.
MOST_TRACED: Final = 10_000

_PAIR: Final = ("source_agent_id", "target_agent_id")


@dataclass(slots=True)
class TraceStats:
    """Statistics of a route: the seconds that its source took, if known, and the introduced and inherited findings."""

    seconds: list[float] = field(default_factory=list)
    caused: int = 0
    passed_on: int = 0

    @property
    def median_seconds(self) -> float | None:
        return median(self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class AgentRoute:
    """A route between two agents. `number` counts judged handoffs, including superseded attempts."""

    source: str
    target: str
    number: int
    judged: OutcomeCounts
    stats: TraceStats = field(default_factory=TraceStats)

    @property
    def share(self) -> Share:
        """Return the acceptance rate."""
        return self.judged.share

    @property
    def median_seconds(self) -> float | None:
        return self.stats.median_seconds


@dataclass(frozen=True, slots=True)
class AgentRoutes:
    """A list of routes, routes with the most handoffs first.

    `nameless` counts handoffs that did not name both agents. `sampled` means that times and findings cover only the
    newest handoffs. `more` means that not all routes are listed.
    """

    listed: tuple[AgentRoute, ...]
    nameless: int = 0
    sampled: bool = False
    more: bool = False

    @property
    def number(self) -> int:
        return sum(edge.number for edge in self.listed)


def load_routes(tenant: Tenant, since: datetime, until: datetime, agent: str = "") -> AgentRoutes:
    """Return the routes of the handoffs from `since` on and before `until`, in whole hours.

    With `agent`, return only the routes from that agent and to that agent.
    """
    narrowed = _match_agent(agent) if agent else None
    closed = ClosedDays(tenant.pk, timezone.now())
    found = sum_outcomes(tenant, since, until, *_PAIR, narrowed=narrowed, most=MOST_ROUTES + 1, closed=closed)
    traced, sampled = _trace_stats(tenant, since, until, agent)
    listed = [
        AgentRoute(source, target, sums.total, outcome_counts_of(sums), traced.get((source, target)) or TraceStats())
        for (source, target), sums in islice(found.items(), MOST_ROUTES)
    ]
    named = tuple(edge for edge in listed if edge.source and edge.target)
    return AgentRoutes(
        listed=named,
        nameless=sum(edge.number for edge in listed) - sum(edge.number for edge in named),
        sampled=sampled,
        more=len(found) > MOST_ROUTES,
    )


def _match_agent(agent: str) -> Q:
    return Q(source_agent_id=agent) | Q(target_agent_id=agent)


def _trace_stats(
    tenant: Tenant, since: datetime, until: datetime, agent: str
) -> tuple[dict[tuple[str, str], TraceStats], bool]:
    """Return the statistics from traces by source and target, and whether only the newest handoffs were read."""
    rows = TracedHandoff.objects.filter(tenant=tenant, at__gte=since, at__lt=until).order_by("-at")
    sides = [rows]
    if agent:
        # Each side has an index. With one condition for both sides, the database would read the whole period.
        received = rows.filter(target_agent_id=agent).exclude(source_agent_id=agent)
        sides = [rows.filter(source_agent_id=agent), received]
    # One more handoff is read, to know whether there are further ones. The statistics include this handoff, because
    # leaving it out would take a second query.
    most = MOST_TRACED + 1
    newest = [side.values_list(*_PAIR, "took_seconds", "caused", "passed_on", "at")[:most] for side in sides]
    sums = (f"CAST(SUM({name}) AS bigint)" for name in ("caused", "passed_on"))
    numbers = [collect_values("took_seconds"), *sums, "COUNT(*)"]
    only, found, read = f"ORDER BY at DESC LIMIT {most}" if agent else "", {}, 0
    for source, target, seconds, caused, passed_on, number in sum_rows(newest, _PAIR, numbers, only=only):
        found[source, target] = TraceStats(split_values(seconds), caused, passed_on)
        read += number
    return found, read == most


def list_pairs(tenant: Tenant, since: datetime, until: datetime) -> list[tuple[str, str]]:
    """Return the (source, target) pairs of the routes with the most handoffs, sorted by name."""
    named = ~Q(source_agent_id="") & ~Q(target_agent_id="")
    found = sum_outcomes(tenant, since, until, *_PAIR, narrowed=named, most=MOST_ROUTES)
    return sorted((source, target) for source, target in islice(found, MOST_ROUTES))


@dataclass(frozen=True, slots=True)
class Source:
    """An agent and the handoffs that it sent."""

    name: str
    number: int
    judged: OutcomeCounts


def busiest_agents(
    tenant: Tenant, since: datetime, until: datetime, most: int, closed: ClosedDays | None = None
) -> list[Source]:
    """Return the agents that sent the most handoffs."""
    found = sum_outcomes(tenant, since, until, "source_agent_id", narrowed=HAS_SOURCE, closed=closed)
    return [Source(name, sums.total, outcome_counts_of(sums)) for (name,), sums in islice(found.items(), most)]


def fold_routes(listed: Iterable[AgentRoute], kept: frozenset[str], others: str) -> list[AgentRoute]:
    """Return the routes in the order of source and target, with all agents outside `kept` merged into `others`."""
    return fold_route_sides(listed, kept, kept, others)


def fold_route_sides(
    listed: Iterable[AgentRoute], sources: frozenset[str], targets: frozenset[str], others: str
) -> list[AgentRoute]:
    """Return the routes as `fold_routes` does, with separate sets of agents to keep as sources and as targets."""
    found: defaultdict[tuple[str, str], list[AgentRoute]] = defaultdict(list)
    for edge in listed:
        source = edge.source if edge.source in sources else others
        target = edge.target if edge.target in targets else others
        found[source, target].append(edge)
    return [AgentRoute(source, target, *_sum_routes(found[source, target])) for source, target in sorted(found)]


def _sum_routes(several: Iterable[AgentRoute]) -> tuple[int, OutcomeCounts, TraceStats]:
    """Return the sums of routes in one loop, because a page of agents sums thousands of routes."""
    number = accepted = decided = stopped = caused = passed_on = 0
    seconds: list[float] = []
    for edge in several:
        judged, stats = edge.judged, edge.stats
        number += edge.number
        accepted += judged.accepted
        decided += judged.decided
        stopped += judged.stopped
        seconds += stats.seconds
        caused += stats.caused
        passed_on += stats.passed_on
    return number, OutcomeCounts(accepted, decided, stopped), TraceStats(seconds, caused, passed_on)


# A list shows at most this many entries, entries with the most handoffs first.
MOST_LISTED: Final = 50

_ALIKE: Final = 0.75


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent with its numbers of handoffs sent (`handed_on`) and received.

    `judged` holds the outcomes of the handoffs that the agent sent, `stats` their times and findings.
    """

    name: str
    handed_on: int
    received: int
    judged: OutcomeCounts
    stats: TraceStats

    @property
    def number(self) -> int:
        return self.handed_on + self.received


@dataclass(frozen=True, slots=True)
class Unknown:
    """An agent that no declared route names and that is not registered as a skill.

    `nearest` is the known agent that the sender may have meant, or empty.
    """

    agent: Agent
    nearest: str


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents of a period, compared with the `declared` routes.

    `knows` is true if at least one agent is named by a declared route or registered as a skill.
    """

    edges: AgentRoutes
    agents: tuple[Agent, ...]
    declared: Table[DeclaredRoutes]
    declared_edges: frozenset[tuple[str, str]]
    knows: bool
    never_seen: tuple[tuple[str, str], ...]
    never_declared: tuple[AgentRoute, ...]
    to_self: tuple[AgentRoute, ...]
    unknown: tuple[Unknown, ...]
    nobody_hands_to: tuple[Agent, ...]
    never_hand_on: tuple[Agent, ...]

    def is_declared(self, source: str, target: str) -> bool | None:
        """Return whether the route is declared, or None if no routes are declared at all."""
        return covers(self.declared_edges, source, target) if self.declared_edges else None


def load_agents(tenant: Tenant, since: datetime, until: datetime) -> Agents:
    """Return the agents of the handoffs from `since` on and before `until`."""
    seen = load_routes(tenant, since, until)
    table = kinds.agents.current(tenant)
    declared = frozenset((row.source, target) for row in table.rows for target in row.targets)
    listed = tuple(agents_of(seen.listed))
    known = frozenset(name for edge in declared for name in edge if name != ANYBODY) | (known_agents() or frozenset())
    return Agents(
        edges=seen,
        agents=listed,
        declared=table,
        declared_edges=declared,
        knows=bool(known),
        never_seen=_list_never_seen(declared, seen.listed),
        never_declared=tuple(
            edge for edge in seen.listed if declared and not covers(declared, edge.source, edge.target)
        ),
        to_self=tuple(edge for edge in seen.listed if edge.source == edge.target),
        unknown=tuple(_list_unknown(listed, known)) if known else (),
        nobody_hands_to=tuple(agent for agent in listed if not agent.received),
        never_hand_on=tuple(agent for agent in listed if not agent.handed_on),
    )


def agents_of(listed: Iterable[AgentRoute]) -> list[Agent]:
    """Return the agents of the routes, agents with the most handoffs first."""
    given: defaultdict[str, list[AgentRoute]] = defaultdict(list)
    received: defaultdict[str, int] = defaultdict(int)
    for edge in listed:
        given[edge.source].append(edge)
        received[edge.target] += edge.number
    found = []
    for name in given.keys() | received.keys():
        handed_on, judged, stats = _sum_routes(given.get(name, ()))
        found.append(Agent(name, handed_on, received.get(name, 0), judged, stats))
    return sorted(found, key=lambda agent: (-agent.number, agent.name))


def covers(declared: frozenset[tuple[str, str]], source: str, target: str) -> bool:
    """Return whether a declared route, with `*` for any agent, allows a handoff from `source` to `target`."""
    return not declared.isdisjoint({(source, target), (source, ANYBODY), (ANYBODY, target), (ANYBODY, ANYBODY)})


def _list_never_seen(declared: frozenset[tuple[str, str]], listed: Iterable[AgentRoute]) -> tuple[tuple[str, str], ...]:
    seen: set[tuple[str, str]] = set()
    for edge in listed if declared else ():
        seen |= {(edge.source, edge.target), (edge.source, ANYBODY), (ANYBODY, edge.target), (ANYBODY, ANYBODY)}
    return tuple(sorted(declared - seen))


def _list_unknown(listed: Iterable[Agent], known: frozenset[str]) -> Iterable[Unknown]:
    strangers = [agent for agent in listed if agent.name not in known]
    for place, agent in enumerate(strangers):
        near = closest_agents(agent.name, known)[:1] if place < MOST_LISTED else ()
        yield Unknown(agent, next((name for name in near if _is_alike(agent.name, name)), ""))


def _is_alike(name: str, other: str) -> bool:
    """Return whether the names are so similar that one of them may be the other with a typo."""
    return SequenceMatcher(None, name.lower(), other.lower()).ratio() >= _ALIKE


@dataclass(frozen=True, slots=True)
class ShownRole:
    """The role of an agent: the guessed role, and the declared role, which takes precedence, or None."""

    agent: str
    guessed: SourceRole
    declared: DeclaredRole | None = None

    @property
    def role(self) -> AgentRole:
        return self.declared.role if self.declared else self.guessed.role

    @property
    def is_declared(self) -> bool:
        return self.declared is not None

    @property
    def words(self) -> str:
        """Return the role and its origin: `observer, guessed`."""
        return f"{self.role.value}, {'declared' if self.is_declared else 'guessed'}"


def load_roles(tenant: Tenant, agents: Iterable[str]) -> dict[str, ShownRole]:
    """Return the role of each agent by name."""
    names = set(agents)
    declared = {row.agent: row for row in kinds.roles.current(tenant).rows}
    rows = AgentBehaviour.objects.filter(tenant=tenant, agent__in=filter(storable, names))
    seen = dict(rows.values_list("agent", "forms"))
    return {
        one: ShownRole(one, guess_by_name(one) or guess_by_behaviour(seen.get(one, "")) or WORKER, declared.get(one))
        for one in names
    }


def declared_roles(tenant_id: int) -> dict[str, SourceRole]:
    """Return the declared roles of a tenant by agent."""
    declared = kinds.load_config(tenant_id).roles
    return {agent: SourceRole(role, is_declared=True) for agent, role in declared.items()}


def declared_names(tenant: Tenant) -> set[str]:
    """Return the agents with a declared route or role, whether or not they were seen."""
    routes = {name for row in kinds.agents.current(tenant).rows for name in (row.source, *row.targets)}
    return routes.difference([ANYBODY]).union(row.agent for row in kinds.roles.current(tenant).rows)


def declare_role(tenant: Tenant, agent: str, role: str, actor: str, note: str = "") -> Table[DeclaredRole]:
    """Declare the role of one agent.

    Raise `InvalidPolicy` for an unknown role or an invalid name, and `Stale` if another version is saved meanwhile.
    """
    row = policy_agents.declare_role(agent, role, actor, timezone.now())
    version = kinds.roles.current(tenant).version
    return kinds.roles.upsert_row(tenant=tenant, base_version=version, row=row, actor=actor, note=note)


def declare_roles(tenant: Tenant, agents: Iterable[str], role: str, actor: str, note: str = "") -> Table[DeclaredRole]:
    """Declare the role of several agents as one version; an empty role withdraws their declarations.

    Raise `InvalidPolicy` for an unknown role or an invalid name, and `Stale` if another version is saved meanwhile.
    """
    names, now, table = list(agents), timezone.now(), kinds.roles.current(tenant)
    rows = [row for row in table.rows if row.agent not in names]
    rows += [policy_agents.declare_role(name, role, actor, now) for name in names if role]
    return kinds.roles.save(tenant=tenant, base_version=table.version, rows=rows, actor=actor, note=note)


def withdraw_role(tenant: Tenant, agent: str, actor: str, note: str = "") -> Table[DeclaredRole]:
    """Withdraw the declaration of an agent, whose role is guessed from then on.

    Do nothing if there is no declaration. Raise `Stale` if another version is saved meanwhile.
    """
    table = kinds.roles.current(tenant)
    if table.row(agent) is None:
        return table
    return kinds.roles.delete_row(tenant=tenant, base_version=table.version, name=agent, actor=actor, note=note)
