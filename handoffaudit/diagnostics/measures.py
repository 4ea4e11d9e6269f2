"""The figures that thresholds watch, as they stand now; each reads a bounded number of rows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HourlyTotal, State
from handoffaudit.handoffs.rates import rejection_rate
from handoffaudit.policy.thresholds import Threshold, Watched

COUNTED_AT_MOST = 10_000
# Windows up to this are read from handoffs, longer ones from the counts of hours.
LIVE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Measured:
    """`value` in the unit of what is watched, None where there is too little to tell; `number` of handoffs behind."""

    value: float | None
    number: int = 0


def measure(tenant: Tenant, row: Threshold, now: datetime) -> Measured:
    return _MEASURES[row.name](tenant, row, now)


def last_received(tenant: Tenant) -> datetime | None:
    """When a handoff came last."""
    return Handoff.objects.filter(tenant=tenant).order_by("-id").values_list("received_at", flat=True).first()


def _rejection_rate(tenant: Tenant, row: Threshold, now: datetime) -> Measured:
    since = now - timedelta(minutes=row.window_minutes)
    states = _live(tenant, since) if now - since <= LIVE else _by_hour(tenant, since)
    rate = rejection_rate(states)
    return Measured(rate.value if rate.total >= row.minimum else None, rate.part)


def _live(tenant: Tenant, since: datetime) -> Counter[str]:
    rows = Handoff.objects.filter(tenant=tenant, id__gte=first_id_at(since)).order_by("-id")
    return Counter(rows.values_list("state", flat=True)[:COUNTED_AT_MOST])


def _by_hour(tenant: Tenant, since: datetime) -> Counter[str]:
    """Hours count whole."""
    hour = since.replace(minute=0, second=0, microsecond=0)
    states: Counter[str] = Counter()
    rows = HourlyTotal.objects.filter(tenant=tenant, code="", hour__gte=hour).values_list("state", "number")
    for state, number in rows:
        states[state] += number
    return states


def _queue_age(tenant: Tenant, row: Threshold, now: datetime) -> Measured:
    waiting = (
        Handoff.objects.filter(tenant=tenant, state=state, parked=False)
        .order_by("id")
        .values_list("received_at", flat=True)
        .first()
        for state in WAITING_STATES
    )
    oldest = min((moment for moment in waiting if moment), default=None)
    return Measured(max(0.0, (now - oldest).total_seconds()) if oldest else 0.0, 1 if oldest else 0)


def _fail_open(tenant: Tenant, row: Threshold, now: datetime) -> Measured:
    since = first_id_at(now - timedelta(minutes=row.window_minutes))
    passed = Handoff.objects.filter(tenant=tenant, unverified=True, state=State.ACCEPTED, id__gte=since)
    number = passed[:COUNTED_AT_MOST].count()
    return Measured(float(number), number)


def _overdue_holds(tenant: Tenant, row: Threshold, now: datetime) -> Measured:
    held = Handoff.objects.filter(tenant=tenant, state=State.HELD, review_due_at__lt=now)
    number = held[:COUNTED_AT_MOST].count()
    return Measured(float(number), number)


_MEASURES: dict[Watched, Callable[[Tenant, Threshold, datetime], Measured]] = {
    Watched.REJECTION_RATE: _rejection_rate,
    Watched.QUEUE_AGE: _queue_age,
    Watched.FAIL_OPEN: _fail_open,
    Watched.OVERDUE_HOLDS: _overdue_holds,
}
