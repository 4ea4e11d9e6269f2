"""The page of one agent: introduced and inherited findings, partners and handoff files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.agents.declared import format_duration
from handoffaudit.dashboard.agents.roles import role_form
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.dashboard.navigation import build_agent_url
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.diagnostics.agent_report import MOST_FINDINGS, AgentReport, OfCode, is_known, load_report, near_names
from handoffaudit.diagnostics.agents import AgentRoute
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs import stats

ORDER: Final = ("caused", "passed-on")

MOST_LISTED: Final = 20

MOST_HOURS: Final = 6

_LONGEST: Final = 120


@dataclass(frozen=True, slots=True)
class Partner:
    """An agent that this agent hands off to or receives from; `handoffs` links to the handoffs between both."""

    name: str
    href: str
    edge: AgentRoute
    time: str
    handoffs: str


@dataclass(frozen=True, slots=True)
class Origin:
    """An agent that introduced findings which this agent inherited; `share` is relative to the largest number."""

    name: str
    href: str
    number: int
    share: float


@dataclass(frozen=True, slots=True)
class CodeLine:
    code: str
    caused: int
    passed_on: int
    href: str


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of the day; `share` is relative to the busiest hour."""

    label: str
    number: int
    share: float


@require_role(Role.VIEWER)
@require_safe
def agent(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
    return answer(request, who, name)


def answer(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
    if not is_known(who.tenant, name):
        return _missing(request, who, name)
    choice = choose_window(request)
    links = Links(who.tenant, choice.window)
    found = load_report(who.tenant, name, choice.window)
    context: dict[str, Any] = choice.context | {
        "name": cut(name, _LONGEST),
        "form": role_form(who.tenant, name),
        "found": found,
        "share": found.agent.judged.share,
        "time": format_duration(found.agent.stats.median_seconds),
        "handed_on": links.handoffs(source=name),
        "received": links.handoffs(target=name),
        "hands_to": _partners(who, links, found.hands_to, own=0),
        "gets_from": _partners(who, links, found.gets_from, own=1),
        "more_to": max(0, len(found.hands_to) - MOST_LISTED),
        "more_from": max(0, len(found.gets_from) - MOST_LISTED),
        "origins": _origins(who, links, found),
        "codes": [_code(links, name, one) for one in found.codes[:MOST_LISTED]],
        "files": found.files_overall,
        "file_reports": links.reports(agent=name),
        "hours": _hours(found),
        "most_findings": MOST_FINDINGS,
        "address": (address := build_agent_url(who.tenant.slug, name)),
        "joined": "&" if "?" in address else "?",
    }
    if found.findings.total:
        context["chart"] = _chart(links, name, found, width=ALONE, prefix="wide")
        context["narrow_chart"] = _chart(links, name, found, width=NARROW, prefix="narrow")
    return render_page(request, "dashboard/agents/agent.html", context, status=choice.status)


def _missing(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
    known = stats.list_known_values(who.tenant)
    near = near_names(name, {*known.sources, *known.targets})
    context = {
        "name": cut(name, _LONGEST),
        "near": [(cut(one, _LONGEST), build_agent_url(who.tenant.slug, one)) for one in near],
        "all": reverse("dashboard:agents", args=[who.tenant.slug]),
        "form": role_form(who.tenant, name),
    }
    return render_page(request, "dashboard/agents/missing.html", context, status=404)


def _partners(who: TenantMembership, links: Links, edges: Sequence[AgentRoute], *, own: int) -> list[Partner]:
    """Return the partners on these routes; `own` is the side of this agent: 0 for the source, 1 for the target."""
    return [
        Partner(
            cut(other := (edge.target, edge.source)[own], _LONGEST),
            build_agent_url(who.tenant.slug, other, links.window.query),
            edge,
            format_duration(edge.median_seconds),
            links.handoffs(source=edge.source, target=edge.target),
        )
        for edge in edges[:MOST_LISTED]
    ]


def _origins(who: TenantMembership, links: Links, found: AgentReport) -> list[Origin]:
    most = max((number for _, number in found.origins), default=1)
    return [
        Origin(cut(name, _LONGEST), build_agent_url(who.tenant.slug, name, links.window.query), number, number / most)
        for name, number in found.origins[:MOST_LISTED]
    ]


def _code(links: Links, name: str, one: OfCode) -> CodeLine:
    href = links.handoffs(code=one.code, source=name)
    return CodeLine(one.code, one.findings.caused, one.findings.passed_on, href)


def _hours(found: AgentReport) -> list[Hour]:
    """Return the busiest hours in the order of the day."""
    most = max(found.hours)
    busiest = sorted(range(24), key=lambda hour: -found.hours[hour])[:MOST_HOURS]
    return [
        Hour(f"{hour:02}:00 to {(hour + 1) % 24:02}:00", found.hours[hour], found.hours[hour] / most)
        for hour in sorted(busiest)
        if found.hours[hour]
    ]


def _chart(links: Links, name: str, found: AgentReport, *, width: int, prefix: str) -> Drawing:
    hourly = links.window.period == "24h"
    bars = [
        Bar(
            label=f"{one.since:%H:%M}" if hourly else f"{one.since.day} {one.since:%b}",
            title=one.span,
            parts={"caused": one.value.caused, "passed-on": one.value.passed_on},
            href=links.between("handoffs", one.since, one.until, source=name),
        )
        for one in found.over_time
    ]
    title = "Findings over time: caused, and passed on"
    return draw_stacked_bars(bars, order=ORDER, width=width, height=210, title=title, prefix=prefix)


urlpatterns = [path("agents/<path:name>/", agent, name="agent")]
