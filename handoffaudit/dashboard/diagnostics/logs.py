"""The page of log lines: search, filters and the count of new lines."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.diagnostics import uploads
from handoffaudit.dashboard.diagnostics.log_lines import EVENTS, row_of
from handoffaudit.dashboard.saved_views.tabs import build_url, join_query, redirect_to_default, tabs_of
from handoffaudit.diagnostics.logs import search
from handoffaudit.diagnostics.logs.filters import LogQuery
from handoffaudit.filter_fields import FilterError
from handoffaudit.validation.times import utc_text

TEMPLATE = "dashboard/diagnostics/logs/page.html"

LINES = 100

MOST_NEW = 100


@require_role(Role.VIEWER)
@require_safe
def logs(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if opening := redirect_to_default(request, who, "logs"):
        return opening
    address = reverse("dashboard:logs", args=[who.tenant.slug])
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "form": SimpleLazyObject(lambda: LogQuery.form(request.GET, event=EVENTS)),
        "logs_url": address,
        "cursor": cursor,
    }
    looked_at = timezone.now()
    try:
        filters = LogQuery.from_query(request.GET)
        page = search.search_lines(who.tenant, filters, cursor=cursor, limit=LINES)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("lines",), status=400)
    query = filters.to_query()
    views = tabs_of(request, who, "logs", query)
    clean = views.href(query)
    if not is_htmx(request) and any(not str(value).strip() for value in request.GET.values()):
        # A plain form also sends its empty fields; the address that people save and share has none.
        return HttpResponseRedirect(clean)
    chips = [replace(chip, href=views.href(chip.without)) for chip in filters.active()]
    if not page.items and not chips and not cursor and not search.list_imports(who.tenant, limit=1)[0]:
        context |= {"first": True, "server": _server(request), **uploads.form_context()}
        return render_page(request, TEMPLATE, context, partials=("lines",))
    context |= {
        "rows": [row_of(who.tenant, found) for found in page.items],
        "page": page,
        "is_short": bool(page.next) and len(page.items) < LINES,
        "chips": chips,
        "query": query,
        "views": views,
        "newest": clean if cursor else "",
        "next": views.href(join_query(query, f"cursor={page.next}")) if page.next else "",
        "live": "" if cursor else _live_address(who, query, looked_at, page.reached if page.next else None),
    }
    response = render_page(request, TEMPLATE, context, partials=("lines",))
    if is_htmx(request):
        response["HX-Push-Url"] = clean
    return response


def _live_address(who: TenantMembership, query: str, looked_at: datetime, reached: datetime | None) -> str:
    shown = {"after": utc_text(looked_at)} | ({"shown_from": utc_text(reached)} if reached else {})
    return build_url(reverse("dashboard:logs_new", args=[who.tenant.slug]), query, urlencode(shown))


@require_role(Role.VIEWER)
@require_safe
def new(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer how many new lines match the filters; the answer is empty if there are none."""
    try:
        filters = LogQuery.from_query(request.GET)
        after = _moment("after", request.GET.get("after", ""))
        shown_from = request.GET.get("shown_from")
        bounds = [filters.since, _moment("shown_from", shown_from) if shown_from else None]
    except FilterError as bad:
        return live.invalid_filter(bad)
    query = replace(filters, since=max((moment for moment in bounds if moment), default=None))
    number = search.count_new(who.tenant, query, after, MOST_NEW)
    href = build_url(reverse("dashboard:logs", args=[who.tenant.slug]), filters.to_query())
    return live.answer(request, who, live.number(request, number, MOST_NEW, href, "line"))


def _moment(name: str, text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise FilterError(name, text[:40], "use a moment like 2026-02-15T09:30:00Z.")
    return moment


def _server(request: HttpRequest) -> str:
    return settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")


urlpatterns = [
    path("diagnostics/logs/", logs, name="logs"),
    path("diagnostics/logs/new/", new, name="logs_new"),
    *uploads.urlpatterns,
]
