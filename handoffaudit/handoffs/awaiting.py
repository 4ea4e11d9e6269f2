"""What handoffs that are not judged yet wait for: a worker, or the model."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from handoffaudit.handoffs.models import WAITING_STATES, Handoff

# What waits for the model was tried, and nobody holds it.
_FOR_WORKER = Q(tries=0) | Q(claim_expires_at__isnull=False)


@dataclass(frozen=True, slots=True)
class Oldest:
    """The unjudged handoff that has waited longest; parked ones don't count."""

    since: datetime
    for_model: bool


def oldest(tenant_id: int) -> Oldest | None:
    """None where none waits."""
    rows = Handoff.objects.filter(tenant=tenant_id, parked=False).order_by("id")
    # One question for each state: of both, the rows of one come out of order.
    firsts = [row for state in WAITING_STATES for row in rows.filter(state=state)[:1]]
    first = min(firsts, key=lambda row: row.received_at, default=None)
    return Oldest(first.received_at, bool(first.tries) and first.claim_expires_at is None) if first else None


def oldest_for_worker(tenant_id: int) -> datetime | None:
    """Since when the oldest waits that a worker should judge; None where none does."""
    rows = Handoff.objects.filter(_FOR_WORKER, tenant=tenant_id, state__in=WAITING_STATES, parked=False)
    return rows.order_by("id").values_list("received_at", flat=True).first()
