"""LLM health of a tenant in a period: calls, latencies, failures with their fix, and the current status."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Max, Q, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.status import (
    BreakerStatus,
    Budget,
    Status,
    Waiting,
    count_waiting,
    list_breakers,
    load_budget,
    load_status,
)
from handoffaudit.handoffs.llm.client import OK
from handoffaudit.handoffs.models import ModelCall
from handoffaudit.handoffs.periods import Period, TimeBucket, TimeScale
from handoffaudit.handoffs.rates import Share
from handoffaudit.validation.prompts.question import Reason

# SQLite has no percentile functions, so percentiles are computed here, from at most this many of the newest calls.
SAMPLE = 20_000

SHARES = (0.5, 0.95, 0.99)

# The periods that the page and the API offer.
PERIODS_OF_CALLS = ("1h", "24h", "7d")


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of the latency of `calls` calls, in milliseconds. The latency of a call includes its retries.

    `sampled` means that only the newest calls were measured.
    """

    p50: float
    p95: float
    p99: float
    calls: int
    sampled: bool = False


@dataclass(frozen=True, slots=True)
class Latencies:
    overall: Latency | None
    by_use: dict[str, Latency]
    by_model: dict[str, Latency]


def measure_latencies(tenant: Tenant, since: datetime, until: datetime) -> Latencies:
    """Return the latencies of all calls that were sent, including failed calls."""
    return (
        _measure_all(tenant, since, until)
        if connection.vendor == "postgresql"
        else _measure_sample(tenant, since, until)
    )


def _measure_all(tenant: Tenant, since: datetime, until: datetime) -> Latencies:
    table = ModelCall._meta.db_table  # noqa: SLF001 -- Django's documented API
    # One expression computes all percentiles, because separate expressions would each sort the rows.
    percentiles = "percentile_disc(%s::float8[]) WITHIN GROUP (ORDER BY latency_ms)"
    sql = f"""
        SELECT use, model, {percentiles}, COUNT(*) FROM "{table}"
        WHERE tenant_id = %s AND at >= %s AND at < %s AND tries > 0 GROUP BY GROUPING SETS ((), (use), (model))
    """  # noqa: S608
    found = Latencies(None, {}, {})
    with connection.cursor() as cursor:
        cursor.execute(sql, [list(SHARES), tenant.pk, since, until])
        for use, model, shares, calls in cursor.fetchall():
            p50, p95, p99 = shares or (0.0, 0.0, 0.0)
            latency = Latency(p50, p95, p99, calls) if calls else None
            if use is not None and latency:
                found.by_use[use] = latency
            elif model is not None and latency:
                found.by_model[model] = latency
            else:
                found = Latencies(latency, found.by_use, found.by_model)
    return found


def _measure_sample(tenant: Tenant, since: datetime, until: datetime) -> Latencies:
    rows = ModelCall.objects.filter(tenant=tenant, at__gte=since, at__lt=until, tries__gt=0).order_by("-at")
    newest = list(rows.values_list("use", "model", "latency_ms")[: SAMPLE + 1])
    sampled, newest = len(newest) > SAMPLE, newest[:SAMPLE]
    by_use: dict[str, list[float]] = {}
    by_model: dict[str, list[float]] = {}
    for use, model, latency in newest:
        by_use.setdefault(use, []).append(latency)
        by_model.setdefault(model, []).append(latency)
    return Latencies(
        _make_latency([latency for *_, latency in newest], sampled=sampled) if newest else None,
        {use: _make_latency(values, sampled=sampled) for use, values in by_use.items()},
        {model: _make_latency(values, sampled=sampled) for model, values in by_model.items()},
    )


def _make_latency(values: Sequence[float], *, sampled: bool) -> Latency:
    ordered = sorted(values)
    p50, p95, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in SHARES)
    return Latency(p50, p95, p99, len(ordered), sampled)


_BY_STATUS = {
    400: "Check the names in HANDOFFAUDIT_MODEL_FAST and HANDOFFAUDIT_MODEL_CAREFUL, and that the account has credit.",
    401: "Set ANTHROPIC_API_KEY to a valid key and restart.",
    402: "Add credit to the account.",
    403: "Allow the key's account to use this model, or set ANTHROPIC_API_KEY to another key.",
    404: "Correct the model's name in HANDOFFAUDIT_MODEL_FAST or HANDOFFAUDIT_MODEL_CAREFUL, or ANTHROPIC_BASE_URL.",
    413: "Shorten your own prompt for this use: the request is too large.",
}

