"""Health checks (`/healthz`, `/readyz`) and the metrics for Prometheus (`/metrics`).

`/readyz` checks the database, the migrations, the partitions, the queue and the disk, and reports whether workers were
seen. Neither health check needs a key or reveals a secret. All metrics come from the database, so that every process of
the product gives the same answer. Each query for metrics reads a bounded number of rows, except the sum of retention,
which reads a row for each tenant and kind of data. A process reads the metrics from the database at most once in
`CACHED_SECONDS`.
"""

import hmac
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, Q, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from pydantic import Field

from handoffaudit import database_faults, sqlite_file
from handoffaudit.api.serializers import Answer, answer
from handoffaudit.database_faults import Cause, Fault, fault_of, find_fault
from handoffaudit.diagnostics.models import RetentionRun, Watermark
from handoffaudit.diagnostics.retention_run import MARK
from handoffaudit.diagnostics.status import describe_silence, evaluate_without_workers, expected_workers, silent_workers
from handoffaudit.handoffs import counts, db, partitions, stats
from handoffaudit.handoffs.counts import OVER_BOUNDS, TIME_BOUNDS, Total
from handoffaudit.handoffs.models import CheckKind, Delivery, Handoff, ModelCheck, State
from handoffaudit.handoffs.stats import COUNTED_LIVE
from handoffaudit.redis_client import connect

log = structlog.get_logger(__name__)

_DAMAGED = "the file is damaged: restore a backup (handoffaudit up says how)"

_migrated = False
_logged: dict[str, str] = {}


class AliveOut(Answer):
    status: str = Field(description="Always ok.")


class ReadyOut(Answer):
    status: str = Field(description="ok, degraded (only Redis or the partitions need attention) or not ready.")
    checks: dict[str, str] = Field(
        description="ok or the problem, for database, migrations, queue and disk, on PostgreSQL also for partitions."
    )
    workers: dict[str, str] | None = Field(
        None,
        description="ok or the problem, for each kind of worker; missing if the database cannot be read or has to be "
        "migrated.",
    )


def alive(request: HttpRequest) -> HttpResponse:
    return answer(AliveOut, {"status": "ok"})


def ready(request: HttpRequest) -> HttpResponse:
    checks = {"database": _database(), "migrations": "not checked", "queue": _queue(), "disk": _disk()}
    there: dict[str, dict[str, str]] = {}
    if checks["database"] == "ok":
        try:
            checks["migrations"] = _migrations()
            # `_workers` also evaluates the alert rules if no worker runs, so it is called even if the queue does not
            # work.
            if checks["migrations"] == "ok":
                there = {"workers": _workers()}
                checks |= {"partitions": partitions.describe_shortage() or "ok"} if db.is_postgresql() else {}
        except DatabaseError as error:
            fault = fault_of(error)
            if fault is None:
                raise
            checks["database"] = _fault_name(fault)
    missing = {name: value for name, value in checks.items() if value != "ok"}
    # Without Redis the server still accepts handoffs, and the workers poll the database. Without a partition for the
    # week, the default partition takes the rows.
    is_degraded = missing and missing.keys() <= ({"queue", "partitions"} if settings.REDIS_URL else {"partitions"})
    status = "degraded" if is_degraded else "not ready" if missing else "ok"
    response = answer(ReadyOut, {"status": status, "checks": checks} | there, 503 if status == "not ready" else 200)
    # Probes repeat. Django would log each failed probe, without the checks that failed.
    response._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001
    _log(status, missing)
    return response


def _log(status: str, missing: dict[str, str]) -> None:
    """Log the failed checks when they change."""
    global _logged  # noqa: PLW0603 -- one for the process
    if missing and missing != _logged:
        if status == "degraded":
            log.warning("ready, but degraded", **missing)
        else:
            log.error("not ready", **missing)
    _logged = missing


def _workers() -> dict[str, str]:
    evaluate_without_workers()
    silent = silent_workers()
    return {name: describe_silence(silent[name]) if name in silent else "ok" for name in expected_workers()}


