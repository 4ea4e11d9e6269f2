"""Alerts: their opening, acknowledgement and texts. A tenant has at most one active alert of each kind."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import Tenant
from handoffaudit.database_faults import fault_of
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.llm.client import OK, is_configured
from handoffaudit.handoffs.models import Alert, Handoff, ModelCall
from handoffaudit.handoffs.periods import format_utc
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.llm.calls import CONTENT_STATUSES
from handoffaudit.policy.alert_rules import Watched
from handoffaudit.policy.kinds import alert_policy
from handoffaudit.validation.prompts.question import Reason
from handoffaudit.validation.text import pluralize

log = structlog.get_logger(__name__)

# Another process may open or acknowledge an alert between the update and the insert, so the update is tried again.
_ATTEMPTS = 5


class AlertKind(StrEnum):
    """The kinds of alerts.

    `would_have_rejected`: the LLM would have rejected handoffs that were accepted or approved while the LLM was
    unavailable. `model_unavailable`: handoffs are not checked, because the LLM is unavailable. `webhook_failing`:
    deliveries to a webhook were given up. The other kinds come from alert rules (`diagnostics.alert_rules`).
    """

    WOULD_HAVE_REJECTED = "would_have_rejected"
    MODEL_UNAVAILABLE = "model_unavailable"
    WEBHOOK_FAILING = "webhook_failing"
    REJECTION_RATE = "rejection_rate"
    QUEUE_AGE = "queue_age"
    FAIL_OPEN = "fail_open"
    OVERDUE_HOLDS = "overdue_holds"
    NO_HANDOFFS = "no_handoffs"


def raise_alert(tenant_id: int, kind: str, number: int) -> None:
    """Open an alert of this kind with this number, or add the number to that of the active alert."""
    for _ in range(_ATTEMPTS):
        open_one = Alert.objects.filter(tenant=tenant_id, kind=kind, acknowledged_at=None)
        if open_one.update(number=F("number") + number, last_at=timezone.now()):
            return
        _open(tenant_id, kind, 0)
    # Each time, somebody acknowledged the alert between the insert and the update.
    log.warning("Alert not raised: it was acknowledged meanwhile.", tenant=tenant_id, kind=kind, number=number)


def show_alert(tenant_id: int, kind: str, number: int) -> None:
    """Open an alert of this kind with this number, or set the number of the active alert."""
    open_one = Alert.objects.filter(tenant=tenant_id, kind=kind, acknowledged_at=None)
    if not open_one.update(number=number, last_at=timezone.now()):
        _open(tenant_id, kind, number)


def _open(tenant_id: int, kind: str, number: int) -> None:
    now = timezone.now()
    opened = Alert(tenant_id=tenant_id, kind=kind, opened_at=now, last_at=now, number=number)
    Alert.objects.bulk_create([opened], ignore_conflicts=True)


def list_open(tenant: Tenant) -> list[Alert]:
    """Return the active alerts of a tenant, newest first; at most one of each kind."""
    return list(Alert.objects.filter(tenant=tenant, acknowledged_at=None).order_by("-opened_at"))


def list_alerts(
    tenant: Tenant, *, is_open: bool | None = None, before: int | None = None, limit: int = 50
) -> list[Alert]:
    """Return alerts, newest first; with `before`, only alerts with a smaller id.

    `is_open` True selects active alerts, False acknowledged and resolved alerts, None all alerts.
    """
    rows = Alert.objects.filter(tenant=tenant)
    if is_open is not None:
        rows = rows.filter(acknowledged_at__isnull=is_open)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:limit])


@transaction.atomic
def acknowledge(*, tenant: Tenant, alert: int, actor: str) -> Alert:
    """Acknowledge the alert. Idempotent. Raise `Refused` if the tenant has no such alert."""
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
    """The texts of a kind of alert.

    `title` returns the title of an alert. `query` is the URL query of the list of affected handoffs, and `link_text`
    the text of the link to the list. `query` is empty if there is no such list. `of_model` is True if the page about
    the LLM's health has more details.
    """

    title: Callable[[Alert], str]
    meaning: str
    query: str = ""
    link_text: str = ""
    of_model: bool = False


def describe(alert: Alert) -> AlertText:
    found = _ABOUT[AlertKind(alert.kind)]
    if alert.kind == AlertKind.FAIL_OPEN:
        return replace(found, query=f"{found.query}&{_outage_query(alert)}")
    return (
        _describe_queue(alert, found) if alert.kind == AlertKind.QUEUE_AGE and alert.acknowledged_at is None else found
    )


def _outage_query(alert: Alert) -> str:
    """Return the URL query for the time of the alert, and for the window of its alert rule before the alert opened."""
    rules = alert_policy.at_time(alert.tenant_id, alert.opened_at).rows
    window = next(timedelta(minutes=rule.window_minutes) for rule in rules if rule.name is Watched.FAIL_OPEN)
    query = f"since={format_utc(alert.opened_at - window)}"
    if alert.acknowledged_at is None:
        return query
    return f"{query}&until={format_utc(max(alert.last_at, alert.acknowledged_at))}"


def _describe_queue(alert: Alert, found: AlertText) -> AlertText:
    """Return the texts for a long queue, which say whether the oldest handoff waits for the LLM or for a worker."""
    oldest = stats.find_oldest_unjudged(alert.tenant_id)
    if oldest is None:
        return found
    if oldest.for_model:
        return replace(found, title=_model_age, meaning=_WAIT_FOR_MODEL, of_model=True)
    return replace(found, title=_worker_age, meaning=_WAIT_FOR_WORKER)


def title(alert: Alert) -> str:
    return describe(alert).title(alert)


def alert_value(alert: Alert) -> float:
    """Return the latest measurement of an alert rule, or else the number that the alert counts."""
    return float(alert.number) if alert.value is None else alert.value


def format_span(seconds: float) -> str:
    """Return a duration as text, such as `45 s`, `12 min`, `3 h` or `2 d`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length * (2 if unit != "min" else 1):
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def _would_have_rejected(alert: Alert) -> str:
    return f"The LLM would have rejected {pluralize(alert.number, 'handoff')} that passed without its check"


