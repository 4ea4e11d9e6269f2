"""One agent: its page with findings, partners and handoff files, and the declaration of its role."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role, target_of
from handoffaudit.dashboard.agents.declared import LONGEST_NAME, format_duration
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.dashboard.navigation import build_agent_url
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.cases import judge_saved
from handoffaudit.dashboard.policies.forms import Line, line_of
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.dashboard.selection import Selection, confirm, refuse
from handoffaudit.diagnostics.agent_report import (
    MOST_FINDINGS,
    AgentReport,
    CodeFindings,
    is_known,
    load_report,
    near_names,
)
from handoffaudit.diagnostics.agents import (
    AgentRoute,
    ShownRole,
    declare_role,
    declare_roles,
    load_roles,
    withdraw_role,
)
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import stats
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import DeclaredRole
from handoffaudit.policy.models import Kind
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import WHOLE_ROW, Change, Stale
from handoffaudit.validation.agents import AgentRole
from handoffaudit.validation.text import pluralize

ORDER: Final = ("introduced", "inherited")

MOST_LISTED: Final = 20

MOST_HOURS: Final = 6

_LONGEST: Final = 120


@dataclass(frozen=True, slots=True)
class Partner:
    """An agent to which this agent sends handoffs, or from which it receives handoffs.

    `edge` is the route to or from the partner, and `handoffs` links to the handoffs of this route.
    """

    name: str
    href: str
    edge: AgentRoute
    time: str
    handoffs: str


@dataclass(frozen=True, slots=True)
class Origin:
    """An agent that introduced findings which this agent inherited; `share` is relative to the origin with the most."""

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
        return _render_missing(request, who, name)
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
        "codes": [_code_line(links, name, one) for one in found.codes[:MOST_LISTED]],
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


def _render_missing(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
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


def _code_line(links: Links, name: str, one: CodeFindings) -> CodeLine:
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
            parts={"introduced": one.value.caused, "inherited": one.value.passed_on},
            href=links.between("handoffs", one.since, one.until, source=name),
        )
        for one in found.over_time
    ]
    title = "Findings over time: introduced and inherited"
    return draw_stacked_bars(bars, order=ORDER, width=width, height=210, title=title, prefix=prefix)


TEMPLATE: Final = "dashboard/agents/roles.html"
SECTION: Final = "dashboard/agents/roles.html#role"
# If the form sends this value as the role, the declaration is withdrawn.
GUESSED: Final = "guessed"
MOST_OFFERED: Final = 200

CHOICES: Final = (
    (AgentRole.WORKER.value, "worker: its claims are judged"),
    (AgentRole.OBSERVER.value, "observer: what it reports is evidence for the claims of the trace"),
    (AgentRole.PERSON.value, "person: what they say is evidence for the claims of the trace"),
)


def role_lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of the declared roles."""
    return [
        Line(cut(change.row, LONGEST_NAME), "role", _role_of(change.old), _role_of(change.new))
        if change.field == WHOLE_ROW
        else Line(cut(change.row, LONGEST_NAME), change.field, str(change.old), str(change.new))
        for change in changes
    ]


def _role_of(plain: Any) -> str | None:
    return str(plain.get("role", "")) if isinstance(plain, dict) else None


PAGE = PolicyPage(kinds.roles, "Roles of agents", "A new tenant has no declared roles.", role_lines)


@dataclass(frozen=True, slots=True)
class RoleForm:
    """The role of one agent with the form that declares it. `error` says why the last declaration was refused."""

    agent: str
    name: str
    role: str
    is_declared: bool
    why: str
    guessed: str
    declared_by: str = ""
    declared_at: datetime | None = None
    error: str = ""

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        return (*CHOICES, (GUESSED, f"not declared: {self.guessed} is guessed"))

    @property
    def chosen(self) -> str:
        return self.role if self.is_declared else GUESSED


def form_for(shown: ShownRole, error: str = "") -> RoleForm:
    declared = shown.declared
    return RoleForm(
        agent=shown.agent,
        name=cut(shown.agent, LONGEST_NAME),
        role=shown.role.value,
        is_declared=shown.is_declared,
        why=shown.guessed.why,
        guessed=shown.guessed.role.value,
        declared_by=declared.declared_by if declared else "",
        declared_at=parse_datetime(declared.declared_at) if declared and declared.declared_at else None,
        error=error,
    )


