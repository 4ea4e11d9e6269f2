"""The run that removes what is old: one process at a time, one tenant after another, in small batches.

Each batch is a transaction of its own that also notes how far the run has come: a run whose process was killed goes on
there. While handoffs wait to be judged, a batch is followed by a pause.
"""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import alone
from handoffaudit.diagnostics.models import RetentionRun, Watermark
from handoffaudit.diagnostics.models.retention import NOWHERE
from handoffaudit.diagnostics.retention.kinds import KINDS, Due
from handoffaudit.handoffs import leases
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.retention import Data, Retention
from handoffaudit.policy.versions import Table

log = structlog.get_logger(__name__)

TASK: Final = "handoffaudit.diagnostics.tasks.remove_old"
MARK: Final = "retention"
CLAIM: Final = "retention.claim"
REMOVED: Final = "retention.remove"
# How often all tenants are looked at; and the time from one run over a kind to the next.
EVERY: Final = timedelta(minutes=10)
AGAIN: Final = timedelta(hours=24)
BATCH: Final = 200
# Of one thread's time while handoffs wait.
_SHARE: Final = 0.05
_LONGEST_PAUSE: Final = timedelta(minutes=1)


class _Overtaken(Exception):
    """Another process has taken the run up meanwhile."""


def begins_at(table: Table[Retention]) -> datetime | None:
    """When the rules in force are first carried out; None for those as shipped: at once."""
    return table.changed_at + first_after() if table.changed_at else None


def first_after() -> timedelta:
    """From the save of a rule to its first run: time to take it back."""
    return timedelta(seconds=settings.RETENTION_SECONDS)


def anything_due() -> bool:
    """Whether a run was left behind, or it is time to look for what is old; and nobody is at it. Cheap, for a sweep."""
    if not alone.is_free(CLAIM):
        return False
    now = timezone.now()
    fresh = Q(at__gt=now - EVERY, at__lte=now + EVERY)
    return (
        not Watermark.objects.filter(fresh, name=MARK).exists()
        or RetentionRun.objects.filter(finished_at=None).exists()
    )


def run(seconds: float) -> bool:
    """Removes what is due, for so long or until handoffs wait; False where more could be removed at once."""
    claim = alone.take(CLAIM)
    if claim is None:
        return True
    end, pause = time.monotonic() + seconds, timedelta()
    try:
        for tenant in Tenant.objects.order_by("pk"):
            for one in _due(tenant):
                while True:
                    begun = time.monotonic()
                    if not _goes_on(tenant, one):
                        break
                    if leases.is_anything_waiting():
                        spent = time.monotonic() - begun
                        pause = min(timedelta(seconds=spent * (1 / _SHARE - 1)), _LONGEST_PAUSE)
                        return True
                    if time.monotonic() > end:
                        return False
                    claim = alone.renewed(CLAIM, claim)
                    if claim is None:
                        return True
        Watermark.objects.update_or_create(name=MARK, defaults={"at": timezone.now()})
    except _Overtaken:
        log.warning("retention: another process goes on with the run")
    finally:
        alone.let_go(CLAIM, claim, pause)
    return True


def _due(tenant: Tenant) -> Iterator[RetentionRun]:
    """The tenant's runs that were left behind, and those that it is time for."""
    now = timezone.now()
    table = retention.current(tenant)
    begins = begins_at(table)
    kept = {one.kind: one for one in RetentionRun.objects.filter(tenant=tenant)}
    for row in table.rows:
        one = kept.get(row.name)
        if one is not None and one.finished_at is None:
            yield one
        elif row.days is not None and (begins is None or begins <= now):
            fresh = one is not None and one.days == row.days and now - AGAIN < one.started_at <= now
            if not fresh:
                yield _begun(tenant, row.name, row.days, now)


def _begun(tenant: Tenant, data: Data, days: int, now: datetime) -> RetentionRun:
    columns: dict[str, Any] = {
        "days": days,
        "before": now - timedelta(days=days),
        "started_at": now,
        "reached": NOWHERE,
        "number": 0,
        "finished_at": None,
    }
    return RetentionRun.objects.update_or_create(tenant=tenant, kind=data.value, defaults=columns)[0]


def _goes_on(tenant: Tenant, one: RetentionRun) -> bool:
    """Takes the run's next batch; False where it ended."""
    data = Data(one.kind)
    row = retention.current(tenant).row(data)
    # Whoever keeps it for longer now means what is still there, too.
    if row is None or row.days is None or row.days > one.days:
        _finish(tenant, one)
        return False
    kept = KINDS[data]
    old = kept.old(tenant, one.before).filter(pk__gt=one.reached).order_by("pk")
    pks = list(old.values_list("pk", flat=True)[:BATCH])
    if not pks:
        _finish(tenant, one)
        return False
    with store.write_turn(), transaction.atomic():
        number = kept.remove(Due(tenant, pks, one.before, one.days))
        columns: dict[str, Any] = {"reached": pks[-1], "number": F("number") + number}
        if number:
            columns |= {"removed": F("removed") + number, "removed_at": timezone.now()}
            columns |= {"removed_before": one.before, "removed_days": one.days}
        _note(one, columns)
    one.refresh_from_db()
    return True


@transaction.atomic
def _finish(tenant: Tenant, one: RetentionRun) -> None:
    _note(one, {"finished_at": timezone.now()})
    if one.number:
        detail = {"removed": one.number, "kept_days": one.days, "before": one.before.isoformat(timespec="seconds")}
        audit.record(tenant=tenant, actor=SYSTEM.name, action=REMOVED, target=one.kind, detail=detail)
        log.info("retention has removed what was old", tenant=tenant.slug, kind=one.kind, number=one.number)


def _note(one: RetentionRun, columns: dict[str, Any]) -> None:
    still = RetentionRun.objects.filter(pk=one.pk, started_at=one.started_at, reached=one.reached, finished_at=None)
    if not still.update(**columns):
        raise _Overtaken
