"""The weekly compliance report, sent once to each webhook that asked for the report.

The report of a week is due on the Monday after that week, at `DUE_HOUR` UTC. If no worker runs at that time, the next
worker that starts sends the report.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.compliance_report import WEEK_TABLES, WeekTable, count_judged
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs.leases import NamedLease
from handoffaudit.handoffs.rates import Share
from handoffaudit.handoffs.webhooks import delivery, events
from handoffaudit.handoffs.webhooks.subscriptions import EventType, list_active

log = structlog.get_logger(__name__)

TASK: Final = "handoffaudit.diagnostics.tasks.send_reports"

MARK: Final = "compliance"

LEASE: Final = NamedLease(Watermark, "compliance.claim")

DUE_HOUR: Final = 6

# The report names at most this many agents for each rate; the page and the API have more.
MOST_AGENTS: Final = 20

_WEEK: Final = timedelta(days=7)

# The entry `MARK` is the due time of the newest report that was sent. While no newer report is due, a sweep does not
# read the database.
_sent: dict[str, datetime] = {}


def last_due(now: datetime) -> datetime:
    """Return the time at which the newest report was due: a Monday at `DUE_HOUR`."""
    monday = now.astimezone(UTC).date() - timedelta(days=now.astimezone(UTC).weekday())
    due = datetime.combine(monday, time(DUE_HOUR), UTC)
    return due if due <= now else due - _WEEK


def anything_due() -> bool:
    """Return whether a due report is not sent yet and no process is sending it. Cheap enough for each sweep."""
    due = last_due(timezone.now())
    if _sent.get(MARK) == due:
        return False
    # A mark of a later week comes from a clock that was ahead.
    if Watermark.objects.filter(name=MARK, at=due).exists():
        _sent[MARK] = due
        return False
    return LEASE.is_free()


def send_due() -> int:
    """Store the deliveries of the newest due report, unless they are stored already.

    Return the number of tenants with a report; 0 if all deliveries are stored, or if another process stores them.

    Only one process at a time stores deliveries. If the process dies between two tenants, or the report of a tenant
    fails, a later call tries again. No webhook receives the report of a week twice, because a delivery is stored once
    for each webhook and event.
    """
    due = last_due(timezone.now())
    held_until = LEASE.acquire()
    if held_until is None:
        return 0
    number, pause = 0, timedelta()
    try:
        if Watermark.objects.filter(name=MARK, at=due).exists():
            return 0
        for tenant in _list_tenants():
            try:
                _send(tenant, due)
                number += 1
            except Exception:
                # The failure of one report must not stop the others. A call after the pause makes all reports again.
                log.exception("a weekly report failed", tenant=tenant.slug)
                pause = LEASE.LENGTH
            held_until = LEASE.renew(held_until)
            if held_until is None:
                return number
        if not pause:
            Watermark.objects.update_or_create(name=MARK, defaults={"at": due})
    finally:
        LEASE.release(held_until, pause)
    return number


def _list_tenants() -> list[Tenant]:
    """Return the tenants with a webhook that asked for the report."""
    heard = list_active().items()
    return [found[0].tenant for _, found in heard if any(EventType.COMPLIANCE in one.events for one in found)]


@transaction.atomic
def _send(tenant: Tenant, due: datetime) -> None:
    report = make_report(tenant, due)
    events.add_event(tenant.pk, EventType.COMPLIANCE, f"compliance:{report['week']}", due, {"report": report})
    transaction.on_commit(delivery.notify_webhook_workers)


def make_report(tenant: Tenant, due: datetime) -> dict[str, Any]:
    """Return the payload of the report on the last full week before `due`, compared with the week before it."""
    end = datetime.combine(due.date(), time(), UTC)
    start = end - _WEEK
    # The weeks of a table end with the week of the given time.
    tables = {name: load(tenant, end - timedelta(seconds=1), weeks=2) for name, load in WEEK_TABLES.items()}
    now, before = (_overall(tenant, since) for since in (start, start - _WEEK))
    rates = {name: _rate(now[name], before[name]) | {"agents": _agents(table)} for name, table in tables.items()}
    return {"week": start.date().isoformat(), **rates, "link": events.page_url(tenant.slug, _path(start.date()))}


def _overall(tenant: Tenant, since: datetime) -> Mapping[str, Share]:
    until = since + _WEEK
    return {
        "acceptance_rate": count_judged(tenant, since, until).share,
        "file_compliance": file_stats.overall(tenant, since, until).share,
    }


def _rate(now: Share, before: Share) -> dict[str, Any]:
    return {"part": now.part, "total": now.total, "percent": now.percent, "percent_before": before.percent}


def _agents(table: WeekTable) -> list[dict[str, Any]]:
    found = sorted(
        (one for one in table.agents if one.weeks[-1].total), key=lambda one: (-one.weeks[-1].total, one.agent)
    )
    return [{"agent": one.agent, **_rate(one.weeks[-1], one.weeks[0])} for one in found[:MOST_AGENTS]]


def _path(week: date) -> str:
    return f"diagnostics/compliance/?since={week}&until={week + _WEEK}"
