"""Conversions of values into a JSON type or form. A value with an unclear meaning is not converted."""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any
from uuid import UUID

from handoffaudit.validation.text import storable
from handoffaudit.validation.times import moment, utc_text

_LONGEST_NUMBER = 40

_LONGEST_FORM = 100

_EXACT = 2**53

# Numbers count as times only in the years 2000 to 2099.
_FIRST_SECOND = 946_684_800

_LAST_SECOND = 4_102_444_800

_DIGEST = re.compile(r"(?:sha-?256[:=]\s*)?([0-9a-f]{64})", re.IGNORECASE)


def convert(value: object, types: Collection[str]) -> Any:
    """Convert `value` to one of the JSON `types` without loss. Return None if the value cannot be converted.

    If several types are possible, a number becomes a text rather than an integer. A text becomes a number rather than
    a boolean, and a boolean rather than an array.
    """
    match value:
        case bool():
            return None
        case int() | float() if "string" in types:
            return _number_text(value)
        case float() if "integer" in types and value.is_integer():
            return int(value)
        case str():
            return _convert_text(value, types)
    return None


def _number_text(value: float) -> str | None:
    if isinstance(value, int):
        return str(value) if abs(value) <= _EXACT else None
    return repr(value)


def _convert_text(text: str, types: Collection[str]) -> Any:
    number = _number(text) if "number" in types or "integer" in types else None
    if number is not None and ("number" in types or float(number).is_integer()):
        return number
    if "boolean" in types and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    return [text] if "array" in types else None


def _number(text: str) -> float | int | None:
    """Return the number that a text spells out, as an integer if it is whole.

    Return None if the text is not a number, or spells a whole number that a 64-bit float rounds.
    """
    if len(text) > _LONGEST_NUMBER or not text.isascii() or "_" in text:
        return None
    try:
        number = float(text)
        is_rounded = number.is_integer() and Decimal(repr(number)) != Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    if not isfinite(number) or is_rounded:
        return None
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def as_utc(value: object) -> str | None:
    """Return a time as `2026-02-01T08:00:00Z`, or None if the value is not a time.

    The value is RFC 3339, another ISO 8601 form, or a number: seconds or milliseconds since 1970, in the years 2000 to
    2099. A time without an offset is in UTC.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _parse_epoch(value)
    if not isinstance(value, str) or len(value) > _LONGEST_FORM:
        return None
    read = moment(value.strip())
    return utc_text(read.at) if read else _parse_iso(value.strip())


def _parse_epoch(number: float) -> str | None:
    for unit in (1, 1000):
        if _FIRST_SECOND * unit <= number < _LAST_SECOND * unit:
            return utc_text(datetime.fromtimestamp(round(number / unit, 3), UTC))
    return None


def _parse_iso(text: str) -> str | None:
    try:
        at = datetime.fromisoformat(text)
        return utc_text(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def as_uuid(value: object) -> str | None:
    """Return a UUID in lower case with its dashes, or None if the value is not a UUID.

    The value may be in upper case, without dashes, in braces, or a URN.
    """
    if not isinstance(value, str) or len(value) > _LONGEST_FORM:
        return None
    try:
        return str(UUID(value.strip()))
    except ValueError:
        return None


def as_checksum(value: object) -> str | None:
    """Return `sha256:` and 64 lower-case hex digits, or None if the value is not a SHA-256 checksum.

    The value may be in upper case, without the prefix, or with a prefix such as `sha-256=`.
    """
    if not isinstance(value, str) or len(value) > _LONGEST_FORM:
        return None
    match = _DIGEST.fullmatch(value.strip())
    return f"sha256:{match[1].lower()}" if match else None


def as_storable(text: str) -> str | None:
    """Return the text without NUL characters and lone surrogates, or None if the text contains neither."""
    if storable(text):
        return None
    return "".join(char for char in text if char != "\0" and not "\ud800" <= char <= "\udfff")