def _database() -> str:
    fault = find_fault() if connection.vendor == "sqlite" else database_faults.server.look()
    if fault:
        return _fault_name(fault)
    return _DAMAGED if sqlite_file.damage_watch.is_damaged() else "ok"


def _fault_name(fault: Fault) -> str:
    return _DAMAGED if fault.cause == Cause.DAMAGED else fault.detail


def _disk() -> str:
    return database_faults.describe_shortage() or "ok"


def _migrations() -> str:
    global _migrated  # noqa: PLW0603 -- applied migrations stay applied
    if not _migrated:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return "missing: run `handoffaudit manage migrate`"
        _migrated = True
    return "ok"


def _queue() -> str:
    if not settings.REDIS_URL:
        return (
            "ok" if Path(settings.QUEUE_FOLDER).is_dir() else "the queue's folder is missing: start `handoffaudit up`"
        )
    from redis import RedisError  # noqa: PLC0415 -- not needed without Redis

    try:
        with connect() as client:
            client.ping()
    except RedisError:
        return "can't be reached: check REDIS_URL and the Redis server"
    return "ok"


CACHED_SECONDS: Final = 5.0
_LIMIT: Final = f" Counted up to {COUNTED_LIVE:,}."


def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics. Return 401 if the request lacks the token, and 404 if the settings have no token."""
    token: str = settings.METRICS_TOKEN
    if not token:
        return HttpResponseNotFound("Set HANDOFFAUDIT_METRICS_TOKEN to have metrics.\n", content_type="text/plain")
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        refused = HttpResponse("Send Authorization: Bearer and the token of the metrics.\n", "text/plain")
        refused.status_code = HTTPStatus.UNAUTHORIZED
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    encode, media_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(REGISTRY), media_type)


class DatabaseCollector(Collector):
    """The metrics of all processes. Scrapes within `CACHED_SECONDS` share the queries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Metric] = []
        self._kept_until = 0.0

    def describe(self) -> list[Metric]:
        """Return nothing: the registry would otherwise ask the database when the module is loaded."""
        return []

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if time.monotonic() >= self._kept_until:
                self._kept = list(_read())
                self._kept_until = time.monotonic() + CACHED_SECONDS
            found = self._kept
        yield from found


def _read() -> Iterator[Metric]:
    yield _gauge("build_info", "The version of the product and the kind of its database.", {
        (settings.VERSION, connection.vendor): 1.0
    }, "version", "database")  # fmt: skip
    try:
        found = [metric for part in _PARTS for metric in part()]
    except DatabaseError as error:
        log.warning("metrics could not be read from the database", error=str(error))
        found = []
    yield _gauge("database_up", "1 if the metrics could be read from the database; at 0, they are missing.", {
        (): float(bool(found))
    })  # fmt: skip
    yield from found


