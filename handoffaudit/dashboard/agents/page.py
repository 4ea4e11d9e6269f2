"""The Agents page: the map, the matrix and the lists of agents and routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.agents import agent as agent_page
from handoffaudit.dashboard.agents import declared
from handoffaudit.dashboard.agents.declared import format_duration
from handoffaudit.dashboard.filters import AgentOrder, Links, SortedPage, choose_window, sort_agents
from handoffaudit.dashboard.navigation import build_agent_url, open_item_url
from handoffaudit.dashboard.safe_text import add_breaks, cut
from handoffaudit.dashboard.templatetags.formats import format_share, percent, tone
from handoffaudit.dashboard.templatetags.ui import icon
from handoffaudit.diagnostics.agents import (
    MOST_TRACED,
    Agent,
    AgentRoute,
    Agents,
    ShownRole,
    fold_route_sides,
    fold_routes,
    load_agents,
    load_roles,
)
from handoffaudit.drawing.agent_map import MapAgent, MapEdge, draw_agent_map
from handoffaudit.drawing.svg import Drawing
from handoffaudit.filter_fields import FilterError, quote_blanks
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.rates import OutcomeCounts, Share
from handoffaudit.validation.text import pluralize

MOST_DRAWN: Final = 60

BLOCKED: Final = (State.REJECTED, State.HELD, State.DECLINED)


# Two views of a period often have the same map. A drawing depends only on the arguments, and has about 50 kB.
_draw_map = lru_cache(maxsize=32)(draw_agent_map)


@dataclass(frozen=True, slots=True)
class Maps:
    """The maps of agents, wide and narrow.

    The wide map shows `folded` agents as one node, and omits `left_out` routes with few handoffs.
    """

    wide: Drawing
    narrow: Drawing
    folded: int
    left_out: int


def maps(tenant: Tenant, agents: Sequence[Agent], edges: Sequence[AgentRoute], links: Links) -> Maps:
    wide = _Part(tenant, agents, edges, links, most=14)
    # The narrow map folds the routes of the wide map, so each agent that the wide map folds is folded here, too.
    narrow = _Part(tenant, agents, wide.edges, links, most=8)
    return Maps(
        _draw_map(tuple(wide.agents), tuple(wide.drawn), width=980, prefix="map-wide"),
        _draw_map(tuple(narrow.agents), tuple(narrow.drawn), width=340, across=False, prefix="map-narrow"),
        wide.folded,
        len(wide.edges) - len(wide.drawn),
    )


class _Part:
    def __init__(
        self, tenant: Tenant, agents: Sequence[Agent], edges: Sequence[AgentRoute], links: Links, *, most: int
    ) -> None:
        # Folding a single agent would save no room.
        kept = agents if len(agents) <= most + 1 else agents[:most]
        names = frozenset(agent.name for agent in kept)
        self.folded = len(agents) - len(kept)
        others = _make_unique(f"{self.folded:,} others", names)
        self.edges = fold_routes(edges, names, others)
        self._links, self._names = links, names
        most_first = sorted(self.edges, key=lambda edge: -edge.number)[:MOST_DRAWN]
        self.drawn = [self._edge(edge) for edge in most_first]
        self.agents = [
            MapAgent(agent.name, agent.number, build_agent_url(tenant.slug, agent.name, links.window.query))
            for agent in kept
        ]
        if self.folded:
            rest = sum(agent.number for agent in agents[len(kept) :])
            self.agents.append(MapAgent(others, rest, folded=True))

    def _edge(self, edge: AgentRoute) -> MapEdge:
        share, whole = edge.share, {edge.source, edge.target} <= self._names
        href = self._links.handoffs(source=edge.source, target=edge.target) if whole else ""
        part = share.part / share.total if share.total else None
        return MapEdge(edge.source, edge.target, edge.number, part, format_duration(edge.median_seconds), href)


def _make_unique(name: str, names: frozenset[str]) -> str:
    """Return the name, changed if an agent has the same name."""
    while name in names:
        name = f"… {name}"
    return name


MOST: Final = 20

# No agent has this name, because names with a NUL are never stored.
OTHERS: Final = "\x00"

_LONGEST_HEAD: Final = 24

_FEW: Final = icon("failed", "few accepted")

_NONE: Final = '<td class="agents-cell agents-cell--none"><span aria-hidden="true">·</span></td>'


@dataclass(frozen=True, slots=True)
class Head:
    """A header of the matrix; `short` is for narrow columns, and `href` is empty for the header of all other agents."""

    name: str
    short: str
    href: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the matrix; `cells` is markup, because hundreds of cell templates would be slow to render."""

    head: Head
    cells: SafeString


