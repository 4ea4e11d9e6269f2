"""Times as senders write them (RFC 3339), converted to UTC."""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

import msgspec

_LONGEST = 64
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:)(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?",
    re.ASCII,
)


class Moment(msgspec.Struct, frozen=True):
    """A time in UTC, with the offset that the sender wrote.

    `offset` is, for example, `Z` or `+01:00`, and empty if the sender wrote no offset.
    """

    at: datetime
    offset: str

    @property
    def is_utc(self) -> bool:
        return self.offset in ("Z", "z", "+00:00", "-00:00")


def moment(text: object) -> Moment | None:
    """Return the time that `text` names, or None. A time without an offset is in UTC."""
    return _read(text) if isinstance(text, str) and len(text) <= _LONGEST else None


# The cache helps because the schema, the format and a layer parse the same times of a handoff.
@lru_cache(maxsize=16)
def _read(text: str) -> Moment | None:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    minute, second, fraction, offset = match.groups("")
    # `datetime` does not support leap seconds, so a leap second becomes the second before.
    leap = second == "60"
    microsecond = int(fraction[:6].ljust(6, "0")) if fraction else 0
    try:
        local = datetime.fromisoformat(minute + ("59" if leap else second))
        zone = _zone(offset)
        at = local.replace(microsecond=microsecond, tzinfo=zone)
        at = at if zone is UTC else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None if leap and (at.hour, at.minute) != (23, 59) else Moment(at, offset)


def _zone(offset: str) -> timezone:
    if offset in ("", "Z", "z", "+00:00"):
        return UTC
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError(offset)
    size = timedelta(hours=hours, minutes=minutes)
    return timezone(-size if offset[0] == "-" else size)


def is_date_time(text: str) -> bool:
    """Return whether a text is an RFC 3339 `date-time`, with its mandatory offset."""
    read = moment(text)
    return read is not None and bool(read.offset)


def is_date_time_or_local(text: str) -> bool:
    """Return whether a text is an RFC 3339 `date-time`, with or without an offset."""
    return moment(text) is not None


def hour_of(at: datetime) -> datetime:
    """Return the start of the hour of a UTC time."""
    return at.replace(minute=0, second=0, microsecond=0)


# The cache helps because a verdict contains its own time several times.
@lru_cache(maxsize=16)
def utc_text(at: datetime) -> str:
    """Return the time as `2026-02-01T08:00:00Z`, with a fraction only if the fraction is not zero."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
