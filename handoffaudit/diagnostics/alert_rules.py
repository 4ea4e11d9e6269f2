"""Evaluation of alert rules: each minute, one process opens, raises, repeats and resolves alerts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.counts import HOURLY_TOTALS
from handoffaudit.handoffs.filters import first_id_at, is_in_states, is_overdue
from handoffaudit.handoffs.models import Alert, Handoff, State
from handoffaudit.handoffs.rates import rejection_rate
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.handoffs.webhooks import delivery
from handoffaudit.policy.alert_rules import AlertRule, NoData, Watched
from handoffaudit.policy.kinds import alert_policy
from handoffaudit.validation.times import hour_of

COUNTED_AT_MOST = 10_000

# For windows up to this length, handoffs are counted. For longer windows, the hourly counts are summed.
LIVE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured value, and the number of handoffs that the alert rule is about, such as the rejected handoffs.

    For the age of the queue, `number` is 1 if a handoff waits, else 0. `value` has the unit of the alert rule. The
    rejection rate is None if fewer judged handoffs came than the rule demands (`minimum`).
    """

    value: float | None
    number: int = 0


def measure(tenant: Tenant, row: AlertRule, now: datetime) -> Measured:
    return _MEASURES[row.name](tenant, row, now)


def last_received(tenant: Tenant) -> datetime | None:
    """Return the time of receipt of the last handoff, or None without any handoff."""
    newest = Handoff.objects.filter(tenant=tenant).order_by("-id")
    last = (rows.values_list("received_at", flat=True).first() for rows in (newest, _filter_sent(tenant)))
    return max((moment for moment in last if moment), default=None)


def _filter_sent(tenant: Tenant) -> "QuerySet[Handoff]":
    """Return the handoffs for which the sender gave a time, ordered by receipt, the newest first."""
    return Handoff.objects.filter(tenant=tenant, sent_at__isnull=False).order_by("-received_at")


def _list_late(tenant: Tenant, since: datetime, first: datetime) -> list[tuple[str, bool]]:
    """Return the state and the value of `unverified` of each late handoff.

    A late handoff was received since `since`, but its sender gave a time before `first`. The id contains the time of
    the sender, so a range of ids from `first` on misses the late handoffs. The search reads the newest
    `COUNTED_AT_MOST` handoffs for which the sender gave a time.
    """
    rows = _filter_sent(tenant).filter(received_at__gte=since).values_list("id", "state", "unverified")
    first_id = first_id_at(first)
    return [(state, unverified) for pk, state, unverified in rows[:COUNTED_AT_MOST] if pk < first_id]


def _rejection_rate(tenant: Tenant, row: AlertRule, now: datetime) -> Measured:
    since = now - timedelta(minutes=row.window_minutes)
    is_live = now - since <= LIVE
    states = _count_live(tenant, since) if is_live else _count_by_hour(tenant, since)
    states.update(state for state, _ in _list_late(tenant, since, since if is_live else hour_of(since)))
    rate = rejection_rate(states)
    return Measured(rate.value if rate.total >= row.minimum else None, rate.part)


def _count_live(tenant: Tenant, since: datetime) -> Counter[str]:
    rows = Handoff.objects.filter(tenant=tenant, id__gte=first_id_at(since)).order_by("-id")
    return Counter(rows.values_list("state", flat=True)[:COUNTED_AT_MOST])


def _count_by_hour(tenant: Tenant, since: datetime) -> Counter[str]:
    """Return the number of handoffs by state, from the start of the hour of `since` on."""
    hour = hour_of(since)
    states: Counter[str] = Counter()
    rows = HOURLY_TOTALS.read(tenant, hour, code="").values_list("state", "number")
    for state, number in rows:
        states[state] += number
    return states


def _queue_age(tenant: Tenant, row: AlertRule, now: datetime) -> Measured:
    oldest = stats.find_oldest_unjudged(tenant.pk)
    return Measured(max(0.0, (now - oldest.since).total_seconds()) if oldest else 0.0, 1 if oldest else 0)


def _fail_open(tenant: Tenant, row: AlertRule, now: datetime) -> Measured:
    since = now - timedelta(minutes=row.window_minutes)
    passed = Handoff.objects.filter(
        is_in_states([State.ACCEPTED]), tenant=tenant, unverified=True, id__gte=first_id_at(since)
    )
    late = _list_late(tenant, since, since).count((State.ACCEPTED, True))
    number = passed[:COUNTED_AT_MOST].count() + late
    return Measured(float(number), number)


def _overdue_holds(tenant: Tenant, row: AlertRule, now: datetime) -> Measured:
    number = Handoff.objects.filter(is_overdue(now), tenant=tenant)[:COUNTED_AT_MOST].count()
    return Measured(float(number), number)


_MEASURES: dict[Watched, Callable[[Tenant, AlertRule, datetime], Measured]] = {
    Watched.REJECTION_RATE: _rejection_rate,
    Watched.QUEUE_AGE: _queue_age,
    Watched.FAIL_OPEN: _fail_open,
    Watched.OVERDUE_HOLDS: _overdue_holds,
}

log = structlog.get_logger(__name__)

