"""The agents of a period, and what is held against how they were declared to work together."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Final

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.edges import Edge, Edges, Told, edges
from handoffaudit.handoffs.rates import OutcomeCounts
from handoffaudit.policy import kinds
from handoffaudit.policy.declared_edges import ANYBODY, DeclaredEdges
from handoffaudit.policy.known_agents import known_agents
from handoffaudit.policy.versions import Table
from handoffaudit.validation.registry import closest_agents

# Of each list so many are shown, those with the most handoffs.
MOST_LISTED: Final = 50
_ALIKE: Final = 0.75


@dataclass(frozen=True, slots=True)
class Agent:
    """`handed_on` and `received` count handoffs; `judged` is what became of those that it handed on, `told` what was
    found in them."""

    name: str
    handed_on: int
    received: int
    judged: OutcomeCounts
    told: Told

    @property
    def number(self) -> int:
        return self.handed_on + self.received


@dataclass(frozen=True, slots=True)
class Unknown:
    """An agent that is neither declared nor registered; `nearest`: the known name it may be meant for, or empty."""

    agent: Agent
    nearest: str


@dataclass(frozen=True, slots=True)
class Agents:
    """What was seen, and held against `declared`. `knows`: whether there is anything to know agents by."""

    edges: Edges
    agents: tuple[Agent, ...]
    declared: Table[DeclaredEdges]
    declared_edges: frozenset[tuple[str, str]]
    knows: bool
    never_seen: tuple[tuple[str, str], ...]
    never_declared: tuple[Edge, ...]
    to_self: tuple[Edge, ...]
    unknown: tuple[Unknown, ...]
    nobody_hands_to: tuple[Agent, ...]
    never_hand_on: tuple[Agent, ...]

    def is_declared(self, source: str, target: str) -> bool | None:
        """None where nothing is declared at all."""
        return _covers(self.declared_edges, source, target) if self.declared_edges else None


def agents(tenant: Tenant, since: datetime, until: datetime) -> Agents:
    """Of handoffs received from `since` on and before `until`."""
    seen = edges(tenant, since, until)
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
        never_seen=_never_seen(declared, seen.listed),
        never_declared=tuple(
            edge for edge in seen.listed if declared and not _covers(declared, edge.source, edge.target)
        ),
        to_self=tuple(edge for edge in seen.listed if edge.source == edge.target),
        unknown=tuple(_unknown(listed, known)) if known else (),
        nobody_hands_to=tuple(agent for agent in listed if not agent.received),
        never_hand_on=tuple(agent for agent in listed if not agent.handed_on),
    )


def agents_of(listed: Iterable[Edge]) -> list[Agent]:
    """Those with the most handoffs first."""
    given: defaultdict[str, list[Edge]] = defaultdict(list)
    received: defaultdict[str, int] = defaultdict(int)
    for edge in listed:
        given[edge.source].append(edge)
        received[edge.target] += edge.number
    found = [
        Agent(
            name,
            sum(edge.number for edge in given.get(name, ())),
            received.get(name, 0),
            OutcomeCounts.of(edge.judged for edge in given.get(name, ())),
            Told.of(edge.told for edge in given.get(name, ())),
        )
        for name in given.keys() | received.keys()
    ]
    return sorted(found, key=lambda agent: (-agent.number, agent.name))


def _covers(declared: frozenset[tuple[str, str]], source: str, target: str) -> bool:
    return not declared.isdisjoint({(source, target), (source, ANYBODY), (ANYBODY, target), (ANYBODY, ANYBODY)})


def _never_seen(declared: Iterable[tuple[str, str]], listed: Iterable[Edge]) -> tuple[tuple[str, str], ...]:
    seen: set[tuple[str, str]] = set()
    for edge in listed:
        seen |= {(edge.source, edge.target), (edge.source, ANYBODY), (ANYBODY, edge.target), (ANYBODY, ANYBODY)}
    return tuple(sorted(set(declared) - seen))


def _unknown(listed: Iterable[Agent], known: frozenset[str]) -> Iterable[Unknown]:
    strangers = [agent for agent in listed if agent.name not in known]
    for place, agent in enumerate(strangers):
        near = closest_agents(agent.name, known)[:1] if place < MOST_LISTED else ()
        yield Unknown(agent, next((name for name in near if _is_alike(agent.name, name)), ""))


def _is_alike(name: str, other: str) -> bool:
    """Whether one may be the other with a typo, and not just a name of the same kind."""
    return SequenceMatcher(None, name.lower(), other.lower()).ratio() >= _ALIKE
