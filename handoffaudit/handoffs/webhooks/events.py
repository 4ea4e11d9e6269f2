"""Payloads of webhook events, and the dispatch, which makes the deliveries of every stored event.

The id of an event can be missing for a while, because transactions do not commit in the order of the ids of their
events. A gap is a range of missing ids. It has the first id, the last id, and the time at which the range was found
missing, in seconds since 1970.
"""

import time
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any, Final, NamedTuple

import orjson
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from handoffaudit.database_faults import fault_of
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.models import Alert, Comment, Delivery, Event, Gathering, Handoff, State, Subscriber, new_id
from handoffaudit.handoffs.transitions import SYSTEM, Actor
from handoffaudit.handoffs.webhooks import messages
from handoffaudit.handoffs.webhooks.subscriptions import VERDICTS, EventType, list_active

log = structlog.get_logger(__name__)

# An event that is still missing after this time will never appear, because no transaction with events takes longer.
GAP_SECONDS: float = 120.0

# Two workers that store the events of 400 handoffs each at the same time can leave a gap after every id.
MOST_GAPS: Final = 5000

# SQLite refuses a condition with a thousand parts.
_GAPS_AT_ONCE: Final = 200

Gap = tuple[int, int, float]


def find_arrived(gaps: Sequence[Gap], most: int) -> list[int]:
    """Return the ids of events that are in the gaps now, at most `most`."""
    found: list[int] = []
    for start in range(0, len(gaps), _GAPS_AT_ONCE):
        condition = Q()
        for first, last, _ in gaps[start : start + _GAPS_AT_ONCE]:
            condition |= Q(id__gte=first, id__lte=last)
        found += Event.objects.filter(condition).values_list("id", flat=True)[: most - len(found)]
        if len(found) == most:
            break
    return found


def find_missing(reached: int, ids: Sequence[int], now: float) -> list[Gap]:
    """Return the gaps between these ids, which follow `reached` in rising order."""
    return [(before + 1, after - 1, now) for before, after in pairwise([reached, *ids]) if after - before > 1]


def close_gaps(gaps: Iterable[Gap], came: Iterable[int], now: float) -> list[Gap]:
    """Return the gaps that still have missing events, without gaps older than `GAP_SECONDS`."""
    there, left = sorted(set(came)), []
    for first, last, at in gaps:
        if now - at > GAP_SECONDS:
            continue
        inside = there[bisect_left(there, first) : bisect_right(there, last)]
        left += [(low + 1, high - 1, at) for low, high in pairwise([first - 1, *inside, last + 1]) if high - low > 1]
    return left


LONGEST_NOTE = 5000


def page_url(tenant_slug: str, path: str) -> str:
    """Return the URL of a page. Without `HANDOFFAUDIT_PUBLIC_URL`, the URL has no host."""
    return f"{settings.PUBLIC_URL}/t/{tenant_slug}/{path}"


