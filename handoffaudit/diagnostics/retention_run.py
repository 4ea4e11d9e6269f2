"""The run that removes old data in small batches, in one process at a time, and counts of the data that is due."""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.database_faults import fault_of
from handoffaudit.diagnostics.models import NOWHERE, RetentionRun, Watermark
from handoffaudit.diagnostics.retention_targets import (
    KINDS,
    DueRows,
    RetentionTarget,
    Rows,
    Terms,
    needs_some,
    remove_next_handoffs,
)
from handoffaudit.handoffs import db, judge_leases, legal_holds, partitions
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.leases import NamedLease, pause_after
from handoffaudit.handoffs.legal_holds import NO_HOLDS
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.partitions import Partition
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.retention import Data, Retention
from handoffaudit.policy.versions import Table

log = structlog.get_logger(__name__)

TASK: Final = "handoffaudit.diagnostics.tasks.remove_old"
MARK: Final = "retention"
LEASE: Final = NamedLease(Watermark, "retention.claim")
BEGUN, REMOVED = "retention.begin", "retention.remove"
# EVERY is the time between two passes over all tenants, AGAIN the time between two runs over one kind of data.
EVERY: Final = timedelta(minutes=10)
AGAIN: Final = timedelta(hours=24)
BATCH: Final = 200
# A batch ends when its texts reach this size, because nobody else can write to SQLite during a batch.
BATCH_BYTES: Final = 16 * 2**20
_SIZES: Final = {Data.TOOL_RESULTS: "size", Data.DOCUMENTS: "size_bytes", Data.HANDOFFS: "size_bytes"}
SQLITE_BATCH: Final = 1_000
# While handoffs wait, a batch has at most this many ids, because a larger batch would take a core for too long.
BUSY_BATCH: Final = 500
# While handoffs wait, retention may take this share of one thread's time, across all processes.
_SHARE: Final = 0.15


class _Overtaken(Exception):
    """The error for a run that another process has continued meanwhile."""


def begins_at(table: Table[Retention]) -> datetime | None:
    """Return the time from which the current rules apply, or None for the default rules, which always apply."""
    return table.changed_at + first_after() if table.changed_at else None


def first_after() -> timedelta:
    """Return the time between the save of a rule and its first run. Until then, the rule can be reverted."""
    return timedelta(seconds=settings.RETENTION_SECONDS)


def anything_due() -> bool:
    """Return whether a run is unfinished or a pass is due. Return False while a process removes data.

    The check is cheap enough for each sweep.
    """
    if not LEASE.is_free():
        return False
    now = timezone.now()
    fresh = Q(at__gt=now - EVERY, at__lte=now + EVERY)
    return (
        not Watermark.objects.filter(fresh, name=MARK).exists()
        or RetentionRun.objects.filter(finished_at=None).exists()
    )


def remove_due(seconds: float) -> bool:
    """Remove due data until all is removed, `seconds` have passed, or handoffs wait.

    Return False if data is left after `seconds`, so that the caller should call again without a pause.
    """
    held_until = LEASE.acquire()
    if held_until is None:
        return True
    end, pause = time.monotonic() + seconds, timedelta()
    try:
        for tenant, one in _list_all_due():
            if one is None:
                pause = LEASE.LENGTH
                continue
            begun = time.monotonic()
            try:
                while _remove_batch(tenant, one):
                    if judge_leases.is_anything_waiting():
                        pause = pause_after(time.monotonic() - begun, _SHARE)
                        return True
                    if time.monotonic() > end:
                        return False
                    if (renewed := LEASE.renew(held_until)) is None:
                        return True
                    held_until, begun = renewed, time.monotonic()
            except _Overtaken:
                log.warning("retention: another process goes on with the run")
                return True
            except Exception:
                # The failure of one run must not stop other runs. After the pause, the failed run is tried again.
                log.exception("a retention run failed", tenant=tenant.slug, kind=one.kind)
                pause = LEASE.LENGTH
        _drop_emptied()
        Watermark.objects.update_or_create(name=MARK, defaults={"at": timezone.now()})
    finally:
        LEASE.release(held_until, pause)
    return True