def _gauge(name: str, text: str, values: Mapping[Any, float], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"handoffaudit_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: Mapping[str, float], label: str = "") -> Metric:
    family = CounterMetricFamily(f"handoffaudit_{name}", text, labels=[label] if label else [])
    for key, value in sorted(values.items()):
        family.add_metric([key] if label else [], value)
    return family


def _read_totals() -> Iterator[Metric]:
    found = counts.read_totals()
    stored = dict.fromkeys(("new", "known", "unreadable"), 0) | found[Total.SUBMISSIONS]
    yield _counter(
        "submissions", "Submissions that were stored, or stored before with the same content.", stored, "result"
    )
    refusals = "Refused submissions; a request that is refused as a whole counts once."
    yield _counter("refusals", refusals, found[Total.REFUSALS], "reason")
    yield _counter("verdicts", "First verdicts on handoffs.", found[Total.VERDICTS], "outcome")
    yield _verdict_times(found)
    yield _counter("llm_calls", "Questions to the LLM.", found[Total.LLM_CALLS], "outcome")
    dollars = found[Total.LLM_MICRODOLLARS].get("", 0) / 1e6
    yield _counter("llm_cost_usd", "Estimated cost of the questions to the LLM in USD.", {"": dollars})
    tries = dict.fromkeys(("delivered", "failed", "given_up"), 0) | found[Total.DELIVERIES]
    yield _counter("webhook_tries", "Tries to deliver a webhook, and deliveries that were given up.", tries, "outcome")


def _verdict_times(found: Mapping[Total, Mapping[str, int]]) -> Metric:
    numbers, below = found[Total.VERDICT_TIMES], 0
    buckets = []
    for bound in (*map(str, TIME_BOUNDS), OVER_BOUNDS):
        below += numbers.get(bound, 0)
        buckets.append((bound, float(below)))
    seconds = found[Total.VERDICT_MILLISECONDS].get("", 0) / 1000
    family = HistogramMetricFamily(
        "handoffaudit_verdict_seconds", "Time from the receipt of a handoff to its first verdict."
    )
    family.add_metric([], buckets, seconds)
    return family


def _read_queues() -> Iterator[Metric]:
    queue = stats.measure_worker_queue()
    age = max(0.0, (timezone.now() - queue.oldest_at).total_seconds()) if queue.oldest_at else 0.0
    checks = {
        (kind.label.lower(),): float(ModelCheck.objects.filter(kind=kind)[:COUNTED_LIVE].count()) for kind in CheckKind
    }
    held = Handoff.objects.filter(state=State.HELD)[:COUNTED_LIVE].count()
    yield _gauge("queue_handoffs", f"Handoffs that wait for a worker.{_LIMIT}", {(): queue.waiting})
    yield _gauge("queue_oldest_seconds", "Age of the oldest handoff that waits for a verdict of a worker.", {(): age})
    yield _gauge("leases", f"Leases of workers on handoffs.{_LIMIT}", {
        ("held",): queue.leased, ("expired",): queue.expired
    }, "state")  # fmt: skip
    yield _gauge("llm_checks_waiting", f"Handoffs that wait for the LLM.{_LIMIT}", checks, "kind")
    yield _gauge("held_handoffs", f"Handoffs that wait for the decision of a person.{_LIMIT}", {(): held})


def _read_deliveries() -> Iterator[Metric]:
    due = Delivery.objects.filter(due_at__isnull=False).order_by("due_at")[:COUNTED_LIVE]
    found = due.aggregate(new=Count("pk", filter=Q(tries=0)), failed=Count("pk", filter=Q(tries__gt=0)))
    values = {(state,): float(found[state]) for state in ("new", "failed")}
    text = f"Deliveries that wait, by whether a try failed.{_LIMIT}"
    yield _gauge("webhook_deliveries_waiting", text, values, "state")


def _read_jobs() -> Iterator[Metric]:
    """Yield the metrics of retention and of the heartbeats."""
    removed = RetentionRun.objects.order_by().values_list("kind").annotate(sum=Sum("removed"))
    yield _counter("retention_removed", "Items that retention removed.", dict(removed), "kind")
    now, workers = timezone.now(), expected_workers()
    marks = dict(Watermark.objects.filter(name__in=[MARK, *workers]).values_list("name", "at"))
    if MARK in marks:
        at = marks[MARK].timestamp()
        yield _gauge("retention_last_run_timestamp_seconds", "Time of the last pass of retention.", {(): at})
    seen = {(name,): (now - marks[name]).total_seconds() if name in marks else math.inf for name in workers}
    yield _gauge("worker_silent_seconds", "Time since a worker of the kind was last seen.", seen, "worker")


_PARTS: Final[tuple[Callable[[], Iterator[Metric]], ...]] = (_read_totals, _read_queues, _read_deliveries, _read_jobs)

_COLLECTOR: Final = DatabaseCollector()
REGISTRY: Final = CollectorRegistry()
REGISTRY.register(_COLLECTOR)
