"""The kinds of data that retention removes: their stored rows, the rows that are old enough, and the removal.

The age of a row comes from its primary key, which begins with a time. For most rows, this is the time of arrival. For a
handoff with `sent_at`, it is `sent_at`, and for a file report the time in the report. Log blocks and LLM calls have a
second time, which must be old as well. The age of an hourly count comes from its hour.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.conf import settings
from django.db.models import Exists, Min, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import removal, text_index
from handoffaudit.diagnostics.models import FileReport, LogBlock, LogText
from handoffaudit.handoffs import counts, db, partitions
from handoffaudit.handoffs.counts import midnight_of
from handoffaudit.handoffs.filters import first_id_at, moment_of
from handoffaudit.handoffs.legal_holds import Holds
from handoffaudit.handoffs.models import (
    Delivery,
    Event,
    HandedOut,
    Handoff,
    HandoffBody,
    HookEvent,
    HourlyCount,
    ModelCall,
    ModelCheck,
    RemovedDocument,
    State,
    ToolResult,
    TraceFact,
    ValidationState,
)
from handoffaudit.policy.retention import MOST, Data, Retention

Rows = QuerySet[Any]
# A decision that is older than this can't be undone without a note.
_UNDOABLE: Final = timedelta(days=1)
_HASHED_AT_ONCE: Final = 10
_DECIDED: Final = (State.APPROVED, State.DECLINED)
_NEEDED: Final = (State.RECEIVED, State.VALIDATING, State.HELD)
_SETTLED: Final = (State.ACCEPTED, State.APPROVED, State.DECLINED, State.SUPERSEDED)


@dataclass(frozen=True, slots=True)
class Terms:
    """The retention rule that a run applies at the time `at`, and the legal holds.

    `rule.types` has the terms of handoff types that do not follow `rule.days`.
    """

    rule: Retention
    at: datetime
    holds: Holds

    @property
    def before(self) -> datetime:
        """Return the time limit of the shortest term. Everything newer is kept."""
        return self._compute_start(min(self.rule.terms, default=MOST))

    def days_of(self, handoff_type: str) -> int:
        days = self.rule.types.get(handoff_type, self.rule.days)
        return 0 if days is None else days

    def is_old(self) -> Q:
        """Return the condition for handoffs that are older than the term of their type."""
        old = Q(pk__in=())
        if self.rule.days is not None:
            old = Q(id__lt=self._first_kept(self.rule.days)) & ~Q(handoff_type__in=tuple(self.rule.types))
        for name, days in self.rule.types.items():
            if days is not None:
                old |= Q(handoff_type=name, id__lt=self._first_kept(days))
        return old & Q(id__lt=first_id_at(self.before))

    def keeps_some(self, tenant: Tenant, low: uuid.UUID, high: uuid.UUID) -> bool:
        """Return whether a handoff from the id `low` to before `high` must stay.

        A handoff must stay if a legal hold keeps it, or if `_old_handoffs` leaves it out. Each reason to stay has an
        index, so the answer takes as long for millions of handoffs as for a few.
        """
        rows, caught_up = Handoff.objects.filter(tenant=tenant, id__gte=low, id__lt=high), _compute_catch_up_end()
        is_all_old = None not in (days := [self.rule.days, *self.rule.types.values()]) and high <= min(
            self._first_kept(one) for one in days if one is not None
        )
        return (
            self.holds.is_everything
            or (bool(self.holds.handoffs) and rows.filter(pk__in=self.holds.handoffs).exists())
            or (bool(self.holds.traces) and rows.filter(trace_id__in=self.holds.traces).exists())
            or (not is_all_old and rows.exclude(self.is_old()).exists())
            or needs_some([tenant.pk], low, high)
            or rows.filter(unverified=True, id__gte=first_id_at(caught_up)).exists()
            or _list_undoable(tenant).filter(handoff__gte=low, handoff__lt=high).exists()
        )

    def _first_kept(self, days: int) -> uuid.UUID:
        return first_id_at(self._compute_start(days))

    def _compute_start(self, days: int) -> datetime:
        since = self.at - timedelta(days=days)
        # On PostgreSQL, handoffs are removed by whole weeks, because a partition covers a week.
        return partitions.week_of(since) if self.rule.name is Data.HANDOFFS and db.is_postgresql() else since


@dataclass(frozen=True, slots=True)
class DueRows:
    """A batch of rows to remove by the terms."""

    tenant: Tenant
    pks: Sequence[Any]
    terms: Terms


@dataclass(frozen=True, slots=True)
class RetentionTarget:
    """One kind of data.

    `there` returns the rows of a tenant; `old` returns the rows that are older than their terms and may be removed.
    `remove` removes the rows of a batch within a transaction, and returns the number of removed items. `weight` is the
    column with the number of items in a row, or empty if each row is one item. `handoff` and `trace` are the columns by
    which legal holds find the rows. `batch` is the number of rows in one transaction, 0 for the usual number.
    `has_timed_key` is true if the primary key begins with a time. `remove_rest` removes a batch of related rows that
    have no such key, and returns their number.
    """

    there: Callable[[Tenant], Rows]
    old: Callable[[Tenant, Terms], Rows]
    remove: Callable[[DueRows], int]
    weight: str = ""
    handoff: str = ""
    trace: str = ""
    batch: int = 0
    has_timed_key: bool = True
    remove_rest: Callable[[Tenant, Terms, int], int] | None = None

    def list_due(self, tenant: Tenant, terms: Terms) -> Rows:
        """Return the rows to remove: old rows that no legal hold keeps."""
        return terms.holds.exclude(self.old(tenant, terms), self.handoff, self.trace)

    def find_oldest(self, tenant: Tenant) -> datetime | None:
        """Return the time of the oldest row, or None if there is no row."""
        rows = self.there(tenant)
        if not self.has_timed_key:
            return rows.aggregate(oldest=Min("hour"))["oldest"]  # type: ignore[no-any-return]
        pk: uuid.UUID | None = rows.order_by("pk").values_list("pk", flat=True).first()
        return moment_of(pk) if pk else None


def _log_blocks(tenant: Tenant) -> "QuerySet[LogBlock]":
    return LogBlock.objects.filter(tenant=tenant, removed_at=None).exclude(parsed_at=None)


def _old_log_blocks(tenant: Tenant, terms: Terms) -> "QuerySet[LogBlock]":
    # A block that grew later has an old id but new lines, so the time at which it was last read must be old as well.
    return _log_blocks(tenant).filter(id__lt=first_id_at(terms.before), parsed_at__lt=terms.before)


def _remove_log_texts(due: DueRows) -> int:
    """Remove the lines of log blocks. The blocks stay, so that lines that are sent again are not counted again."""
    blocks = _old_log_blocks(due.tenant, due.terms).filter(pk__in=due.pks)
    now = timezone.now()
    blocks.update(removed_at=now, facets="")
    gone = LogBlock.objects.filter(pk__in=due.pks, removed_at=now)
    LogText.objects.filter(block__in=gone.values("pk")).delete()
    return gone.aggregate(lines=Sum("lines"))["lines"] or 0


def _reports(tenant: Tenant) -> "QuerySet[FileReport]":
    return FileReport.objects.filter(tenant=tenant)


def _old_reports(tenant: Tenant, terms: Terms) -> "QuerySet[FileReport]":
    return _reports(tenant).filter(id__lt=first_id_at(terms.before))


def _remove_reports(due: DueRows) -> int:
    return _old_reports(due.tenant, due.terms).filter(pk__in=due.pks).delete()[0]


def _events(tenant: Tenant) -> "QuerySet[HookEvent]":
    return HookEvent.objects.filter(tenant=tenant)


def _old_events(tenant: Tenant, terms: Terms) -> "QuerySet[HookEvent]":
    return _events(tenant).filter(id__lt=first_id_at(terms.before))


def _remove_events(due: DueRows) -> int:
    """Remove hook events together with the validation states that they led to."""
    ValidationState.objects.filter(tenant=due.tenant, event__in=due.pks).delete()
    return _old_events(due.tenant, due.terms).filter(pk__in=due.pks).delete()[0]


def _remove_tasks(tenant: Tenant, terms: Terms, most: int) -> int:
    """Remove a batch of tasks whose handoffs are older than the term of hook events.

    Open tasks stay. A task that ended without a handoff has no time; such a task is removed as well, because no event
    needs it.
    """
    first_kept = first_id_at(terms.before)
    old = (
        HandedOut.objects.filter(Q(handoff=None) | Q(handoff__lt=first_kept), tenant=tenant)
        .filter(Q(returned=None) | Q(returned__lt=first_kept))
        .exclude(handoff=None, returned=None, over=False)
        .filter(~Exists(Handoff.objects.filter(tenant=tenant, pk=OuterRef("handoff"), open=True)))
    )
    for column in ("handoff", "returned"):
        old = terms.holds.exclude(old, column)
    return HandedOut.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:most])).delete()[0]


def _calls(tenant: Tenant) -> "QuerySet[ModelCall]":
    return ModelCall.objects.filter(tenant=tenant)


def _old_calls(tenant: Tenant, terms: Terms) -> "QuerySet[ModelCall]":
    return _calls(tenant).filter(id__lt=first_id_at(terms.before), at__lt=terms.before)


def _remove_calls(due: DueRows) -> int:
    return _old_calls(due.tenant, due.terms).filter(pk__in=due.pks).delete()[0]


def _deliveries(tenant: Tenant) -> "QuerySet[Delivery]":
    return Delivery.objects.filter(tenant=tenant)


def _old_deliveries(tenant: Tenant, terms: Terms) -> "QuerySet[Delivery]":
    """Return old deliveries, except deliveries that are still waiting."""
    return _deliveries(tenant).filter(id__lt=first_id_at(terms.before)).exclude(delivered_at=None, gave_up_at=None)


def _remove_deliveries(due: DueRows) -> int:
    return _old_deliveries(due.tenant, due.terms).filter(pk__in=due.pks).delete()[0]


def _tool_results(tenant: Tenant) -> "QuerySet[ToolResult]":
    return ToolResult.objects.filter(tenant=tenant)


def _old_tool_results(tenant: Tenant, terms: Terms) -> "QuerySet[ToolResult]":
    return _tool_results(tenant).filter(id__lt=first_id_at(terms.before))


def _remove_tool_results(due: DueRows) -> int:
    return _old_tool_results(due.tenant, due.terms).filter(pk__in=due.pks).delete()[0]


def _compute_catch_up_end() -> datetime:
    """Return a time a day before the oldest handoffs that the LLM may still check again."""
    return timezone.now() - timedelta(hours=settings.MODEL_CATCH_UP_HOURS) - _UNDOABLE


def _list_undoable(tenant: Tenant) -> "QuerySet[Event]":
    """Return the decisions of the last day, among them all decisions that can still be undone without a note.

    The condition on the state is that of a partial index.
    """
    return Event.objects.filter(tenant=tenant, at__gte=timezone.now() - _UNDOABLE, to_state__in=_DECIDED)


def needs_some(tenants: Sequence[int], low: uuid.UUID, high: uuid.UUID) -> bool:
    """Return whether a worker or a person needs a handoff from the id `low` to before `high`."""
    rows = Handoff.objects.filter(tenant__in=tenants, id__gte=low, id__lt=high)
    return (
        rows.filter(state__in=_NEEDED).exists()
        or rows.filter(open=True).exists()
        or ModelCheck.objects.filter(tenant__in=tenants, handoff__gte=low, handoff__lt=high).exists()
    )


def _list_settled(tenant: Tenant, terms: Terms, *states: State) -> "QuerySet[Handoff]":
    """Return old handoffs in an end state, or in one of `states`, that no worker and no person needs again."""
    settled = Handoff.objects.filter(terms.is_old(), tenant=tenant, state__in=(*_SETTLED, *states), open=False).exclude(
        unverified=True, id__gte=first_id_at(_compute_catch_up_end())
    )
    lately = _list_undoable(tenant).filter(handoff=OuterRef("pk"))
    due = ModelCheck.objects.filter(handoff=OuterRef("pk"))
    return settled.filter(~Exists(due)).filter(~Q(state__in=_DECIDED) | ~Exists(lately))


def _documents(tenant: Tenant) -> "QuerySet[Handoff]":
    # The rows are handoffs, because their index gives the oldest document without a sort of all documents.
    return Handoff.objects.filter(tenant=tenant, body__isnull=False)


def _old_documents(tenant: Tenant, terms: Terms) -> "QuerySet[Handoff]":
    """Return the handoffs with old documents that no worker and no person needs again.

    Documents stay if their handoff waits, is an open task, or is unverified and may be rechecked. Documents of rejected
    handoffs stay as well, because these handoffs may be repaired or approved. A recent decision can still be undone, so
    its document stays as well.
    """
    return _list_settled(tenant, terms).filter(body__isnull=False)


def _remove_documents(due: DueRows) -> int:
    """Remove documents with their trace facts and indexed words. Return the number of documents.

    For each document, a record of the time, the term in days and the SHA-256 stays.
    """
    # With the lock, nobody can reopen one of the handoffs meanwhile.
    list(Handoff.objects.select_for_update().filter(pk__in=due.pks).order_by("pk").values_list("pk"))
    handoffs = _old_documents(due.tenant, due.terms).filter(pk__in=due.pks)
    now, rows = timezone.now(), handoffs.values_list("pk", "handoff_type", "body__original")
    left = [
        RemovedDocument(
            handoff_id=pk,
            tenant=due.tenant,
            at=now,
            days=due.terms.days_of(of_type),
            sha256=sha256(original).hexdigest(),
        )
        for pk, of_type, original in rows.iterator(chunk_size=_HASHED_AT_ONCE)
    ]
    RemovedDocument.objects.bulk_create(left, ignore_conflicts=True)
    HandoffBody.objects.filter(pk__in=[one.pk for one in left]).delete()
    TraceFact.objects.filter(tenant=due.tenant, pk__in=[one.pk for one in left]).delete()
    text_index.forget(due.tenant, [one.pk for one in left])
    return len(left)


def _handoffs(tenant: Tenant) -> "QuerySet[Handoff]":
    return Handoff.objects.filter(tenant=tenant)


def _old_handoffs(tenant: Tenant, terms: Terms) -> "QuerySet[Handoff]":
    """Return old handoffs that no worker and no person needs again. Nobody repairs old rejected handoffs."""
    return _list_settled(tenant, terms, State.REJECTED)


def _remove_handoffs(due: DueRows) -> int:
    """Remove handoffs with everything that belongs to them. The lock keeps reviewers from changing them meanwhile."""
    old = _old_handoffs(due.tenant, due.terms).filter(pk__in=due.pks).select_for_update().order_by("pk")
    return removal.remove_handoffs(due.tenant, list(old.values_list("pk", flat=True)), due.terms.before)


def remove_next_handoffs(
    tenant: Tenant, terms: Terms, after: uuid.UUID, end: uuid.UUID
) -> tuple[uuid.UUID, int] | None:
    """Remove the next handoffs between the ids `after` and `end`. Return the last id and the number of handoffs.

    Return None without removing a handoff if there is none, or if one of the next handoffs must stay. Also return None
    if `removal.is_dense` refuses their range, for example because the partition with their documents was not dropped.
    """
    rows = Handoff.objects.filter(tenant=tenant, pk__gt=after, pk__lt=end).order_by("pk").values_list("pk", flat=True)
    if (first := rows.first()) is None:
        return None
    last = rows[removal.RANGE_AT_ONCE - 1 : removal.RANGE_AT_ONCE].first() or rows.reverse()[0]
    if not removal.is_dense(tenant, first, last) or terms.keeps_some(tenant, first, uuid.UUID(int=last.int + 1)):
        return None
    number = removal.remove_range(KINDS[Data.HANDOFFS].list_due(tenant, terms), tenant, first, last, terms.before)
    return (last, number) if number else None


def _hours(tenant: Tenant) -> "QuerySet[HourlyCount]":
    """Return the hourly counts that are not added up yet.

    The counts of a day are added up in its first hour, so these are the counts of all other hours.
    """
    return HourlyCount.objects.filter(tenant=tenant).exclude(hour__hour=0)


def _old_hours(tenant: Tenant, terms: Terms) -> "QuerySet[HourlyCount]":
    return _hours(tenant).filter(hour__lt=midnight_of(terms.before))


def _roll_up_hours(due: DueRows) -> int:
    days = HourlyCount.objects.filter(pk__in=due.pks).values_list("hour", flat=True)
    return counts.roll_up(due.tenant, min(days)) if days else 0


KINDS: Final[dict[Data, RetentionTarget]] = {
    Data.LOGS: RetentionTarget(_log_blocks, _old_log_blocks, _remove_log_texts, weight="lines"),
    Data.FILE_REPORTS: RetentionTarget(_reports, _old_reports, _remove_reports, handoff="handoff"),
    Data.HOOK_EVENTS: RetentionTarget(
        _events, _old_events, _remove_events, handoff="handoff", remove_rest=_remove_tasks
    ),
    Data.MODEL_CALLS: RetentionTarget(_calls, _old_calls, _remove_calls, handoff="handoff"),
    Data.DELIVERIES: RetentionTarget(_deliveries, _old_deliveries, _remove_deliveries),
    Data.TOOL_RESULTS: RetentionTarget(_tool_results, _old_tool_results, _remove_tool_results, trace="trace_id"),
    Data.DOCUMENTS: RetentionTarget(_documents, _old_documents, _remove_documents, handoff="pk", trace="trace_id"),
    Data.HANDOFFS: RetentionTarget(
        _handoffs, _old_handoffs, _remove_handoffs, handoff="pk", trace="trace_id", batch=removal.HANDOFFS_AT_ONCE
    ),
    # Legal holds do not apply to counts: a count belongs to no single handoff, and adding up hours keeps every number.
    Data.HOURLY_COUNTS: RetentionTarget(_hours, _old_hours, _roll_up_hours, has_timed_key=False),
}