@dataclass(frozen=True, slots=True)
class Matrix:
    columns: list[Head]
    rows: list[Row]


def matrix(slug: str, found: Agents, links: Links) -> Matrix:
    """Return the matrix of the agents with the most handoffs.

    It has at most `MOST` rows and `MOST` columns. If there are more agents, the last row or column stands for the rest.
    """
    sources = _most({agent.name: agent.handed_on for agent in found.agents})
    targets = _most({agent.name: agent.received for agent in found.agents})
    folded = fold_route_sides(found.edges.listed, frozenset(sources), frozenset(targets), OTHERS)
    cells = {(edge.source, edge.target): edge for edge in folded}
    columns = [_head(slug, name, links.window.query) for name in targets]
    rows = []
    for source in sources:
        edges = [cells.get((source, target)) for target in targets]
        markup = "".join(_cell(found, edge, links) if edge else _NONE for edge in edges)
        rows.append(Row(_head(slug, source, links.window.query), mark_safe(markup)))  # noqa: S308 -- _cell escapes
    return Matrix(columns, rows)


def _most(numbers: Mapping[str, int]) -> list[str]:
    names = sorted((name for name in numbers if numbers[name]), key=lambda name: (-numbers[name], name))
    return names if len(names) <= MOST else [*names[: MOST - 1], OTHERS]


def _head(slug: str, name: str, query: Mapping[str, str]) -> Head:
    if name == OTHERS:
        return Head("others", "others", "")
    return Head(cut(name, 200), cut(name, _LONGEST_HEAD), build_agent_url(slug, name, query))


def _cell(found: Agents, edge: AgentRoute, links: Links) -> str:
    named = OTHERS not in (edge.source, edge.target)
    href = links.handoffs(source=edge.source, target=edge.target) if named else ""
    undeclared = named and found.is_declared(edge.source, edge.target) is False
    numbers = (edge.number, edge.share, edge.median_seconds)
    return _draw_cell(edge.source, edge.target, *numbers, href, undeclared=undeclared)


# Between two views of a matrix, few of its 400 cells change. A cell depends only on the arguments.
@lru_cache(maxsize=4096)
def _draw_cell(
    source: str, target: str, number: int, share: Share, seconds: float | None, href: str, *, undeclared: bool
) -> str:
    time, kind = format_duration(seconds), tone(share)
    words = [pluralize(number, "handoff"), f"{format_share(share)} accepted"]
    words += [f"median {time}"] if time else []
    words += ["not declared"] if undeclared else []
    way = escape(f"{_readable_name(source)} to {_readable_name(target)}")
    classes = f"agents-cell agents-cell--{kind}"
    classes += " agents-cell--self" if source == target != OTHERS else ""
    classes += " agents-cell--undeclared" if undeclared else ""
    link = f'<a href="{escape(href)}" aria-label="{number:,} from {way}">{number:,}</a> ' if href else ""
    return (
        f'<td class="{classes}" title="{way}: {", ".join(words)}">'
        + (link or f"<b>{number:,}</b> ")
        + f'<span class="agents-share">{f"{_FEW} " if kind == "bad" else ""}{percent(share)}</span> '
        + (f'<span class="agents-time">{time}</span> ' if time else "")
        + ('<span class="hidden">not declared</span>' if undeclared else "")
        + "</td>"
    )


@lru_cache(maxsize=1024)
def _readable_name(name: str) -> str:
    return "others" if name == OTHERS else cut(name, 80)


