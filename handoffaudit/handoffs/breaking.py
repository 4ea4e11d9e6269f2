"""Whether a model is called at all: one breaker for each, for all processes and tenants.

Its row is read before each call and written only where it changes.
"""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.handoffs.models import ModelBreaker
from handoffaudit.llm.breaker import Breaker
from handoffaudit.validation.asking.question import Reason, Unavailable

# How long the other side may ask to be left alone.
LONGEST_OPEN_SECONDS = 600.0
# A probe may take as long as any call; after that time and this, its process is taken to have died.
PROBE_GRACE_SECONDS = 30


def admit(model: str) -> Breaker:
    """Lets a call to this model pass, or raises `Unavailable`; the breaker as it then stands.

    While it is open, one call at a time passes: the probe.
    """
    now = timezone.now()
    before = of_model(model)
    after, admitted = _admitted(before, now)
    if after != before:
        after, admitted = _claim_probe(model, now)
    if not admitted:
        raise Unavailable(Reason.BREAKER_OPEN, told(after, now))
    return after


def _admitted(breaker: Breaker, now: datetime) -> tuple[Breaker, bool]:
    return breaker.admit(now, probe_seconds=settings.MODEL_SECONDS + PROBE_GRACE_SECONDS)


def _claim_probe(model: str, now: datetime) -> tuple[Breaker, bool]:
    """Among all who found that it is time for a probe, for one alone."""
    with transaction.atomic():
        row = ModelBreaker.objects.select_for_update().filter(pk=model).first()
        before = _value(row)
        after, admitted = _admitted(before, now)
        if after != before:
            _store(model, after)
        return after, admitted


def succeeded(model: str) -> None:
    """The model answered."""
    _change(model, lambda breaker: breaker.succeeded())


def failed(model: str, error: Unavailable) -> None:
    """The model could not be reached, or refused whoever asks."""
    seconds = max(float(settings.MODEL_BREAKER_SECONDS), min(error.retry_after or 0.0, LONGEST_OPEN_SECONDS))
    _change(
        model,
        lambda breaker: breaker.failed(
            timezone.now(), error.reason.value, limit=settings.MODEL_BREAKER_FAILURES, seconds=seconds
        ),
    )


def not_asked(model: str, admitted: Breaker) -> None:
    """Who was let pass did not ask after all: where it was the probe, another may be."""
    if admitted.probing_until:
        ModelBreaker.objects.filter(pk=model, probing_until=admitted.probing_until).update(probing_until=None)


def _change(model: str, change: Callable[[Breaker], Breaker]) -> None:
    seen = of_model(model)
    # Nearly always nothing is to be written, and no call should wait for another's lock then.
    if change(seen) == seen:
        return
    with transaction.atomic():
        if seen == Breaker():
            ModelBreaker.objects.bulk_create([ModelBreaker(model=model)], ignore_conflicts=True)
        row = ModelBreaker.objects.select_for_update().filter(pk=model).first()
        _store(model, change(_value(row)))


def _store(model: str, breaker: Breaker) -> None:
    ModelBreaker.objects.filter(pk=model).update(**asdict(breaker))


def of_model(model: str) -> Breaker:
    """As it stands now."""
    return _value(ModelBreaker.objects.filter(pk=model).first())


def _value(row: ModelBreaker | None) -> Breaker:
    if row is None:
        return Breaker()
    return Breaker(row.failures, _believed(row.open_until), _believed(row.probing_until), row.reason)


def _believed(until: datetime | None) -> datetime | None:
    """What is further ahead than anybody sets it was set before the clock was put back: it is over."""
    now = timezone.now()
    probe = settings.MODEL_SECONDS + PROBE_GRACE_SECONDS
    longest = timedelta(seconds=max(float(settings.MODEL_BREAKER_SECONDS), LONGEST_OPEN_SECONDS, probe))
    return now - longest if until and until > now + longest else until


def told(breaker: Breaker, now: datetime) -> str:
    """Why nothing is asked now, as one sentence."""
    times = f"The model failed {breaker.failures} times in a row ({breaker.reason.replace('_', ' ')})"
    if breaker.open_until and breaker.open_until > now:
        return f"{times}; it is asked again in {(breaker.open_until - now).total_seconds():.0f} s."
    return f"{times}; one call finds out now whether it answers again."
