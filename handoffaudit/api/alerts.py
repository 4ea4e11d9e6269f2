"""API of alerts, active and resolved."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import LIMIT, NEXT, check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import Alert
from handoffaudit.handoffs.transitions import SYSTEM

router = Router()

MOST_DIGITS = 18


class AlertsQuery(Schema):
    open: bool | None = Field(None, description="true: only active alerts. false: only resolved alerts.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)
    cursor: str = Field("", description="The `next` of the previous page.")


class AlertOut(Schema):
    id: int = Field(description="The alert's id.")
    kind: str = Field(description="The kind of alert; at most one alert of a kind is active.")
    level: str = Field(description="alert or warning.")
    text: str = Field(description="What happened, in one line.")
    meaning: str = Field(description="What it means and what to do.")
    value: float = Field(description="The last measured value in the unit of the alert rule; otherwise the count.")
    number: int = Field(description="The number of handoffs or events counted.")
    opened_at: str = Field(description="When the alert opened.")
    last_at: str = Field(description="When the condition was last seen.")
    told_at: str | None = Field(description="When webhooks were last notified that the alert is active.")
    closed_at: str | None = Field(description="When the alert was resolved; null while active.")
    closed_by: str | None = Field(description="Who acknowledged the alert; null if it resolved by itself.")
    handoffs: str | None = Field(description="Address of the handoffs that the alert is about.")


class AlertsOut(Schema):
    items: list[AlertOut] = Field(description="The alerts, newest first.")
    next: str | None = Field(description=NEXT)


@router.get(
    "/alerts",
    auth=KeyWith(Scope.READ),
    summary="List alerts, newest first",
    response={200: AlertsOut, 400: ProblemOut},
    # Clients generated from openapi.json call the operation by this name.
    operation_id="handoffaudit_api_diagnostics_alerts_list_alerts",
    url_name="list_alerts",
)
def list_alerts(request: HttpRequest, query: Query[AlertsQuery]) -> HttpResponse:
    """List active and resolved alerts, the newest first; at most one alert of each kind is active."""
    check_names(request, AlertsQuery)
    tenant, before = caller(request).tenant, None
    if query.cursor:
        if not (query.cursor.isascii() and query.cursor.isdigit() and len(query.cursor) <= MOST_DIGITS):
            raise FilterError("cursor", query.cursor[:40], "use the value of `next` from the page before, as it was.")
        before = int(query.cursor)
    found = alerts.list_alerts(tenant, is_open=query.open, before=before, limit=query.limit + 1)
    items = found[: query.limit]
    following = str(items[-1].pk) if len(found) > query.limit else None
    return serializers.json_response({"items": [_alert(alert, tenant.slug) for alert in items], "next": following})


def _alert(alert: Alert, tenant_slug: str) -> dict[str, Any]:
    about = alerts.describe(alert)
    return {
        "id": alert.pk,
        "kind": alert.kind,
        "level": alert.level,
        "text": about.title(alert),
        "meaning": about.meaning,
        "value": alerts.alert_value(alert),
        "number": alert.number,
        "opened_at": serializers.moment(alert.opened_at),
        "last_at": serializers.moment(alert.last_at),
        "told_at": serializers.moment(alert.notified_at),
        "closed_at": serializers.moment(alert.acknowledged_at),
        "closed_by": None if alert.acknowledged_by in ("", SYSTEM.name) else alert.acknowledged_by,
        "handoffs": f"/api/v1/handoffs?{about.query}" if about.query else None,
    }
