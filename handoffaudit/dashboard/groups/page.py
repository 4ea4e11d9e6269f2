"""The list of finding groups."""

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.groups.words import SORT_NAMES, STATUS_NAMES, line
from handoffaudit.dashboard.naming import code_named
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.dashboard.saved.opening import opens_with
from handoffaudit.dashboard.saved.tabs import joined_query, tabs_of
from handoffaudit.diagnostics.groups.queries import NARROWING, GroupFilters, count_regressed, list_groups
from handoffaudit.diagnostics.groups.stats import MOST_WAITING
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.filters import FilterError

TEMPLATE = "dashboard/groups/page.html"
SIDES = {"agent": "Agent, either side", "source": "Source", "target": "Target"}
SEEN = {"24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}


@page_for(Role.VIEWER)
@require_safe
def groups(request: HttpRequest, who: Who) -> HttpResponse:
    if opening := opens_with(request, who, "groups"):
        return opening
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "asked": {name: request.GET.get(name, "") for name in NARROWING},
        "sorts": SORT_NAMES,
        "seen": SEEN,
        "most_waiting": MOST_WAITING,
        "sides": [(name, label, request.GET.get(name, "")) for name, label in SIDES.items()],
        "cursor": cursor,
        "known": SimpleLazyObject(lambda: _known(who)),
    }
    try:
        filters = _named(who, GroupFilters.from_query(request.GET))
        context["asked"]["code"] = filters.code
        found = list_groups(who.tenant, filters, cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    query = filters.to_query()
    views = tabs_of(request, who, "groups", query)
    if not is_htmx(request) and any(name in request.GET and not request.GET[name].strip() for name in NARROWING):
        # A plain form sends its empty fields along: the address that is kept and shared has none.
        return HttpResponseRedirect(views.href(query))
    context |= {
        "filters": filters,
        "query": query,
        "views": views,
        "lines": [line(one) for one in found.items],
        "statuses": [(name, label, views.href(filters.to_query(status=name))) for name, label in STATUS_NAMES.items()],
        "regressed": count_regressed(who.tenant),
        "unnarrowed": views.href(GroupFilters(filters.status, filters.sort).to_query()),
        "newest": views.href(query) if cursor else "",
        "next": views.href(joined_query(query, f"cursor={found.next}")) if found.next else "",
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = views.href(query)
    return response


def _named(who: Who, filters: GroupFilters) -> GroupFilters:
    """A reason may be asked for by its title."""
    return replace(filters, code=code_named(who.tenant, filters.code) or filters.code)


def _known(who: Who) -> dict[str, list[str]]:
    known = stats.list_known_values(who.tenant)
    return {"codes": known.codes, "agents": sorted({*known.sources, *known.targets})}


urlpatterns = [path("groups/", groups, name="groups")]
