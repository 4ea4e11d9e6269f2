"""Alerts: raised, acknowledged and put into words. One alert of a kind is open at a time."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.llm.client import OK
from handoffaudit.handoffs.models import Alert, Handoff, ModelCall
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.validation.prompts.question import Reason
from handoffaudit.validation.text import pluralize

# Between counting up and opening, somebody may open or acknowledge one: then it begins again.
_ATTEMPTS = 5


class AlertKind(StrEnum):
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


def show_alert(tenant_id: int, kind: str, number: int) -> None:
    """Opens an alert of this kind, or puts this number on the one that is open."""
    open_one = Alert.objects.filter(tenant=tenant_id, kind=kind, acknowledged_at=None)
    if not open_one.update(number=number, last_at=timezone.now()):
        _open(tenant_id, kind, number)


def _open(tenant_id: int, kind: str, number: int) -> None:
    now = timezone.now()
    opened = Alert(tenant_id=tenant_id, kind=kind, opened_at=now, last_at=now, number=number)
    Alert.objects.bulk_create([opened], ignore_conflicts=True)


def list_open(tenant: Tenant) -> list[Alert]:
    """Those that nobody has acknowledged, newest first; at most one of each kind."""
    return list(Alert.objects.filter(tenant=tenant, acknowledged_at=None).order_by("-opened_at"))


def list_alerts(
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
    lock_tenant(tenant)
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


@dataclass(frozen=True, slots=True)
class AlertText:
    """A kind of alert. `title` makes one line of an alert; `query` is the address of the handoffs that it is about
    among all, empty where it is about none; `link_text` names them. `of_model`: Model health says more."""

    title: Callable[[Alert], str]
    meaning: str
    query: str = ""
    link_text: str = ""
    of_model: bool = False


def describe(alert: Alert) -> AlertText:
    found = _ABOUT[AlertKind(alert.kind)]
    return _of_queue(alert, found) if alert.kind == AlertKind.QUEUE_AGE and alert.acknowledged_at is None else found


def _of_queue(alert: Alert, found: AlertText) -> AlertText:
    """What they wait for now: that is who should be looked after."""
    oldest = stats.find_oldest_unjudged(alert.tenant_id)
    if oldest is None:
        return found
    if oldest.for_model:
        return replace(found, title=_model_age, meaning=_WAIT_FOR_MODEL, of_model=True)
    return replace(found, title=_worker_age, meaning=_WAIT_FOR_WORKER)


def title(alert: Alert) -> str:
    return describe(alert).title(alert)


def alert_value(alert: Alert) -> float:
    """The figure of the alert: of a threshold what was measured last, else how many it counts."""
    return float(alert.number) if alert.value is None else alert.value


def format_span(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h`, `2 d`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length * (2 if unit != "min" else 1):
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def _would_have_rejected(alert: Alert) -> str:
    return f"The model would have rejected {pluralize(alert.number, 'handoff')} that passed without it"


def _model_unavailable(alert: Alert) -> str:
    return f"{pluralize(alert.number, 'handoff')} {'is' if alert.number == 1 else 'are'} not checked by the model"


def _webhook_failing(alert: Alert) -> str:
    return f"{pluralize(alert.number, 'delivery', 'deliveries')} to subscribers failed for good"


def _rejection_rate(alert: Alert) -> str:
    return f"{alert_value(alert) * 100:.1f} % of what was judged is rejected"


def _queue_age(alert: Alert) -> str:
    return f"The oldest handoff had waited {format_span(alert_value(alert))} to be judged"


def _worker_age(alert: Alert) -> str:
    return f"The oldest handoff has waited {format_span(alert_value(alert))} to be judged"


def _model_age(alert: Alert) -> str:
    return f"The oldest handoff has waited {format_span(alert_value(alert))} for the model's check"


def _fail_open(alert: Alert) -> str:
    return f"{pluralize(int(alert_value(alert)), 'handoff')} passed without the model's check"


def _overdue_holds(alert: Alert) -> str:
    number = int(alert_value(alert))
    return f"{pluralize(number, 'held handoff')} {'is' if number == 1 else 'are'} overdue"


def _no_handoffs(alert: Alert) -> str:
    return f"No handoff for {format_span(alert_value(alert))}"


_WAIT_FOR_WORKER = (
    "Nothing judged them yet: workers don't keep up, or none runs. The overview and /readyz say where none was seen. "
    "Look at the worker's log, start one, or start more of them. It closes by itself when the queue is short again."
)

_WAIT_FOR_MODEL = (
    "They are judged but for the model's part. Model health says whether it answers, and whether anybody asks it. It "
    "closes by itself when the queue is short again."
)

_ABOUT = {
    AlertKind.WOULD_HAVE_REJECTED: AlertText(
        _would_have_rejected,
        "They were accepted while the model could not be asked. Asked later, it found what would have stopped them. "
        "They stay accepted, and are flagged: look at each, tell whoever received it, and acknowledge.",
        "flag=flagged",
        "See the flagged handoffs",
    ),
    AlertKind.MODEL_UNAVAILABLE: AlertText(
        _model_unavailable,
        "The model can't be asked, so its check is missing from them. They are gone over when it answers again, and "
        "this alert closes by itself. Model health says why, and what to mend.",
        "flag=unverified",
        "See the unverified handoffs",
        of_model=True,
    ),
    AlertKind.WEBHOOK_FAILING: AlertText(
        _webhook_failing,
        "A receiver could not be reached for hours, or refused what it got, and these are not tried again. Settings, "
        "Webhooks says which and why; from there they can be sent again. Then acknowledge.",
    ),
    AlertKind.REJECTION_RATE: AlertText(
        _rejection_rate,
        "More than usual is rejected. The reasons on the overview tell whether one agent or one rule is behind it. It "
        "closes by itself when the rate is below the threshold again.",
        "state=rejected",
        "See the rejected handoffs",
    ),
    AlertKind.QUEUE_AGE: AlertText(
        _queue_age,
        "Handoffs were not judged in time. It closes by itself when the queue was short for a while.",
        "state=received&state=validating",
        "See what waits",
    ),
    AlertKind.FAIL_OPEN: AlertText(
        _fail_open,
        "The model could not be asked, and their types let them pass. Model health says why. It closes by itself when "
        "fewer are unverified.",
        "flag=unverified&state=accepted",
        "See the unverified handoffs",
    ),
    AlertKind.OVERDUE_HOLDS: AlertText(
        _overdue_holds,
        "They wait for a person for longer than their types allow. Decide them, oldest first; it then closes by "
        "itself.",
        "flag=overdue",
        "See the overdue handoffs",
    ),
    AlertKind.NO_HANDOFFS: AlertText(
        _no_handoffs,
        "Something usually arrives in that time: look whether the senders run, and whether their key still works. It "
        "closes by itself when a handoff arrives.",
    ),
}

# A call that failed longer ago tells nothing of now.
RECENT = timedelta(minutes=5)

# How long one that was acknowledged keeps the next from being opened, where the model was not asked since.
QUIET = timedelta(hours=24)

COUNTED_AT_MOST = 10_000

LOOK_SECONDS = 20.0

# They speak of one question, not of the model.
_OF_ONE_QUESTION = (Reason.MALFORMED_ANSWER.value, Reason.TOO_DEAR.value)

_looked_at = 0.0


def watch_outages() -> None:
    """Opens, counts and closes the alerts of all tenants. Call it as often as you like: it looks now and then."""
    global _looked_at  # noqa: PLW0603 -- each process looks for itself
    if _looked_at and time.monotonic() - _looked_at < LOOK_SECONDS:
        return
    _looked_at = time.monotonic()
    for tenant_id in Tenant.objects.order_by("pk").values_list("pk", flat=True):
        look_for_outage(tenant_id)


def look_for_outage(tenant_id: int) -> None:
    """One tenant's alert."""
    newest = find_newest_call(tenant_id)
    if newest is None:
        return
    alert = Alert.objects.filter(tenant=tenant_id, kind=AlertKind.MODEL_UNAVAILABLE, acknowledged_at=None).first()
    if newest.outcome == OK:
        if alert and newest.at > alert.opened_at:
            _close(alert)
        return
    if newest.at < timezone.now() - RECENT or (alert is None and _is_acknowledged(tenant_id)):
        return
    unverified = Handoff.objects.filter(tenant=tenant_id, unverified=True)[:COUNTED_AT_MOST].count()
    if unverified:
        show_alert(tenant_id, AlertKind.MODEL_UNAVAILABLE, unverified)


