"""What a person should look at, until somebody says that they have. One alert of a kind is open at a time."""

from enum import StrEnum

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.locking import lock
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Alert

# Between counting up and opening, somebody may open or acknowledge one: then it begins again.
_ATTEMPTS = 5


class Kind(StrEnum):
    """`would_have_rejected`: handoffs passed while the model could not be asked, and it says now that they should not
    have. `model_unavailable`: handoffs are not checked, because the model can't be asked. `webhook_failing`: what was
    to be told to a subscriber was given up. The others are thresholds (`diagnostics.alerting`) that are passed."""

    WOULD_HAVE_REJECTED = "would_have_rejected"
    MODEL_UNAVAILABLE = "model_unavailable"
    WEBHOOK_FAILING = "webhook_failing"
    REJECTION_RATE = "rejection_rate"
    QUEUE_AGE = "queue_age"
    FAIL_OPEN = "fail_open"
    OVERDUE_HOLDS = "overdue_holds"
    NO_HANDOFFS = "no_handoffs"


def raise_alert(tenant_id: int, kind: str, number: int) -> None:
    """Opens an alert of this kind, or counts the one that is open up."""
    for _ in range(_ATTEMPTS):
        open_one = Alert.objects.filter(tenant=tenant_id, kind=kind, acknowledged_at=None)
        if open_one.update(number=F("number") + number, last_at=timezone.now()):
            return
        _open(tenant_id, kind, 0)


def show(tenant_id: int, kind: str, number: int) -> None:
    """Opens an alert of this kind, or puts this number on the one that is open."""
    open_one = Alert.objects.filter(tenant=tenant_id, kind=kind, acknowledged_at=None)
    if not open_one.update(number=number, last_at=timezone.now()):
        _open(tenant_id, kind, number)


def _open(tenant_id: int, kind: str, number: int) -> None:
    now = timezone.now()
    opened = Alert(tenant_id=tenant_id, kind=kind, opened_at=now, last_at=now, number=number)
    Alert.objects.bulk_create([opened], ignore_conflicts=True)


def open_of(tenant: Tenant) -> list[Alert]:
    """Those that nobody has acknowledged, newest first; at most one of each kind."""
    return list(Alert.objects.filter(tenant=tenant, acknowledged_at=None).order_by("-opened_at"))


def newest_first(
    tenant: Tenant, *, is_open: bool | None = None, before: int | None = None, limit: int = 50
) -> list[Alert]:
    """Those that are open (True), are over (False), or all; only those with a smaller id than `before`."""
    rows = Alert.objects.filter(tenant=tenant)
    if is_open is not None:
        rows = rows.filter(acknowledged_at__isnull=is_open)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:limit])


@transaction.atomic
def acknowledge(*, tenant: Tenant, alert: int, actor: str) -> Alert:
    """Closes it, in somebody's name. Twice is once. Raises `Refused` where the tenant has no such alert."""
    lock(tenant)
    found = Alert.objects.select_for_update().filter(tenant=tenant, pk=alert).first()
    if found is None:
        raise Refused("There is no such alert in this tenant: reload the page.")
    if found.acknowledged_at is None:
        found.acknowledged_at = timezone.now()
        found.acknowledged_by = actor[:200]
        found.save(update_fields=["acknowledged_at", "acknowledged_by"])
        detail = {"number": found.number, "opened_at": found.opened_at.isoformat(timespec="seconds")}
        audit.record(tenant=tenant, actor=actor, action="alert.acknowledge", target=found.kind, detail=detail)
    return found
