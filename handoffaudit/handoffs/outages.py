"""The alert that the model can't be asked: opened and closed by what the calls came to, not by hand.

A person may acknowledge it earlier; then none is opened again before the model has answered in between.
"""

import time
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.actors import SYSTEM
from handoffaudit.handoffs.alerts import Kind
from handoffaudit.handoffs.model_calls import OK
from handoffaudit.handoffs.models import Alert, Handoff, ModelCall
from handoffaudit.validation.asking.question import Reason

# A call that failed longer ago tells nothing of now.
RECENT = timedelta(minutes=5)
# How long one that was acknowledged keeps the next from being opened, where the model was not asked since.
QUIET = timedelta(hours=24)
COUNTED_AT_MOST = 10_000
LOOK_SECONDS = 20.0

# They speak of one question, not of the model.
_OF_ONE_QUESTION = (Reason.MALFORMED_ANSWER.value, Reason.TOO_DEAR.value)
_looked_at = 0.0


def watch() -> None:
    """Opens, counts and closes the alerts of all tenants. Call it as often as you like: it looks now and then."""
    global _looked_at  # noqa: PLW0603 -- each process looks for itself
    if _looked_at and time.monotonic() - _looked_at < LOOK_SECONDS:
        return
    _looked_at = time.monotonic()
    for tenant_id in Tenant.objects.order_by("pk").values_list("pk", flat=True):
        look(tenant_id)


def look(tenant_id: int) -> None:
    """One tenant's alert."""
    newest = newest_call(tenant_id)
    if newest is None:
        return
    alert = Alert.objects.filter(tenant=tenant_id, kind=Kind.MODEL_UNAVAILABLE, acknowledged_at=None).first()
    if newest.outcome == OK:
        if alert and newest.at > alert.opened_at:
            _close(alert)
        return
    if newest.at < timezone.now() - RECENT or (alert is None and _acknowledged(tenant_id)):
        return
    unverified = Handoff.objects.filter(tenant=tenant_id, unverified=True)[:COUNTED_AT_MOST].count()
    if unverified:
        alerts.show(tenant_id, Kind.MODEL_UNAVAILABLE, unverified)


def newest_call(tenant_id: int) -> ModelCall | None:
    """The last one of a day that tells something of the model, and not of its question alone."""
    # Not further back: where most answers are kept ones, all of them would be looked through.
    calls = ModelCall.objects.filter(tenant=tenant_id, cached=False, at__gt=timezone.now() - QUIET)
    calls = calls.exclude(outcome__in=_OF_ONE_QUESTION)
    return calls.order_by("-at").first()


def _close(alert: Alert) -> None:
    Alert.objects.filter(pk=alert.pk, acknowledged_at=None).update(
        acknowledged_at=timezone.now(), acknowledged_by=SYSTEM.name
    )


def _acknowledged(tenant_id: int) -> bool:
    """Whether a person knows of this outage."""
    closed = Alert.objects.filter(tenant=tenant_id, kind=Kind.MODEL_UNAVAILABLE).exclude(acknowledged_at=None)
    last = closed.order_by("-opened_at").first()
    if last is None or last.acknowledged_by == SYSTEM.name or last.acknowledged_at is None:
        return False
    return last.acknowledged_at > timezone.now() - QUIET and not _answered_since(tenant_id, last.acknowledged_at)


def _answered_since(tenant_id: int, moment: datetime) -> bool:
    """Looks back as far as the breaker lets a working model go unasked, and not over a whole day of failures."""
    back = timedelta(seconds=max(600, 10 * settings.MODEL_BREAKER_SECONDS))
    since = max(moment, timezone.now() - back)
    return ModelCall.objects.filter(tenant=tenant_id, at__gt=since, outcome=OK, cached=False).exists()
