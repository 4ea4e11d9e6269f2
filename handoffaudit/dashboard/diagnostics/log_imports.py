"""Logs sent in by the browser: the form, what became of each, and which of its lines could not be read."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.diagnostics.import_rows import BadRow, ShownImport
from handoffaudit.dashboard.diagnostics.receiving import NotReceived, most_bytes, receiving, sent_logs
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.diagnostics.logs import search, upload
from handoffaudit.diagnostics.models import LogBlock, LogImport
from handoffaudit.handoffs.filters import FilterError

TEMPLATE = "dashboard/diagnostics/logs/import_page.html"
IMPORTED = "dashboard/diagnostics/logs/imported.html"
REFUSED = "dashboard/diagnostics/logs/refused.html"
IMPORTS = 50
MOST_BAD = 100


@page_for(Role.VIEWER)
@require_safe
def imports_page(request: HttpRequest, who: Who) -> HttpResponse:
    return _page(request, who)


def _page(request: HttpRequest, who: Who, refused: NotReceived | None = None) -> HttpResponse:
    cursor = "" if refused else request.GET.get("cursor", "")
    address = reverse("dashboard:log_import", args=[who.tenant.slug])
    try:
        rows, following = search.list_imports(who.tenant, cursor, IMPORTS)
    except FilterError as bad:
        return render_page(request, TEMPLATE, {"bad": bad, **form_context()}, status=HTTPStatus.BAD_REQUEST)
    unstored = upload.count_unstored_bytes(rows)
    shown = [ShownImport(row, unstored.get(row.pk, 0)) for row in rows]
    context: dict[str, Any] = {
        "imports": shown,
        "under_way": any(one.under_way for one in shown),
        "cursor": cursor,
        "newest": address if cursor else "",
        "next": f"{address}?cursor={following}" if following else "",
        "refused": refused,
        **form_context(),
    }
    status = refused.status if refused else HTTPStatus.OK
    return render_page(request, TEMPLATE, context, partials=("imports",), status=status)


def form_context() -> dict[str, Any]:
    """What the form says of its limit."""
    return {"limit": settings.MAX_LOG_BYTES, "limit_words": most_bytes()}


# The token is checked once it is known who sends: to look for it in a form, all of it is read.
@csrf_exempt
@page_for(Role.REVIEWER)
@require_POST
def send(request: HttpRequest, who: Who) -> HttpResponse:
    """Stores the logs of a form; to the page of the import, or of all where it was several."""
    try:
        with receiving(request):
            return _take(request, who)
    except NotReceived as refused:
        if is_htmx(request):
            return render(request, REFUSED, {"refused": refused}, status=refused.status)
        return _page(request, who, refused)


@csrf_protect
def _take(request: HttpRequest, who: Who) -> HttpResponse:
    stored = [
        upload.receive_log(who.tenant, log.source, who.person.username, log.pieces, keep_broken=True)
        for log in sent_logs(request)
    ]
    name, more = ("log_imported", [stored[0].pk]) if len(stored) == 1 else ("log_import", [])
    address = reverse(f"dashboard:{name}", args=[who.tenant.slug, *more])
    return HttpResponseClientRedirect(address) if is_htmx(request) else redirect(address)


@page_for(Role.VIEWER)
@require_safe
def imported(request: HttpRequest, who: Who, log_import: UUID) -> HttpResponse:
    """How far it is read, then what it brought and which of its lines are bad; those in pages, from `after` on."""
    row = LogImport.objects.filter(tenant=who.tenant, pk=log_import).first()
    if row is None:
        raise Http404("There is no such import.")
    one = ShownImport(row, upload.count_unstored_bytes([row]).get(row.pk, 0))
    context: dict[str, Any] = {
        "one": one,
        "logs_url": reverse("dashboard:logs", args=[who.tenant.slug]),
        "lines_removed": LogBlock.objects.filter(imported=row).exclude(removed_at=None).exists(),
    }
    try:
        if row.bad and not one.under_way:
            page = search.list_bad_lines(row, cursor=request.GET.get("after", ""), limit=MOST_BAD)
            context |= {"bad_lines": [BadRow.of(found) for found in page.items], "next_bad": page.next}
    except FilterError as bad:
        return render_page(request, IMPORTED, context | {"bad": bad}, status=HTTPStatus.BAD_REQUEST)
    return render_page(request, IMPORTED, context, partials=("reading",))


urlpatterns = [
    path("diagnostics/logs/import/", imports_page, name="log_import"),
    path("diagnostics/logs/import/send/", send, name="log_send"),
    path("diagnostics/logs/import/<uuid:log_import>/", imported, name="log_imported"),
]