def _list_all_due() -> Iterator[tuple[Tenant, RetentionRun | None]]:
    """Yield the due runs of all tenants, and None for a tenant whose runs cannot be listed."""
    for tenant in Tenant.objects.order_by("pk"):
        try:
            for one in _list_due(tenant):
                yield tenant, one
        except Exception as error:
            if fault_of(error):
                raise
            log.exception("the due retention runs of a tenant cannot be listed", tenant=tenant.slug)
            yield tenant, None


def _list_due(tenant: Tenant) -> Iterator[RetentionRun]:
    """Yield the tenant's unfinished runs, and begin and yield the runs that are due."""
    now = timezone.now()
    table = retention.current(tenant)
    begins = begins_at(table)
    kept = {one.kind: one for one in RetentionRun.objects.filter(tenant=tenant)}
    for row in table.rows:
        one = kept.get(row.name)
        if one is not None and one.finished_at is None:
            yield one
        elif row.terms and (begins is None or begins <= now):
            fresh = one is not None and _rule_of(one) == row and now - AGAIN < one.started_at <= now
            if not fresh:
                yield _begin(tenant, row, now)


def _begin(tenant: Tenant, rule: Retention, now: datetime) -> RetentionRun:
    columns: dict[str, Any] = {
        "days": rule.days,
        "types": dict(rule.types),
        "before": Terms(rule, now, NO_HOLDS).before,
        "started_at": now,
        "reached": NOWHERE,
        "number": 0,
        "finished_at": None,
    }
    return RetentionRun.objects.update_or_create(tenant=tenant, kind=rule.name.value, defaults=columns)[0]


def _rule_of(one: RetentionRun) -> Retention:
    """Return the rule that a run applies."""
    return Retention(Data(one.kind), one.days, one.types)


def _remove_batch(tenant: Tenant, one: RetentionRun) -> bool:
    """Remove the next batch of a run. Return False if the run has ended."""
    rule = _rule_of(one)
    # If somebody saved another rule since the run began, the run ends, and a run by the new rule begins when it is due.
    if retention.current(tenant).row(rule.name) != rule:
        _finish(tenant, one)
        return False
    target = KINDS[rule.name]
    # Rows without a UUIDv7 key have no position to continue from. A run over such rows needs none, because finished
    # rows no longer match.
    by_key = target.has_timed_key
    size = target.batch or BATCH
    if judge_leases.is_anything_waiting():
        size = min(size, BUSY_BATCH)
    elif not db.is_postgresql():
        size = min(size, SQLITE_BATCH)
    end = _enter_partition(tenant, one) if rule.name is Data.HANDOFFS and db.is_postgresql() else None
    with write_turn(), transaction.atomic():
        terms = Terms(rule, one.started_at, legal_holds.share(tenant))
        done = remove_next_handoffs(tenant, terms, one.reached, end) if end else None
        if done is None:
            due = target.list_due(tenant, terms).order_by("pk")
            due = due.filter(pk__gt=one.reached) if by_key else due
            due = due.filter(pk__lt=end) if end else due
            if pks := _list_batch(rule.name, due, size):
                done = pks[-1], target.remove(DueRows(tenant, pks, terms))
        if done:
            last, number = done
            columns: dict[str, Any] = {"reached": last if by_key else one.reached, "number": F("number") + number}
            if number:
                columns |= {"removed": F("removed") + number, "removed_at": timezone.now()}
                columns |= {"removed_before": one.before, "removed_days": min(rule.terms)}
                if rule.name is Data.HANDOFFS and not one.number:
                    _record_begin(tenant, one, one.before)
            _update(one, columns)
        rest = target.remove_rest(tenant, terms, size) if target.remove_rest and not done else 0
    if not done and not rest:
        _finish(tenant, one)
        return False
    one.refresh_from_db()
    return True


