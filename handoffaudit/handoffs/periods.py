"""Periods of pages and reports: named periods, windows of whole hours, and the time buckets of charts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, Generic, TypeVar

from django.db.models import F, Func, IntegerField
from django.utils import timezone

from handoffaudit.filter_fields import PERIODS as PERIODS_OF_LISTS
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.counts import widen_to_days
from handoffaudit.handoffs.filters import Filters
from handoffaudit.policy.retention import HOURS_KEPT
from handoffaudit.validation.times import hour_of

_Value = TypeVar("_Value")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

HOUR = timedelta(hours=1)


class TimeStep(Func):
    """The index of the time bucket that a moment falls into.

    Each time bucket lasts `seconds`. Bucket 0 begins at `begin`, a time in seconds since 1970 (default 0).
    """

    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"FLOOR((date_part('epoch', %(expressions)s) - {self._begin}) / {self.extra['seconds']})::integer"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"((CAST(strftime('%%%%s', %(expressions)s) AS INTEGER) - {self._begin}) / {self.extra['seconds']})"
        return self.as_sql(compiler, connection, template=template, **context)

    @property
    def _begin(self) -> int:
        begin: int = self.extra.get("begin", 0)
        return begin


@dataclass(frozen=True, slots=True)
class TimeBucket(Generic[_Value]):
    """A short interval of a chart, from `since` to `until` (exclusive), and the value of the interval."""

    since: datetime
    until: datetime
    value: _Value

    @property
    def span(self) -> str:
        """Return the start and the end as text, for the title of a bar in a chart."""
        return f"{self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class TimeScale:
    """The time buckets of a period. Each bucket lasts `step` and begins a whole number of steps after `begin`.

    Unless `whole` is set, the first and the last bucket are shortened to the period.
    """

    since: datetime
    until: datetime
    step: timedelta
    begin: datetime = _EPOCH
    whole: bool = False

    def index_of(self, column: str) -> TimeStep:
        """Return the SQL expression for the number of the bucket that contains the time in a column."""
        return TimeStep(F(column), seconds=int(self.step.total_seconds()), begin=int(self.begin.timestamp()))

    def fill(self, found: Mapping[int, _Value], empty: _Value) -> list[TimeBucket[_Value]]:
        """Return all buckets, oldest first. `found` maps bucket numbers to values; other buckets get `empty`."""
        buckets = []
        for index in range((self.since - self.begin) // self.step, -((self.begin - self.until) // self.step)):
            since = self.begin + index * self.step
            until = since + self.step
            if not self.whole:
                since, until = max(since, self.since), min(until, self.until)
            buckets.append(TimeBucket(since, until, found.get(index, empty)))
        return buckets


@dataclass(frozen=True, slots=True)
class Period:
    """A named period; `name` is its value in a query parameter, `step` the length of one bar in a chart."""

    name: str
    length: timedelta
    step: timedelta

    @property
    def label(self) -> str:
        """Return the label of the period in list filters, without the word `last`."""
        return PERIODS_OF_LISTS[self.name].removeprefix("last ")


PERIODS: Final = {
    period.name: period
    for period in (
        Period("1h", timedelta(hours=1), timedelta(minutes=2)),
        Period("24h", timedelta(hours=24), HOUR),
        Period("7d", timedelta(days=7), timedelta(hours=6)),
        Period("30d", timedelta(days=30), timedelta(days=1)),
    )
}


def choose_period(asked: str, offered: Sequence[str]) -> tuple[Period, FilterError | None]:
    """Return the period `asked`. If the page does not offer this period, return 24 hours and an error."""
    if asked in offered:
        return PERIODS[asked], None
    return PERIODS["24h"], FilterError("period", asked[:40], f"use one of {', '.join(offered)}.")


DEFAULT_PERIOD = "7d"

MONDAY = "monday"

# Pages offer these periods, but a request can name any number of hours or days.
OFFERED_PERIODS = {name: PERIODS[name].label for name in ("24h", "7d", "30d")} | {MONDAY: "Since Monday"}

_LENGTH = re.compile(r"([1-9]\d{0,4})([hd])\Z")

_REMEDY = "use a number of hours or days (24h, 7d, 30d) or monday; or give since and until."

_MOST_BARS = 31

_STEPS = (1, 2, 3, 4, 6, 12, 24, 48, 72, 168, 336, 720, 2160, 8760)


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours from `since` to `until` (exclusive), which are compared with `before_since` to `before_until`.

    `period` is the requested period, empty if the request gave `since` in its place.
    """

    since: datetime
    until: datetime
    before_since: datetime
    before_until: datetime
    period: str = ""

    @property
    def query(self) -> dict[str, str]:
        """Return the query parameters that request this window again."""
        return {"period": self.period} if self.period else self.bounds

    @property
    def bounds(self) -> dict[str, str]:
        """Return the two ends of the window as parameters of list filters, even if the request named a period."""
        return {"since": format_utc(self.since), "until": format_utc(self.until)}

    @property
    def label(self) -> str:
        """Return a label such as `last 7 days`, `since Monday` or `2026-02-01 00:00 to 2026-02-15 00:00`."""
        if self.period == MONDAY:
            return "since Monday"
        length = _LENGTH.match(self.period)
        if not length:
            return self.span
        unit = "hour" if length[2] == "h" else "day"
        return f"last {unit}" if length[1] == "1" else f"last {length[1]} {unit}s"

    @property
    def span(self) -> str:
        return f"{self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M}"

    @property
    def before_span(self) -> str:
        return f"{self.before_since:%Y-%m-%d %H:%M} to {self.before_until:%Y-%m-%d %H:%M}"

    @property
    def step(self) -> timedelta:
        """Return the length of one bar in a chart. The length grows with the window, so that few bars are needed."""
        hours = (self.until - self.since) // HOUR
        fitting = next((step for step in _STEPS if hours <= step * (_MOST_BARS - 1)), -(-hours // (_MOST_BARS - 1)))
        step = timedelta(hours=fitting)
        # Old counts are in whole days.
        return max(step, timedelta(days=1)) if self.since < timezone.now() - HOURS_KEPT else step

    def short(self, moment: datetime) -> str:
        """Return the label under a bar that begins at that moment."""
        return f"{moment:%H:%M}" if self.step <= HOUR * 2 else f"{moment.day} {moment:%b}"

    @property
    def scale(self) -> TimeScale:
        """Return the time buckets for a chart of the window."""
        return TimeScale(self.since, self.until, self.step)


def window_of(params: Mapping[str, str], now: datetime, default: str = DEFAULT_PERIOD) -> Window:
    """Return the window that the parameters request.

    The parameters are `period` (`24h`, `7d`, `monday`), or `since` and `until` (dates, or dates with a time; UTC).
    Without `until`, the window includes the current hour. A bound that is older than `HOURS_KEPT` is moved outward to a
    midnight (UTC). The window is compared with the period of the same length right before it; `monday` is compared with
    the seven days before Monday. Raise `FilterError` for invalid parameters.
    """
    period = params.get("period", "").strip()
    if not period and (params.get("since", "").strip() or params.get("until", "").strip()):
        return _make_custom_window(params, now)
    return _make_period_window(period or default, now)


def _make_period_window(period: str, now: datetime) -> Window:
    until = _end_of_hour(now)
    if period == MONDAY:
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        monday = midnight - timedelta(days=now.weekday())
        return Window(monday, until, monday - timedelta(days=7), monday, period)
    length = _LENGTH.match(period)
    if not length:
        raise FilterError("period", period[:40], _REMEDY)
    hours = int(length[1]) * (1 if length[2] == "h" else 24)
    return _add_before(until - timedelta(hours=hours), until, period)


def _make_custom_window(params: Mapping[str, str], now: datetime) -> Window:
    filters = Filters.from_query({name: params.get(name, "") for name in ("since", "until")})
    if filters.since is None:
        raise FilterError("since", "", "give since as well, or give period in place of until.")
    since = hour_of(filters.since.astimezone(UTC))
    until = _end_of_hour(filters.until - timedelta(microseconds=1) if filters.until else now)
    if until <= since:
        raise FilterError("until", params.get("until", "")[:40], f"give a time after since ({format_utc(since)}).")
    return _add_before(since, until)


def _add_before(since: datetime, until: datetime, period: str = "") -> Window:
    since, until = (wide or given for wide, given in zip(widen_to_days(since, until), (since, until), strict=True))
    # Nothing is older than 1970. Without this limit, the period before a long window could begin before the year 1,
    # which is the earliest year of `datetime`.
    length = min(until - since, max(since - _EPOCH, timedelta()))
    return Window(since, until, since - length, since, period)


def _end_of_hour(moment: datetime) -> datetime:
    return hour_of(moment.astimezone(UTC)) + HOUR


def format_utc(moment: datetime) -> str:
    """Return the time in the form of query parameters: `2026-02-15T09:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_DAY: Final = timedelta(days=1)

_HALF_A_DAY: Final = 12


@dataclass(frozen=True, slots=True)
class PeriodSplit:
    """The days from `first` to before `after`, the hours to add to them, and the hours to subtract from them.

    `future` are the hours from the end of the period to the next midnight, if the period ends at the current time or
    later.
    """

    first: date
    after: date
    added: tuple[tuple[datetime, datetime], ...] = ()
    taken: tuple[tuple[datetime, datetime], ...] = ()
    future: tuple[tuple[datetime, datetime], ...] = ()

    @classmethod
    def of_hours(cls, since: datetime, until: datetime) -> "PeriodSplit":
        return cls(since.date(), since.date(), ((since, until),) if since < until else ())

    @property
    def since(self) -> date:
        """Return the first day of which the split reads hours or the whole day."""
        return min([self.first, *(since.date() for since, _ in (*self.added, *self.taken))])

    def split_at(self, day: date) -> "tuple[PeriodSplit, PeriodSplit]":
        """Return the part before the day, and the rest with any interval that contains the start of the day."""
        begin = _midnight(day)
        (old_added, added), (old_taken, taken) = (
            [tuple(one for one in some if (one[1] <= begin) == is_old) for is_old in (True, False)]
            for some in (self.added, self.taken)
        )
        return (
            PeriodSplit(min(self.first, day), min(self.after, day), old_added, old_taken),
            PeriodSplit(max(self.first, day), max(self.after, day), added, taken, self.future),
        )

    @property
    def hours(self) -> timedelta:
        return sum((until - since for since, until in (*self.added, *self.taken)), timedelta())


def split_period(since: datetime, until: datetime, now: datetime) -> PeriodSplit:
    """Return the split of the period that needs the fewest hourly counts: into whole days and hours, or only hours.

    In the split by days, a day at either end of the period is read whole if most of its hours belong to the period. If
    the period ends at `now` (the current time) or later, this split always reads the last day whole. The later hours of
    that day have no or few counts.
    """
    since, until = _widen(hour_of(since.astimezone(UTC)), _round_up(until.astimezone(UTC)))
    only_hours = PeriodSplit.of_hours(since, until)
    by_days = _split_by_days(since, until, now)
    return by_days if by_days.hours < only_hours.hours else only_hours


def _split_by_days(since: datetime, until: datetime, now: datetime) -> PeriodSplit:
    added, taken, future = [], [], []
    first, after = since.date(), until.date()
    if since.hour > _HALF_A_DAY:
        first += _DAY
        added.append((since, _midnight(first)))
    else:
        taken.append((_midnight(first), since))
    if until >= now:
        after += _DAY
        future.append((until, _midnight(after)))
    elif until.hour > _HALF_A_DAY:
        after += _DAY
        taken.append((until, _midnight(after)))
    else:
        added.append((_midnight(after), until))
    intervals = (tuple(one for one in some if one[0] < one[1]) for some in (added, taken, future))
    return PeriodSplit(first, after, *intervals)


def _widen(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    wide_since, wide_until = widen_to_days(since, until)
    return wide_since or since, wide_until or until


def _round_up(moment: datetime) -> datetime:
    floor = hour_of(moment)
    return floor if floor == moment else floor + HOUR


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