def find_newest_call(tenant_id: int) -> ModelCall | None:
    """The last one of a day that tells something of the model, and not of its question alone."""
    # Not further back: where most answers are kept ones, all of them would be looked through.
    calls = ModelCall.objects.filter(tenant=tenant_id, cached=False, at__gt=timezone.now() - QUIET)
    calls = calls.exclude(outcome__in=_OF_ONE_QUESTION)
    return calls.order_by("-at").first()


def _close(alert: Alert) -> None:
    Alert.objects.filter(pk=alert.pk, acknowledged_at=None).update(
        acknowledged_at=timezone.now(), acknowledged_by=SYSTEM.name
    )


def _is_acknowledged(tenant_id: int) -> bool:
    """Whether a person knows of this outage."""
    closed = Alert.objects.filter(tenant=tenant_id, kind=AlertKind.MODEL_UNAVAILABLE).exclude(acknowledged_at=None)
    last = closed.order_by("-opened_at").first()
    if last is None or last.acknowledged_by == SYSTEM.name or last.acknowledged_at is None:
        return False
    return last.acknowledged_at > timezone.now() - QUIET and not _was_answered_since(tenant_id, last.acknowledged_at)


def _was_answered_since(tenant_id: int, moment: datetime) -> bool:
    """Looks back as far as the breaker lets a working model go unasked, and not over a whole day of failures."""
    back = timedelta(seconds=max(600, 10 * settings.MODEL_BREAKER_SECONDS))
    since = max(moment, timezone.now() - back)
    return ModelCall.objects.filter(tenant=tenant_id, at__gt=since, outcome=OK, cached=False).exists()
