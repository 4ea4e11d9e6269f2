"""What logs say around a handoff: lines of its trace, and of its agents about its time."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.diagnostics.log_rows import AROUND, Link, row_of
from handoffaudit.dashboard.handoff.parts import handoff_or_404
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.readable import readable
from handoffaudit.diagnostics.logs import search
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.times import utc_text

MINUTES = int(AROUND.total_seconds()) // 60
LINES = 50


@require_safe
@page_for(Role.VIEWER)
def handoff_logs(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """The lines themselves: for htmx a part of the handoff's page, else a page of its own."""
    handoff = handoff_or_404(who, pk)
    page = search.lines_around(who.tenant, handoff.trace_id, _agents(handoff), _at(handoff), MINUTES, LINES)
    context: dict[str, Any] = {
        "handoff": handoff,
        "rows": [row_of(who.tenant, found) for found in page.items],
        "more": page.crowded,
        "minutes": MINUTES,
        "logs_url": reverse("dashboard:logs", args=[who.tenant.slug]),
        "searches": list(_searches(handoff)),
    }
    return render_page(request, "dashboard/handoff/logs_page.html", context, partials=("logs",))


def logs_of(handoff: Handoff) -> dict[str, Any]:
    """What the handoff's page needs to ask for them; empty where the tenant has sent no logs."""
    if not search.list_imports(handoff.tenant, limit=1)[0]:
        return {}
    return {"searches": list(_searches(handoff)), "minutes": MINUTES}


def _at(handoff: Handoff) -> datetime:
    return handoff.sender_timestamp or handoff.received_at


def _agents(handoff: Handoff) -> list[str]:
    return [agent for agent in (handoff.source_agent_id, handoff.target_agent_id) if agent]


def _searches(handoff: Handoff) -> Iterator[Link]:
    """The same lines in the search of logs."""
    address = reverse("dashboard:logs", args=[handoff.tenant.slug])
    if handoff.trace_id:
        yield Link("All of its trace", f"{address}?{urlencode({'trace': handoff.trace_id})}")
    around = {"since": utc_text(_at(handoff) - AROUND), "until": utc_text(_at(handoff) + AROUND)}
    for agent in dict.fromkeys(_agents(handoff)):
        yield Link(f"{readable(agent)} around its time", f"{address}?{urlencode({'agent': agent} | around)}")


urlpatterns = [path("handoffs/<uuid:pk>/logs/", handoff_logs, name="handoff_logs")]
