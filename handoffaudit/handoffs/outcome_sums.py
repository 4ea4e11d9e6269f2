"""Sums of the stored counts over whole hours: daily counts for the days, hourly counts for the ends of the period."""

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
# PostgreSQL sums bigint columns as numeric, which the driver is slow to read.
_SUMS: Final = tuple(f"CAST(COALESCE(SUM({name}), 0) AS bigint)" for name in OUTCOMES)
_TOTAL: Final = " + ".join(f"COALESCE(SUM({name}), 0)" for name in OUTCOMES)


class Sums(NamedTuple):
    """The numbers of handoffs by outcome; a superseded handoff is represented by the attempt that superseded it."""

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
    """The days from `first` to before `after`, the hours to add to them, and the hours to subtract from them."""

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
    """Return the outcomes of handoffs received from `since` to before `until`, grouped by columns, largest total first.

    `columns` are among `code`, `handoff_type` and `source_agent_id`; or `target_agent_id`, which excludes `code` and
    `handoff_type`. `most` limits the number of groups.
    """
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
    """Yield the queries whose rows are to be summed: the columns and the numbers of each outcome."""
    daily: QuerySet[Any] = DailyPair.objects.filter(tenant=tenant)
    if "target_agent_id" not in columns:
        daily = DailyCount.objects.filter(tenant=tenant, code__in=codes)
    if split.first < split.after:
        rows = daily.filter(narrowed, day__gte=split.first, day__lt=split.after).order_by()
        yield rows.values_list(*columns, *OUTCOMES)
    hourly = HourlyCount.objects.filter(narrowed, tenant=tenant, code__in=codes).order_by()
    for stretches, number in ((split.added, F("number")), (split.taken, -F("number"))):
        # Other outcomes yield NULL, because SUM skips NULL but would have to add a zero.
        outcomes = {name: Case(When(state__in=states, then=number)) for name, states in OUTCOMES.items()}
        for begin, end in stretches:
            rows = hourly.filter(hour__gte=begin, hour__lt=end)
            yield rows.annotate(**outcomes).values_list(*columns, *OUTCOMES)


def _split(since: datetime, until: datetime, now: datetime) -> _Split:
    """Return the split by days if that reads fewer hours than the hours of the period.

    A day at either end is read whole if most of its hours are in the period.
    """
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
    # No handoff is received in the future, so the current day is read whole.
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