def _list_batch(kind: Data, due: Rows, most: int) -> list[Any]:
    """Return the keys of the first rows, at most `most` of them, and none after the texts have `BATCH_BYTES`."""
    if kind not in _SIZES:
        return list(due.values_list("pk", flat=True)[:most])
    rows = list(due.values_list("pk", _SIZES[kind])[:most])
    sums = accumulate(size for _, size in rows)
    return [pk for (pk, size), total in zip(rows, sums, strict=True) if total - size < BATCH_BYTES]


def _record_begin(tenant: Tenant, one: RetentionRun, before: datetime) -> None:
    """Record that a run begins to remove rows. The verification of seals expects missing rows from then on.

    If the run has recorded its begin already, record it again only for a later `before`.
    """
    rows = AuditEntry.objects.filter(tenant=tenant, action=BEGUN, target=one.kind, at__gte=one.started_at)
    newest = rows.order_by("-number").first()
    if newest is None or datetime.fromisoformat(str(newest.detail["before"])) < before:
        detail = {"kept_days": one.days, "before": before.isoformat(timespec="microseconds")}
        audit.record(tenant=tenant, actor=SYSTEM.name, action=BEGUN, target=one.kind, detail=detail)


def _enter_partition(tenant: Tenant, one: RetentionRun) -> uuid.UUID | None:
    """Return the id before which the next batch must end, or None if no handoff is due.

    The id is the end of a partition, so that a run enters each partition with a new batch. A partition that the run
    enters is dropped if no tenant needs it.
    """
    terms = Terms(_rule_of(one), one.started_at, legal_holds.read(tenant))
    due = KINDS[Data.HANDOFFS].list_due(tenant, terms).filter(pk__gt=one.reached)
    first = due.order_by("pk").values_list("pk", flat=True).first()
    if first is None:
        return None
    begin, end = partitions.bounds_of(first)
    if begin >= one.reached and (found := partitions.find(first)):
        _drop(found)
    return end


def _drop_emptied() -> None:
    """Drop partitions of past weeks that have no handoff, for example because all were deleted one after another."""
    for one in partitions.list_partitions(partitions.DOCUMENTS):
        if one.ends_at < timezone.now() and not Handoff.objects.filter(id__gte=one.low, id__lt=one.high).exists():
            _drop(partitions.find(one.low))
    # Verdicts that were deleted one after another leave partitions without rows.
    for one in partitions.list_partitions(partitions.VERDICTS):
        if one.ends_at < timezone.now() and partitions.is_empty(one):
            _drop([one])


def _drop(found: Sequence[Partition]) -> None:
    """Drop partitions if they are empty, or if all their handoffs are due in all tenants.

    In the second case, a run then removes the handoff rows. While another transaction uses a table for long, the
    partitions stay, and the rows are deleted instead.
    """
    partitions.drop(found, lambda: _detach(found))


def _detach(found: Sequence[Partition]) -> bool:
    if found[0].table == partitions.VERDICTS:
        return partitions.detach(found, lambda: partitions.is_empty(found[0]))
    now, low, high = timezone.now(), found[0].low, found[0].high
    tenants = list(Tenant.objects.order_by("pk"))
    for tenant in tenants:
        if not Handoff.objects.filter(tenant=tenant, id__gte=low, id__lt=high).exists():
            continue
        table = retention.current(tenant)
        rule, begins = table.row(Data.HANDOFFS), begins_at(table)
        if rule is None or not rule.terms or (begins and begins > now):
            return False
        if Terms(rule, now, legal_holds.share(tenant)).keeps_some(tenant, low, high):
            return False
        # A run that removes the handoffs follows, so that handoffs without documents stay for a short time only.
        run = RetentionRun.objects.filter(tenant=tenant, kind=Data.HANDOFFS.value, finished_at=None).first()
        run = run or _begin(tenant, rule, now)
        _record_begin(tenant, run, max(run.before, found[0].ends_at))
    return partitions.detach(found, lambda: not needs_some([one.pk for one in tenants], low, high))


