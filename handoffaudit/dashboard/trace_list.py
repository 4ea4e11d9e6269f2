"""The list of traces, ordered by their newest handoff."""

from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live, trace_page
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.navigation import open_item_url
from handoffaudit.dashboard.view_tabs import (
    build_url,
    join_query,
    redirect_to_default,
    redirect_without_blanks,
    tabs_of,
)
from handoffaudit.diagnostics.traces import list_traces
from handoffaudit.filter_fields import PERIODS, ChoiceFilter, FilterError, MomentTextFilter, TextFilter
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.filters import Filters, first_id_at, parse_cursor
from handoffaudit.handoffs.models import State

TEMPLATE = "dashboard/traces/list.html"

MOST_NEW = 100


class _StatesFilter(ChoiceFilter):
    """A state; an address may also have several with commas between."""

    def validate(self, value: str) -> None:
        for state in value.split(","):
            super().validate(state.strip())


@dataclass(frozen=True, slots=True)
class TraceFilters(FilterSet):
    """The filters of the list of traces, which has those with a matching handoff.

    `agent` is the source or the target of the handoff.
    """

    since: str = declare(MomentTextFilter("Since", choices=PERIODS, empty_label="Any time", widget=forms.Select()))
    agent: str = declare(TextFilter("Agent"))
    state: str = declare(
        _StatesFilter("With a handoff", choices={state: state for state in State.values}, empty_label="In any state")
    )

    def of_handoffs(self) -> Filters:
        return Filters.from_query({"since": self.since, "state": self.state})


@require_role(Role.VIEWER)
@require_safe
def traces(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if live.is_asked(request):
        return _new(request, who)
    if opening := redirect_to_default(request, who, "traces"):
        return opening
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "form": SimpleLazyObject(lambda: TraceFilters.form(request.GET, agent=_agents(who))),
        "cursor": cursor,
    }
    try:
        filters = TraceFilters.from_query(request.GET)
        page = list_traces(who.tenant, filters.of_handoffs(), agent=filters.agent, cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    query = filters.to_query()
    views = tabs_of(request, who, "traces", query)
    if cleaned := redirect_without_blanks(request, filters, query, views):
        return cleaned
    context |= {
        "traces": page.items,
        "query": query,
        "item_url": open_item_url(request, who.tenant.slug, "traces"),
        "is_narrowed": bool(query),
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
        asked = TraceFilters.from_query(request.GET)
        filters, agent = asked.of_handoffs(), asked.agent
        after = parse_cursor(request.GET.get("after", ""))
        narrowed = [replace(filters, source=agent), replace(filters, target=agent)] if agent else [filters]
        number = min(sum(queries.count_new(who.tenant, one, after, MOST_NEW) for one in narrowed), MOST_NEW)
        href = build_url(reverse("dashboard:traces", args=[who.tenant.slug]), asked.to_query())
        return live.answer(request, who, live.number(request, number, MOST_NEW, href))
    except FilterError as bad:
        return live.invalid_filter(bad)


def _agents(who: TenantMembership) -> list[str]:
    known = stats.list_known_values(who.tenant)
    return sorted({*known.sources, *known.targets})


trace_list_urls = [path("traces/", traces, name="traces")]

urlpatterns = [*trace_list_urls, *trace_page.urlpatterns]
