"""Mails about alerts: one for each alert in an interval, so that what flaps fills nobody's mailbox.

The first of a kind goes out at once. What follows within the interval waits until it is over; then the last of it is
sent, and stands for what came before.
"""

from collections.abc import Iterable
from datetime import timedelta

import orjson
from django.utils import timezone

from handoffaudit.handoffs.models import Delivery, SubscriberKind
from handoffaudit.handoffs.webhooks.registering import Heard

INTERVAL = timedelta(hours=1)
MOST = 500
STANDS_FOR = "A later mail about the same alert was sent in its place."


def postpone(rows: Iterable[Delivery]) -> None:
    """Sets when new mails about alerts are due. Nothing is stored."""
    now = timezone.now()
    lately: dict[int, set[str]] = {}
    for row in rows:
        if not _is_bundled(row):
            continue
        if row.subscriber_id not in lately:
            recent = Delivery.objects.filter(
                tenant=row.tenant_id, subscriber=row.subscriber_id, event=Heard.ALERT, created_at__gt=now - INTERVAL
            )
            lately[row.subscriber_id] = {_subject(one) for one in recent.order_by("-id")[:MOST]}
        subject = _subject(row)
        if subject in lately[row.subscriber_id]:
            row.due_at = now + INTERVAL
        lately[row.subscriber_id].add(subject)


def latest(row: Delivery) -> Delivery:
    """The last that waits about the same kind of alert, itself included: what is to be sent when this one is due."""
    if not _is_bundled(row):
        return row
    waiting = Delivery.objects.filter(
        tenant=row.tenant_id, subscriber=row.subscriber_id, event=Heard.ALERT, id__gt=row.pk, due_at__isnull=False
    )
    same = [one for one in waiting.order_by("-id")[:MOST] if _kind(one) == _kind(row)]
    return same[0] if same else row


def _is_bundled(row: Delivery) -> bool:
    return row.event == Heard.ALERT and row.subscriber.kind == SubscriberKind.EMAIL


def _kind(row: Delivery) -> str:
    return str(orjson.loads(row.payload)["alert"]["kind"])


def _subject(row: Delivery) -> str:
    """The kind of alert and its level: one that gets worse is news, and so is its end."""
    alert = orjson.loads(row.payload)["alert"]
    return f"{alert['kind']}:{alert['level'] if alert['change'] != 'closed' else ''}"