@transaction.atomic
def _finish(tenant: Tenant, one: RetentionRun) -> None:
    _update(one, {"finished_at": timezone.now()})
    if one.number:
        terms = Terms(_rule_of(one), one.started_at, legal_holds.read(tenant))
        target = KINDS[terms.rule.name]
        seconds = max(0.0, round((timezone.now() - one.started_at).total_seconds(), 1))
        before = one.before.isoformat(timespec="seconds")
        detail = {"removed": one.number, "kept_days": one.days, "before": before, "seconds": seconds}
        if one.types:
            detail["kept_days_by_type"] = one.types
        # On PostgreSQL, `NOT IN` would compare each old row with each due row if many rows are due.
        due = target.list_due(tenant, terms).filter(pk=OuterRef("pk"))
        if terms.holds and (held := _count(target, target.old(tenant, terms).filter(~Exists(due)))):
            detail["held"] = held.number
        audit.record(tenant=tenant, actor=SYSTEM.name, action=REMOVED, target=one.kind, detail=detail)
        log.info("retention has removed what was old", tenant=tenant.slug, kind=one.kind, number=one.number)


def _update(one: RetentionRun, columns: dict[str, Any]) -> None:
    seen = {name: getattr(one, name) for name in ("pk", "started_at", "reached", "number")}
    still = RetentionRun.objects.filter(**seen, finished_at=None)
    if not still.update(**columns):
        raise _Overtaken


COUNTED_AT_MOST: Final = 10_000
# A list of all kinds (the page, the API and the command) counts less far, because it counts each kind.
LISTED_AT_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Count:
    """A number of items; `more` means that counting stopped at this number."""

    number: int
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.number)


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one kind of data in a tenant.

    The next run begins at `next_at`, and `goes` counts the items that it removes. Both are None if the data is kept
    forever. `last` is the newest run, finished or not.
    """

    rule: Retention
    there: Count
    oldest: datetime | None
    next_at: datetime | None
    goes: Count | None
    last: RetentionRun | None

    @property
    def under_way(self) -> bool:
        return self.last is not None and self.last.finished_at is None


def list_standings(tenant: Tenant, table: Table[Retention] | None = None) -> list[Standing]:
    """Return the state of each kind of data, in the order of `Data`."""
    now, table = timezone.now(), table or retention.current(tenant)
    runs = {one.kind: one for one in RetentionRun.objects.filter(tenant=tenant)}
    return [_make_standing(tenant, table, row, runs.get(row.name), now) for row in table.rows]


def _make_standing(
    tenant: Tenant, table: Table[Retention], row: Retention, last: RetentionRun | None, now: datetime
) -> Standing:
    kept = KINDS[row.name]
    next_at = _find_next(table, row, last, now)
    there = _count(kept, kept.there(tenant), LISTED_AT_MOST)
    goes = count_going(tenant, row, next_at, LISTED_AT_MOST) if next_at else None
    return Standing(row, there, kept.find_oldest(tenant), next_at, goes, last)


def count_going(tenant: Tenant, rule: Retention, at: datetime, most: int = COUNTED_AT_MOST) -> Count:
    """Return the number of items that a run by this rule removes at that time, counted up to `most`."""
    if not rule.terms:
        return Count(0)
    kept = KINDS[rule.name]
    return _count(kept, kept.list_due(tenant, Terms(rule, at, legal_holds.read(tenant))), most)


def _find_next(table: Table[Retention], row: Retention, last: RetentionRun | None, now: datetime) -> datetime | None:
    if not row.terms:
        return None
    begins = max(begins_at(table) or now, now)
    again = last is not None and last.finished_at is not None and _rule_of(last) == row
    return max(begins, last.started_at + AGAIN) if again and last else begins


def _count(kept: RetentionTarget, rows: Rows, most: int = COUNTED_AT_MOST) -> Count:
    some = rows.order_by()[: most + 1]
    if not kept.weight:
        number = some.count()
        return Count(min(number, most), number > most)
    weights = list(some.values_list(kept.weight, flat=True))
    return Count(sum(weights[:most]), len(weights) > most)
