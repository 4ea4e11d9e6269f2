"""Answers of the model that are kept, so that an equal question is asked once."""

import hashlib
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import Error
from django.utils import timezone

from handoffaudit.handoffs.models import ModelAnswer
from handoffaudit.validation.asking.question import Answer, MalformedAnswer, Question
from handoffaudit.validation.text import storable

log = structlog.get_logger(__name__)

FORGOTTEN_AT_ONCE = 1000


def key_of(model: str, question: Question) -> str:
    """The same for equal questions to the same model."""
    return hashlib.sha256(f"{model} {question.digest}".encode()).hexdigest()


def kept(tenant_id: int, key: str, question: Question) -> Answer | None:
    """The answer to an equal question, where it is kept, not too old, and still reads as one."""
    try:
        row = ModelAnswer.objects.filter(tenant=tenant_id, key=key, at__gte=_oldest()).first()
    except Error as error:
        log.warning("kept answers of the model can't be read", error=str(error))
        return None
    if row is None:
        return None
    try:
        value = question.read(row.text)
    except MalformedAnswer:
        return None
    return Answer(value, row.text, row.model, row.cost_usd, row.latency_ms, cached=True)


def keep(tenant_id: int, key: str, answer: Answer) -> None:
    """Keeps it in place of an older one; call inside the transaction that records the call."""
    if not storable(answer.text):
        return
    row = ModelAnswer(
        tenant_id=tenant_id,
        key=key,
        model=answer.model[:100],
        text=answer.text,
        cost_usd=answer.cost_usd,
        latency_ms=answer.latency_ms,
        at=timezone.now(),
    )
    ModelAnswer.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["tenant", "key"],
        update_fields=["model", "text", "cost_usd", "latency_ms", "at"],
    )


def forget_old_answers() -> int:
    """Deletes some of those that count no more; how many. Call it again and again: each takes a bite."""
    old = ModelAnswer.objects.filter(at__lt=_oldest()).order_by("at").values_list("pk", flat=True)
    bite = list(old[:FORGOTTEN_AT_ONCE])
    return ModelAnswer.objects.filter(pk__in=bite).delete()[0] if bite else 0


def _oldest() -> datetime:
    return timezone.now() - timedelta(days=settings.MODEL_CACHE_DAYS)
