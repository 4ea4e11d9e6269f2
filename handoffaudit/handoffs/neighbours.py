"""What stands right before and right after a handoff in the order of a list. Each is one row found by its id; nothing
is counted, and the handoff itself need not be in the list any more."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff


@dataclass(frozen=True, slots=True)
class Neighbours:
    """`fits`: the handoff between them is in the list."""

    older: Handoff | None
    newer: Handoff | None
    fits: bool = True


def matching(tenant: Tenant, filters: Filters, pk: UUID) -> Neighbours:
    """Among the handoffs that the filters let through."""
    rows = queries.matching(tenant, filters)
    older = rows.filter(id__lt=pk).order_by("-id").first()
    newer = rows.filter(id__gt=pk).order_by("id").first()
    return Neighbours(older, newer, rows.filter(id=pk).exists())


def among(tenant: Tenant, ids: "QuerySet[Any, UUID]", column: str, pk: UUID) -> Neighbours:
    """Among the handoffs that another table lists: `ids` are those of its rows, in `column`."""
    older = ids.filter(**{f"{column}__lt": pk}).order_by(f"-{column}").first()
    newer = ids.filter(**{f"{column}__gt": pk}).order_by(column).first()
    found = queries.of_tenant(tenant).in_bulk([one for one in (older, newer) if one])
    fits = ids.filter(**{column: pk}).exists()
    return Neighbours(found.get(older) if older else None, found.get(newer) if newer else None, fits)
