"""Limits of calls to the LLM: a circuit breaker for each LLM, and a daily budget for each tenant."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from handoffaudit.handoffs.models import ModelBreaker, ModelSpend
from handoffaudit.llm.calls import Breaker
from handoffaudit.validation.prompts.question import Reason, Unavailable

# The longest pause that the service can ask for, in seconds.
LONGEST_OPEN_SECONDS = 600.0

# A probe may take as long as any call. If a probe takes this many seconds longer, its process counts as dead.
PROBE_GRACE_SECONDS = 30

LONGEST_KEY = 100


def admit(model: str) -> Breaker:
    """Admit a call to this LLM, and return the breaker after the admission. Raise `Unavailable` for a refused call.

    After a pause, an open breaker admits one call at a time, the probe.
    """
    now = timezone.now()
    before = load_breaker(model)
    after, admitted = _try_admit(before, now)
    if after != before:
        after, admitted = _claim_probe(model, now)
    if not admitted:
        raise Unavailable(Reason.BREAKER_OPEN, describe_breaker(after, now))
    return after


def _try_admit(breaker: Breaker, now: datetime) -> tuple[Breaker, bool]:
    return breaker.admit(now, probe_seconds=settings.MODEL_SECONDS + PROBE_GRACE_SECONDS)


def _claim_probe(model: str, now: datetime) -> tuple[Breaker, bool]:
    """Admit only one of the callers that found the breaker ready for a probe."""
    with transaction.atomic():
        row = _filter_breaker(model).select_for_update().first()
        before = _read_breaker(row)
        after, admitted = _try_admit(before, now)
        if after != before:
            _store(model, after)
        return after, admitted


def record_success(model: str) -> None:
    """Close the breaker, because the LLM answered."""
    _change(model, lambda breaker: breaker.record_success())


def record_failure(model: str, error: Unavailable) -> None:
    """Count a failure, because the LLM could not be reached or refused the request."""
    seconds = max(float(settings.MODEL_BREAKER_SECONDS), min(error.retry_after or 0.0, LONGEST_OPEN_SECONDS))
    _change(
        model,
        lambda breaker: breaker.record_failure(
            timezone.now(), error.reason.value, limit=settings.MODEL_BREAKER_FAILURES, seconds=seconds
        ),
    )


def return_admission(model: str, admitted: Breaker) -> None:
    """Return an admission that was not used. If the admitted call was the probe, another call may become the probe."""
    if admitted.probing_until:
        _filter_breaker(model).filter(probing_until=admitted.probing_until).update(probing_until=None)


def _change(model: str, change: Callable[[Breaker], Breaker]) -> None:
    seen = load_breaker(model)
    # Most calls do not change the breaker. Such calls must not wait for the lock of another call.
    if change(seen) == seen:
        return
    with transaction.atomic():
        if seen == Breaker():
            ModelBreaker.objects.bulk_create([ModelBreaker(model=_key_of(model))], ignore_conflicts=True)
        row = _filter_breaker(model).select_for_update().first()
        _store(model, change(_read_breaker(row)))


def _store(model: str, breaker: Breaker) -> None:
    _filter_breaker(model).update(**asdict(breaker))


def _filter_breaker(model: str) -> "QuerySet[ModelBreaker]":
    return ModelBreaker.objects.filter(pk=_key_of(model))


def _key_of(model: str) -> str:
    """Return the end of the name, which differs between LLMs. The name may be an ARN that is longer than the column."""
    return model[-LONGEST_KEY:]


def load_breaker(model: str) -> Breaker:
    """Return the current breaker of an LLM."""
    return _read_breaker(_filter_breaker(model).first())


def _read_breaker(row: ModelBreaker | None) -> Breaker:
    if row is None:
        return Breaker()
    return Breaker(row.failures, _cap_future(row.open_until), _cap_future(row.probing_until), row.reason)


def _cap_future(until: datetime | None) -> datetime | None:
    """Return the time, or a past time if `until` is later than the latest time that a breaker can set.

    Such a time was stored before the system clock was set back.
    """
    now = timezone.now()
    probe = settings.MODEL_SECONDS + PROBE_GRACE_SECONDS
    longest = timedelta(seconds=max(float(settings.MODEL_BREAKER_SECONDS), LONGEST_OPEN_SECONDS, probe))
    return now - longest if until and until > now + longest else until


def describe_breaker(breaker: Breaker, now: datetime) -> str:
    """Return one sentence that says why the LLM is not asked now."""
    times = f"The LLM failed {breaker.failures} times in a row ({breaker.reason.replace('_', ' ')})"
    if breaker.open_until and breaker.open_until > now:
        return f"{times}; it is asked again in {(breaker.open_until - now).total_seconds():.0f} s."
    return f"{times}; one call is testing now whether it answers again."


# After an unreadable answer, the question is asked once more, and both answers are paid.
ANSWERS_PAID = 2


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved share of one day's budget for one call, in USD."""

    tenant_id: int
    day: date
    usd: float

    def settle(self, usd: float) -> None:
        """Replace the reserved amount with the real cost of the call."""
        _filter_day(self.tenant_id, self.day).update(usd=F("usd") + (usd - self.usd))


def reserve(tenant_id: int, estimate: float) -> Reservation:
    """Reserve the highest possible cost of a call with this estimate. Raise `Unavailable` if the budget is too small.

    A conditional UPDATE keeps all reservations within the budget, even if many calls are made in parallel.
    """
    reservation = Reservation(tenant_id, timezone.now().date(), ANSWERS_PAID * estimate)
    if not _take_share(reservation):
        ModelSpend.objects.bulk_create(
            [ModelSpend(tenant_id=tenant_id, day=reservation.day)],
            ignore_conflicts=True,
        )
        if not _take_share(reservation):
            raise Unavailable(Reason.BUDGET, _describe_shortage(reservation))
    return reservation


def _take_share(reservation: Reservation) -> bool:
    room = settings.MODEL_DAILY_USD - reservation.usd
    rows = _filter_day(reservation.tenant_id, reservation.day).filter(usd__lte=room)
    return bool(rows.update(usd=F("usd") + reservation.usd))


def _filter_day(tenant_id: int, day: date) -> "QuerySet[ModelSpend]":
    return ModelSpend.objects.filter(tenant=tenant_id, day=day)


def sum_spent_today(tenant_id: int) -> float:
    """Return the USD spent and reserved since 00:00 UTC, at least 0."""
    found = _filter_day(tenant_id, timezone.now().date()).values_list("usd", flat=True).first()
    return max(0.0, found or 0.0)


def _describe_shortage(reservation: Reservation) -> str:
    limit = settings.MODEL_DAILY_USD
    if limit <= 0:
        return "The daily budget is 0 USD: nothing may be spent on the LLM (HANDOFFAUDIT_MODEL_DAILY_USD)."
    left = max(0.0, limit - sum_spent_today(reservation.tenant_id))
    return (
        f"The daily budget of {limit:g} USD does not cover this call: {left:.4f} USD are left, and the call may cost "
        f"{reservation.usd:.4f}. The budget begins anew at 00:00 UTC."
    )