TEMPLATE: Final = "dashboard/agents/page.html"

# The values of `show` that replace the list of agents by another view.
PARTS: Final = ("map", "matrix")

MOST_AGENTS: Final = 50

MOST_LISTED: Final = 20

_LONGEST: Final = 80

_NO_NUMBER: Final = '<span class="none">\u2013</span>'


@dataclass(frozen=True, slots=True)
class AgentName:
    """An agent in a list; `near` is an agent with a similar name."""

    name: str
    href: str
    number: int
    near: "AgentName | None" = None


@dataclass(frozen=True, slots=True)
class RouteLine:
    """A route in a list; `href` links to its handoffs and is empty if there are none."""

    source: AgentName
    target: AgentName
    number: int
    href: str


@dataclass(frozen=True, slots=True)
class Lists:
    """The first entries of a list, and the number of further entries."""

    shown: Sequence[Any]
    more: int

    @classmethod
    def of(cls, every: Sequence[Any]) -> "Lists":
        return cls(every[:MOST_LISTED], max(0, len(every) - MOST_LISTED))


@dataclass(frozen=True, slots=True)
class MostBlocked:
    """The route with the most blocked handoffs; `href` lists all of them, the oldest first."""

    route: AgentRoute
    href: str


@require_role(Role.VIEWER)
@require_safe
def agents_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the agents as list, map or matrix; `?agent=` shows one agent, for names that cannot be part of a path."""
    if "agent" in request.GET:
        return agent_page.answer(request, who, request.GET["agent"])
    choice, filters = choose_window(request), AgentOrder()
    try:
        filters = AgentOrder.from_query(request.GET)
    except FilterError as bad:
        choice = replace(choice, bad=bad)
    found = load_agents(who.tenant, choice.window.since, choice.window.until)
    links = Links(who.tenant, choice.window)
    show = request.GET.get("show", "")
    context = choice.context | {"found": found, "most_traced": MOST_TRACED, "show": show if show in PARTS else ""}
    if not context["show"]:
        context["filters"] = filters
    context["views"] = SortedPage(reverse("dashboard:agents", args=[who.tenant.slug]), context["query"])
    context["item_url"] = open_item_url(request, who.tenant.slug, "agents", context["query"])
    if found.agents:
        context |= _summary(who, found)
        match context["show"]:
            case "map":
                context["maps"] = maps(who.tenant, found.agents, found.edges.listed, links)
                context |= _lists(_Naming(who, links), found)
            case "matrix":
                context["matrix"] = matrix(who.tenant.slug, found, links)
            case _:
                context |= _table(who, sort_agents(found.agents, filters.order), links)
    else:
        context["declared_number"] = len(found.declared_edges)
    return render_page(request, TEMPLATE, context, status=choice.status)


def _summary(who: TenantMembership, found: Agents) -> dict[str, Any]:
    # An agent's results are those of the handoffs that it sent, so the sums count each handoff once.
    return {
        "judged": OutcomeCounts.of(agent.judged for agent in found.agents),
        "caused": sum(agent.stats.caused for agent in found.agents),
        "passed_on": sum(agent.stats.passed_on for agent in found.agents),
        "most_blocked": _most_blocked(who, found),
    }


def _table(who: TenantMembership, agents: Sequence[Agent], links: Links) -> dict[str, Any]:
    shown = agents[:MOST_AGENTS]
    roles = load_roles(who.tenant, (agent.name for agent in shown))
    return {
        "rows": mark_safe("".join(_row(who, agent, roles[agent.name], links) for agent in shown)),  # noqa: S308 -- _row escapes
        "more_agents": len(agents) - len(shown),
    }


def _most_blocked(who: TenantMembership, found: Agents) -> MostBlocked | None:
    """Return the route with the most blocked handoffs; None if no handoff is blocked."""
    route = max(found.edges.listed, key=lambda one: one.judged.stopped, default=None)
    if route is None or not route.judged.stopped:
        return None
    # The link has no period, because a period would hide handoffs that have been blocked for longer.
    names = [("source", quote_blanks(route.source)), ("target", quote_blanks(route.target))]
    filters = [*names, *(("state", state) for state in BLOCKED)]
    query = urlencode([*filters, ("sort", "oldest")])
    return MostBlocked(route, f"{reverse('dashboard:handoffs', args=[who.tenant.slug])}?{query}")


def _row(who: TenantMembership, agent: Agent, role: ShownRole, links: Links) -> str:
    """Return the markup of a row of the table of all agents. A template would be slow, because a page has 50 rows."""
    share, address = agent.judged.share, build_agent_url(who.tenant.slug, agent.name, links.window.query)
    raw, name, href = escape(agent.name), escape(cut(agent.name, _LONGEST)), escape(address)
    # Only an agent whose name can be part of a path opens beside the list.
    item = "" if "?agent=" in address else f' data-item="{raw}"'
    noun = "handoff" if agent.handed_on == 1 else "handoffs"
    sent = _link_number(agent.handed_on, links.handoffs(source=agent.name), f"{noun} sent by {name}")
    received = _link_number(agent.received, links.handoffs(target=agent.name), f"received by {name}")
    accepted = _NO_NUMBER
    if share.total:
        accepted = f'<span class="score--{tone(share)}" title="{format_share(share)}">{percent(share)}</span>'
    time = format_duration(agent.stats.median_seconds) or _NO_NUMBER
    numbers = {"Sent": sent, "Received": received, "Accepted": accepted}
    # Narrow screens show the labels in place of the heads of the columns.
    numbers |= {"Introduced": f"{agent.stats.caused:,}", "Inherited": f"{agent.stats.passed_on:,}", "Median time": time}
    cells = "".join(f'<td role="cell" class="end" data-label="{label}">{cell}</td>' for label, cell in numbers.items())
    return (
        '<tr role="row"><th scope="row" role="rowheader"><span class="select-name">'
        f'<input type="checkbox" class="row-select" name="select" value="{quote(agent.name, safe="")}" form="selected" '
        f'aria-label="Select {name}"> '
        f'<a class="row-link" data-row{item} href="{href}">{add_breaks(name)}</a></span></th>'
        f'<td role="cell"><a href="{href}#role">{role.words}<span class="hidden">: the role of {name}</span></a></td>'
        f"{cells}</tr>"
    )


def _link_number(number: int, href: str, spoken: str) -> str:
    return f'<a href="{escape(href)}">{number:,}<span class="hidden"> {spoken}</span></a>' if number else _NO_NUMBER


class _Naming:
    """Names and routes in the form that lists show."""

    def __init__(self, who: TenantMembership, links: Links) -> None:
        self._slug, self._links = who.tenant.slug, links

    def name(self, name: str, number: int = 0, near: str = "") -> AgentName:
        href = "" if name == "*" else build_agent_url(self._slug, name, self._links.window.query)
        return AgentName(cut(name, _LONGEST), href, number, self.name(near) if near else None)

    def way(self, edge: AgentRoute) -> RouteLine:
        href = self._links.handoffs(source=edge.source, target=edge.target)
        return RouteLine(self.name(edge.source), self.name(edge.target), edge.number, href)


def _lists(naming: _Naming, found: Agents) -> dict[str, Lists]:
    never_seen = [RouteLine(naming.name(source), naming.name(target), 0, "") for source, target in found.never_seen]
    unknown = [naming.name(one.agent.name, one.agent.number, near=one.nearest) for one in found.unknown]
    return {
        "never_seen": Lists.of(never_seen),
        "never_declared": Lists.of([naming.way(edge) for edge in found.never_declared]),
        "to_self": Lists.of([naming.way(edge) for edge in found.to_self]),
        "unknown": Lists.of(unknown),
        "nobody_hands_to": Lists.of([naming.name(agent.name, agent.number) for agent in found.nobody_hands_to]),
        "never_hand_on": Lists.of([naming.name(agent.name, agent.number) for agent in found.never_hand_on]),
    }


agent_list_urls = [path("agents/", agents_page, name="agents")]

urlpatterns = [*agent_list_urls, *agent_page.urlpatterns, *declared.urlpatterns]
