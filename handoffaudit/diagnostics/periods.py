"""Periods that reports cover: named periods, and windows of whole hours with the window before to compare with."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from handoffaudit.handoffs.filters import FilterError, Filters


@dataclass(frozen=True, slots=True)
class Period:
    """A named period; `name` is its value in an address, `step` the length of one bar of a chart."""

    name: str
    label: str
    length: timedelta
    step: timedelta


PERIODS = {
    period.name: period
    for period in (
        Period("1h", "hour", timedelta(hours=1), timedelta(minutes=2)),
        Period("24h", "24 hours", timedelta(hours=24), timedelta(hours=1)),
        Period("7d", "7 days", timedelta(days=7), timedelta(hours=6)),
    )
}

HOUR = timedelta(hours=1)

DEFAULT_PERIOD = "7d"

MONDAY = "monday"

# Pages offer these periods. A request can name any number of hours or days.
OFFERED_PERIODS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", MONDAY: "Since Monday"}

_LENGTH = re.compile(r"([1-9]\d{0,4})([hd])\Z")

_REMEDY = "use a number of hours or days (24h, 7d, 30d) or monday; or give since and until."

_MOST_BARS = 31

_STEPS = (1, 2, 3, 4, 6, 12, 24, 48, 72, 168, 336, 720, 2160, 8760)


@dataclass(frozen=True, slots=True)
class Window:
    """Whole hours from `since` to `until` (exclusive), and the hours to compare with, likewise.

    `period` is the requested period, empty if the request gave both ends.
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
        """Return the window as two times for the filters of lists, also if the request named a period."""
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
        """Return the length of one bar of a chart, so that there are few enough bars."""
        hours = (self.until - self.since) // HOUR
        fitting = next((step for step in _STEPS if hours <= step * (_MOST_BARS - 1)), -(-hours // (_MOST_BARS - 1)))
        return timedelta(hours=fitting)

    def short(self, moment: datetime) -> str:
        """Return the label under a bar that begins at that moment."""
        return f"{moment:%H:%M}" if self.step <= HOUR * 2 else f"{moment.day} {moment:%b}"

    def stretches(self) -> list[tuple[datetime, datetime]]:
        """Return the bars, oldest first: they begin at whole steps, and the first and last are cut to the window."""
        seconds = int(self.step.total_seconds())
        first, last = int(self.since.timestamp()) // seconds, -(-int(self.until.timestamp()) // seconds)
        starts = [datetime.fromtimestamp(step * seconds, UTC) for step in range(first, last)]
        return [(max(start, self.since), min(start + self.step, self.until)) for start in starts]


def window_of(params: Mapping[str, str], now: datetime, default: str = DEFAULT_PERIOD) -> Window:
    """Return the window that the parameters request.

    The parameters are `period` (`24h`, `7d`, `monday`), or `since` and `until` (dates, or dates with a time; UTC). The
    current hour is included. The window is compared with an equally long time right before, `monday` with the seven
    days before Monday. Raise `FilterError` for invalid parameters.
    """
    period = params.get("period", "").strip()
    if not period and (params.get("since", "").strip() or params.get("until", "").strip()):
        return _between(params, now)
    return _of_period(period or default, now)


def _of_period(period: str, now: datetime) -> Window:
    until = _hour_after(now)
    if period == MONDAY:
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        monday = midnight - timedelta(days=now.weekday())
        return Window(monday, until, monday - timedelta(days=7), monday, period)
    length = _LENGTH.match(period)
    if not length:
        raise FilterError("period", period[:40], _REMEDY)
    hours = int(length[1]) * (1 if length[2] == "h" else 24)
    return _with_before(until - timedelta(hours=hours), until, period)


def _between(params: Mapping[str, str], now: datetime) -> Window:
    asked = Filters.from_query({name: params.get(name, "") for name in ("since", "until")})
    if asked.since is None:
        raise FilterError("since", "", f"give the begin as well, or {_REMEDY}")
    since = asked.since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    until = _hour_after(asked.until - timedelta(microseconds=1) if asked.until else now)
    if until <= since:
        raise FilterError("until", params.get("until", "")[:40], f"give a time after since ({format_utc(since)}).")
    return _with_before(since, until)


def _with_before(since: datetime, until: datetime, period: str = "") -> Window:
    return Window(since, until, since - (until - since), since, period)


def _hour_after(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + HOUR


def format_utc(moment: datetime) -> str:
    """Return the time as addresses have it: `2026-02-15T09:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
