"""The reader's own time: the time zone of a person or browser, in which pages show moments.

Charts, periods and filters stay in UTC, because counts are by hours and days in UTC.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest

from handoffaudit.accounts.models import Person

# The script static/js/shell.js sets the cookie to the time zone of the browser.
COOKIE = "time_zone"

_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


@cache
def zone_names() -> tuple[str, ...]:
    """Return the names of all time zones that a person can choose; empty on a system without time zone data."""
    return tuple(sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")))


@cache
def _known() -> frozenset[str]:
    return frozenset(available_timezones())


def is_zone(name: str) -> bool:
    """Return whether there is a time zone of this name. A name is looked up in a set, never as a path."""
    return name in _known()


def browser_zone(request: HttpRequest) -> str:
    """Return the time zone that the browser named, or an empty text."""
    name = request.COOKIES.get(COOKIE, "")
    return name if is_zone(name) else ""


def zone_of(request: HttpRequest, person: Person) -> tzinfo:
    """Return the time zone that the person chose, or else the one of the browser, or else UTC."""
    name = person.time_zone if is_zone(person.time_zone) else browser_zone(request)
    return ZoneInfo(name) if name and name != "UTC" else UTC


@contextmanager
def use(zone: tzinfo) -> Iterator[None]:
    """Show moments in this time zone inside the context."""
    token = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(token)


def to_local(value: datetime) -> datetime:
    """Return the moment in the reader's time zone."""
    return value.astimezone(_zone.get())


def current_zone() -> tzinfo:
    return _zone.get()
