"""Who hands to whom: map, matrix, agents, and what is not as it was declared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.agents import agent as agent_page
from handoffaudit.dashboard.agents.addresses import address_of
from handoffaudit.dashboard.agents.maps import maps
from handoffaudit.dashboard.agents.matrix import matrix
from handoffaudit.dashboard.agents.words import took
from handoffaudit.dashboard.diagnostics.choosing import Links, chosen
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.readable import cut
from handoffaudit.dashboard.templatetags.shares import percent, told, tone
from handoffaudit.diagnostics.agents import MOST_TRACED, Agent, AgentRoute, Agents, load_agents
from handoffaudit.handoffs.rates import OutcomeCounts

TEMPLATE: Final = "dashboard/agents/page.html"
MOST_AGENTS: Final = 50
MOST_LISTED: Final = 20
_LONGEST: Final = 80
_UNKNOWN: Final = "\u2013"


@dataclass(frozen=True, slots=True)
class Named:
    """An agent in a list. `note` says what is special about it."""

    name: str
    href: str
    number: int
    note: str = ""
    near: "Named | None" = None


@dataclass(frozen=True, slots=True)
class Way:
    """An edge in a list; `href` leads to its handoffs, and is empty where there are none."""

    source: Named
    target: Named
    number: int
    href: str


@dataclass(frozen=True, slots=True)
class Lists:
    """What is shown of a list, and how many more there are."""

    shown: Sequence[Any]
    more: int

    @classmethod
    def of(cls, every: Sequence[Any]) -> "Lists":
        return cls(every[:MOST_LISTED], max(0, len(every) - MOST_LISTED))


@dataclass(frozen=True, slots=True)
class Line:
    """An agent in the table of all, as it is written: `handed_on` and `received` are addresses of lists, their numbers
    empty where there are none."""

    name: str
    href: str
    handed_on: str
    handed_on_number: str
    received: str
    received_number: str
    accepted: str
    accepted_tone: str
    accepted_told: str
    caused: str
    passed_on: str
    time: str


@page_for(Role.VIEWER)
@require_safe
def agents_page(request: HttpRequest, who: Who) -> HttpResponse:
    """`?agent=` is the page of one, for names that can't stand in an address."""
    if "agent" in request.GET:
        return agent_page.answer(request, who, request.GET["agent"])
    choice = chosen(request)
    found = load_agents(who.tenant, choice.window.since, choice.window.until)
    links = Links(who.tenant, choice.window)
    context = choice.context | {"found": found, "most_traced": MOST_TRACED}
    if found.agents:
        context |= _drawn(who, found, links) | _lists(_Naming(who, links), found)
    else:
        context["declared_number"] = len(found.declared_edges)
    return render_page(request, TEMPLATE, context, status=choice.status)


def _drawn(who: Who, found: Agents, links: Links) -> dict[str, Any]:
    listed = found.edges.listed
    return {
        "judged": OutcomeCounts.of(edge.judged for edge in listed),
        "caused": sum(edge.told.caused for edge in listed),
        "passed_on": sum(edge.told.passed_on for edge in listed),
        "maps": maps(who.tenant, found.agents, listed, links),
        "matrix": matrix(who.tenant.slug, found, links),
        "lines": [_line(who, agent, links) for agent in found.agents[:MOST_AGENTS]],
        "more_agents": max(0, len(found.agents) - MOST_AGENTS),
    }


def _line(who: Who, agent: Agent, links: Links) -> Line:
    share = agent.judged.share
    return Line(
        name=cut(agent.name, _LONGEST),
        href=address_of(who.tenant.slug, agent.name, links.window.query),
        handed_on=links.handoffs(source=agent.name),
        handed_on_number=f"{agent.handed_on:,}" if agent.handed_on else "",
        received=links.handoffs(target=agent.name),
        received_number=f"{agent.received:,}" if agent.received else "",
        accepted=percent(share) if share.total else "",
        accepted_tone=tone(share),
        accepted_told=told(share),
        caused=f"{agent.told.caused:,}",
        passed_on=f"{agent.told.passed_on:,}",
        time=took(agent.told.median_seconds) or _UNKNOWN,
    )


class _Naming:
    """Names and edges as lists show them."""

    def __init__(self, who: Who, links: Links) -> None:
        self._slug, self._links = who.tenant.slug, links

    def name(self, name: str, number: int = 0, note: str = "", near: str = "") -> Named:
        href = "" if name == "*" else address_of(self._slug, name, self._links.window.query)
        return Named(cut(name, _LONGEST), href, number, note, self.name(near) if near else None)

    def agent(self, agent: Agent) -> Named:
        return self.name(agent.name, agent.number)

    def way(self, edge: AgentRoute) -> Way:
        href = self._links.handoffs(source=edge.source, target=edge.target)
        return Way(self.name(edge.source), self.name(edge.target), edge.number, href)


def _lists(naming: _Naming, found: Agents) -> dict[str, Lists]:
    never_seen = [Way(naming.name(source), naming.name(target), 0, "") for source, target in found.never_seen]
    unknown = [naming.name(one.agent.name, one.agent.number, near=one.nearest) for one in found.unknown]
    return {
        "never_seen": Lists.of(never_seen),
        "never_declared": Lists.of([naming.way(edge) for edge in found.never_declared]),
        "to_self": Lists.of([naming.way(edge) for edge in found.to_self]),
        "unknown": Lists.of(unknown),
        "nobody_hands_to": Lists.of([naming.agent(agent) for agent in found.nobody_hands_to]),
        "never_hand_on": Lists.of([naming.agent(agent) for agent in found.never_hand_on]),
    }


urlpatterns = [path("agents/", agents_page, name="agents")]
