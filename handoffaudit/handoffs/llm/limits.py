"""Limits of calls to the LLM: a circuit breaker for each model, and a daily budget for each tenant."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from handoffaudit.handoffs.models import ModelBreaker, ModelSpend
from handoffaudit.llm.breaker import Breaker
from handoffaudit.validation.prompts.question import Reason, Unavailable

# How long the other side may ask to be left alone.
LONGEST_OPEN_SECONDS = 600.0

# A probe may take as long as any call; after that time and this, its process is taken to have died.
PROBE_GRACE_SECONDS = 30


def admit(model: str) -> Breaker:
    """Lets a call to this model pass, or raises `Unavailable`; the breaker as it then stands.

    While it is open, one call at a time passes: the probe.
    """
    now = timezone.now()
    before = load_breaker(model)
    after, admitted = _may_pass(before, now)
    if after != before:
        after, admitted = _claim_probe(model, now)
    if not admitted:
        raise Unavailable(Reason.BREAKER_OPEN, describe_breaker(after, now))
    return after


def _may_pass(breaker: Breaker, now: datetime) -> tuple[Breaker, bool]:
    return breaker.admit(now, probe_seconds=settings.MODEL_SECONDS + PROBE_GRACE_SECONDS)


def _claim_probe(model: str, now: datetime) -> tuple[Breaker, bool]:
    """Among all who found that it is time for a probe, for one alone."""
    with transaction.atomic():
        row = ModelBreaker.objects.select_for_update().filter(pk=model).first()
        before = _value(row)
        after, admitted = _may_pass(before, now)
        if after != before:
            _store(model, after)
        return after, admitted


def record_success(model: str) -> None:
    """The model answered."""
    _change(model, lambda breaker: breaker.succeeded())


def record_failure(model: str, error: Unavailable) -> None:
    """The model could not be reached, or refused whoever asks."""
    seconds = max(float(settings.MODEL_BREAKER_SECONDS), min(error.retry_after or 0.0, LONGEST_OPEN_SECONDS))
    _change(
        model,
        lambda breaker: breaker.failed(
            timezone.now(), error.reason.value, limit=settings.MODEL_BREAKER_FAILURES, seconds=seconds
        ),
    )


def return_admission(model: str, admitted: Breaker) -> None:
    """Who was let pass did not ask after all: where it was the probe, another may be."""
    if admitted.probing_until:
        ModelBreaker.objects.filter(pk=model, probing_until=admitted.probing_until).update(probing_until=None)


def _change(model: str, change: Callable[[Breaker], Breaker]) -> None:
    seen = load_breaker(model)
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


def load_breaker(model: str) -> Breaker:
    """As it stands now."""
    return _value(ModelBreaker.objects.filter(pk=model).first())


def _value(row: ModelBreaker | None) -> Breaker:
    if row is None:
        return Breaker()
    return Breaker(row.failures, _cap_future(row.open_until), _cap_future(row.probing_until), row.reason)


def _cap_future(until: datetime | None) -> datetime | None:
    """What is further ahead than anybody sets it was set before the clock was put back: it is over."""
    now = timezone.now()
    probe = settings.MODEL_SECONDS + PROBE_GRACE_SECONDS
    longest = timedelta(seconds=max(float(settings.MODEL_BREAKER_SECONDS), LONGEST_OPEN_SECONDS, probe))
    return now - longest if until and until > now + longest else until


def describe_breaker(breaker: Breaker, now: datetime) -> str:
    """Why nothing is asked now, as one sentence."""
    times = f"The model failed {breaker.failures} times in a row ({breaker.reason.replace('_', ' ')})"
    if breaker.open_until and breaker.open_until > now:
        return f"{times}; it is asked again in {(breaker.open_until - now).total_seconds():.0f} s."
    return f"{times}; one call finds out now whether it answers again."


# An answer that can't be read is asked for once more, and both are paid.
ANSWERS_PAID = 2


@dataclass(frozen=True, slots=True)
class Reservation:
    """`usd` of one day's budget, kept for one call."""

    tenant_id: int
    day: date
    usd: float

    def settle(self, usd: float) -> None:
        """Puts what the call did cost in place of what was reserved."""
        _day(self.tenant_id, self.day).update(usd=F("usd") + (usd - self.usd))


def reserve(tenant_id: int, estimate: float) -> Reservation:
    """Keeps the most that a call of this estimate may cost. Raises `Unavailable` where the budget has no room for it.

    One conditional UPDATE: however many ask at once, all reservations together stay within the budget.
    """
    reservation = Reservation(tenant_id, timezone.now().date(), ANSWERS_PAID * estimate)
    if not _is_taken(reservation):
        ModelSpend.objects.bulk_create(
            [ModelSpend(tenant_id=tenant_id, day=reservation.day)],
            ignore_conflicts=True,
        )
        if not _is_taken(reservation):
            raise Unavailable(Reason.BUDGET, _why(reservation))
    return reservation


def _is_taken(reservation: Reservation) -> bool:
    room = settings.MODEL_DAILY_USD - reservation.usd
    rows = _day(reservation.tenant_id, reservation.day).filter(usd__lte=room)
    return bool(rows.update(usd=F("usd") + reservation.usd))


def _day(tenant_id: int, day: date) -> "QuerySet[ModelSpend]":
    return ModelSpend.objects.filter(tenant=tenant_id, day=day)


def sum_spent_today(tenant_id: int) -> float:
    """USD spent and reserved since 00:00 UTC."""
    found = _day(tenant_id, timezone.now().date()).values_list("usd", flat=True).first()
    return max(0.0, found or 0.0)


def _why(reservation: Reservation) -> str:
    limit = settings.MODEL_DAILY_USD
    if limit <= 0:
        return "The daily budget is 0 USD: nothing may be spent on the model (HANDOFFAUDIT_MODEL_DAILY_USD)."
    left = max(0.0, limit - sum_spent_today(reservation.tenant_id))
    return (
        f"The daily budget of {limit:g} USD is spent: {left:.4f} USD are left, and this call may cost "
        f"{reservation.usd:.4f}. It begins anew at 00:00 UTC."
    )
