"""Retention rules that apply at once, and rows that are stored as if long ago."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Model
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import removal, retention_run
from handoffaudit.diagnostics.models import LogBlock, LogText, RetentionRun, Watermark
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import Event, Finding, Handoff, HandoffBody, TraceFact, Verdict
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.policy.retention import Data, Retention


def keep(tenant: Tenant, **days: int | None) -> None:
    """Save a retention rule by kind, at a time long enough ago that the rule applies now."""
    table = retention.current(tenant)
    rows = [Retention(row.name, days.get(row.name.value, row.days)) for row in table.rows]
    retention.save(tenant=tenant, base_version=table.version, rows=rows, actor="ada")
    versions = PolicyVersion.objects.filter(tenant=tenant, kind="retention")
    versions.update(changed_at=timezone.now() - timedelta(hours=2))


def run_all() -> None:
    """Run the retention until nothing is left to delete."""
    for _ in range(1000):
        Watermark.objects.filter(name=retention_run.MARK).delete()
        if retention_run.remove_due(60):
            return
    raise AssertionError("it does not end")


def days_ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def old_id(days: float) -> uuid.UUID:
    """Return an unused id of that time."""
    return uuid.UUID(int=first_id_at(days_ago(days)).int | (uuid.uuid4().int & (2**72 - 1)))


def aged(row: Any, days: float, **columns: Any) -> Any:
    """Return the row as if it had been stored that many days ago."""
    new = old_id(days)
    type(row)._default_manager.filter(pk=row.pk).update(id=new, **columns)
    found: Model = type(row)._default_manager.get(pk=new)
    return found


def aged_blocks(tenant: Tenant, days: float) -> None:
    """Age all log blocks of the tenant."""
    for block in LogBlock.objects.filter(tenant=tenant, removed_at=None):
        packed, new = LogText.objects.get(block=block).packed, old_id(days)
        LogText.objects.filter(block=block).delete()
        LogBlock.objects.filter(pk=block.pk).update(id=new, parsed_at=days_ago(days))
        LogText.objects.create(block_id=new, packed=packed)


def newest_run(tenant: Tenant, data: Data) -> RetentionRun:
    return RetentionRun.objects.get(tenant=tenant, kind=data.value)


def age(handoff: Handoff, days: float = 40) -> Handoff:
    """Return the handoff as if it had arrived that many days ago, with its verdicts and events.

    The handoff also loses the mark that no LLM has verified it.
    """
    new, old = old_id(days), handoff.pk
    Handoff.objects.filter(pk=old).update(id=new, received_at=days_ago(days), unverified=False)
    for model in (HandoffBody, Verdict, Finding, Event, TraceFact):
        model._default_manager.filter(handoff=old).update(handoff=new)
    Event.objects.filter(handoff=new).update(at=days_ago(days))
    return Handoff.objects.get(pk=new)


def rows_of(handoff: Handoff) -> dict[str, int]:
    """Return the number of rows of each model that name the handoff."""
    found = {}
    for model, column in removal._ROWS:
        number = model._default_manager.filter(**{column: handoff.pk}).count()
        found |= {model.__name__: number} if number else {}
    return found
