"""The list of traces, ordered by their newest handoff."""

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.filters import PERIODS
from handoffaudit.dashboard.saved_views.tabs import build_url, join_query, redirect_to_default, tabs_of
from handoffaudit.dashboard.traces import trace
from handoffaudit.diagnostics.traces import list_traces
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.filters import FilterError, Filters, first_id_at, parse_cursor
from handoffaudit.handoffs.models import State

TEMPLATE = "dashboard/traces/list.html"

LONGEST_AGENT = 200

MOST_NEW = 100

NARROWING = ("since", "agent", "state")


@require_role(Role.VIEWER)
@require_safe
def traces(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if live.is_asked(request):
        return _new(request, who)
    if opening := redirect_to_default(request, who, "traces"):
        return opening
    asked = {name: request.GET.get(name, "").strip() for name in NARROWING}
    query = _written(asked)
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "asked": asked,
        "states": State.values,
        "periods": PERIODS,
        "is_narrowed": bool(query),
        "cursor": cursor,
        "known": SimpleLazyObject(lambda: _agents(who)),
    }
    try:
        filters = Filters.from_query({name: asked[name] for name in ("since", "state")})
        page = list_traces(who.tenant, filters, agent=_agent(asked["agent"]), cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    views = tabs_of(request, who, "traces", query)
    if not is_htmx(request) and any(name in request.GET and not asked[name] for name in NARROWING):
        # A plain form also sends its empty fields; the address that people save and share has none.
        return HttpResponseRedirect(views.href(query))
    context |= {
        "traces": page.items,
        "views": views,
        "newest": views.href(query) if cursor else "",
        "next": views.href(join_query(query, f"cursor={page.next}")) if page.next else "",
        "live": "" if cursor else _live_address(who, query),
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = views.href(query)
    return response


def _live_address(who: TenantMembership, query: str) -> str:
    after = first_id_at(timezone.now())
    return build_url(reverse("dashboard:traces", args=[who.tenant.slug]), query, f"after={after}")


def _new(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer how many matching handoffs arrived since the list was rendered, in new or in listed traces."""
    try:
        query, agent = query_of(request.GET), request.GET.get("agent", "").strip()
        filters = Filters.from_query({name: request.GET.get(name, "") for name in ("since", "state")})
        after = parse_cursor(request.GET.get("after", ""))
        narrowed = [replace(filters, source=agent), replace(filters, target=agent)] if agent else [filters]
        number = min(sum(queries.count_new(who.tenant, one, after, MOST_NEW) for one in narrowed), MOST_NEW)
        href = build_url(reverse("dashboard:traces", args=[who.tenant.slug]), query)
        return live.answer(request, who, live.number(request, number, MOST_NEW, href))
    except FilterError as bad:
        return live.invalid_filter(bad)


def query_of(params: QueryDict) -> str:
    """Return the query as the list writes it; raise `FilterError` for a bad filter."""
    asked = {name: params.get(name, "").strip() for name in NARROWING}
    Filters.from_query({name: asked[name] for name in ("since", "state")})
    _agent(asked["agent"])
    return _written(asked)


def _written(asked: dict[str, str]) -> str:
    return urlencode({name: value for name, value in asked.items() if value})


def _agent(name: str) -> str:
    if "\x00" in name or len(name) > LONGEST_AGENT:
        raise FilterError("agent", name[:40], f"use a name of at most {LONGEST_AGENT} characters without NUL.")
    return name


def _agents(who: TenantMembership) -> list[str]:
    known = stats.list_known_values(who.tenant)
    return sorted({*known.sources, *known.targets})


trace_list_urls = [path("traces/", traces, name="traces")]

urlpatterns = [*trace_list_urls, *trace.urlpatterns]