def _model_unavailable(alert: Alert) -> str:
    return f"{pluralize(alert.number, 'handoff')} {'is' if alert.number == 1 else 'are'} not checked by the LLM"


def _webhook_failing(alert: Alert) -> str:
    return f"{pluralize(alert.number, 'webhook delivery', 'webhook deliveries')} failed for good"


def _rejection_rate(alert: Alert) -> str:
    return f"{alert_value(alert) * 100:.1f} % of the judged handoffs are rejected or declined"


def _queue_age(alert: Alert) -> str:
    return f"The oldest handoff had waited {format_span(alert_value(alert))} to be judged"


def _worker_age(alert: Alert) -> str:
    return f"The oldest handoff has waited {format_span(alert_value(alert))} to be judged"


def _model_age(alert: Alert) -> str:
    return f"The oldest handoff has waited {format_span(alert_value(alert))} for its LLM check"


def _fail_open(alert: Alert) -> str:
    return f"{pluralize(int(alert_value(alert)), 'handoff')} passed without an LLM check"


def _overdue_holds(alert: Alert) -> str:
    number = int(alert_value(alert))
    return f"{pluralize(number, 'held handoff')} {'is' if number == 1 else 'are'} overdue"


def _no_handoffs(alert: Alert) -> str:
    return f"No handoff for {format_span(alert_value(alert))}"


_WAIT_FOR_WORKER = (
    "No worker has judged the waiting handoffs yet: the workers are too slow, or none runs. The overview and /readyz "
    "say if no worker was seen. Read the log of the worker, and start a worker or more workers. This alert closes by "
    "itself after the queue has been short for a while."
)

_WAIT_FOR_MODEL = (
    "Only the LLM checks of the waiting handoffs are missing. Settings, LLM, says whether the LLM answers, and whether "
    "a worker asks it. This alert closes by itself after the queue has been short for a while."
)

_ABOUT = {
    AlertKind.WOULD_HAVE_REJECTED: AlertText(
        _would_have_rejected,
        "These handoffs were accepted or approved while the LLM was unavailable. The later LLM check found errors that "
        "would have rejected them. They keep their state and are flagged. Look at each handoff, inform its receiver, "
        "and acknowledge this alert.",
        "flag=flagged",
        "See the flagged handoffs",
    ),
    AlertKind.MODEL_UNAVAILABLE: AlertText(
        _model_unavailable,
        "The LLM is unavailable, so these handoffs have no LLM check. They are checked when the LLM answers again, and "
        "this alert then closes by itself. Settings, LLM, names the cause and the fix.",
        "flag=unverified",
        "See the unverified handoffs",
        of_model=True,
    ),
    AlertKind.WEBHOOK_FAILING: AlertText(
        _webhook_failing,
        "A receiver was unreachable for hours or refused these deliveries, so they are not retried. The page Webhooks "
        "in the settings names the receiver and the reason. Send the deliveries again from that page, then acknowledge "
        "this alert.",
    ),
    AlertKind.REJECTION_RATE: AlertText(
        _rejection_rate,
        "The rejection rate has reached a level of the alert rule. The top findings and agents on the overview show "
        "whether one rule code or one agent is the cause. This alert closes by itself after the rate has been below "
        "the warning level for a while.",
        "state=rejected&state=declined",
        "See the rejected and declined handoffs",
    ),
    AlertKind.QUEUE_AGE: AlertText(
        _queue_age,
        "Handoffs were not judged in time. This alert closes by itself after the queue has been short for a while.",
        "state=received&state=validating",
        "See the waiting handoffs",
    ),
    AlertKind.FAIL_OPEN: AlertText(
        _fail_open,
        "The LLM was unavailable, and the types of these handoffs accept them without an LLM check. Settings, LLM, "
        "names the cause. This alert closes by itself after their number has been below the warning level for a while.",
        "flag=unverified&state=accepted",
        "See the unverified handoffs",
    ),
    AlertKind.OVERDUE_HOLDS: AlertText(
        _overdue_holds,
        "These handoffs have waited for a person for longer than their types allow. Decide them, oldest first. This "
        "alert then closes by itself.",
        "flag=overdue",
        "See the overdue handoffs",
    ),
    AlertKind.NO_HANDOFFS: AlertText(
        _no_handoffs,
        "No handoff arrived in the window of the alert rule. Check whether the senders run, and whether their API key "
        "still works. This alert closes by itself when a handoff arrives.",
    ),
}

