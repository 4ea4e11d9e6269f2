"""The map of a page of agents: those with the most handoffs by themselves, the others as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.agents.addresses import address_of
from handoffaudit.dashboard.agents.words import took
from handoffaudit.dashboard.diagnostics.choosing import Links
from handoffaudit.diagnostics.agents import Agent, AgentRoute, fold_routes
from handoffaudit.drawing.agent_map import MapAgent, MapEdge, agent_map
from handoffaudit.drawing.svg import Drawing

MOST_DRAWN: Final = 60


@dataclass(frozen=True, slots=True)
class Maps:
    """`folded`: how many agents stand as one in the wide form; `left_out`: how many ways with few handoffs are not
    drawn there."""

    wide: Drawing
    narrow: Drawing
    folded: int
    left_out: int


def maps(tenant: Tenant, agents: Sequence[Agent], edges: Sequence[AgentRoute], links: Links) -> Maps:
    wide = _Part(tenant, agents, edges, links, most=14)
    # Those that it folds are among the ones that the wide form folds.
    narrow = _Part(tenant, agents, wide.edges, links, most=8)
    return Maps(
        agent_map(wide.agents, wide.drawn, width=980, prefix="map-wide"),
        agent_map(narrow.agents, narrow.drawn, width=340, across=False, prefix="map-narrow"),
        wide.folded,
        len(wide.edges) - len(wide.drawn),
    )


class _Part:
    def __init__(
        self, tenant: Tenant, agents: Sequence[Agent], edges: Sequence[AgentRoute], links: Links, *, most: int
    ) -> None:
        # To fold a single one would save no room.
        kept = agents if len(agents) <= most + 1 else agents[:most]
        names = frozenset(agent.name for agent in kept)
        self.folded = len(agents) - len(kept)
        others = _unused(f"{self.folded:,} others", names)
        self.edges = fold_routes(edges, names, others)
        self._links, self._names = links, names
        most_first = sorted(self.edges, key=lambda edge: -edge.number)[:MOST_DRAWN]
        self.drawn = [self._edge(edge) for edge in most_first]
        self.agents = [_agent(tenant, agent, links.window.query) for agent in kept]
        if self.folded:
            rest = sum(agent.number for agent in agents[len(kept) :])
            self.agents.append(MapAgent(others, rest, folded=True))

    def _edge(self, edge: AgentRoute) -> MapEdge:
        share, whole = edge.share, {edge.source, edge.target} <= self._names
        href = self._links.handoffs(source=edge.source, target=edge.target) if whole else ""
        part = share.part / share.total if share.total else None
        return MapEdge(edge.source, edge.target, edge.number, part, took(edge.median_seconds), href)


def _agent(tenant: Tenant, agent: Agent, query: Mapping[str, str]) -> MapAgent:
    return MapAgent(agent.name, agent.number, address_of(tenant.slug, agent.name, query))


def _unused(name: str, names: frozenset[str]) -> str:
    """The name, with what tells it from an agent of that name."""
    while name in names:
        name = f"… {name}"
    return name
