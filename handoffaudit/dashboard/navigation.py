"""The menu, the context for the frame of every page, the theme, and the addresses of agents and traces."""

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.review.queue import MOST_WAITING, waiting
from handoffaudit.env import usual_data_folder

COOKIE = "theme"

THEMES = ("light", "dark")

DENSITY_COOKIE = "density"

DENSITIES = ("compact",)

YEAR = 31_536_000


def theme_of(request: HttpRequest) -> str:
    """Return the chosen theme; an empty string follows the system."""
    return _kept(request, COOKIE, THEMES)


def density_of(request: HttpRequest) -> str:
    """Return the chosen density; an empty string is the comfortable density."""
    return _kept(request, DENSITY_COOKIE, DENSITIES)


def _kept(request: HttpRequest, cookie: str, known: Sequence[str]) -> str:
    value = request.COOKIES.get(cookie, "")
    return value if value in known else ""


@require_role(Role.VIEWER)
@require_POST
def theme(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    after = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(after, allowed_hosts={request.get_host()}):
        after = reverse("dashboard:overview", args=[who.tenant.slug])
    response = HttpResponseRedirect(after)
    if "density" in request.POST:
        _keep(response, DENSITY_COOKIE, request.POST["density"], DENSITIES)
    else:
        _keep(response, COOKIE, request.POST.get("theme", ""), THEMES)
    return response


def _keep(response: HttpResponse, cookie: str, chosen: str, known: Sequence[str]) -> None:
    if chosen in known:
        response.set_cookie(cookie, chosen, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.HTTPS)
    else:
        response.delete_cookie(cookie, samesite="Lax")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the menu.

    `name` is the name of its URL, and `key` follows `g` in its shortcut. `sections` holds the first path
    segments, after the tenant, that belong to the page.
    """

    name: str
    label: str
    icon: str
    key: str
    sections: tuple[str, ...]
    least: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the menu; `label` is empty for pages without a group."""

    label: str
    pages: tuple[Page, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A page in a person's menu."""

    page: Page
    href: str


GROUPS = (
    Group(
        "Watch",
        (
            Page("overview", "Overview", "overview", "o", ("",)),
            Page("handoffs", "Handoffs", "handoffs", "h", ("handoffs",)),
            Page("groups", "Findings", "findings", "f", ("groups",)),
            Page("traces", "Traces", "traces", "t", ("traces",)),
            Page("agents", "Agents", "agents", "a", ("agents", "declared")),
        ),
    ),
    Group(
        "Decide",
        (Page("review", "Review", "review", "r", ("review",)),),
    ),
    Group(
        "Demand",
        (
            Page("strictness", "Strictness", "strictness", "s", ("strictness",)),
            Page("rules", "Rules", "rules", "u", ("rules",)),
            Page("schemas", "Schemas", "schemas", "c", ("schemas",)),
            Page("prompts", "Prompts", "prompts", "p", ("prompts",)),
        ),
    ),
    Group(
        "Understand",
        (
            Page("diagnostics", "Diagnostics", "diagnostics", "d", ("diagnostics",)),
            Page("help", "Help", "help", "l", ("help",)),
        ),
    ),
    Group(
        "",
        (
            Page(
                "settings", "Settings", "settings", "e", ("settings", "thresholds", "retention", "gallery"), Role.ADMIN
            ),
        ),
    ),
)


def menu_of(who: TenantMembership) -> Sequence[tuple[str, Sequence[Link]]]:
    """Return the menu groups with the pages that this person may open."""
    return _menu(who.tenant.slug, tuple(page for group in GROUPS for page in group.pages if who.may(page.least)))


@lru_cache(maxsize=256)
def _menu(slug: str, allowed: Collection[Page]) -> Sequence[tuple[str, Sequence[Link]]]:
    groups = [
        (group.label, [Link(page, _address(page, slug)) for page in group.pages if page in allowed]) for group in GROUPS
    ]
    return [(label, links) for label, links in groups if links]


def _address(page: Page, slug: str) -> str:
    return reverse(f"dashboard:{page.name}", args=[slug])


MOST_TENANTS = 50


def shell_context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of every page; database queries are lazy, because partials and error pages need none."""
    shown: dict[str, Any] = {"theme": theme_of(request), "density": density_of(request)}
    who: TenantMembership | None = getattr(request, "who", None)
    if who is None:
        return shown
    return shown | {
        "who": who,
        "may_review": who.may(Role.REVIEWER),
        "may_admin": who.may(Role.ADMIN),
        # A view that answers under the address of another page overrides this value.
        "section": _section(request.path, who.tenant),
        "menu": menu_of(who),
        "data_option": _data_option() if who.may(Role.ADMIN) else "",
        "tenants": SimpleLazyObject(lambda: _tenants(who)),
        "waiting_count": SimpleLazyObject(lambda: waiting(who.tenant, MOST_WAITING)),
    }


def _data_option() -> str:
    """Return the option that points a command at this server's data; empty if the data is in the default folder."""
    elsewhere = usual_data_folder() != settings.DATA_FOLDER and not os.environ.get("DATABASE_URL")
    return f" --data {shlex.quote(str(settings.DATA_FOLDER))}" if elsewhere else ""


def _section(path: str, tenant: Tenant) -> str:
    """Return the first path segment after the tenant's."""
    return path.partition(f"/t/{tenant.slug}/")[2].partition("/")[0]


def _tenants(who: TenantMembership) -> list[Tenant]:
    return list(Tenant.objects.filter(membership__person=who.person).order_by("name")[:MOST_TENANTS])


_DOTS = frozenset({".", ".."})


def build_agent_url(slug: str, name: str, query: Mapping[str, str] | None = None) -> str:
    """Return the address of an agent's page.

    Browsers resolve `.` and `..` between slashes, and servers may merge two slashes. Names with these, and
    names with a line break, are therefore sent in the query.
    """
    address = _agent_path(slug, name)
    asked = dict(query or {}) if address else {"agent": name, **(query or {})}
    address = address or reverse("dashboard:agents", args=[slug])
    return f"{address}?{urlencode(asked)}" if asked else address


# A page of agents contains each name several times.
@lru_cache(maxsize=2048)
def _agent_path(slug: str, name: str) -> str:
    """Return the path of an agent's page; an empty string if the name cannot be part of a path."""
    parts = name.split("/")
    is_plain = _DOTS.isdisjoint(parts) and "" not in parts and "\n" not in name and "\r" not in name
    return reverse("dashboard:agent", args=[slug, name]) if is_plain else ""


def build_trace_url(slug: str, trace_id: str) -> str:
    """Return the address of a trace's page, or of its handoff list if the id cannot be part of a path.

    Browsers resolve `.` and `..` between slashes, and no path contains a line break.
    """
    if not _DOTS.isdisjoint(trace_id.split("/")) or "\n" in trace_id:
        return f"{reverse('dashboard:handoffs', args=[slug])}?{urlencode({'trace': trace_id})}"
    return reverse("dashboard:trace", args=[slug, trace_id])
