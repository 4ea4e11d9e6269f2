"""API of LLM health (calls, latency, failures, breakers, waiting checks and budget) and of alerts."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import LIMIT, NEXT, check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.diagnostics.llm_health import CallTally, Failure, Latency, LLMHealth, TimeBucket, load_health
from handoffaudit.diagnostics.llm_status import BreakerStatus
from handoffaudit.diagnostics.periods import PERIODS
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import Alert
from handoffaudit.handoffs.transitions import SYSTEM

router = Router()


class PeriodQuery(Schema):
    period: str = Field("24h", description="The period to look back: 1h, 24h or 7d.")


class CallTallyOut(Schema):
    calls: int = Field(description="Calls sent.")
    answered: int = Field(description="Calls answered.")
    failed: int = Field(description="Calls sent and not answered.")
    skipped: int = Field(
        description="Calls not sent: no budget, an open breaker, too expensive, or an identical call had just failed."
    )
    cached: int = Field(description="Calls answered from earlier answers, without cost.")
    cost_usd: float = Field(description="Estimated cost in US dollars.")
    tokens_in: int = Field(description="Tokens sent.")
    tokens_out: int = Field(description="Tokens received.")
    tokens_cached: int = Field(description="Tokens sent that the provider read from its cache.")


class LatencyOut(Schema):
    p50: float = Field(description="Median response time in milliseconds.")
    p95: float = Field(description="95th percentile in milliseconds.")
    p99: float = Field(description="99th percentile in milliseconds.")
    calls: int = Field(description="Number of calls measured.")
    sampled: bool = Field(description="Only the newest calls were measured.")


class ModelLineOut(CallTallyOut):
    name: str = Field(description="The use, or the LLM.")
    latency_ms: LatencyOut | None = Field(description="Response times; null if no call was answered.")


class FailureOut(Schema):
    reason: str = Field(description="The reason for the failures, in one word.")
    http_status: int | None = Field(description="The status from the provider; null if none was received.")
    number: int = Field(description="Number of failures.")
    last_at: str = Field(description="When the last failure occurred.")
    detail: str = Field(description="The error message.")
    cure: str = Field(description="What to do.")


class BreakerOut(Schema):
    model: str = Field(description="The LLM.")
    state: str = Field(description="closed, open or probing; shared by all tenants.")
    failures: int = Field(description="Consecutive failures.")
    reason: str = Field(description="Why the breaker opened; empty if closed.")
    open_until: str | None = Field(description="When the next call is tried.")


class ChecksWaitingOut(Schema):
    first_checks: int = Field(description="Handoffs that wait for their first LLM check.")
    rechecks: int = Field(description="Handoffs accepted unverified that still have to be checked.")
    oldest_since: str | None = Field(description="Since when the oldest handoff has been waiting.")
    unverified: int = Field(description="Handoffs accepted in the period without the LLM check; counted up to 10,000.")
    flagged: int = Field(description="Handoffs accepted in the period that the LLM would have rejected.")


class BudgetOut(Schema):
    spent_usd: float = Field(description="Spent today (UTC), in US dollars.")
    daily_usd: float = Field(description="Budget per day, in US dollars.")


class StatusOut(Schema):
    standing: str = Field(description="well, no_key, down, no_budget, no_worker or failing.")
    told: str = Field(description="The state in one sentence, with what to do.")


class StretchOut(Schema):
    start: str = Field(description="Start of the time bucket.")
    answered: int = Field(description="Calls answered.")
    cached: int = Field(description="Calls answered from earlier answers, without cost.")
    skipped: int = Field(description="Calls not sent.")
    failed: int = Field(description="Calls sent and not answered.")
    cost_usd: float = Field(description="Estimated cost in US dollars.")


class OpenAlertOut(Schema):
    kind: str = Field(description="The kind of alert.")
    number: int = Field(description="The number of failures counted.")
    opened_at: str = Field(description="When the alert opened.")
    last_at: str = Field(description="When the condition was last seen.")


class ModelHealthOut(CallTallyOut):
    period: str = Field(description="The requested period.")
    since: str = Field(description="Start of the period.")
    until: str = Field(description="End of the period: now.")
    provider: str = Field(description="The LLM provider.")
    status: StatusOut = Field(description="The current state.")
    latency_ms: LatencyOut | None = Field(description="Response times; null if no call was answered.")
    by_use: list[ModelLineOut] = Field(description="Calls by use.")
    by_model: list[ModelLineOut] = Field(description="Calls by LLM.")
    failures: list[FailureOut] = Field(description="Failures by reason, most frequent first.")
    breakers: list[BreakerOut] = Field(description="One breaker per LLM.")
    waiting: ChecksWaitingOut = Field(description="Checks that wait for the LLM.")
    budget: BudgetOut = Field(description="The budget of the day.")
    over_time: list[StretchOut] = Field(description="Equal time buckets, oldest first.")
    alerts: list[OpenAlertOut] = Field(description="The active alerts.")


@router.get(
    "/diagnostics/model",
    auth=KeyWith(Scope.READ),
    operation_id="get_model_health",
    summary="Get the health of the LLM",
    response={200: ModelHealthOut, 400: ProblemOut},
)
def get_model_health(request: HttpRequest, query: Query[PeriodQuery]) -> HttpResponse:
    check_names(request, PeriodQuery)
    period = PERIODS.get(query.period)
    if period is None:
        raise FilterError("period", query.period[:40], f"use one of {', '.join(PERIODS)}.")
    tenant = caller(request).tenant
    return serializers.json_response(
        _health(load_health(tenant, period)) | {"alerts": [_alert(a) for a in alerts.list_open(tenant)]}
    )


def _health(health: LLMHealth) -> dict[str, Any]:
    counted, latencies, waiting = health.counted, health.latencies, health.waiting
    return {
        "period": health.period.name,
        "since": serializers.moment(health.since),
        "until": serializers.moment(health.until),
        "provider": health.provider,
        "status": {"standing": health.status.standing.value, "told": health.status.told},
        **_tally(counted.overall),
        "latency_ms": _latency(latencies.overall),
        "by_use": [_line(use, tally, latencies.by_use.get(use)) for use, tally in counted.by_use.items()],
        "by_model": [_line(name, tally, latencies.by_model.get(name)) for name, tally in counted.by_model.items()],
        "failures": [_failure(failure) for failure in counted.failures],
        "breakers": [_breaker(breaker) for breaker in health.breakers],
        "waiting": {
            "first_checks": waiting.first_checks,
            "rechecks": waiting.rechecks,
            "oldest_since": serializers.moment(waiting.oldest_since),
            "unverified": waiting.unverified,
            "flagged": waiting.flagged,
        },
        "budget": {"spent_usd": health.budget.spent_usd, "daily_usd": health.budget.daily_usd},
        "over_time": [_stretch(stretch) for stretch in counted.over_time],
    }


def _tally(tally: CallTally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in CallTallyOut.model_fields}


def _latency(latency: Latency | None) -> dict[str, Any] | None:
    return {name: getattr(latency, name) for name in LatencyOut.model_fields} if latency else None


def _line(name: str, tally: CallTally, latency: Latency | None) -> dict[str, Any]:
    return {"name": name, **_tally(tally), "latency_ms": _latency(latency)}


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "reason": failure.reason,
        "http_status": failure.status,
        "number": failure.number,
        "last_at": serializers.moment(failure.last_at),
        "detail": failure.detail,
        "cure": failure.cure,
    }


def _breaker(breaker: BreakerStatus) -> dict[str, Any]:
    return {
        "model": breaker.model,
        "state": breaker.state.value,
        "failures": breaker.failures,
        "reason": breaker.reason,
        "open_until": serializers.moment(breaker.open_until),
    }


def _stretch(stretch: TimeBucket) -> dict[str, Any]:
    tally = stretch.tally
    return {
        "start": serializers.moment(stretch.start),
        "answered": tally.answered,
        "cached": tally.cached,
        "skipped": tally.skipped,
        "failed": tally.failed,
        "cost_usd": tally.cost_usd,
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "kind": alert.kind,
        "number": alert.number,
        "opened_at": serializers.moment(alert.opened_at),
        "last_at": serializers.moment(alert.last_at),
    }


alerts_router = Router()

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


@alerts_router.get(
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
    return serializers.json_response(
        {"items": [_listed_alert(alert, tenant.slug) for alert in items], "next": following}
    )


def _listed_alert(alert: Alert, tenant_slug: str) -> dict[str, Any]:
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
