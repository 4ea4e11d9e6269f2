"""API of LLM health: calls, latency, failures, breakers, waiting checks and budget."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.diagnostics.llm_health import CallTally, Failure, Latency, LLMHealth, TimeBucket, load_health
from handoffaudit.diagnostics.llm_status import BreakerStatus
from handoffaudit.diagnostics.periods import PERIODS
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import Alert

router = Router()


class PeriodQuery(Schema):
    period: str = Field("24h", description="How far to look back: 1h, 24h or 7d.")


class CallTallyOut(Schema):
    calls: int = Field(description="Questions that were sent.")
    answered: int = Field(description="Of these, answered.")
    failed: int = Field(description="Sent, and not answered.")
    skipped: int = Field(description="Not sent: no budget, an open breaker, too dear, or an equal one had just failed.")
    cached: int = Field(description="Answered before, for nothing.")
    cost_usd: float = Field(description="In US dollars, estimated.")
    tokens_in: int = Field(description="Tokens that were sent.")
    tokens_out: int = Field(description="Tokens that came back.")
    tokens_cached: int = Field(description="Of those sent, tokens read from the provider's cache.")


class LatencyOut(Schema):
    p50: float = Field(description="Half of the calls took at most so many milliseconds.")
    p95: float = Field(description="95 of 100 did.")
    p99: float = Field(description="99 of 100 did.")
    calls: int = Field(description="Of how many calls.")
    sampled: bool = Field(description="There were more calls: these are the newest.")


class ModelLineOut(CallTallyOut):
    name: str = Field(description="The use, or the model.")
    latency_ms: LatencyOut | None = Field(description="How long calls took; null where none was answered.")


class FailureOut(Schema):
    reason: str = Field(description="Why calls failed, in a word.")
    http_status: int | None = Field(description="What the provider answered; null where nothing came.")
    number: int = Field(description="How many.")
    last_at: str = Field(description="When the last did.")
    detail: str = Field(description="What was said.")
    cure: str = Field(description="What to do.")


class BreakerOut(Schema):
    model: str = Field(description="The model.")
    state: str = Field(description="closed, open or probing; for all tenants.")
    failures: int = Field(description="In a row.")
    reason: str = Field(description="Why it opened; empty where it is closed.")
    open_until: str | None = Field(description="When the next call is tried.")


class ChecksWaitingOut(Schema):
    first_checks: int = Field(description="Handoffs that wait for their first check.")
    rechecks: int = Field(description="Let through unverified, and still to be checked.")
    oldest_since: str | None = Field(description="Since when the oldest waits.")
    unverified: int = Field(description="Let through in the period without the model's check; counted up to 10,000.")
    flagged: int = Field(description="Let through in the period, and the model would have rejected them.")


class BudgetOut(Schema):
    spent_usd: float = Field(description="Spent today (UTC), in US dollars.")
    daily_usd: float = Field(description="What may be spent in a day, in US dollars.")


class StatusOut(Schema):
    standing: str = Field(description="well, no_key, down, no_budget, no_worker or failing.")
    told: str = Field(description="The same in a sentence, with what to do.")


class StretchOut(Schema):
    start: str = Field(description="When it begins.")
    answered: int = Field(description="Calls that were answered.")
    cached: int = Field(description="Answered before, for nothing.")
    skipped: int = Field(description="Not sent.")
    failed: int = Field(description="Sent, and not answered.")
    cost_usd: float = Field(description="In US dollars, estimated.")


class OpenAlertOut(Schema):
    kind: str = Field(description="What it is about.")
    number: int = Field(description="How many it counts.")
    opened_at: str = Field(description="When it began.")
    last_at: str = Field(description="When it was seen last.")


class ModelHealthOut(CallTallyOut):
    period: str = Field(description="The period as it was asked for.")
    since: str = Field(description="Its beginning.")
    until: str = Field(description="Its end: now.")
    provider: str = Field(description="Whose models are asked.")
    status: StatusOut = Field(description="How it stands now.")
    latency_ms: LatencyOut | None = Field(description="How long calls took; null where none was answered.")
    by_use: list[ModelLineOut] = Field(description="By what was asked for.")
    by_model: list[ModelLineOut] = Field(description="By model.")
    failures: list[FailureOut] = Field(description="By reason, the most frequent first.")
    breakers: list[BreakerOut] = Field(description="One for each model.")
    waiting: ChecksWaitingOut = Field(description="What waits for the model.")
    budget: BudgetOut = Field(description="The day's budget.")
    over_time: list[StretchOut] = Field(description="In equal stretches, the oldest first.")
    alerts: list[OpenAlertOut] = Field(description="Those that stand.")


@router.get(
    "/diagnostics/model",
    auth=KeyWith(Scope.READ),
    operation_id="get_model_health",
    summary="How the language model does",
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