def role_form(tenant: Tenant, agent: str) -> RoleForm:
    """Return the role of an agent with its form."""
    return form_for(load_roles(tenant, [agent])[agent])


@dataclass(frozen=True, slots=True)
class Row:
    form: RoleForm
    href: str


@require_role(Role.VIEWER)
@require_safe
def roles_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the declared roles. `?agent=` fills in the name of the agent in the form."""
    return _roles_page(request, who, agent=line_of(request.GET, "agent"))


def _roles_page(
    request: HttpRequest, who: TenantMembership, agent: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    now = kinds.roles.current(who.tenant)
    roles = load_roles(who.tenant, [row.agent for row in now.rows])
    context = {
        "rows": [Row(form_for(roles[row.agent]), build_agent_url(who.tenant.slug, row.agent)) for row in now.rows],
        "agent": agent,
        "error": error,
        "choices": CHOICES,
        "offered": _list_undeclared(who.tenant, now.rows),
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _list_undeclared(tenant: Tenant, rows: Iterable[DeclaredRole]) -> list[str]:
    """Return the names of agents without a declared role, for the suggestions of the form."""
    declared = {row.agent for row in rows}
    known = stats.list_known_values(tenant)
    names = sorted({*known.sources, *known.targets} - declared - {""})
    return [name for name in names if name.isprintable()][:MOST_OFFERED]


@require_role(Role.ADMIN)
@require_POST
def declare(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Declare the role of one agent, or withdraw the declaration, and show the form again."""
    agent, role = line_of(request.POST, "agent"), line_of(request.POST, "role")
    note, actor = line_of(request.POST, "note"), who.person.username
    try:
        if role == GUESSED:
            withdraw_role(who.tenant, agent, actor, note)
            message = f"The role of {cut(agent, LONGEST_NAME)} is guessed from now on."
        else:
            declare_role(who.tenant, agent, role, actor, note)
            message = f"{cut(agent, LONGEST_NAME)} is declared as {role}."
    except (InvalidPolicy, Stale) as refusal:
        why = refusal.errors[0].message if isinstance(refusal, InvalidPolicy) else str(refusal)
        return _show_roles(request, who, agent, why, HTTPStatus.BAD_REQUEST)
    base.say_saved(request, message, judge_saved(who.tenant, Kind.ROLES))
    return _show_roles(request, who, agent)


@require_role(Role.ADMIN)
@require_POST
def declare_selected(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Declare the role of the selected agents, or withdraw their declarations."""
    try:
        selection = Selection.of(request, who, "agents")
        agents = selection.names
    except FilterError as bad:
        return refuse(request, "agents", bad)
    choices = (*CHOICES, (GUESSED, "not declared: a role is guessed"))
    if "confirmed" not in request.POST:
        return confirm(request, selection, "role", choices=choices)
    role, note = request.POST.get("role", ""), request.POST.get("note", "")
    try:
        declare_roles(who.tenant, agents, "" if role == GUESSED else role, who.person.username, note)
    except (InvalidPolicy, Stale) as refusal:
        why = refusal.errors[0].message if isinstance(refusal, InvalidPolicy) else str(refusal)
        return confirm(request, selection, "role", why, choices=choices)
    what = "no longer declared" if role == GUESSED else f"declared as {role}"
    base.say_saved(request, f"{pluralize(len(agents), selection.noun)} {what}.", judge_saved(who.tenant, Kind.ROLES))
    return HttpResponseRedirect(selection.back)


def _show_roles(
    request: HttpRequest, who: TenantMembership, agent: str, error: str = "", status: int = HTTPStatus.OK
) -> HttpResponse:
    """Answer a declaration with the part that htmx replaces, with the page of roles, or with a redirect."""
    if target_of(request) == "role":
        form = form_for(load_roles(who.tenant, [agent])[agent], error)
        return render(request, SECTION, {"form": form, "part": True}, status=status)
    if error or target_of(request):
        return _roles_page(request, who, agent if error else "", error, status)
    if request.POST.get("back") == "agent":
        return redirect(build_agent_url(who.tenant.slug, agent))
    return redirect(reverse("dashboard:roles", args=[who.tenant.slug]))


urlpatterns = [
    path("agents/selected/role/", declare_selected, name="selected_role"),
    path("agents/<path:name>/", agent, name="agent"),
    path("roles/", roles_page, name="roles"),
    path("roles/declare/", declare, name="roles_declare"),
    *base.urls(PAGE),
]
