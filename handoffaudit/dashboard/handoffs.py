"""The list of handoffs, its filters, and the count of what came since."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.cursors import cursor_id, first_id_at
from handoffaudit.handoffs.filters import FLAGS, BadFilter, Filters
from handoffaudit.handoffs.models import State

TEMPLATE = "dashboard/handoffs/page.html"
MOST_NEW = 100
PERIODS = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}
FLAG_NAMES = {
    "parked": "parked, not judged",
    "shadowed": "let pass in shadow mode",
    "warnings": "with warnings",
    "overdue": "held too long",
}


@dataclass(frozen=True, slots=True)
class Chip:
    """One filter in force; `without` is the query that leaves it out."""

    label: str
    value: str
    without: str


@page_for(Role.VIEWER)
def handoffs(request: HttpRequest, who: Who) -> HttpResponse:
    address = reverse("dashboard:handoffs", args=[who.tenant.slug])
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "asked": request.GET,
        "asked_states": request.GET.getlist("state"),
        "states": State.values,
        "periods": PERIODS,
        "flags": {flag: FLAG_NAMES[flag] for flag in FLAGS},
        "cursor": cursor,
        # Only the whole page has the menus.
        "known": SimpleLazyObject(lambda: queries.known_values(who.tenant)),
    }
    try:
        filters = Filters.from_query(request.GET)
        page = queries.list_handoffs(who.tenant, filters, cursor=cursor)
    except BadFilter as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    query = filters.to_query()
    if not is_htmx(request) and _has_blanks(request):
        # A plain form sends its empty fields along: the address that is kept and shared has none.
        return HttpResponseRedirect(f"{address}?{query}" if query else address)
    context |= {
        "handoffs": page.items,
        "asked_states": filters.state,
        "query": query,
        "chips": _chips(filters),
        "newest": f"{address}?{query}" if cursor else "",
        "next": f"{address}?{query}&cursor={page.next}".replace("?&", "?") if page.next else "",
        "after": page.items[0].pk if page.items else first_id_at(timezone.now()),
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = f"{address}?{query}" if query else address
    return response


@page_for(Role.VIEWER)
def new(request: HttpRequest, who: Who) -> HttpResponse:
    """How many matching handoffs came after the newest one shown."""
    try:
        filters = Filters.from_query(request.GET)
        number = queries.count_new(who.tenant, filters, _after(request), MOST_NEW)
    except BadFilter as bad:
        return render_page(request, "dashboard/handoffs/bad.html", {"bad": bad}, status=400)
    context = {"number": number, "more": number >= MOST_NEW, "query": filters.to_query()}
    return render_page(request, "dashboard/handoffs/new.html", context)


def _after(request: HttpRequest) -> UUID:
    try:
        return cursor_id(request.GET.get("after", ""))
    except BadFilter as bad:
        raise BadFilter("after", bad.value, "use the id of the newest handoff you have.") from None


def _has_blanks(request: HttpRequest) -> bool:
    return any(not value.strip() for _, values in request.GET.lists() for value in values)


def _without(filters: Filters, name: str, nothing: Any) -> str:
    return replace(filters, **{name: nothing}).to_query()


def _chips(filters: Filters) -> list[Chip]:
    return list(_each_chip(filters))


def _each_chip(filters: Filters) -> Iterable[Chip]:
    for state in filters.state:
        others = tuple(other for other in filters.state if other != state)
        yield Chip("State", state, replace(filters, state=others).to_query())
    texts = {"handoff_type": "Type", "source": "Source", "target": "Target", "trace": "Trace"}
    for name, label in texts.items():
        if value := getattr(filters, name):
            yield Chip(label, value, _without(filters, name, ""))
    if filters.code:
        yield Chip("Reason", code_title(filters.code), replace(filters, code="").to_query())
    if filters.since:
        shown = PERIODS.get(filters.period) or filters.period or f"{filters.since:%Y-%m-%d %H:%M}"
        yield Chip("Since", shown, replace(filters, since=None, period="").to_query())
    if filters.until:
        yield Chip("Until", f"{filters.until:%Y-%m-%d %H:%M}", replace(filters, until=None).to_query())
    for name, label in {"quality_min": "Score from", "quality_max": "Score to"}.items():
        if (score := getattr(filters, name)) is not None:
            yield Chip(label, f"{score:g}", _without(filters, name, None))
    if filters.flag:
        yield Chip("Only", FLAG_NAMES[filters.flag], replace(filters, flag="").to_query())


urlpatterns = [
    path("handoffs/", handoffs, name="handoffs"),
    path("handoffs/new/", new, name="handoffs_new"),
]
