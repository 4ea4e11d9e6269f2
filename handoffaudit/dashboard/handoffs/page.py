"""The list of handoffs, its filters, and the count of what came since."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.chips import FINDING, FLAG_NAMES, PERIODS, Chip, each_chip
from handoffaudit.dashboard.groups.words import group_name
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.dashboard.saved.opening import opens_with
from handoffaudit.dashboard.saved.tabs import joined, joined_query, tabs_of
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.filters import FLAGS, FilterError, Filters, first_id_at, parse_cursor
from handoffaudit.handoffs.models import Handoff, State

TEMPLATE = "dashboard/handoffs/page.html"
MOST_NEW = 100


@page_for(Role.VIEWER)
def handoffs(request: HttpRequest, who: Who) -> HttpResponse:
    if opening := opens_with(request, who, "handoffs"):
        return opening
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "asked": request.GET,
        "asked_states": request.GET.getlist("state"),
        "states": State.values,
        "periods": PERIODS,
        "flags": {flag: FLAG_NAMES[flag] for flag in FLAGS},
        "cursor": cursor,
        # Only the whole page has the menus.
        "known": SimpleLazyObject(lambda: stats.list_known_values(who.tenant)),
    }
    try:
        filters = Filters.from_query(request.GET)
        page = queries.list_handoffs(who.tenant, filters, cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    views = tabs_of(request, who, "handoffs", filters.to_query())
    if not is_htmx(request) and _is_of_a_form(request):
        # A plain form sends its empty fields along: the address that is kept and shared has none.
        return HttpResponseRedirect(views.href(views.query))
    context |= {
        "handoffs": page.items,
        "asked_states": filters.state,
        "filters": filters,
        "query": views.query,
        "views": views,
        "chips": [_shown(chip, who, views.href(chip.without)) for chip in each_chip(filters)],
        "along": joined_query("in=handoffs", views.query, views.carry),
        "newest": views.href(views.query) if cursor else "",
        "next": views.href(joined_query(views.query, f"cursor={page.next}")) if page.next else "",
        "live": _live_address(who, views.query, page.items, cursor),
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = views.href(views.query)
    return response


def _shown(chip: Chip, who: Who, href: str) -> Chip:
    value = group_name(who.tenant, chip.value) if chip.label == FINDING else chip.value
    return replace(chip, value=value, href=href)


def _live_address(who: Who, query: str, shown: Sequence[Handoff], cursor: str) -> str:
    """Where to ask what is newer; on older pages there are no newer rows to count."""
    newest = shown[0].pk if shown else first_id_at(timezone.now())
    after = "" if cursor else f"after={newest}"
    return joined(reverse("dashboard:handoffs_new", args=[who.tenant.slug]), query, after)


@page_for(Role.VIEWER)
@require_safe
def new(request: HttpRequest, who: Who) -> HttpResponse:
    """How many matching handoffs came after the newest one shown, and what became of the rows shown."""
    try:
        filters = Filters.from_query(request.GET)
        rows = live.newer_rows(request, who)
        address = reverse("dashboard:handoffs", args=[who.tenant.slug])
        parts = [_cells(filters, address, row) for row in rows]
        if request.GET.get("after"):
            number = queries.count_new(who.tenant, filters, _after(request), MOST_NEW)
            parts += live.number(request, number, MOST_NEW, joined(address, filters.to_query()))
        return live.answer(request, who, parts)
    except FilterError as bad:
        return live.refused(bad)


def _cells(filters: Filters, address: str, row: Handoff) -> str:
    shown = {"filters": filters, "address": address, "handoff": row}
    return render_to_string("dashboard/handoffs/live_row.html", shown)


def _after(request: HttpRequest) -> UUID:
    try:
        return parse_cursor(request.GET.get("after", ""))
    except FilterError as bad:
        raise FilterError("after", bad.value, "use the id of the newest handoff you have.") from None


def _is_of_a_form(request: HttpRequest) -> bool:
    days = "from" in request.GET or "to" in request.GET
    return days or any(not value.strip() for _, values in request.GET.lists() for value in values)


urlpatterns = [
    path("handoffs/", handoffs, name="handoffs"),
    path("handoffs/new/", new, name="handoffs_new"),
]
