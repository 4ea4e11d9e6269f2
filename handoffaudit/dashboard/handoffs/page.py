"""The Handoffs page, and the way from a handoff back to the list it was opened from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.findings import group_name
from handoffaudit.dashboard.navigation import build_trace_url, open_item_url
from handoffaudit.dashboard.safe_text import cut, readable
from handoffaudit.dashboard.templatetags.lists import CellLinks, render_live_cells
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.dashboard.view_tabs import Tabs, build_url, join_query, redirect_to_default, tabs_of, view_query_of
from handoffaudit.diagnostics import group_members
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.filter_fields import FilterError, is_number
from handoffaudit.filter_set import ActiveFilter
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs import queries as handoffs_queries
from handoffaudit.handoffs.filters import NEWEST, Filters, first_id_at, parse_cursor
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.queries import Neighbours

TEMPLATE = "dashboard/handoffs/page.html"

MOST_NEW = 100


@require_role(Role.VIEWER)
def handoffs(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if opening := redirect_to_default(request, who, "handoffs"):
        return opening
    cursor = request.GET.get("cursor", "")
    # Only the whole page needs the known values, for the suggestions of its form.
    known: Any = SimpleLazyObject(lambda: stats.list_known_values(who.tenant))
    context: dict[str, Any] = {
        "cursor": cursor,
        "known": known,
        "form": SimpleLazyObject(lambda: _form(request.GET, known)),
    }
    try:
        filters = Filters.from_query(request.GET)
        page = queries.list_handoffs(who.tenant, filters, cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    views = tabs_of(request, who, "handoffs", filters.to_query())
    if not is_htmx(request) and _is_of_a_form(request):
        # A plain form also sends its empty fields; the address that people save and share has none.
        return HttpResponseRedirect(views.href(views.query))
    list_query = join_query("in=handoffs", views.link_query)
    context |= {
        "handoffs": page.items,
        "item_url": open_item_url(request, who.tenant.slug, "handoffs", list_query),
        "filters": filters,
        "form": SimpleLazyObject(lambda: _form(request.GET, known, filters)),
        "query": views.query,
        "views": views,
        "active_filters": [replace(one, href=views.href(one.without)) for one in _active_filters(who, filters)],
        "list_query": list_query,
        "newest": views.href(views.query) if cursor else "",
        "next": views.href(join_query(views.query, f"cursor={page.next}")) if page.next else "",
        "next_text": "Older" if filters.sort == NEWEST else "Next",
        "first_text": "Newest" if filters.sort == NEWEST else "First page",
        "live": _live_address(who, views, filters, page.items, cursor),
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = views.href(views.query)
    return response


def _form(asked: QueryDict, known: stats.KnownValues, filters: Filters | None = None) -> forms.Form:
    """Return the form of the filters, which suggests the values `known`."""
    return Filters.form(asked, filters, type=known.types, source=known.sources, target=known.targets, code=known.codes)


def _active_filters(who: TenantMembership, filters: Filters) -> Iterator[ActiveFilter]:
    """Yield the active filters; show a rule code by its title, and a finding group by its name."""
    for chip in filters.active():
        match chip.name:
            case "code":
                yield replace(chip, value=code_title(chip.value))
            case "group":
                yield replace(chip, value=group_name(who.tenant, chip.value))
            case _:
                yield chip


def _live_address(who: TenantMembership, views: Tabs, filters: Filters, shown: Sequence[Handoff], cursor: str) -> str:
    """Return the address that reports changed rows.

    On the first page of a list that shows the newest handoffs first, the address also reports new handoffs.
    """
    newest = shown[0].pk if shown else first_id_at(timezone.now())
    after = "" if cursor or filters.sort != NEWEST else f"after={newest}"
    return build_url(reverse("dashboard:handoffs_new", args=[who.tenant.slug]), views.link_query, after)


@require_role(Role.VIEWER)
@require_safe
@live.refuse_bad_filters
def new(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer how many matching handoffs arrived after the newest row shown, and how the rows shown have changed."""
    filters = Filters.from_query(request.GET)
    rows = live.newer_rows(request, who)
    address = reverse("dashboard:handoffs", args=[who.tenant.slug])
    links = CellLinks(filters, address)
    parts = [render_live_cells(row, links) for row in rows]
    if request.GET.get("after"):
        number = queries.count_new(who.tenant, filters, _after(request), MOST_NEW)
        href = build_url(address, filters.to_query(), view_query_of(request.GET))
        parts += live.number(request, number, MOST_NEW, href)
    return live.answer(request, who, parts)


