"""The removal of whole handoffs: every row that belongs to a handoff leaves in one transaction.

This is the only place that removes handoffs of a tenant that goes on to exist.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db import connection
from django.db.models import Model

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import Attribution, BlockedText, GroupedHandoff, TracedHandoff
from handoffaudit.handoffs import db
from handoffaudit.handoffs.counts import next_midnight
from handoffaudit.handoffs.models import (
    Approval,
    Comment,
    Event,
    Finding,
    Handoff,
    HandoffBody,
    ModelCheck,
    PassedOn,
    Proposal,
    Remediation,
    RemovedDocument,
    RemovedHandoffs,
    ReviewHold,
    TraceFact,
    Verdict,
)

# The handoffs of one transaction. More would be little faster, and would lock rows for longer.
BATCH: Final = 5_000
# The rows of a handoff, with the column that has its key, in the order of removal. The handoff itself comes last.
_ROWS: Final[tuple[tuple[type[Model], str], ...]] = (
    (HandoffBody, "handoff_id"),
    (RemovedDocument, "handoff_id"),
    (Verdict, "handoff_id"),
    (Finding, "handoff_id"),
    (Event, "handoff_id"),
    (TraceFact, "handoff_id"),
    (ModelCheck, "handoff_id"),
    (Approval, "handoff_id"),
    (PassedOn, "handoff_id"),
    (Proposal, "handoff_id"),
    (Comment, "handoff_id"),
    (ReviewHold, "handoff_id"),
    (Attribution, "handoff"),
    (GroupedHandoff, "handoff"),
    (TracedHandoff, "handoff"),
    (BlockedText, "handoff"),
    (Handoff, "id"),
)
# Rows of these models name a handoff and stay: they have a retention of their own, describe later tasks, or are a copy.
KEEPS: Final = ("FileReport", "HookEvent", "ModelCall", "HandedOut", "PolicyCase")


def models() -> list[type[Model]]:
    """Return the models whose rows leave with their handoff."""
    return [model for model, _ in _ROWS]


def remove(tenant: Tenant, handoffs: Sequence[uuid.UUID], before: datetime) -> int:
    """Remove these handoffs, which are older than `before`, and return their number. Call inside a transaction.

    The counts stay as they are, and a recount no longer compares those of that time.
    """
    if not handoffs:
        return 0
    lineages = _list_lineages(tenant, handoffs)
    # The tables have no foreign keys with a cascade, so one statement for each table removes all rows of the batch.
    keys = list(handoffs) if db.is_postgresql() else [one.hex for one in handoffs]
    condition, params = db.among(keys)
    bounds = [min(keys), max(keys)]
    with connection.cursor() as cursor:
        for model, column in _ROWS:
            table = model._meta.db_table  # noqa: SLF001 -- Django's documented API
            of_tenant, of = (" AND tenant_id = %s", [tenant.pk]) if _names_tenant(model) else ("", [])
            # Most handoffs have no rows in most tables. One look at the range is cheaper than one for each handoff.
            cursor.execute(
                f'SELECT 1 FROM "{table}" WHERE "{column}" BETWEEN %s AND %s{of_tenant} LIMIT 1',  # noqa: S608
                [*bounds, *of],
            )
            if cursor.fetchone():
                cursor.execute(f'DELETE FROM "{table}" WHERE "{column}" {condition}{of_tenant}', [*params, *of])  # noqa: S608
    left = set(Handoff.objects.filter(tenant=tenant, lineage__in=lineages).values_list("lineage", flat=True))
    left |= set(Handoff.objects.filter(tenant=tenant, handoff_id__in=lineages).values_list("handoff_id", flat=True))
    Remediation.objects.filter(tenant=tenant, lineage__in=lineages - left).delete()
    _note(tenant, next_midnight(before))
    return len(handoffs)


def _list_lineages(tenant: Tenant, handoffs: Sequence[uuid.UUID]) -> set[str]:
    """Return the lineages of these handoffs that have a remediation record."""
    if not Remediation.objects.filter(tenant=tenant).exists():
        return set()
    rows = Handoff.objects.filter(tenant=tenant, pk__in=handoffs).values_list("lineage", "handoff_id")
    named = {lineage or handoff_id for lineage, handoff_id in rows}
    found = Remediation.objects.filter(tenant=tenant, lineage__in=list(named))
    return set(found.values_list("lineage", flat=True))


def _names_tenant(model: type[Model]) -> bool:
    return any(field.name == "tenant" for field in model._meta.concrete_fields)  # noqa: SLF001 -- Django's documented API


def _note(tenant: Tenant, before: datetime) -> None:
    made, is_new = RemovedHandoffs.objects.get_or_create(tenant=tenant, defaults={"before": before})
    if not is_new and made.before < before:
        RemovedHandoffs.objects.filter(pk=made.pk, before__lt=before).update(before=before)
