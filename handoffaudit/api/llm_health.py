"""API of LLM health (calls, latency, failures, breakers, waiting checks and budget) and of alerts."""

from collections.abc import Mapping
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import BeforeValidator, Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import LIMIT, NEXT, check_names
from handoffaudit.api.serializers import Answer, Extended, Moment, ProblemOut, answer, at
from handoffaudit.diagnostics.llm_health import PERIODS_OF_CALLS, CallTally, Latency, load_health
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.models import Alert
from handoffaudit.handoffs.periods import choose_period
from handoffaudit.handoffs.transitions import SYSTEM

router = Router()


class PeriodQuery(Schema):
    period: str = Field("24h", description="The period to look back: 1h, 24h or 7d.")


class CallTallyOut(Answer):
    calls: int = Field(description="Calls sent.")
    answered: int = Field(description="Calls answered.")
    failed: int = Field(description="Calls sent and not answered.")
    skipped: int = Field(
        description="Calls not sent: no budget, an open breaker, too expensive, or an identical call had just failed."
    )
    cached: int = Field(description="Calls answered from earlier answers, without cost.")
    cost_usd: float = Field(description="Estimated cost in US dollars.")
    tokens_in: int = Field(description="Tokens sent, without those that the provider read from its cache.")
    tokens_out: int = Field(description="Tokens received.")
    tokens_cached: int = Field(description="Tokens sent that the provider read from its cache.")


class LatencyOut(Answer):
    p50: float = Field(description="Median response time in milliseconds.")
    p95: float = Field(description="95th percentile in milliseconds.")
    p99: float = Field(description="99th percentile in milliseconds.")
    calls: int = Field(description="Number of calls measured.")
    sampled: bool = Field(description="Whether only the newest calls were measured.")


class ModelLineOut(CallTallyOut):
    name: str = Field(description="The name of the use or of the LLM.")
    latency_ms: LatencyOut | None = Field(
        validation_alias="latency", description="Response times, also of failed calls; null if no call was sent."
    )


class FailureOut(Answer):
    reason: str = Field(description="The reason for the failures, in one word.")
    http_status: int | None = Field(
        validation_alias="status", description="The status from the provider; null if none was received."
    )
    number: int = Field(description="Number of failures.")
    last_at: Moment = Field(description="When the last failure occurred.")
    detail: str = Field(description="The error message of the last failure.")
    cure: str = Field(description="The remedy.")


class BreakerOut(Answer):
    model: str = Field(description="The LLM.")
    state: str = Field(description="closed, open or probing; shared by all tenants.")
    failures: int = Field(description="Consecutive failures.")
    reason: str = Field(description="The reason for the last failure; empty without failures.")
    open_until: Moment | None = Field(description="When the next call is tried; null while closed.")


class ChecksWaitingOut(Answer):
    first_checks: int = Field(description="Handoffs that wait for their first LLM check; counted up to 10,000.")
    rechecks: int = Field(
        description="Unverified handoffs (accepted, approved or held) that are queued for a recheck; counted up to "
        "10,000."
    )
    oldest_since: Moment | None = Field(
        description="Since when the oldest handoff has been waiting; null if none waits."
    )
    unverified: int = Field(
        description="Handoffs of the period that were accepted or approved without the LLM check and not checked "
        "since; counted up to 10,000."
    )
    flagged: int = Field(
        description="Accepted or approved handoffs of the period that the LLM would have rejected; counted up to "
        "10,000."
    )


class BudgetOut(Answer):
    spent_usd: float = Field(description="Spent today (UTC) in US dollars, including what running calls have reserved.")
    daily_usd: float = Field(description="Budget per day, in US dollars.")


class StatusOut(Answer):
    standing: str = Field(description="well, no_key, down, no_budget, no_worker or failing.")
    told: str = Field(validation_alias="message", description="The state in one sentence, with what to do.")


class StretchOut(Answer):
    start: Moment = Field(validation_alias="since", description="Start of the time bucket.")
    answered: int = Field(validation_alias=at("value.answered"), description="Calls answered.")
    cached: int = Field(
        validation_alias=at("value.cached"), description="Calls answered from earlier answers, without cost."
    )
    skipped: int = Field(validation_alias=at("value.skipped"), description="Calls not sent.")
    failed: int = Field(validation_alias=at("value.failed"), description="Calls sent and not answered.")
    cost_usd: float = Field(validation_alias=at("value.cost_usd"), description="Estimated cost in US dollars.")


