"""How long calls to the model took: percentiles, whole on PostgreSQL, of the newest calls on SQLite."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from django.db import connection

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import ModelCall

# SQLite has no percentiles of its own: so many of the newest calls are read.
SAMPLE = 20_000
SHARES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds, with all tries, of `calls` calls; `sampled`: there were more, and these are the newest."""

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


def latencies(tenant: Tenant, since: datetime, until: datetime) -> Latencies:
    """Of the calls that were sent, whether they were answered or not."""
    return _whole(tenant, since, until) if connection.vendor == "postgresql" else _sampled(tenant, since, until)


def _whole(tenant: Tenant, since: datetime, until: datetime) -> Latencies:
    table = ModelCall._meta.db_table  # noqa: SLF001 -- Django's documented API
    # All in one: each alone would sort for itself.
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


def _sampled(tenant: Tenant, since: datetime, until: datetime) -> Latencies:
    rows = ModelCall.objects.filter(tenant=tenant, at__gte=since, at__lt=until, tries__gt=0).order_by("-at")
    newest = list(rows.values_list("use", "model", "latency_ms")[: SAMPLE + 1])
    sampled, newest = len(newest) > SAMPLE, newest[:SAMPLE]
    by_use: dict[str, list[float]] = {}
    by_model: dict[str, list[float]] = {}
    for use, model, latency in newest:
        by_use.setdefault(use, []).append(latency)
        by_model.setdefault(model, []).append(latency)
    return Latencies(
        _of([latency for *_, latency in newest], sampled=sampled) if newest else None,
        {use: _of(values, sampled=sampled) for use, values in by_use.items()},
        {model: _of(values, sampled=sampled) for model, values in by_model.items()},
    )


def _of(values: Sequence[float], *, sampled: bool) -> Latency:
    ordered = sorted(values)
    p50, p95, p99 = (ordered[ceil(share * len(ordered)) - 1] for share in SHARES)
    return Latency(p50, p95, p99, len(ordered), sampled)
