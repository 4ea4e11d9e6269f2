"""The kinds of data that retention removes: their stored rows, the rows that are old enough, and the removal.

The age of a row comes from its primary key, which begins with a time: the time of arrival or, for a file report, the
time in the report.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import text_index
from handoffaudit.diagnostics.models import FileReport, LogBlock, LogText
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import (
    Delivery,
    Event,
    Handoff,
    HandoffBody,
    HookEvent,
    ModelCall,
    ModelCheck,
    RemovedDocument,
    State,
    ToolResult,
    TraceFact,
    ValidationState,
)
from handoffaudit.policy.retention import Data

Rows = QuerySet[Any]
# A decision can be undone without a note for less than this time.
_UNDOABLE: Final = timedelta(days=1)
_HASHED_AT_ONCE: Final = 10


@dataclass(frozen=True, slots=True)
class DueRows:
    """A batch of rows to remove. The rows are older than `before`, because the rule keeps data for `days` days."""

    tenant: Tenant
    pks: Sequence[uuid.UUID]
    before: datetime
    days: int


@dataclass(frozen=True, slots=True)
class RetentionTarget:
    """One kind of data.

    `there` returns the rows of a tenant; `old` returns the rows that are older than a given time and may be removed.
    `remove` removes the rows of a batch within a transaction, and returns the number of removed items. `weight` is the
    column with the number of items in a row, or empty if each row is one item.
    """

    there: Callable[[Tenant], Rows]
    old: Callable[[Tenant, datetime], Rows]
    remove: Callable[[DueRows], int]
    weight: str = ""


def _log_blocks(tenant: Tenant) -> "QuerySet[LogBlock]":
    return LogBlock.objects.filter(tenant=tenant, removed_at=None).exclude(parsed_at=None)


def _old_log_blocks(tenant: Tenant, before: datetime) -> "QuerySet[LogBlock]":
    # A block that grew later has an old id but new lines, so the time at which it was last read must be old as well.
    return _log_blocks(tenant).filter(id__lt=first_id_at(before), parsed_at__lt=before)


def _remove_log_texts(due: DueRows) -> int:
    """Remove the lines of log blocks. The blocks stay, so that lines that are sent again are not counted again."""
    blocks = _old_log_blocks(due.tenant, due.before).filter(pk__in=due.pks)
    now = timezone.now()
    blocks.update(removed_at=now, facets="")
    gone = LogBlock.objects.filter(pk__in=due.pks, removed_at=now)
    LogText.objects.filter(block__in=gone.values("pk")).delete()
    return gone.aggregate(lines=Sum("lines"))["lines"] or 0


def _reports(tenant: Tenant) -> "QuerySet[FileReport]":
    return FileReport.objects.filter(tenant=tenant)


def _old_reports(tenant: Tenant, before: datetime) -> "QuerySet[FileReport]":
    return _reports(tenant).filter(id__lt=first_id_at(before))


def _remove_reports(due: DueRows) -> int:
    return _old_reports(due.tenant, due.before).filter(pk__in=due.pks).delete()[0]


def _events(tenant: Tenant) -> "QuerySet[HookEvent]":
    return HookEvent.objects.filter(tenant=tenant)


def _old_events(tenant: Tenant, before: datetime) -> "QuerySet[HookEvent]":
    return _events(tenant).filter(id__lt=first_id_at(before))


def _remove_events(due: DueRows) -> int:
    """Remove hook events together with the validation states that they led to."""
    ValidationState.objects.filter(tenant=due.tenant, event__in=due.pks).delete()
    return _old_events(due.tenant, due.before).filter(pk__in=due.pks).delete()[0]


def _calls(tenant: Tenant) -> "QuerySet[ModelCall]":
    return ModelCall.objects.filter(tenant=tenant)


def _old_calls(tenant: Tenant, before: datetime) -> "QuerySet[ModelCall]":
    return _calls(tenant).filter(id__lt=first_id_at(before), at__lt=before)


def _remove_calls(due: DueRows) -> int:
    return _old_calls(due.tenant, due.before).filter(pk__in=due.pks).delete()[0]


def _deliveries(tenant: Tenant) -> "QuerySet[Delivery]":
    return Delivery.objects.filter(tenant=tenant)


def _old_deliveries(tenant: Tenant, before: datetime) -> "QuerySet[Delivery]":
    """Return old deliveries, except deliveries that are still waiting."""
    return _deliveries(tenant).filter(id__lt=first_id_at(before)).exclude(delivered_at=None, gave_up_at=None)


def _remove_deliveries(due: DueRows) -> int:
    return _old_deliveries(due.tenant, due.before).filter(pk__in=due.pks).delete()[0]


def _tool_results(tenant: Tenant) -> "QuerySet[ToolResult]":
    return ToolResult.objects.filter(tenant=tenant)


def _old_tool_results(tenant: Tenant, before: datetime) -> "QuerySet[ToolResult]":
    return _tool_results(tenant).filter(id__lt=first_id_at(before))


def _remove_tool_results(due: DueRows) -> int:
    return _old_tool_results(due.tenant, due.before).filter(pk__in=due.pks).delete()[0]


def _documents(tenant: Tenant) -> "QuerySet[HandoffBody]":
    return HandoffBody.objects.filter(handoff__tenant=tenant)


def _old_documents(tenant: Tenant, before: datetime) -> "QuerySet[HandoffBody]":
    """Return old documents that no worker and no person needs again.

    The documents of some handoffs stay: of waiting handoffs, of rejected handoffs, which may be repaired or approved,
    of open tasks, and of unverified handoffs that are still rechecked. A recent decision can still be undone, so its
    document stays as well.
    """
    caught_up = timezone.now() - timedelta(hours=settings.MODEL_CATCH_UP_HOURS) - _UNDOABLE
    settled = Handoff.objects.filter(
        tenant=tenant,
        id__lt=first_id_at(before),
        state__in=(State.ACCEPTED, State.APPROVED, State.DECLINED, State.SUPERSEDED),
        open=False,
    ).exclude(unverified=True, id__gte=first_id_at(caught_up))
    lately = Event.objects.filter(handoff=OuterRef("pk"), at__gte=timezone.now() - _UNDOABLE)
    due = ModelCheck.objects.filter(handoff=OuterRef("pk"))
    settled = settled.filter(~Exists(due)).filter(~Q(state__in=(State.APPROVED, State.DECLINED)) | ~Exists(lately))
    return HandoffBody.objects.filter(pk__lt=first_id_at(before), handoff__in=settled)


def _remove_documents(due: DueRows) -> int:
    """Remove documents, and record the time, the rule and the SHA-256 of each removed document."""
    # With the lock, nobody can reopen one of the handoffs meanwhile.
    list(Handoff.objects.select_for_update().filter(pk__in=due.pks).order_by("pk").values_list("pk"))
    bodies = _old_documents(due.tenant, due.before).filter(pk__in=due.pks)
    now = timezone.now()
    left = [
        RemovedDocument(handoff_id=pk, tenant=due.tenant, at=now, days=due.days, sha256=sha256(original).hexdigest())
        for pk, original in bodies.values_list("pk", "original").iterator(chunk_size=_HASHED_AT_ONCE)
    ]
    RemovedDocument.objects.bulk_create(left, ignore_conflicts=True)
    HandoffBody.objects.filter(pk__in=[one.pk for one in left]).delete()
    TraceFact.objects.filter(tenant=due.tenant, pk__in=[one.pk for one in left]).delete()
    text_index.forget(due.tenant, [one.pk for one in left])
    return len(left)


KINDS: Final[dict[Data, RetentionTarget]] = {
    Data.LOGS: RetentionTarget(_log_blocks, _old_log_blocks, _remove_log_texts, weight="lines"),
    Data.FILE_REPORTS: RetentionTarget(_reports, _old_reports, _remove_reports),
    Data.HOOK_EVENTS: RetentionTarget(_events, _old_events, _remove_events),
    Data.MODEL_CALLS: RetentionTarget(_calls, _old_calls, _remove_calls),
    Data.DELIVERIES: RetentionTarget(_deliveries, _old_deliveries, _remove_deliveries),
    Data.TOOL_RESULTS: RetentionTarget(_tool_results, _old_tool_results, _remove_tool_results),
    Data.DOCUMENTS: RetentionTarget(_documents, _old_documents, _remove_documents),
}