def verdict_payload(event: Event, handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    return {"handoff": _handoff_payload(event.to_state, handoff, tenant_slug)}


def decision_payload(event: Event, handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    actor = {"kind": event.actor_kind, "name": event.actor}
    return {
        "handoff": _handoff_payload(event.to_state, handoff, tenant_slug),
        "actor": actor,
        "note": event.reason[:LONGEST_NOTE],
    }


def comment_payload(handoff: Handoff, actor: Actor, comment: Comment) -> dict[str, Any]:
    return {**_about(handoff, actor), "comment": {"id": str(comment.pk), "text": comment.text}}


def assignment_payload(handoff: Handoff, actor: Actor, to: str | None, note: str) -> dict[str, Any]:
    return {**_about(handoff, actor), "assignment": {"to": to, "note": note}}


def _about(handoff: Handoff, actor: Actor) -> dict[str, Any]:
    return {
        "handoff": _handoff_payload(handoff.state, handoff, handoff.tenant.slug),
        "actor": {"kind": actor.kind, "name": actor.name},
    }


def alert_payload(alert: Alert, change: str, tenant_slug: str) -> dict[str, Any]:
    """Return the payload of an alert. `change` is `opened`, `again` or `closed`."""
    about = alerts.describe(alert)
    # An alert without a query about handoffs links to the tenant's start page, which lists active alerts.
    path = f"handoffs/?{about.query}" if about.query else ""
    return {
        "alert": {
            "id": alert.pk,
            "kind": alert.kind,
            "change": change,
            "level": alert.level,
            "value": alerts.alert_value(alert),
            "text": about.title(alert),
            "meaning": about.meaning,
            "opened_at": format_moment(alert.opened_at),
            "link": page_url(tenant_slug, path),
        }
    }


def dump(delivery: uuid.UUID, event: str, at: datetime, tenant_slug: str, content: Mapping[str, Any]) -> str:
    """Return the request body as text.

    The field `id` is the ID of the delivery, so that receivers can drop duplicates.
    """
    payload = {"id": str(delivery), "event": event, "at": format_moment(at), "tenant": tenant_slug, **content}
    return orjson.dumps(payload).decode()


def format_moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _handoff_payload(state: str, handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    """Return the handoff with the state that it had at the event. All other fields have their current values."""
    return {
        "id": str(handoff.pk),
        "handoff_id": handoff.handoff_id,
        "state": state,
        "flagged": handoff.flagged,
        "handoff_type": handoff.handoff_type,
        "source_agent_id": handoff.source_agent_id,
        "target_agent_id": handoff.target_agent_id,
        "trace_id": handoff.trace_id or None,
        "quality_score": handoff.score,
        "codes": handoff.codes,
        "link": page_url(tenant_slug, f"handoffs/{handoff.pk}/"),
    }


BATCH = 1000

# Changes of an alert that are older than this are not sent.
LATELY = timedelta(days=7)

DECISIONS = (State.APPROVED, State.DECLINED)


@dataclass(slots=True)
class _Found:
    """Deliveries that are not stored yet."""

    rows: list[Delivery] = field(default_factory=list)

    def add(self, subscriber: Subscriber, event: EventType, about: str, at: datetime, content: dict[str, Any]) -> None:
        pk, now = new_id(), timezone.now()
        self.rows.append(
            Delivery(
                id=pk,
                tenant_id=subscriber.tenant_id,
                subscriber=subscriber,
                event=event,
                about=about,
                payload=dump(pk, event, at, subscriber.tenant.slug, content),
                created_at=now,
                due_at=now,
            )
        )


def dispatch() -> int:
    """Make deliveries of all events since the last dispatch.

    Return the number of deliveries, including deliveries that another process has stored already.
    """
    heard = list_active()
    if not heard:
        return 0
    number = _dispatch_alerts(heard)
    while True:
        found, more = _dispatch_events(heard)
        number += found
        if not more:
            return number


def add_event(tenant_id: int, event: EventType, about: str, at: datetime, content: dict[str, Any]) -> None:
    """Store the deliveries of an event that has no `Event` row, one for each subscribed webhook.

    Call inside the transaction of the event, so that the deliveries exist only if the transaction commits. A webhook
    receives no event from before it was created or last enabled.
    """
    found = _Found()
    for one in list_active().get(tenant_id, ()):
        if event in one.events and one.heard_from <= at:
            found.add(one, event, about, at, content)
    if found.rows:
        _store(found.rows)


@contextmanager
def _reported(tenant_id: int, about: str) -> Iterator[None]:
    """Log an exception for one event, so that the exception does not hold back the events of other tenants."""
    try:
        yield
    except Exception as error:
        if fault_of(error):
            raise
        log.exception("no delivery of an event could be made", tenant=tenant_id, about=about)


def _dispatch_events(heard: dict[int, list[Subscriber]]) -> tuple[int, bool]:
    """Dispatch one batch of events. Return the number of deliveries, and whether there are more events."""
    mark = Gathering.objects.filter(pk=1).first()
    if mark is None:
        return 0, False
    ids = list(Event.objects.filter(id__gt=mark.reached).order_by("id").values_list("id", flat=True)[:BATCH])
    gaps: list[Gap] = [(first, last, at) for first, last, at in mark.gaps]
    if not ids and not gaps:
        return 0, False
    came = find_arrived(gaps, BATCH)
    reached = ids[-1] if ids else mark.reached
    now = time.time()
    left = close_gaps(gaps, came, now) + find_missing(mark.reached, ids, now)
    if not ids and not came and len(left) == len(gaps):
        return 0, False
    found = _Found()
    for event, handoff in _list_wanted(Q(id__gt=mark.reached, id__lte=reached) | Q(id__in=came), heard):
        with _reported(event.tenant_id, f"event:{event.pk}"):
            _add_delivery(found, event, handoff, heard[event.tenant_id])
    values = {"reached": reached, "gaps": left[-MOST_GAPS:], "pass_number": mark.pass_number + 1}
    with transaction.atomic():
        # If the update changes nothing, another process has dispatched these events, and the next pass starts after
        # them.
        if Gathering.objects.filter(pk=1, pass_number=mark.pass_number).update(**values):
            _store(found.rows)
    return len(found.rows), len(ids) == BATCH


def _list_wanted(which: Q, heard: Iterable[int]) -> Iterable[tuple[Event, Handoff]]:
    """Return the events that match `which` and that webhooks can subscribe to, with their handoffs."""
    events = list(
        Event.objects.filter(which, tenant__in=list(heard), to_state__in=(*VERDICTS, *DECISIONS)).order_by("id")
    )
    handoffs = Handoff.objects.in_bulk([event.handoff_id for event in events])
    return [(event, handoffs[event.handoff_id]) for event in events if event.handoff_id in handoffs]


def _add_delivery(found: _Found, event: Event, handoff: Handoff, subscribers: Iterable[Subscriber]) -> None:
    kind = _type_of(event, handoff)
    if kind is None:
        return
    make = decision_payload if kind is EventType.DECISION else verdict_payload
    state = State.ACCEPTED if event.to_state == State.APPROVED else event.to_state
    for one in subscribers:
        if kind not in one.events or event.at < one.heard_from:
            continue
        if kind is EventType.VERDICT and one.states and state not in one.states:
            continue
        found.add(one, kind, f"event:{event.pk}", event.at, make(event, handoff, one.tenant.slug))


def _type_of(event: Event, handoff: Handoff) -> EventType | None:
    """Return the type of an event, or None if the dispatch does not send it: `add_event` already sends assignments."""
    if event.from_state == event.to_state:
        # The LLM flagged a handoff that was accepted or approved before, which is no decision.
        return EventType.VERDICT if event.actor_kind == SYSTEM.kind and handoff.flagged else None
    # The webhooks that received a decision must also receive its reversal.
    decided = event.to_state in DECISIONS or event.from_state in DECISIONS
    return EventType.DECISION if decided else EventType.VERDICT


def _dispatch_alerts(heard: dict[int, list[Subscriber]]) -> int:
    """Dispatch the changes of active and recently closed alerts.

    Read the alerts in batches, those with the latest changes first. Stop after a batch whose changes all have their
    deliveries already: earlier passes have dispatched all older changes.
    """
    listeners = {
        tenant: wanted
        for tenant, subscribers in heard.items()
        if (wanted := [one for one in subscribers if EventType.ALERT in one.events])
    }
    if not listeners:
        return 0
    lately = timezone.now() - LATELY
    rows = Alert.objects.filter(Q(acknowledged_at=None) | Q(acknowledged_at__gt=lately), tenant__in=list(listeners))
    rows = rows.order_by(Coalesce("acknowledged_at", "notified_at", "opened_at").desc(), "-pk")
    changes: list[_AlertChange] = []
    for start in count(0, BATCH):
        alerts_of_batch = list(rows[start : start + BATCH])
        unknown = _list_unknown_changes(alerts_of_batch, listeners, lately)
        changes += unknown
        if not unknown or len(alerts_of_batch) < BATCH:
            break
    found = _Found()
    for change in sorted(changes, key=lambda one: (one.at, one.alert.pk)):
        subscriber = change.subscriber
        with _reported(subscriber.tenant_id, change.about):
            content = alert_payload(change.alert, change.kind, subscriber.tenant.slug)
            found.add(subscriber, EventType.ALERT, change.about, change.at, content)
    if found.rows:
        messages.postpone(found.rows)
        with transaction.atomic():
            _store(found.rows)
    return len(found.rows)


class _AlertChange(NamedTuple):
    """A change of an alert for a webhook, as `list_changes` returns it."""

    subscriber: Subscriber
    alert: Alert
    kind: str
    about: str
    at: datetime


def _list_unknown_changes(
    several: Iterable[Alert], listeners: Mapping[int, Sequence[Subscriber]], since: datetime
) -> list[_AlertChange]:
    """Return the changes of alerts from `since` on that have no delivery yet."""
    changes = [
        _AlertChange(one, alert, *change)
        for alert in several
        for change in list_changes(alert)
        for one in listeners[alert.tenant_id]
        if change[2] >= max(one.heard_from, since)
    ]
    wanted = {"subscriber__in": {one.subscriber.pk for one in changes}, "about__in": {one.about for one in changes}}
    known = set(Delivery.objects.filter(**wanted).values_list("subscriber_id", "about"))
    return [one for one in changes if (one.subscriber.pk, one.about) not in known]


def list_changes(alert: Alert) -> list[tuple[str, str, datetime]]:
    """Return the changes of an alert, each as `opened`, `again` or `closed`, with a unique event name and the time."""
    changes = [("opened", f"alert:{alert.pk}:opened", alert.opened_at)]
    again = alert.notified_at
    if again and again > alert.opened_at:
        changes.append(("again", f"alert:{alert.pk}:again:{int(again.timestamp() * 1000)}", again))
    if alert.acknowledged_at:
        changes.append(("closed", f"alert:{alert.pk}:closed", alert.acknowledged_at))
    return changes


def _store(rows: Sequence[Delivery]) -> None:
    """Store the deliveries whose webhook still exists, each event once for each webhook."""
    wanted: set[int] = {row.subscriber_id for row in rows}
    locked = Subscriber.objects.select_for_update(no_key=True).filter(pk__in=wanted).order_by("pk")
    there = dict(locked.values_list("pk", "active"))
    for row in rows:
        if not there.get(row.subscriber_id, True):
            # The webhook was paused after the dispatch began. The delivery waits until a person switches the webhook on
            # again.
            row.due_at = None
    Delivery.objects.bulk_create(
        [row for row in rows if row.subscriber_id in there], batch_size=500, ignore_conflicts=True
    )