def _after(request: HttpRequest) -> UUID:
    try:
        return parse_cursor(request.GET.get("after", ""))
    except FilterError as bad:
        raise FilterError("after", bad.value, "use the id of the newest handoff you have.") from None


def _is_of_a_form(request: HttpRequest) -> bool:
    days = "from" in request.GET or "to" in request.GET
    return days or any(not value.strip() for _, values in request.GET.lists() for value in values)


list_urls = [
    path("handoffs/", handoffs, name="handoffs"),
    path("handoffs/new/", new, name="handoffs_new"),
]

urlpatterns = list_urls

_LONGEST: Final = 80

_QUIET: Final = Neighbours(None, None)


@dataclass(frozen=True, slots=True)
class ListContext:
    """The list that the reader came from: its previous and next handoff, and the way back.

    `query` is the part of the address that names the list, and `back` the address of the list. Both are empty if the
    address names no list. `title` names the list and `description` its filters. `fits` says whether the handoff is in
    the list. `is_trace` is true if `before` and `after` follow the order of a trace, oldest first. Otherwise, they
    follow the order of the list.
    """

    before: Handoff | None
    after: Handoff | None
    title: str = ""
    description: str = ""
    query: str = ""
    back: str = ""
    fits: bool = True
    is_trace: bool = False

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the query as names and values for hidden fields of a form."""
        return parse_qsl(self.query)

    @property
    def head(self) -> str:
        """Return the start of a query for links to handoffs."""
        return f"?{self.query}" if self.query else ""

    @property
    def rest(self) -> str:
        """Return the query as a continuation of another query."""
        return f"&{self.query}" if self.query else ""


def list_context(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext:
    read = _LISTS.get(asked.get("in", ""))
    found = read(asked, who, handoff) if read else None
    return found or _trace(who, handoff)


def clean_query(asked: str) -> str:
    """Normalize a query that a form sent back; return an empty string if the query names no list."""
    query = QueryDict(asked[:2000])
    match query.get("in", ""):
        case "handoffs":
            try:
                return join_query("in=handoffs", Filters.from_query(query).to_query(), view_query_of(query))
            except FilterError:
                return ""
        case "group" if is_number(query.get("group", "")):
            return urlencode({"in": "group", "group": query["group"]})
        case "trace":
            return "in=trace"
        case _:
            return ""


def _in_handoffs(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext | None:
    try:
        filters = Filters.from_query(asked)
    except FilterError:
        return None
    found = handoffs_queries.find_neighbours(who.tenant, filters, handoff.pk)
    description = ", ".join(f"{chip.label.lower()} {readable(chip.value)}" for chip in _active_filters(who, filters))
    return ListContext(
        before=found.newer,
        after=found.older,
        title="Handoffs",
        description=cut(description, _LONGEST),
        query=join_query("in=handoffs", filters.to_query(), view_query_of(asked)),
        back=build_url(reverse("dashboard:handoffs", args=[who.tenant.slug]), filters.to_query(), view_query_of(asked)),
        fits=found.fits,
    )


def _in_group(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext | None:
    number = asked.get("group", "")
    if not is_number(number):
        return None
    try:
        group = group_members.get_group(who.tenant, int(number))
    except FindingGroup.DoesNotExist:
        return None
    found = handoffs_queries.find_neighbours_among(
        who.tenant, group_members.handoffs_of(who.tenant, group.pk), "handoff", handoff.pk
    )
    return ListContext(
        before=found.newer,
        after=found.older,
        title=code_title(group.code),
        query=urlencode({"in": "group", "group": group.pk}),
        back=reverse("dashboard:group", args=[who.tenant.slug, group.pk]),
        fits=found.fits,
    )


def _in_trace(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext | None:
    if not handoff.trace_id:
        return None
    back = build_trace_url(who.tenant.slug, handoff.trace_id)
    return _trace(who, handoff, title=cut(readable(handoff.trace_id), _LONGEST), query="in=trace", back=back)


def _trace(who: TenantMembership, handoff: Handoff, *, title: str = "", query: str = "", back: str = "") -> ListContext:
    filters = Filters(trace=handoff.trace_id)
    found = handoffs_queries.find_neighbours(who.tenant, filters, handoff.pk) if handoff.trace_id else _QUIET
    return ListContext(found.older, found.newer, title=title, query=query, back=back, is_trace=True)


_LISTS: Final[dict[str, Callable[[QueryDict, TenantMembership, Handoff], ListContext | None]]] = {
    "handoffs": _in_handoffs,
    "group": _in_group,
    "trace": _in_trace,
}
