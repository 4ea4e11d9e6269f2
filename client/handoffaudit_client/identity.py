"""Ids and times of submissions, and names that the server takes."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

# The server refuses longer names and ids.
LONGEST_NAME = 200


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562): later ids are greater, also within a millisecond."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    # The 12 bits of the field `rand_a` hold the fraction of the millisecond.
    fraction = rest * 4096 // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF
    digits = f"{milliseconds & 0xFFFF_FFFF_FFFF:012x}7{fraction:03x}{random | 0x8000_0000_0000_0000:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def to_name(value: Any) -> str:
    """Return a name or an id as the server takes it: a text of at most 200 characters without NUL."""
    text = value if type(value) is str else str(value)
    return (text.replace("\x00", "") if "\x00" in text else text)[:LONGEST_NAME]


def to_time(at: datetime | float | str | None) -> str:
    """Return a time as RFC 3339 with milliseconds, in UTC; now for None.

    A time without a zone is local time. A number is in seconds since 1970. A text is returned unchanged.
    """
    if isinstance(at, str):
        return at
    if at is None or isinstance(at, (int, float)):
        seconds = time.time() if at is None else at
        whole = time.gmtime(seconds)
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', whole)}.{int(seconds % 1 * 1000):03d}Z"
    from datetime import timezone

    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
