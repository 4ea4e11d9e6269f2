"""Sums of the kept counts over whole hours: days by the daily counts, and what their ends have too much or too little
by the hourly ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from django.db.models import Case, F, Q, QuerySet, When
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.db import sum_rows
from handoffaudit.handoffs.models import DailyCount, DailyPair, HourlyCount

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_HALF_A_DAY: Final = 12
# Sums of eight bytes are of another type in PostgreSQL, whose values are slow to read.
_SUMS: Final = tuple(f"CAST(COALESCE(SUM({name}), 0) AS bigint)" for name in OUTCOMES)
_TOTAL: Final = " + ".join(f"COALESCE(SUM({name}), 0)" for name in OUTCOMES)


class Sums(NamedTuple):
    """Handoffs by what became of them; `superseded` ones count by the attempt that took their place."""

    accepted: int = 0
    decided: int = 0
    stopped: int = 0
    superseded: int = 0

    @property
    def total(self) -> int:
        return sum(self)


Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Split:
    """Days from `first` on and before `after`; hours beside them, and hours of them that do not belong."""

    first: date
    after: date
    added: tuple[tuple[datetime, datetime], ...] = ()
    taken: tuple[tuple[datetime, datetime], ...] = ()

    @property
    def hours(self) -> timedelta:
        return sum((until - since for since, until in (*self.added, *self.taken)), timedelta())


def sum_outcomes(
    tenant: Tenant,
    since: datetime,
    until: datetime,
    *columns: str,
    codes: Sequence[str] = ("",),
    narrowed: Q | None = None,
    most: int | None = None,
) -> dict[Names, Sums]:
    """Of handoffs received from `since` on and before `until`, by columns among `code`, `handoff_type`,
    `source_agent_id`, and `target_agent_id` without the two others. Those with the most first, at most so many."""
    split = _split(since.astimezone(UTC), until.astimezone(UTC), timezone.now())
    parts = list(_parts(tenant, split, columns, codes, narrowed or Q())) if codes else []
    if not parts:
        return {}
    tail = "" if most is None else f"ORDER BY {_TOTAL} DESC LIMIT {most}"
    rows = sum_rows(parts, columns, _SUMS, tail)
    place = len(columns)
    found = [(row[:place], Sums._make(row[place:])) for row in rows if sum(row[place:]) > 0]
    return dict(sorted(found, key=lambda item: (-item[1].total, item[0])))


def _parts(
    tenant: Tenant, split: _Split, columns: Sequence[str], codes: Sequence[str], narrowed: Q
) -> "Iterator[QuerySet[Any, Any]]":
    """Rows of the columns and of the outcomes' numbers, to be summed."""
    daily: QuerySet[Any] = DailyPair.objects.filter(tenant=tenant)
    if "target_agent_id" not in columns:
        daily = DailyCount.objects.filter(tenant=tenant, code__in=codes)
    if split.first < split.after:
        rows = daily.filter(narrowed, day__gte=split.first, day__lt=split.after).order_by()
        yield rows.values_list(*columns, *OUTCOMES)
    hourly = HourlyCount.objects.filter(narrowed, tenant=tenant, code__in=codes).order_by()
    for stretches, number in ((split.added, F("number")), (split.taken, -F("number"))):
        # Nothing, where it is another outcome: a zero would have to be added.
        outcomes = {name: Case(When(state__in=states, then=number)) for name, states in OUTCOMES.items()}
        for begin, end in stretches:
            rows = hourly.filter(hour__gte=begin, hour__lt=end)
            yield rows.annotate(**outcomes).values_list(*columns, *OUTCOMES)


def _split(since: datetime, until: datetime, now: datetime) -> _Split:
    """By days, where that is fewer hours to be read than there are; those at the ends are read whole where most of them
    is asked for."""
    since, until = _floor(since), _ceiling(until)
    alone = _Split(since.date(), since.date(), ((since, until),) if since < until else ())
    by_days = _by_days(since, until, now)
    return by_days if by_days.hours < alone.hours else alone


def _by_days(since: datetime, until: datetime, now: datetime) -> _Split:
    added, taken = [], []
    first, after = since.date(), until.date()
    if since.hour > _HALF_A_DAY:
        first += _DAY
        added.append((since, _midnight(first)))
    else:
        taken.append((_midnight(first), since))
    # Nothing comes after now: the day under way is whole.
    if until >= now:
        after += _DAY
    elif until.hour > _HALF_A_DAY:
        after += _DAY
        taken.append((until, _midnight(after)))
    else:
        added.append((_midnight(after), until))
    return _Split(first, after, *(tuple(one for one in some if one[0] < one[1]) for some in (added, taken)))


def _floor(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _ceiling(moment: datetime) -> datetime:
    floor = _floor(moment)
    return floor if floor == moment else floor + _HOUR


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