EVERY = timedelta(minutes=1)

# Active alerts that come from events are repeated this often.
REMIND = timedelta(hours=24)

WARNING, ALERT = "warning", "alert"

_MARK = "thresholds"

BY_THRESHOLD = (*(AlertKind(watched.value) for watched in Watched), AlertKind.NO_HANDOFFS)


def anything_due() -> bool:
    """Return whether a minute has passed since the last evaluation."""
    return not Watermark.objects.filter(~_is_over(timezone.now()), name=_MARK).exists()


def evaluate_all() -> bool:
    """Evaluate all tenants if a minute has passed; return whether this process did so.

    If several processes call this function at the same time, only one process evaluates the tenants.
    """
    now = timezone.now()
    Watermark.objects.get_or_create(name=_MARK, defaults={"at": datetime.fromtimestamp(0, UTC)})
    if not Watermark.objects.filter(_is_over(now), name=_MARK).update(at=now):
        return False
    for tenant in Tenant.objects.order_by("pk"):
        # An error for one tenant must not stop the evaluation of the other tenants.
        try:
            evaluate(tenant, now)
        except Exception:
            log.exception("alert rules could not be evaluated", tenant=tenant.slug)
    delivery.notify_webhook_workers()
    return True


def _is_over(now: datetime) -> Q:
    """Return the condition that the last evaluation was a minute ago or earlier.

    A time more than a minute in the future comes from a clock that was ahead, and meets the condition, too.
    """
    return Q(at__lte=now - EVERY) | Q(at__gt=now + EVERY)


def evaluate(tenant: Tenant, now: datetime) -> None:
    """Evaluate the alert rules of one tenant."""
    silent: list[AlertRule] = []
    last = last_received(tenant)
    for row in alert_policy.current(tenant).rows:
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
        _settle(tenant, kind, _choose_level(row, value), value, row, now)
    _settle_silence(tenant, silent, last, now)
    _remind(tenant, now)


def _choose_level(row: AlertRule, value: float) -> str:
    return ALERT if value >= row.alert else WARNING if value >= row.warning else ""


def _settle_silence(tenant: Tenant, silent: list[AlertRule], last: datetime | None, now: datetime) -> None:
    if not silent:
        _close(tenant, AlertKind.NO_HANDOFFS, now)
    # For a tenant that never had a handoff, missing handoffs are not a reason for an alert. An active alert stays as
    # it is if retention has removed the last handoff.
    elif last is not None:
        _settle(tenant, AlertKind.NO_HANDOFFS, ALERT, (now - last).total_seconds(), silent[0], now)


def _settle(tenant: Tenant, kind: AlertKind, level: str, value: float, row: AlertRule, now: datetime) -> None:
    alert = _open(tenant, kind)
    if not level:
        if alert and now - alert.last_at >= timedelta(minutes=row.clear_minutes):
            _close(tenant, kind, now)
    elif alert is None:
        if not _is_acknowledged(tenant, kind, level, row, now):
            # Another process may have opened the alert meanwhile, so conflicts are ignored.
            opened = Alert(tenant=tenant, kind=kind, level=level, value=value, opened_at=now, last_at=now)
            opened.notified_at = now
            Alert.objects.bulk_create([opened], ignore_conflicts=True)
    else:
        _update_open(alert, level, value, row, now)


def _update_open(alert: Alert, level: str, value: float, row: AlertRule, now: datetime) -> None:
    columns: dict[str, object] = {"value": value, "last_at": now}
    worse = level == ALERT and alert.level == WARNING
    again = now - (alert.notified_at or alert.opened_at) >= timedelta(minutes=row.renotify_minutes)
    if worse:
        columns["level"] = ALERT
    if worse or again:
        columns["notified_at"] = now
    Alert.objects.filter(pk=alert.pk, acknowledged_at=None).update(**columns)


def _is_acknowledged(tenant: Tenant, kind: AlertKind, level: str, row: AlertRule, now: datetime) -> bool:
    """Return whether a person acknowledged the last alert, and the acknowledgement still counts.

    If so, store `now` as `last_at` of this alert, because the value is still at a level. An acknowledgement no longer
    counts if the value was below the levels for longer than both `clear_minutes` and three minutes. Nor does it count
    if the acknowledged alert had the level `warning` and the new level is `alert`.
    """
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
    """Repeat the alerts without an alert rule every `REMIND`. Such alerts have no `renotify_minutes`."""
    standing = Alert.objects.filter(tenant=tenant, acknowledged_at=None).exclude(kind__in=BY_THRESHOLD)
    long_ago = Q(notified_at__lte=now - REMIND) | Q(notified_at=None, opened_at__lte=now - REMIND)
    standing.filter(long_ago).update(notified_at=now)


def _open(tenant: Tenant, kind: AlertKind) -> Alert | None:
    return Alert.objects.filter(tenant=tenant, kind=kind, acknowledged_at=None).first()


def _close(tenant: Tenant, kind: AlertKind, now: datetime) -> None:
    Alert.objects.filter(tenant=tenant, kind=kind, acknowledged_at=None).update(
        acknowledged_at=now, acknowledged_by=SYSTEM.name
    )
