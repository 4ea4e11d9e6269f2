"""Whether workers run: each leaves a sign of life in the database, and who is left reads it."""

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
# Nobody is missed before this.
PATIENCE: Final = timedelta(seconds=45)
# For so long a handoff may wait before somebody is told why.
NOBODY_AFTER: Final = timedelta(minutes=1)
# As `up` and docker-compose.yml name the processes, by the queue that they take from.
NAMES: Final = {settings.CELERY_TASK_DEFAULT_QUEUE: "worker", notify.CHECKS_QUEUE: "asker"}
WORKER, ASKER = NAMES.values()

_last_beat = -math.inf


def record_heartbeat() -> None:
    """A sign of life of this process, at most every few seconds; the sweep calls it."""
    global _last_beat  # noqa: PLW0603 -- one for the process
    now = time.monotonic()
    if now - _last_beat < BEAT_SECONDS:
        return
    for name in (NAMES[queue] for queue in notify.consumed_queues() if queue in NAMES):
        Watermark.objects.update_or_create(name=name, defaults={"at": timezone.now()})
    _last_beat = now


def silent_workers() -> dict[str, float]:
    """Which processes that there should be were not seen of late: by name, since how many seconds; infinite for one
    that never was. Empty where all are there."""
    names, now = expected_workers(), timezone.now()
    seen = dict(Watermark.objects.filter(name__in=names).values_list("name", "at"))
    # Sweeps may be set so far apart that a sign comes seldom.
    patience = max(PATIENCE.total_seconds(), 3.0 * settings.SWEEP_SECONDS)
    silent = {name: (now - seen[name]).total_seconds() if name in seen else math.inf for name in names}
    return {name: seconds for name, seconds in silent.items() if seconds > patience}


def expected_workers() -> tuple[str, ...]:
    """The names of the processes that there should be; without a key nothing is asked of the model."""
    return (WORKER, ASKER) if client.is_configured() else (WORKER,)


def describe_silence(seconds: float) -> str:
    """A silence in words."""
    return f"none seen for {format_span(seconds)}" if math.isfinite(seconds) else "none seen yet"


def missing_worker_message(tenant: Tenant, oldest_unjudged_at: datetime | None) -> str:
    """In words, where handoffs of this tenant have waited for a worker and none was seen; else nothing.

    `oldest_unjudged_at`: since when its oldest unjudged one waits, for a worker or the model.
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
    # A page may stay open for long: the moment stays true.
    return f"none seen since {timezone.now() - timedelta(seconds=silent[WORKER]):%Y-%m-%d %H:%M} UTC"


def evaluate_without_workers() -> None:
    """What must not stop with the last worker: thresholds are evaluated, and subscribers told of what that opens.

    For processes that answer requests; where workers run it costs one query. Never raises for a database that is away.
    """
    try:
        if len(silent_workers()) < len(expected_workers()):
            webhook_worker.stop()
        elif alert_rules.anything_due() and alert_rules.evaluate_all() and has_active():
            webhook_worker.wake()
    except DatabaseError as error:
        log.warning("thresholds wait: the database can't be reached", error=str(error))
