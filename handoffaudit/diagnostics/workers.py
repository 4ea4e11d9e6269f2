"""Heartbeats of workers: each worker records them in the database, and other processes notice missing heartbeats."""

import math
import time
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import alert_rules
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import notify, stats
from handoffaudit.handoffs.alerts import format_span
from handoffaudit.handoffs.llm import client
from handoffaudit.handoffs.webhooks import worker as webhook_worker
from handoffaudit.handoffs.webhooks.subscriptions import has_active

log = structlog.get_logger(__name__)

BEAT_SECONDS: Final = 15
# A worker counts as missing only after this time without a heartbeat.
PATIENCE: Final = timedelta(seconds=45)
# After a handoff has waited this long, a message says that no worker runs.
NOBODY_AFTER: Final = timedelta(minutes=1)
# The names of the processes of `handoffaudit up` and docker-compose.yml, by the queue that each process consumes.
NAMES: Final = {settings.CELERY_TASK_DEFAULT_QUEUE: "worker", notify.CHECKS_QUEUE: "asker"}
WORKER, ASKER = NAMES.values()

_last_beat = -math.inf


def record_heartbeat() -> None:
    """Record a heartbeat of this process, at most every `BEAT_SECONDS` seconds. The sweep calls this function."""
    global _last_beat  # noqa: PLW0603 -- one for the process
    now = time.monotonic()
    if now - _last_beat < BEAT_SECONDS:
        return
    for name in (NAMES[queue] for queue in notify.consumed_queues() if queue in NAMES):
        Watermark.objects.update_or_create(name=name, defaults={"at": timezone.now()})
    _last_beat = now


def silent_workers() -> dict[str, float]:
    """Return the expected processes without a recent heartbeat, with the seconds since their last heartbeat.

    The seconds are infinite for a process that was never seen. The result is empty if all processes run.
    """
    names, now = expected_workers(), timezone.now()
    seen = dict(Watermark.objects.filter(name__in=names).values_list("name", "at"))
    # Each sweep records a heartbeat, so heartbeats are rare if the sweeps are rare.
    patience = max(PATIENCE.total_seconds(), 3.0 * settings.SWEEP_SECONDS)
    silent = {name: (now - seen[name]).total_seconds() if name in seen else math.inf for name in names}
    return {name: seconds for name, seconds in silent.items() if seconds > patience}


def expected_workers() -> tuple[str, ...]:
    """Return the names of the expected processes. The process for LLM checks is expected only with an LLM key."""
    return (WORKER, ASKER) if client.is_configured() else (WORKER,)


def describe_silence(seconds: float) -> str:
    """Return a description of how long a process has been silent."""
    return f"none seen for {format_span(seconds)}" if math.isfinite(seconds) else "none seen yet"


def missing_worker_message(tenant: Tenant, oldest_unjudged_at: datetime | None) -> str:
    """Return a message if handoffs of the tenant wait for a worker and no worker was seen, else an empty text.

    `oldest_unjudged_at` is the time of receipt of the tenant's oldest handoff that waits for a worker or for the LLM.
    """
    before = timezone.now() - NOBODY_AFTER
    if oldest_unjudged_at is None or oldest_unjudged_at > before:
        return ""
    evaluate_without_workers()
    waits_since = stats.find_oldest_for_worker(tenant.pk) if (silent := silent_workers()) else None
    if WORKER not in silent or waits_since is None or waits_since > before:
        return ""
    if math.isinf(silent[WORKER]):
        return describe_silence(silent[WORKER])
    # The message names a point in time, because a duration would become wrong while the page stays open.
    return f"none seen since {timezone.now() - timedelta(seconds=silent[WORKER]):%Y-%m-%d %H:%M} UTC"


def evaluate_without_workers() -> None:
    """If no worker runs, evaluate the alert rules, and deliver webhooks for the alerts that they open.

    Processes that answer requests call this function. If workers run, it makes only one query. An unreachable database
    is logged and raises no error.
    """
    try:
        if len(silent_workers()) < len(expected_workers()):
            webhook_worker.stop()
        elif alert_rules.anything_due() and alert_rules.evaluate_all() and has_active():
            webhook_worker.wake()
    except DatabaseError as error:
        log.warning("thresholds wait: the database can't be reached", error=str(error))
