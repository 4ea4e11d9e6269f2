"""What logs say of a trace."""

from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.diagnostics.log_rows import row_of
from handoffaudit.dashboard.partials import render_page
from handoffaudit.diagnostics.logs import search
from handoffaudit.diagnostics.logs.filters import LogQuery

MOST: Final = 50


def search_of(tenant: Tenant, trace_id: str) -> str:
    """The address of all its lines; empty where the tenant has sent no logs."""
    if not search.list_imports(tenant, limit=1)[0]:
        return ""
    return f"{reverse('dashboard:logs', args=[tenant.slug])}?{urlencode({'trace': trace_id})}"


def log_lines(request: HttpRequest, who: Who, trace_id: str) -> HttpResponse:
    """The newest of them, as a part of the trace's page."""
    page = search.search_lines(who.tenant, LogQuery(trace=trace_id), limit=MOST)
    context: dict[str, Any] = {
        "rows": [row_of(who.tenant, found) for found in page.items],
        "more": bool(page.next),
        "logs_url": reverse("dashboard:logs", args=[who.tenant.slug]),
        "search": search_of(who.tenant, trace_id),
    }
    return render_page(request, "dashboard/traces/log_lines.html", context)
