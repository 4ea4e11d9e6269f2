"""Times as senders write them (RFC 3339), read into UTC."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_LONGEST = 64
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:)(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that was read. `offset` is as written: `Z`, `+01:00`, or empty where none was given."""

    at: datetime
    offset: str

    @property
    def is_utc(self) -> bool:
        return self.offset in ("Z", "z", "+00:00", "-00:00")


def moment(text: object) -> Moment | None:
    """The time that `text` names, or None where it names none. A time without an offset is taken as UTC."""
    return _read(text) if isinstance(text, str) and len(text) <= _LONGEST else None


# the times of one handoff are read by its schema, its format and a layer
@lru_cache(maxsize=16)
def _read(text: str) -> Moment | None:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    minute, second, fraction, offset = match.groups("")
    leap = second == "60"  # datetime knows no leap second: read as the second before
    microsecond = int(fraction[:6].ljust(6, "0")) if fraction else 0
    try:
        local = datetime.fromisoformat(minute + ("59" if leap else second))
        at = local.replace(microsecond=microsecond, tzinfo=_zone(offset)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return None if leap and (at.hour, at.minute) != (23, 59) else Moment(at, offset)


def _zone(offset: str) -> timezone:
    if offset in ("", "Z", "z"):
        return UTC
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError(offset)
    size = timedelta(hours=hours, minutes=minutes)
    return timezone(-size if offset[0] == "-" else size)


def is_date_time(text: str) -> bool:
    """RFC 3339 `date-time`: the offset must be there."""
    read = moment(text)
    return read is not None and bool(read.offset)


def is_date_time_or_local(text: str) -> bool:
    """The same, or without an offset."""
    return moment(text) is not None


def utc_text(at: datetime) -> str:
    """`2026-02-01T08:00:00Z`, with a fraction only where there is one."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