# The text for a question that was refused before anything was sent. This happens if the key contains characters that
# are not allowed, or if the package, the region or the credentials for the provider are missing.
_NOT_SET_UP = (
    "Nothing was sent: correct the key, or the provider's package, region or credentials. See the message below."
)

_BY_REASON: Mapping[str, str] = {
    Reason.NO_KEY: "Set ANTHROPIC_API_KEY and restart.",
    Reason.REFUSED: "Read the message of the service, and correct the key, the model's name or the address.",
    Reason.RATE_LIMIT: "Lower HANDOFFAUDIT_MODEL_CONCURRENCY, or ask for higher limits of the account.",
    Reason.OVERLOADED: "Do nothing: the service is overloaded, and unverified handoffs are checked later.",
    Reason.SERVER_ERROR: "Look at the status page of the service. If the service works, check ANTHROPIC_BASE_URL.",
    Reason.TIMEOUT: "If timeouts are frequent, raise HANDOFFAUDIT_MODEL_SECONDS or choose a faster model.",
    Reason.CONNECTION: "Check the network, any proxy and ANTHROPIC_BASE_URL.",
    Reason.MALFORMED_ANSWER: "Choose a more capable model. If you use your own prompt, restore the shipped prompt.",
    Reason.BREAKER_OPEN: "Fix the earlier failures. The LLM is then asked again, first with one call.",
    Reason.BUDGET: "Raise HANDOFFAUDIT_MODEL_DAILY_USD and restart, or wait for the new budget at 00:00 UTC.",
    Reason.TOO_DEAR: "Raise the limit of a critique's cost in the type's strictness, or choose a cheaper model.",
}

# The text for a reason that this version does not know, because another version of the product stored the call.
_OTHER = "Read the message of the last failure, and check the key, the model's name and the address."


def fix_for(reason: str, status: int | None = None) -> str:
    """Return the fix for a failure reason; `status` is the HTTP status if the service answered."""
    if reason == Reason.REFUSED.value and status in _BY_STATUS:
        return _BY_STATUS[status]
    if reason == Reason.REFUSED.value and status is None:
        return _NOT_SET_UP
    return _BY_REASON.get(reason, _OTHER)


# At most this many kinds of failures are listed, the most frequent first.
MOST_KINDS = 20


