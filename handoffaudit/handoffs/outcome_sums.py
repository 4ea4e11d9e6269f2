"""Sums of the kept counts over whole hours: whole days by the daily counts, what is left at the ends by the hourly."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import add
from typing import Any, Final

from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.models import DailyCount, DailyPair, HourlyCount

_HOUR: Final = timedelta(hours=1)
_BY_STATE: Final = {name: Sum("number", filter=Q(state__in=states), default=0) for name, states in OUTCOMES.items()}
_BY_OUTCOME: Final = {f"sum_{name}": Sum(name) for name in OUTCOMES}


@dataclass(frozen=True, slots=True)
class Sums:
    """Handoffs by what became of them; `superseded` ones count by the attempt that took their place."""

    accepted: int = 0
    decided: int = 0
    stopped: int = 0
    superseded: int = 0

    @property
    def total(self) -> int:
        return self.accepted + self.decided + self.stopped + self.superseded

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.accepted + other.accepted,
            self.decided + other.decided,
            self.stopped + other.stopped,
            self.superseded + other.superseded,
        )


Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Split:
    """Whole days from `first` on and before `after`, and whole hours beside them."""

    first: date
    after: date
    hours: tuple[tuple[datetime, datetime], ...]


def sums_by(
    tenant: Tenant,
    since: datetime,
    until: datetime,
    *columns: str,
    codes: Sequence[str] = ("",),
    narrowed: Q | None = None,
    most: int | None = None,
) -> dict[Names, Sums]:
    """Of handoffs received from `since` on and before `until`, by columns among `code`, `handoff_type`,
    `source_agent_id`, and `target_agent_id` without the two others. Those with the most first, at most so many of the
    days and so many of the hours beside them are read."""
    split = _split(since.astimezone(UTC), until.astimezone(UTC), timezone.now())
    narrowed = narrowed or Q()
    found: dict[Names, Sums] = {}
    daily: QuerySet[Any] = DailyPair.objects.filter(tenant=tenant)
    if "target_agent_id" not in columns:
        daily = DailyCount.objects.filter(tenant=tenant, code__in=codes)
    days = daily.filter(narrowed, day__gte=split.first, day__lt=split.after).order_by().values_list(*columns)
    summed = [_ordered(days.annotate(**_BY_OUTCOME), _BY_OUTCOME, most)] if split.first < split.after else []
    for begin, end in split.hours:
        hours = HourlyCount.objects.filter(narrowed, tenant=tenant, hour__gte=begin, hour__lt=end, code__in=codes)
        summed.append(_ordered(hours.order_by().values_list(*columns).annotate(**_BY_STATE), _BY_STATE, most))
    for rows in summed:
        for row in rows:
            names = row[: len(columns)]
            found[names] = found.get(names, Sums()) + Sums(*row[len(columns) : len(columns) + len(OUTCOMES)])
    ordered = sorted(found.items(), key=lambda item: (-item[1].total, item[0]))
    return {names: sums for names, sums in ordered if sums.total > 0}


def _ordered(rows: "QuerySet[Any, Any]", sums: dict[str, Sum], most: int | None) -> "QuerySet[Any, Any]":
    if most is None:
        return rows
    return rows.annotate(total=reduce(add, map(F, sums))).order_by("-total")[:most]  # type: ignore[no-any-return]


def _split(since: datetime, until: datetime, now: datetime) -> _Split:
    since, until = _floor(since), _ceiling(until)
    first = since.date() if since == _midnight(since.date()) else since.date() + timedelta(days=1)
    # Nothing comes after now: the day under way is whole.
    after = until.date() + timedelta(days=1) if until >= now else until.date()
    if first >= after:
        return _Split(first, first, ((since, until),) if since < until else ())
    ends = ((since, _midnight(first)), (_midnight(after), until))
    return _Split(first, after, tuple((begin, end) for begin, end in ends if begin < end))


def _floor(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _ceiling(moment: datetime) -> datetime:
    floor = _floor(moment)
    return floor if floor == moment else floor + _HOUR


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