class OpenAlertOut(Answer):
    kind: str = Field(description="The kind of alert.")
    number: int = Field(description="The number of handoffs or events counted.")
    opened_at: Moment = Field(description="When the alert opened.")
    last_at: Moment = Field(description="When the condition was last seen.")


class ModelHealthOut(CallTallyOut):
    period: str = Field(validation_alias=at("period.name"), description="The requested period.")
    since: Moment = Field(description="Start of the period.")
    until: Moment = Field(description="End of the period: now.")
    provider: str = Field(description="The LLM provider.")
    status: StatusOut = Field(description="The current state.")
    latency_ms: LatencyOut | None = Field(
        validation_alias=at("latencies.overall"),
        description="Response times, also of failed calls; null if no call was sent.",
    )
    by_use: list[ModelLineOut] = Field(description="Calls by use.")
    by_model: list[ModelLineOut] = Field(description="Calls by LLM.")
    failures: list[FailureOut] = Field(
        validation_alias=at("counted.failures"),
        description="Failures by reason and HTTP status, most frequent first; at most 20.",
    )
    breakers: list[BreakerOut] = Field(description="One breaker per LLM.")
    waiting: ChecksWaitingOut = Field(description="Checks that wait for the LLM.")
    budget: BudgetOut = Field(description="The budget of the day.")
    over_time: list[StretchOut] = Field(
        validation_alias=at("counted.over_time"), description="Equal time buckets, oldest first."
    )
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
    period, bad = choose_period(query.period, PERIODS_OF_CALLS)
    if bad:
        raise bad
    tenant = caller(request).tenant
    health = load_health(tenant, period)
    counted, latencies = health.counted, health.latencies
    overall = {name: getattr(counted.overall, name) for name in CallTallyOut.model_fields}
    shown = Extended(
        health,
        **overall,
        by_use=_lines(counted.by_use, latencies.by_use),
        by_model=_lines(counted.by_model, latencies.by_model),
        alerts=alerts.list_open(tenant),
    )
    return answer(ModelHealthOut, shown)


def _lines(tallies: Mapping[str, CallTally], latencies: Mapping[str, Latency]) -> list[Extended]:
    return [Extended(tally, name=name, latency=latencies.get(name)) for name, tally in tallies.items()]


alerts_router = Router()

MOST_DIGITS = 18


class AlertsQuery(Schema):
    open: bool | None = Field(None, description="true: only active alerts. false: only resolved alerts.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)
    cursor: str = Field("", description="The `next` of the previous page.")


def _hide_system(name: str) -> str | None:
    return None if name in ("", SYSTEM.name) else name


def _handoffs_address(query: str) -> str | None:
    return f"/api/v1/handoffs?{query}" if query else None


class AlertOut(Answer):
    id: int = Field(description="The alert's id.")
    kind: str = Field(description="The kind of alert; at most one alert of a kind is active.")
    level: str = Field(description="alert or warning.")
    text: str = Field(description="The reason for the alert, in one line.")
    meaning: str = Field(validation_alias=at("about.meaning"), description="The meaning of the alert, and the remedy.")
    value: float = Field(
        description="The last value that the alert rule measured, in the rule's unit; for alerts of events, `number`."
    )
    number: int = Field(description="The number of handoffs or events counted.")
    opened_at: Moment = Field(description="When the alert opened.")
    last_at: Moment = Field(description="When the condition was last seen.")
    told_at: Moment | None = Field(
        validation_alias="notified_at",
        description="When webhooks were last notified that the alert is active; null if never.",
    )
    closed_at: Moment | None = Field(
        validation_alias="acknowledged_at", description="When the alert was resolved; null while active."
    )
    closed_by: Annotated[str | None, BeforeValidator(_hide_system)] = Field(
        validation_alias="acknowledged_by",
        description="Who acknowledged the alert; null while active, or if it resolved by itself.",
    )
    handoffs: Annotated[str | None, BeforeValidator(_handoffs_address)] = Field(
        validation_alias=at("about.query"),
        description="Address of the list of affected handoffs; null if the alert has no such list.",
    )


class AlertsOut(Answer):
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
            raise FilterError("cursor", query.cursor[:40], "use the unchanged value of `next` from the previous page.")
        before = int(query.cursor)
    found = alerts.list_alerts(tenant, is_open=query.open, before=before, limit=query.limit + 1)
    items = found[: query.limit]
    following = str(items[-1].pk) if len(found) > query.limit else None
    return answer(AlertsOut, {"items": [_describe(alert) for alert in items], "next": following})


def _describe(alert: Alert) -> Extended:
    about = alerts.describe(alert)
    return Extended(alert, about=about, text=about.title(alert), value=alerts.alert_value(alert))
