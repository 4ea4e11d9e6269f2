"""The roles of agents: the page with all declared roles, and the form that declares the role of one agent."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role, target_of
from handoffaudit.dashboard.agents.declared import LONGEST_NAME
from handoffaudit.dashboard.navigation import build_agent_url
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import Line, line_of
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.diagnostics.agents import ShownRole, declare_role, load_roles, withdraw_role
from handoffaudit.handoffs import stats
from handoffaudit.policy import kinds
from handoffaudit.policy.agent_roles import DeclaredRole
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import WHOLE_ROW, Change, Stale
from handoffaudit.validation.agents import AgentRole

TEMPLATE: Final = "dashboard/agents/roles.html"
SECTION: Final = "dashboard/agents/roles.html#role"
# The value of the form that withdraws a declaration.
GUESSED: Final = "guessed"
MOST_OFFERED: Final = 200

CHOICES: Final = (
    (AgentRole.WORKER.value, "worker: its claims are judged"),
    (AgentRole.OBSERVER.value, "observer: what it reports is evidence of the trace"),
    (AgentRole.PERSON.value, "person: what they say is evidence of the trace"),
)


def lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of the declared roles."""
    return [
        Line(cut(change.row, LONGEST_NAME), "role", _role_of(change.old), _role_of(change.new))
        if change.field == WHOLE_ROW
        else Line(cut(change.row, LONGEST_NAME), change.field, str(change.old), str(change.new))
        for change in changes
    ]


def _role_of(plain: Any) -> str | None:
    return str(plain.get("role", "")) if isinstance(plain, dict) else None


PAGE = PolicyPage(kinds.roles, "Roles of agents", "A new tenant has no declared roles.", lines)


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
def page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the declared roles. `?agent=` fills in the name of an agent to declare."""
    return _page(request, who, agent=line_of(request.GET, "agent"))


def _page(
    request: HttpRequest, who: TenantMembership, agent: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    now = kinds.roles.current(who.tenant)
    roles = load_roles(who.tenant, [row.agent for row in now.rows])
    context = {
        "rows": [Row(form_for(roles[row.agent]), build_agent_url(who.tenant.slug, row.agent)) for row in now.rows],
        "agent": agent,
        "error": error,
        "choices": CHOICES,
        "offered": _offered(who.tenant, now.rows),
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _offered(tenant: Tenant, rows: Iterable[DeclaredRole]) -> list[str]:
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
        return _show(request, who, agent, why, HTTPStatus.BAD_REQUEST)
    messages.success(request, message)
    return _show(request, who, agent)


def _show(
    request: HttpRequest, who: TenantMembership, agent: str, error: str = "", status: int = HTTPStatus.OK
) -> HttpResponse:
    """Answer a declaration with the part that htmx replaces, or with the page that holds the form."""
    if target_of(request) == "role":
        form = form_for(load_roles(who.tenant, [agent])[agent], error)
        return render(request, SECTION, {"form": form, "part": True}, status=status)
    if error or target_of(request):
        return _page(request, who, agent if error else "", error, status)
    if request.POST.get("back") == "agent":
        return redirect(build_agent_url(who.tenant.slug, agent))
    return redirect(reverse("dashboard:roles", args=[who.tenant.slug]))


urlpatterns = [
    path("roles/", page, name="roles"),
    path("roles/declare/", declare, name="roles_declare"),
    *base.urls(PAGE),
]
