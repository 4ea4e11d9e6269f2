"""How much there is of each kind of data, how old it is, and what would go."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.diagnostics.retention import running
from handoffaudit.diagnostics.retention.kinds import KINDS, Kept, Rows
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.retention import Data, Retention
from handoffaudit.policy.versions import Table

COUNTED_AT_MOST: Final = 50_000


@dataclass(frozen=True, slots=True)
class Count:
    """`more`: counting stopped there."""

    number: int
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.number)


@dataclass(frozen=True, slots=True)
class Standing:
    """One kind of data in a tenant. `goes`: at `next_at`, the next run, by the rule in force; both are None where it is
    kept for good. `last`: the newest run, under way or over."""

    rule: Retention
    there: Count
    oldest: datetime | None
    next_at: datetime | None
    goes: Count | None
    last: RetentionRun | None

    @property
    def under_way(self) -> bool:
        return self.last is not None and self.last.finished_at is None


def standing(tenant: Tenant, table: Table[Retention] | None = None, now: datetime | None = None) -> list[Standing]:
    """Each kind, in the order of `Data`."""
    now = now or timezone.now()
    table = table or retention.current(tenant)
    runs = {one.kind: one for one in RetentionRun.objects.filter(tenant=tenant)}
    return [_standing(tenant, table, row, runs.get(row.name), now) for row in table.rows]


def _standing(
    tenant: Tenant, table: Table[Retention], row: Retention, last: RetentionRun | None, now: datetime
) -> Standing:
    kept = KINDS[row.name]
    next_at = _next_at(table, row, last, now)
    there = _counted(kept, kept.there(tenant))
    goes = going(tenant, row.name, row.days, next_at) if next_at and row.days else None
    return Standing(row, there, _oldest(kept.there(tenant)), next_at, goes, last)


def going(tenant: Tenant, data: Data, days: int | None, at: datetime) -> Count:
    """What goes of it in a run at that time, where it is kept for so many days."""
    if days is None:
        return Count(0)
    kept = KINDS[data]
    return _counted(kept, kept.old(tenant, at - timedelta(days=days)))


def removed(tenant: Tenant, data: Data) -> RetentionRun | None:
    """What pages say of what is not there any more: the run that took some; None where none did."""
    return RetentionRun.objects.filter(tenant=tenant, kind=data.value).exclude(removed_at=None).first()


def told(tenant: Tenant, data: Data) -> str:
    """The same in a sentence that follows another; empty where none did."""
    run = removed(tenant, data)
    if run is None or run.removed_before is None or run.removed_at is None:
        return ""
    return f" What was from before {_day(run.removed_before)} was removed on {_day(run.removed_at)} by retention."


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%b %Y}"


def _next_at(table: Table[Retention], row: Retention, last: RetentionRun | None, now: datetime) -> datetime | None:
    if row.days is None:
        return None
    begins = max(running.begins_at(table) or now, now)
    again = last is not None and last.finished_at is not None and last.days == row.days
    return max(begins, last.started_at + running.AGAIN) if again and last else begins


def _counted(kept: Kept, rows: Rows) -> Count:
    some = rows.order_by()[: COUNTED_AT_MOST + 1]
    if not kept.weight:
        number = some.count()
        return Count(min(number, COUNTED_AT_MOST), number > COUNTED_AT_MOST)
    weights = list(some.values_list(kept.weight, flat=True))
    return Count(sum(weights[:COUNTED_AT_MOST]), len(weights) > COUNTED_AT_MOST)


def _oldest(rows: Rows) -> datetime | None:
    pk: uuid.UUID | None = rows.order_by("pk").values_list("pk", flat=True).first()
    return datetime.fromtimestamp((pk.int >> 80) / 1000, UTC) if pk else None
