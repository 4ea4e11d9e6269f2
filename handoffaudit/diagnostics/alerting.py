"""Thresholds against what is measured: alerts are opened, raised, told again and closed, each minute, by one process.

An alert closes when its figure was below for a while, and its level only rises while it is open, so that a figure
about a threshold does not make a row of alerts. One that a person acknowledged stays closed until then, unless it gets
worse.
"""

from datetime import UTC, datetime, timedelta

import structlog
from django.db.models import Q
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.measures import last_received, measure
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.models import Alert
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.handoffs.webhooks import worker
from handoffaudit.policy.kinds import thresholds
from handoffaudit.policy.thresholds import NoData, Threshold, Watched

log = structlog.get_logger(__name__)

EVERY = timedelta(minutes=1)
# Alerts of events that still stand are told again so often.
REMIND = timedelta(hours=24)
WARNING, ALERT = "warning", "alert"
_MARK = "thresholds"
_BY_THRESHOLD = (*(AlertKind(watched.value) for watched in Watched), AlertKind.NO_HANDOFFS)


def anything_due() -> bool:
    """Whether a minute is over since somebody evaluated."""
    return not Watermark.objects.filter(~_is_over(timezone.now()), name=_MARK).exists()


def run() -> bool:
    """Evaluates all tenants, where that is due and nobody else does; whether it did."""
    now = timezone.now()
    Watermark.objects.get_or_create(name=_MARK, defaults={"at": datetime.fromtimestamp(0, UTC)})
    if not Watermark.objects.filter(_is_over(now), name=_MARK).update(at=now):
        return False
    for tenant in Tenant.objects.order_by("pk"):
        # One tenant's trouble must not keep all others from being told.
        try:
            evaluate(tenant, now)
        except Exception:
            log.exception("thresholds could not be evaluated", tenant=tenant.slug)
    worker.notify_webhook_workers()
    return True


def _is_over(now: datetime) -> Q:
    """Whether the last time is long enough ago; or yet to come, by a clock that was ahead and is set right."""
    return Q(at__lte=now - EVERY) | Q(at__gt=now + EVERY)


def evaluate(tenant: Tenant, now: datetime) -> None:
    """One tenant's alerts."""
    silent: list[Threshold] = []
    last = last_received(tenant)
    for row in thresholds.current(tenant).rows:
        kind = AlertKind(row.name.value)
        if not row.on:
            _close(tenant, kind, now)
            continue
        nothing = last is None or last <= now - timedelta(minutes=row.window_minutes)
        if nothing and row.no_data is NoData.ALERT:
            silent.append(row)
        measured = measure(tenant, row, now)
        empty = measured.value is None or (nothing and not measured.value)
        if empty and row.no_data is not NoData.OK:
            continue
        value = measured.value or 0.0
        _settle(tenant, kind, _level(row, value), value, row, now)
    _settle_silence(tenant, silent, last, now)
    _remind(tenant, now)


def _level(row: Threshold, value: float) -> str:
    return ALERT if value >= row.alert else WARNING if value >= row.warning else ""


def _settle_silence(tenant: Tenant, silent: list[Threshold], last: datetime | None, now: datetime) -> None:
    # A tenant that never had a handoff misses none.
    if silent and last is not None:
        _settle(tenant, AlertKind.NO_HANDOFFS, ALERT, (now - last).total_seconds(), silent[0], now)
    else:
        _close(tenant, AlertKind.NO_HANDOFFS, now)


def _settle(tenant: Tenant, kind: AlertKind, level: str, value: float, row: Threshold, now: datetime) -> None:
    alert = _open(tenant, kind)
    if not level:
        if alert and now - alert.last_at >= timedelta(minutes=row.clear_minutes):
            _close(tenant, kind, now)
    elif alert is None:
        if not _known(tenant, kind, level, row, now):
            # `ignore_conflicts`: one of a kind is open, and somebody may have been faster.
            opened = Alert(tenant=tenant, kind=kind, level=level, value=value, opened_at=now, last_at=now)
            opened.notified_at = now
            Alert.objects.bulk_create([opened], ignore_conflicts=True)
    else:
        _go_on(alert, level, value, row, now)


def _go_on(alert: Alert, level: str, value: float, row: Threshold, now: datetime) -> None:
    columns: dict[str, object] = {"value": value, "last_at": now}
    worse = level == ALERT and alert.level == WARNING
    again = now - (alert.notified_at or alert.opened_at) >= timedelta(minutes=row.renotify_minutes)
    if worse:
        columns["level"] = ALERT
    if worse or again:
        columns["notified_at"] = now
    Alert.objects.filter(pk=alert.pk, acknowledged_at=None).update(**columns)


def _known(tenant: Tenant, kind: AlertKind, level: str, row: Threshold, now: datetime) -> bool:
    """Whether a person acknowledged this very state, and it never ended since; it is then marked as still seen."""
    closed = Alert.objects.filter(tenant=tenant, kind=kind).exclude(acknowledged_at=None).order_by("-opened_at").first()
    if closed is None or closed.acknowledged_by == SYSTEM.name:
        return False
    ended = now - closed.last_at > max(timedelta(minutes=row.clear_minutes), 3 * EVERY)
    worse = level == ALERT and closed.level == WARNING
    if ended or worse:
        return False
    Alert.objects.filter(pk=closed.pk).update(last_at=now)
    return True


def _remind(tenant: Tenant, now: datetime) -> None:
    """Alerts of events have no threshold that says how often."""
    standing = Alert.objects.filter(tenant=tenant, acknowledged_at=None).exclude(kind__in=_BY_THRESHOLD)
    long_ago = Q(notified_at__lte=now - REMIND) | Q(notified_at=None, opened_at__lte=now - REMIND)
    standing.filter(long_ago).update(notified_at=now)


def _open(tenant: Tenant, kind: AlertKind) -> Alert | None:
    return Alert.objects.filter(tenant=tenant, kind=kind, acknowledged_at=None).first()


def _close(tenant: Tenant, kind: AlertKind, now: datetime) -> None:
    Alert.objects.filter(tenant=tenant, kind=kind, acknowledged_at=None).update(
        acknowledged_at=now, acknowledged_by=SYSTEM.name
    )
