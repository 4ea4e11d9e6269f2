"""Diagnostics, Alerts: those that stand, and those that are over."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import alerts as shown
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.alerts import Told
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.policies.drafts import number
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.alerts import format_span
from handoffaudit.handoffs.transitions import SYSTEM

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Past:
    """An alert that is over. `closed_by` is empty where it closed by itself."""

    told: Told
    lasted: str
    closed_by: str


@page_for(Role.VIEWER)
@require_safe
def alerts_page(request: HttpRequest, who: Who) -> HttpResponse:
    before = number(request.GET.get("before", ""))
    found = alerts.list_alerts(who.tenant, is_open=False, before=before, limit=PAGE_SIZE + 1)
    address = reverse("dashboard:alerts", args=[who.tenant.slug])
    context: dict[str, Any] = {
        "alerts": shown.told(who.tenant),
        "past": [_past(shown.of(who.tenant, alert)) for alert in found[:PAGE_SIZE]],
        "newest": address if before is not None else "",
        "next": f"{address}?before={found[PAGE_SIZE - 1].pk}" if len(found) > PAGE_SIZE else "",
    }
    return render_page(request, "dashboard/diagnostics/alerts.html", context)


def _past(told: Told) -> Past:
    alert = told.alert
    ended = alert.acknowledged_at or alert.last_at
    by = "" if alert.acknowledged_by == SYSTEM.name else alert.acknowledged_by
    return Past(told, format_span((ended - alert.opened_at).total_seconds()), by)


urlpatterns = [path("diagnostics/alerts/", alerts_page, name="alerts")]
