"""What a tenant may spend on the model in a day (UTC): reserved before a call, settled after it.

A call that its process did not survive leaves its reservation standing: rather too much is counted than too little.
"""

from dataclasses import dataclass
from datetime import date

from django.conf import settings
from django.db.models import F, QuerySet
from django.utils import timezone

from handoffaudit.handoffs.models import ModelSpend
from handoffaudit.validation.asking.question import Reason, Unavailable

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
    if not _taken(reservation):
        ModelSpend.objects.bulk_create(
            [ModelSpend(tenant_id=tenant_id, day=reservation.day)],
            ignore_conflicts=True,
        )
        if not _taken(reservation):
            raise Unavailable(Reason.BUDGET, _why(reservation))
    return reservation


def _taken(reservation: Reservation) -> bool:
    room = settings.MODEL_DAILY_USD - reservation.usd
    rows = _day(reservation.tenant_id, reservation.day).filter(usd__lte=room)
    return bool(rows.update(usd=F("usd") + reservation.usd))


def _day(tenant_id: int, day: date) -> "QuerySet[ModelSpend]":
    return ModelSpend.objects.filter(tenant=tenant_id, day=day)


def spent_today(tenant_id: int) -> float:
    """USD spent and reserved since 00:00 UTC."""
    found = _day(tenant_id, timezone.now().date()).values_list("usd", flat=True).first()
    return max(0.0, found or 0.0)


def _why(reservation: Reservation) -> str:
    limit = settings.MODEL_DAILY_USD
    if limit <= 0:
        return "The daily budget is 0 USD: nothing may be spent on the model (HANDOFFAUDIT_MODEL_DAILY_USD)."
    left = max(0.0, limit - spent_today(reservation.tenant_id))
    return (
        f"The daily budget of {limit:g} USD is spent: {left:.4f} USD are left, and this call may cost "
        f"{reservation.usd:.4f}. It begins anew at 00:00 UTC."
    )
