"""Times of log lines: ISO 8601 with `T` or a space, with or without seconds, fraction and zone."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from handoffaudit.validation.loglines.faults import Fault
from handoffaudit.validation.text import shown

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))? ?(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
# As in filters. Beyond them, half an hour more or less may be no time at all.
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 9000


def read_time(text: str) -> datetime:
    """The time in UTC, in years that a search can name; one without a zone is UTC. Raises `Fault`."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Fault(f"a time like 2026-02-15T00:15:00Z is expected, and there is {shown(text)}")
    day, clock, fraction, zone = match.groups("")
    try:
        at = _whole(f"{day}T{clock}{'' if zone in ('Z', 'z', 'UTC') else zone}")
    except (ValueError, OverflowError):
        raise Fault(f"there is no such time as {shown(text)}") from None
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise Fault(f"a year from {FIRST_YEAR} to {LAST_YEAR} is expected, and there is {shown(text)}")
    return at.replace(microsecond=int(fraction[:6].ljust(6, "0"))) if fraction else at


@lru_cache(maxsize=4096)
def _whole(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