@dataclass(frozen=True, slots=True)
class CallTally:
    """Outcomes of questions to the LLM.

    `failed` questions were sent but not answered. `skipped` questions were not sent. `cached` questions got an earlier
    answer.
    """

    answered: int = 0
    failed: int = 0
    skipped: int = 0
    cached: int = 0
    cost_usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0

    @property
    def calls(self) -> int:
        """Return the number of questions that were sent."""
        return self.answered + self.failed

    @property
    def tokens_sent(self) -> int:
        """Return the number of prompt tokens, including tokens from the cache of the service."""
        return self.tokens_in + self.tokens_cached

    @property
    def questions(self) -> int:
        return self.calls + self.skipped + self.cached

    @property
    def hit_share(self) -> Share:
        """Return the share of answers that were reused from earlier calls."""
        return Share(self.cached, self.answered + self.cached)

    def __add__(self, other: "CallTally") -> "CallTally":
        return CallTally(*(getattr(self, name) + getattr(other, name) for name in CallTally.__slots__))


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason why questions were not answered, with the number of failures.

    `status` is the HTTP status if the service answered. `detail` is the message of the last failure, `cure` its fix.
    """

    reason: str
    status: int | None
    number: int
    last_at: datetime
    detail: str
    cure: str


@dataclass(frozen=True, slots=True)
class CallCounts:
    overall: CallTally
    by_use: dict[str, CallTally]
    by_model: dict[str, CallTally]
    over_time: list[TimeBucket[CallTally]]
    failures: list[Failure]


@dataclass(slots=True)
class _Kind:
    number: int = 0
    last_at: datetime = field(default_factory=lambda: datetime.min.replace(tzinfo=UTC))


def count_calls(tenant: Tenant, since: datetime, until: datetime, step: timedelta) -> CallCounts:
    """Count all questions to the LLM in a period, including questions that were not sent.

    Each time bucket begins a whole number of steps after 1970, so the first time bucket may begin before `since`.
    """
    scale = TimeScale(since, until, step, whole=True)
    overall = CallTally()
    by_use: dict[str, CallTally] = {}
    by_model: dict[str, CallTally] = {}
    by_step: dict[int, CallTally] = {}
    kinds: dict[tuple[str, int | None], _Kind] = {}
    for row in _sum_groups(tenant, scale):
        tally = _make_tally(row)
        overall += tally
        by_use[row["use"]] = by_use.get(row["use"], CallTally()) + tally
        by_model[row["model"]] = by_model.get(row["model"], CallTally()) + tally
        by_step[row["step"]] = by_step.get(row["step"], CallTally()) + tally
        if row["outcome"] != OK:
            kind = kinds.setdefault((row["outcome"], row["http_status"]), _Kind())
            kind.number += row["number"]
            kind.last_at = max(kind.last_at, row["last_at"])
    return CallCounts(
        overall,
        dict(sorted(by_use.items())),
        dict(sorted(by_model.items())),
        scale.fill(by_step, CallTally()),
        _list_failures(tenant, kinds),
    )


def _sum_groups(tenant: Tenant, scale: TimeScale) -> Iterable[Mapping[str, Any]]:
    rows = ModelCall.objects.filter(tenant=tenant, at__gte=scale.since, at__lt=scale.until)
    rows = rows.annotate(step=scale.index_of("at"))
    grouped = rows.values("step", "use", "model", "outcome", "http_status", "cached")
    return grouped.annotate(
        number=Count("id"),
        sent=Count("id", filter=Q(tries__gt=0)),
        cost=Sum("cost_usd"),
        sum_in=Sum("tokens_in"),
        sum_out=Sum("tokens_out"),
        sum_cached=Sum("tokens_cached"),
        last_at=Max("at"),
    )


def _make_tally(row: Mapping[str, Any]) -> CallTally:
    tally = CallTally(
        cost_usd=row["cost"], tokens_in=row["sum_in"], tokens_out=row["sum_out"], tokens_cached=row["sum_cached"]
    )
    if row["cached"]:
        return replace(tally, cached=row["number"])
    if row["outcome"] == OK:
        return replace(tally, answered=row["number"])
    return replace(tally, failed=row["sent"], skipped=row["number"] - row["sent"])


def _list_failures(tenant: Tenant, kinds: dict[tuple[str, int | None], _Kind]) -> list[Failure]:
    most = sorted(kinds.items(), key=lambda item: -item[1].number)[:MOST_KINDS]
    return [
        Failure(
            reason,
            status,
            kind.number,
            kind.last_at,
            _find_last_message(tenant, reason, kind.last_at),
            fix_for(reason, status),
        )
        for (reason, status), kind in most
    ]


def _find_last_message(tenant: Tenant, reason: str, at: datetime) -> str:
    """Return the message of the last failure with that reason."""
    rows = ModelCall.objects.filter(tenant=tenant, at=at, outcome=reason)
    return rows.values_list("detail", flat=True).first() or ""


@dataclass(frozen=True, slots=True)
class LLMHealth:
    """The LLM figures of a period and the current status."""

    period: Period
    since: datetime
    until: datetime
    provider: str
    counted: CallCounts
    latencies: Latencies
    status: Status
    breakers: list[BreakerStatus]
    waiting: Waiting
    budget: Budget


def load_health(tenant: Tenant, period: Period) -> LLMHealth:
    until = timezone.now()
    since = until - period.length
    return LLMHealth(
        period=period,
        since=since,
        until=until,
        provider=settings.MODEL_PROVIDER,
        counted=count_calls(tenant, since, until, period.step),
        latencies=measure_latencies(tenant, since, until),
        status=load_status(tenant),
        breakers=list_breakers(),
        waiting=count_waiting(tenant, since),
        budget=load_budget(tenant),
    )
