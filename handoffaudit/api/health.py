"""`/healthz`: the process answers. `/readyz`: what it needs is there, too, and whether workers were seen. Neither needs
a key nor tells a secret."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

from handoffaudit import database_faults, file_damage
from handoffaudit.database_faults import FAULTS, Cause, Fault, fault_of, find_fault
from handoffaudit.diagnostics import workers
from handoffaudit.redis_client import connect

log = structlog.get_logger(__name__)

_DAMAGED = "the file is damaged: restore a backup (handoffaudit up says how)"

# Whoever asks hears within 2 seconds.
PROBE_SECONDS = 1.8

_prober = ThreadPoolExecutor(2, thread_name_prefix="readyz")
_migrated = False
_logged: dict[str, str] = {}


def alive(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    checks = {"database": _database(), "migrations": "not checked", "queue": _queue(), "disk": _disk()}
    there: dict[str, dict[str, str]] = {}
    if checks["database"] == "ok":
        try:
            checks["migrations"] = _migrations()
            # Thresholds are looked at without a queue, too.
            there = {"workers": _workers()} if checks["migrations"] == "ok" else {}
        except DatabaseError as error:
            fault = fault_of(error)
            if fault is None:
                raise
            checks["database"] = _fault_name(fault)
    missing = {name: value for name, value in checks.items() if value != "ok"}
    # Without a worker or Redis handoffs are taken all the same, and workers look at the database by themselves: where
    # only that is missing, it is ready.
    is_degraded = settings.REDIS_URL and missing.keys() == {"queue"}
    status = "degraded" if is_degraded else "not ready" if missing else "ok"
    response = JsonResponse({"status": status, "checks": checks} | there, status=503 if status == "not ready" else 200)
    # It is asked again and again: Django would log each time that it answered, and not what is missing.
    response._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001
    _log(status, missing)
    return response


def _log(status: str, missing: dict[str, str]) -> None:
    """What is missing, once for each that is."""
    global _logged  # noqa: PLW0603 -- one for the process
    if missing and missing != _logged:
        if status == "degraded":
            log.warning("ready, but degraded", **missing)
        else:
            log.error("not ready", **missing)
    _logged = missing


def _workers() -> dict[str, str]:
    workers.evaluate_without_workers()
    silent = workers.silent_workers()
    return {
        name: workers.describe_silence(silent[name]) if name in silent else "ok" for name in workers.expected_workers()
    }


def _database() -> str:
    fault = _find_fault()
    if fault:
        return _fault_name(fault)
    return _DAMAGED if file_damage.watch.is_there() else "ok"


def _fault_name(fault: Fault) -> str:
    return _DAMAGED if fault.cause == Cause.DAMAGED else fault.detail


def _find_fault() -> Fault | None:
    """Look for trouble. A server that does not answer at all must not keep whoever asks waiting."""
    if connection.vendor == "sqlite":
        return find_fault()
    asked = _prober.submit(find_fault)
    try:
        return asked.result(PROBE_SECONDS)
    except TimeoutError:
        asked.cancel()
        return FAULTS[Cause.AWAY]


def _disk() -> str:
    return database_faults.describe_shortage() or "ok"


def _migrations() -> str:
    global _migrated  # noqa: PLW0603 -- once they are there they stay
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
    try:
        with connect() as client:
            client.ping()
    except redis.RedisError:
        return "can't be reached: check REDIS_URL and the Redis server"
    return "ok"
