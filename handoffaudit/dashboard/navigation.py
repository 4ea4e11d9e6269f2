"""The menu, the context of every page's frame, preferences, and the addresses of agents and traces."""

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Person, Role
from handoffaudit.dashboard import access
from handoffaudit.dashboard.access import TenantMembership, require_role, target_of
from handoffaudit.dashboard.review.queue import MOST_WAITING
from handoffaudit.env import usual_data_folder
from handoffaudit.filter_fields import is_number, quote_blanks
from handoffaudit.handoffs.review.queue import count_pressing

COOKIE = "theme"

THEMES = ("light", "dark")

DENSITY_COOKIE = "density"

DENSITIES = ("compact",)

YEAR = 31_536_000


def theme_of(request: HttpRequest) -> str:
    """Return the chosen theme; an empty string follows the system."""
    return _read_cookie(request, COOKIE, THEMES)


def density_of(request: HttpRequest) -> str:
    """Return the chosen density; an empty string is the comfortable density."""
    return _read_cookie(request, DENSITY_COOKIE, DENSITIES)


def _read_cookie(request: HttpRequest, cookie: str, known: Sequence[str]) -> str:
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


@require_role(Role.VIEWER)
@require_safe
def preferences(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the preferences of this person: the time zone, and links to passkeys and the password."""
    chosen = who.person.time_zone if access.is_zone(who.person.time_zone) else ""
    context = {
        "chosen": chosen,
        "browser": access.browser_zone(request),
        "zones": access.zone_names(),
        "now": timezone.now(),
    }
    return render(request, "dashboard/preferences.html", context)


@require_role(Role.VIEWER)
@require_POST
def time_zone(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Keep the time zone that the person chose; an empty value stands for the browser's time zone."""
    name = request.POST.get("zone", "")
    if name and not access.is_zone(name):
        messages.error(request, f"{name[:64]!r} is not a time zone. Choose one of the list, such as Europe/Paris.")
    else:
        Person.objects.filter(pk=who.person.pk).update(time_zone=name)
        messages.success(request, f"Pages show times in {name or 'the time zone of the browser'}.")
    return redirect("dashboard:preferences", tenant=who.tenant.slug)


preference_urls = [
    path("preferences/", preferences, name="preferences"),
    path("preferences/time-zone/", time_zone, name="time_zone"),
]


def _keep(response: HttpResponse, cookie: str, chosen: str, known: Sequence[str]) -> None:
    if chosen in known:
        response.set_cookie(cookie, chosen, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.HTTPS)
    else:
        response.delete_cookie(cookie, samesite="Lax")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the menu.

    `name` is the name of its URL, and `key` follows `g` in its shortcut. `sections` holds path prefixes, after the
    tenant, that belong to the page; the longest matching prefix decides. People below the role `least` get the page
    named `otherwise` instead, if it is set.
    """

    name: str
    label: str
    icon: str
    key: str
    sections: tuple[str, ...]
    least: Role = Role.VIEWER
    otherwise: str = ""


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
    Group("", (Page("review", "Review", "review", "r", ("review",)),)),
    Group(
        "Monitor",
        (
            Page("overview", "Overview", "overview", "o", ("",)),
            Page("handoffs", "Handoffs", "handoffs", "h", ("handoffs",)),
            Page("groups", "Findings", "findings", "f", ("groups", "diagnostics/noise", "diagnostics/codes")),
            Page("traces", "Traces", "traces", "t", ("traces",)),
            Page("agents", "Agents", "agents", "a", ("agents", "declared", "roles")),
        ),
    ),
    Group(
        "Diagnostics",
        (
            Page("compliance", "Compliance", "compliance", "c", ("diagnostics/compliance",)),
            Page("diagnostics", "Handoff files", "diagnostics", "d", ("diagnostics",)),
            Page("logs", "Logs", "logs", "l", ("diagnostics/logs",)),
        ),
    ),
    Group(
        "",
        (
            Page(
                "strictness",
                "Policies",
                "strictness",
                "p",
                ("strictness", "rules", "schemas", "prompts", "cases", "trials", "policies"),
            ),
            Page(
                "settings",
                "Settings",
                "settings",
                "e",
                ("settings", "connect", "gallery", "diagnostics/alerts", "diagnostics/model"),
                Role.ADMIN,
                otherwise="alerts",
            ),
            Page("help", "Help", "help", "i", ("help",)),
        ),
    ),
)

_PAGES = tuple(page for group in GROUPS for page in group.pages)
_SECTIONS = {section: page.name for page in _PAGES for section in page.sections}


@dataclass(frozen=True, slots=True)
class Tab:
    """A page among the tabs of a menu page. `name` is its URL name, and `show` the value of its `show` parameter."""

    name: str
    label: str
    least: Role = Role.VIEWER
    show: str = ""


TABS: Mapping[str, tuple[Tab, ...]] = {
    "findings": (Tab("groups", "Groups"), Tab("noise", "Overturned")),
    "agents": (
        Tab("agents", "List"),
        Tab("agents", "Map", show="map"),
        Tab("agents", "Matrix", show="matrix"),
        Tab("declared", "Declared routes"),
        Tab("roles", "Roles"),
    ),
    "files": (Tab("diagnostics", "Reasons"), Tab("file_reports", "Reports")),
    "policies": (
        Tab("strictness", "Strictness"),
        Tab("rules", "Rules"),
        Tab("schemas", "Schemas"),
        Tab("prompts", "Prompts"),
        Tab("cases", "Cases"),
        Tab("policy_history", "History"),
    ),
    "settings": (
        Tab("settings", "People", Role.ADMIN),
        Tab("settings_keys", "API keys", Role.ADMIN),
        Tab("settings_webhooks", "Webhooks", Role.ADMIN),
        Tab("alerts", "Alerts"),
        Tab("model_health", "LLM"),
        Tab("retention", "Retention", Role.ADMIN),
        Tab("settings_audit", "Audit log", Role.ADMIN),
    ),
}


def menu_of(who: TenantMembership) -> Sequence[tuple[str, Sequence[Link]]]:
    """Return the menu groups with the pages that this person may open."""
    names = {page: page.name if who.may(page.least) else page.otherwise for page in _PAGES}
    return _menu(who.tenant.slug, tuple((page, name) for page, name in names.items() if name))


@lru_cache(maxsize=256)
def _menu(slug: str, allowed: Collection[tuple[Page, str]]) -> Sequence[tuple[str, Sequence[Link]]]:
    names = dict(allowed)
    groups = [
        (
            group.label,
            [Link(page, reverse(f"dashboard:{names[page]}", args=[slug])) for page in group.pages if page in names],
        )
        for group in GROUPS
    ]
    return [(label, links) for label, links in groups if links]


def page_of(path: str) -> str:
    """Return the name of the menu page to which a path, after the tenant, belongs; an empty string if there is none."""
    parts = path.strip("/").split("/")
    beginnings = ("/".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((_SECTIONS[one] for one in beginnings if one in _SECTIONS), "")


# The id of the panel beside a list. A page that is loaded into the panel has another layout.
PANEL = "panel"


def shell_context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of every page; database queries are lazy, because partials and error pages need none."""
    layout = "dashboard/panel/layout.html" if target_of(request) == PANEL else "base.html"
    shown: dict[str, Any] = {"theme": theme_of(request), "density": density_of(request), "layout": layout}
    who: TenantMembership | None = getattr(request, "who", None)
    if who is None:
        return shown
    return shown | {
        "who": who,
        "may_review": who.may(Role.REVIEWER),
        "may_admin": who.may(Role.ADMIN),
        # A view that answers under the address of another page overrides this value.
        "section": page_of(request.path.partition(f"/t/{who.tenant.slug}/")[2]),
        "menu": menu_of(who),
        "data_option": _data_option() if who.may(Role.ADMIN) else "",
        "tenants": who.tenants,
        "waiting_count": SimpleLazyObject(lambda: count_pressing(who.tenant, MOST_WAITING)),
    }


def _data_option() -> str:
    """Return the command-line option for this server's data folder.

    The option is empty for the default folder, or if `DATABASE_URL` names the database.
    """
    elsewhere = usual_data_folder() != settings.DATA_FOLDER and not os.environ.get("DATABASE_URL")
    return f" --data {shlex.quote(str(settings.DATA_FOLDER))}" if elsewhere else ""


_DOTS = frozenset({".", ".."})


def build_agent_url(slug: str, name: str, query: Mapping[str, str] | None = None) -> str:
    """Return the address of an agent's page.

    Browsers resolve `.` and `..` between slashes, and servers may merge two slashes. Names with such parts
    or with a line break are therefore sent in the query.
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
        return f"{reverse('dashboard:handoffs', args=[slug])}?{urlencode({'trace': quote_blanks(trace_id)})}"
    return reverse("dashboard:trace", args=[slug, trace_id])


def open_item_url(request: HttpRequest, slug: str, page: str, query: str = "") -> str:
    """Return the address of the item that the query parameter `open` of a list names; an empty string without it.

    For a trace or an agent whose name cannot be part of a path, the result is empty, too. `page` is the list, and
    `query` the query that its rows add to their links. Whether the item exists is checked only by the page of the item.
    Raise `Http404` for an id that no item can have.
    """
    item = request.GET.get("open", "")
    if not item:
        return ""
    try:
        if page in ("traces", "agents"):
            address = build_trace_url(slug, item) if page == "traces" else _agent_path(slug, item)
            return "" if "?" in address or not address else f"{address}?{query}" if query else address
        found = reverse("dashboard:handoff", args=[slug, UUID(item)]) if page == "handoffs" else _group_url(slug, item)
    except (ValueError, NoReverseMatch):
        raise Http404("There is no such item.") from None
    return f"{found}?{query}" if query else found


def _group_url(slug: str, item: str) -> str:
    if not is_number(item):
        raise ValueError(item)
    return reverse("dashboard:group", args=[slug, int(item)])