# A failed call that is older than this says nothing about the current state of the LLM.
RECENT = timedelta(minutes=5)

# For this time, an acknowledged outage alert suppresses the next outage alert, unless the LLM has answered since.
QUIET = timedelta(hours=24)

COUNTED_AT_MOST = 10_000

LOOK_SECONDS = 20.0

# These outcomes concern a single question, and do not mean that the LLM is unavailable.
_OF_ONE_QUESTION = (Reason.MALFORMED_ANSWER.value, Reason.TOO_DEAR.value)

_looked_at = 0.0


def watch_outages() -> None:
    """Update the LLM outage alerts of all tenants, at most once every `LOOK_SECONDS` per process.

    If no LLM is configured, resolve all these alerts, because no answer of the LLM will resolve them.
    """
    global _looked_at  # noqa: PLW0603 -- each process keeps its own time
    if not is_configured():
        _close(Alert.objects.filter(kind=AlertKind.MODEL_UNAVAILABLE))
        return
    if _looked_at and time.monotonic() - _looked_at < LOOK_SECONDS:
        return
    _looked_at = time.monotonic()
    for tenant_id in Tenant.objects.order_by("pk").values_list("pk", flat=True):
        # An error for one tenant must not leave the alerts of the other tenants as they are.
        try:
            look_for_outage(tenant_id)
        except Exception as error:
            if fault_of(error):
                raise
            log.exception("the LLM outage alert of a tenant could not be updated", tenant=tenant_id)


def look_for_outage(tenant_id: int) -> None:
    """Open, update or resolve the LLM outage alert of a tenant."""
    newest = find_newest_call(tenant_id)
    if newest is None:
        return
    alert = Alert.objects.filter(tenant=tenant_id, kind=AlertKind.MODEL_UNAVAILABLE, acknowledged_at=None).first()
    if newest.outcome == OK:
        if alert and newest.at > alert.opened_at:
            _close(Alert.objects.filter(pk=alert.pk))
        return
    if newest.at < timezone.now() - RECENT or (alert is None and _is_acknowledged(tenant_id)):
        return
    unverified = Handoff.objects.filter(tenant=tenant_id, unverified=True)[:COUNTED_AT_MOST].count()
    if unverified:
        show_alert(tenant_id, AlertKind.MODEL_UNAVAILABLE, unverified)


def find_newest_call(tenant_id: int) -> ModelCall | None:
    """Return the newest LLM call of the last 24 hours whose outcome shows whether the LLM is available."""
    now = timezone.now()
    # For a tenant whose answers mostly come from the cache, a longer period would read all of its calls. A call with a
    # time far in the future was made before the clock was set back.
    calls = ModelCall.objects.filter(tenant=tenant_id, cached=False, at__gt=now - QUIET, at__lt=now + RECENT)
    calls = calls.exclude(outcome__in=_OF_ONE_QUESTION).exclude(http_status__in=CONTENT_STATUSES)
    return calls.order_by("-at").first()


def _close(rows: "QuerySet[Alert]") -> None:
    rows.filter(acknowledged_at=None).update(acknowledged_at=timezone.now(), acknowledged_by=SYSTEM.name)


def _is_acknowledged(tenant_id: int) -> bool:
    """Return whether a person acknowledged the current outage."""
    closed = Alert.objects.filter(tenant=tenant_id, kind=AlertKind.MODEL_UNAVAILABLE).exclude(acknowledged_at=None)
    last = closed.order_by("-opened_at").first()
    if last is None or last.acknowledged_by == SYSTEM.name or last.acknowledged_at is None:
        return False
    # An acknowledgement with a time far in the future was made before the clock was set back.
    is_recent = abs(timezone.now() - last.acknowledged_at) < QUIET
    return is_recent and not _was_answered_since(tenant_id, last.acknowledged_at)


def _was_answered_since(tenant_id: int, moment: datetime) -> bool:
    """Return whether the LLM answered since that moment.

    A whole day of failed calls would take long to read. The query therefore looks back for ten minutes, or for ten
    pauses of a circuit breaker if that is longer. Once the LLM works again, the breaker admits calls within this time.
    """
    back = timedelta(seconds=max(600, 10 * settings.MODEL_BREAKER_SECONDS))
    since = max(moment, timezone.now() - back)
    return ModelCall.objects.filter(tenant=tenant_id, at__gt=since, outcome=OK, cached=False).exists()
