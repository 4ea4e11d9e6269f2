"""Health checks: `/healthz` for the process, `/readyz` for everything that the process needs.

`/readyz` checks the database, the migrations, the partitions, the queue and the disk, and reports whether workers were
seen. Neither address needs a key or reveals a secret.
"""

from pathlib import Path

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from pydantic import Field

from handoffaudit import database_faults
from handoffaudit.api.serializers import Answer, answer
from handoffaudit.database_faults import Cause, Fault, fault_of, find_fault
from handoffaudit.diagnostics.status import describe_silence, evaluate_without_workers, expected_workers, silent_workers
from handoffaudit.handoffs import db, partitions
from handoffaudit.redis_client import connect

log = structlog.get_logger(__name__)

_DAMAGED = "the file is damaged: restore a backup (handoffaudit up says how)"

_migrated = False
_logged: dict[str, str] = {}


class AliveOut(Answer):
    status: str = Field(description="Always ok.")


class ReadyOut(Answer):
    status: str = Field(description="ok, degraded (only the queue or the partitions need attention) or not ready.")
    checks: dict[str, str] = Field(
        description="ok or the problem, for database, migrations, queue and disk, on PostgreSQL also for partitions."
    )
    workers: dict[str, str] | None = Field(
        None, description="ok or the problem, for each kind of worker; missing if the database cannot be read."
    )


def alive(request: HttpRequest) -> HttpResponse:
    return answer(AliveOut, {"status": "ok"})


def ready(request: HttpRequest) -> HttpResponse:
    checks = {"database": _database(), "migrations": "not checked", "queue": _queue(), "disk": _disk()}
    there: dict[str, dict[str, str]] = {}
    if checks["database"] == "ok":
        try:
            checks["migrations"] = _migrations()
            # Evaluate alert rules even if the queue does not work; `_workers` does so while no worker runs.
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
    return _DAMAGED if database_faults.watch.is_there() else "ok"


def _fault_name(fault: Fault) -> str:
    return _DAMAGED if fault.cause == Cause.DAMAGED else fault.detail


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
