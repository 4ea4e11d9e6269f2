"""Deliveries that are due are sent, and what came of each is kept. No transaction is open while anything is sent."""

import random
import time
from dataclasses import replace
from typing import Any

import structlog
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.actors import SYSTEM
from handoffaudit.handoffs.lending import lend_connection
from handoffaudit.handoffs.models import Delivery, Subscriber, SubscriberKind
from handoffaudit.handoffs.webhooks import bundling, claiming, mailing, retrying
from handoffaudit.handoffs.webhooks.claiming import CLAIM_SECONDS, Claim
from handoffaudit.handoffs.webhooks.sending import Answer, Sender
from handoffaudit.handoffs.webhooks.signing import HEADER, signature
from handoffaudit.validation.text import clean

log = structlog.get_logger(__name__)

LONGEST_ERROR = 500

_chance = random.SystemRandom()


def drain(*, reliable: bool = False) -> int:
    """Sends until nothing is due; how many were tried. `reliable`: leaves out subscribers of which something failed:
    those take longest."""
    tried = 0
    while claim := claiming.take(reliable=reliable):
        tried += _send_all(claim)
    return tried


def post(sender: Sender, delivery: Delivery) -> Answer:
    """One request, signed now."""
    subscriber, body = delivery.subscriber, delivery.payload.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "handoffaudit",
        "Handoffaudit-Event": delivery.event,
        "Handoffaudit-Delivery": str(delivery.pk),
        HEADER: signature(subscriber.secret, body, int(time.time())),
    }
    answer = sender.post(subscriber.address, body, headers)
    # Some receivers answer with what they got.
    text = answer.text.replace(subscriber.secret, "…").replace(headers[HEADER], "…")
    return replace(answer, text=text)


def send(sender: Sender, delivery: Delivery) -> Answer:
    return mailing.send(delivery) if delivery.subscriber.kind == SubscriberKind.EMAIL else post(sender, delivery)


def told(answer: Answer) -> str:
    """Why it was not delivered, with what the receiver said."""
    said = f" It said: {answer.text}" if answer.text else ""
    return clean(answer.error + said if answer.error else "", LONGEST_ERROR)


def _send_all(claim: Claim) -> int:
    """In order; after one that failed, the rest is given back. How many were tried."""
    renewed, tried = time.monotonic(), 0
    with Sender() as sender:
        for delivery in claim.deliveries:
            if time.monotonic() - renewed > CLAIM_SECONDS / 3:
                renewed = time.monotonic()
                claiming.renew(claim)
            if _needs_none(claim, delivery):
                continue
            lend_connection()
            answer = _tried(sender, delivery)
            tried += 1
            if not _store(claim, delivery, answer):
                break
    claiming.release(claim)
    return tried


def _tried(sender: Sender, delivery: Delivery) -> Answer:
    """Whatever goes wrong is a try that failed: one that could not even fail would be tried for ever, and hold up all
    that come after it."""
    try:
        return send(sender, delivery)
    except Exception:
        log.exception("a delivery could not be tried", delivery=str(delivery.pk))
        return Answer(None, 0, error="It could not be sent by an error of the product: its own log says which.")


def _needs_none(claim: Claim, delivery: Delivery) -> bool:
    """Whether it is over without being sent: it is too old, or a later mail stands for it."""
    now = timezone.now()
    if now - delivery.created_at > retrying.TOO_OLD and not delivery.tries:
        why = "It waited for three days behind others that could not be delivered."
        _give_up(claim, delivery, {"last_error": why})
        return True
    later = bundling.latest(delivery)
    if later.pk == delivery.pk:
        return False
    Delivery.objects.filter(pk=later.pk, claim=None).update(due_at=now)
    over = {"due_at": None, "claim": None, "delivered_at": now, "last_error": bundling.STANDS_FOR}
    claiming.held(claim, delivery).update(**over)
    return True


def _store(claim: Claim, delivery: Delivery, answer: Answer) -> bool:
    """Whether the next one may be sent."""
    now, tries = timezone.now(), delivery.tries + 1
    columns: dict[str, Any] = {
        "tries": tries,
        "last_status": answer.status,
        "last_ms": answer.ms,
        "last_error": told(answer),
    }
    if answer.delivered:
        claiming.held(claim, delivery).update(**columns, due_at=None, claim=None, delivered_at=now)
        claiming.is_back(claim.subscriber)
        return True
    if answer.gone:
        _switch_off(claim, delivery, columns)
        return False
    pause = retrying.pause(tries, answer.retry_after, _chance)
    log.warning("a delivery failed", subscriber=claim.subscriber.pk, tries=tries, status=answer.status)
    if pause is None:
        _give_up(claim, delivery, columns)
    else:
        claiming.held(claim, delivery).update(**columns, due_at=now + pause, claim=None)
    return False


def _give_up(claim: Claim, delivery: Delivery, columns: dict[str, Any]) -> None:
    with transaction.atomic():
        over = {"due_at": None, "claim": None, "gave_up_at": timezone.now()}
        if claiming.held(claim, delivery).update(**columns, **over):
            alerts.raise_alert(delivery.tenant_id, alerts.Kind.WEBHOOK_FAILING, 1)


def _switch_off(claim: Claim, delivery: Delivery, columns: dict[str, Any]) -> None:
    """The receiver wants nothing more: nothing is sent until a person switches it on again."""
    subscriber, now = claim.subscriber, timezone.now()
    with transaction.atomic():
        over = {"due_at": None, "claim": None, "gave_up_at": now}
        if not claiming.held(claim, delivery).update(**columns, **over):
            return
        if Subscriber.objects.filter(pk=subscriber.pk, active=True).update(active=False):
            detail = {"why": "it answered 410 Gone"}
            audit.record(
                tenant=subscriber.tenant,
                actor=SYSTEM.name,
                action="subscriber.pause",
                target=subscriber.name,
                detail=detail,
            )
        Delivery.objects.filter(subscriber=subscriber, due_at__isnull=False).update(due_at=None, claim=None)
        alerts.raise_alert(delivery.tenant_id, alerts.Kind.WEBHOOK_FAILING, 1)
