"""`/healthz`: the process answers. `/readyz`: what it needs is there, too. Neither needs a key nor tells a secret."""

from pathlib import Path

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

_migrated = False


def alive(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    checks = {"database": _database(), "migrations": "not checked", "queue": _queue()}
    if checks["database"] == "ok":
        checks["migrations"] = _migrations()
    good = all(value == "ok" for value in checks.values())
    return JsonResponse({"status": "ok" if good else "not ready", "checks": checks}, status=200 if good else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "can't be reached: check DATABASE_URL and the database server"
    return "ok"


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
        with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2) as client:
            client.ping()
    except redis.RedisError:
        return "can't be reached: check REDIS_URL and the Redis server"
    return "ok"
