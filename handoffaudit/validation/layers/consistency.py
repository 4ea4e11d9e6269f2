"""The consistency layer: times, ids, confidence and assumptions of the document, and hash and size of its payload."""

import re
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import orjson

from handoffaudit.validation.assumptions import first_assumption
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Format, Places, Seal
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import compact, keep_digits, python_compact, sha256_hex
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.layers.grounding.mentions import is_order
from handoffaudit.validation.paths import Location, at, dotted_path, last_name
from handoffaudit.validation.record import placer
from handoffaudit.validation.text import show
from handoffaudit.validation.times import moment, utc_text

name: Final = "consistency"

EXPIRES_BEFORE_TIMESTAMP: Final = Code(
    "consistency.expires_before_timestamp",
    Severity.WARNING,
    "Expires before its timestamp",
    what="expires_at is earlier than timestamp.",
    why="One of the two times is wrong, and receivers that respect expires_at discard the handoff.",
    hint="Set expires_at to a time after timestamp.",
)
EXPIRED: Final = Code(
    "consistency.expired",
    Severity.WARNING,
    "Expired",
    what="expires_at had already passed when the handoff arrived.",
    why="Prices, stock and statuses may have changed since, so the next agent would act on outdated data.",
    hint="If the data is still valid, send the handoff again with a later expires_at.",
)
TIMESTAMP_NOT_UTC: Final = Code(
    "consistency.timestamp_not_utc",
    Severity.WARNING,
    "Time not in UTC",
    what="A time is not written in UTC with Z.",
    why="Times of different agents can only be ordered if all use the same time zone.",
    hint="Write times in UTC with Z at the end.",
)
TRACE_ID_NOT_V4: Final = Code(
    "consistency.trace_id_not_v4",
    Severity.WARNING,
    "Trace id is not a UUID of version 4",
    what="The trace id is a UUID, but not of version 4.",
    why="Most other versions are built from a time, a machine or a name, so two agents may generate the same id.",
    hint="Generate trace ids as UUIDs of version 4.",
)
CLOCK_SKEW: Final = Code(
    "consistency.clock_skew",
    Severity.WARNING,
    "Sender's clock is ahead",
    what="The sender's time is more than 5 minutes ahead of the server's.",
    why="All times of this sender are wrong by the same amount, so its handoffs are out of order and expire too late.",
    hint="Synchronise the sender's clock (NTP), and write times in UTC.",
)
ASSUMED_DATA: Final = Code(
    "consistency.assumed_data",
    Severity.WARNING,
    "Assumed data",
    what="The agent says that some data of the handoff is assumed, simulated or made up. The context (the task and the "
    "earlier handoffs) does not mention assumed data.",
    why="Later agents use the data as if it were real, and base their answers on it.",
    hint="Get the real data. Or list the field under assumptions, and say in the final answer that it is assumed.",
)
PAYLOAD_HASH_MISMATCH: Final = Code(
    "integrity.payload_hash_mismatch",
    Severity.ERROR,
    "Payload hash does not match",
    what="The payload does not match its declared hash.",
    why="The payload was changed after the hash was computed, or the hash belongs to another payload.",
    hint="Compute the SHA-256 over the payload as sent: compact JSON, keys in document order, non-ASCII as it is.",
    layer="consistency",
)
SIZE_MISMATCH: Final = Code(
    "integrity.size_mismatch",
    Severity.WARNING,
    "Payload size does not match",
    what="payload_size_bytes differs from the size of the payload's compact JSON.",
    why="Part of the payload was cut off or added on the way, or the sender counted wrongly.",
    hint="Count the bytes of the payload's compact JSON in UTF-8.",
    layer="consistency",
)
LOW_CONFIDENCE: Final = Code(
    "confidence.low",
    Severity.WARNING,
    "Low confidence",
    what="The sender's confidence is below the limit of the type.",
    why="The sender itself has doubts, and later agents do not learn of them.",
    hint="Check the work again before the handoff, or state in the data what is uncertain.",
    layer="consistency",
)
CODES: Final = (
    EXPIRES_BEFORE_TIMESTAMP,
    EXPIRED,
    TIMESTAMP_NOT_UTC,
    TRACE_ID_NOT_V4,
    CLOCK_SKEW,
    ASSUMED_DATA,
    PAYLOAD_HASH_MISMATCH,
    SIZE_MISMATCH,
    LOW_CONFIDENCE,
)

MAX_SKEW = timedelta(minutes=5)

_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)


def integrity_issues(seal: Seal | None) -> Iterable[Issue]:
    """Yield the findings about a payload that does not match its declared hash or its declared size."""
    if seal is None:
        return
    text = compact(seal.value)
    found = f"sha256:{sha256_hex(text)}"
    sizes = {len(text)}
    if found != seal.declared_hash and (seal.declared_hash is not None or seal.declared_size != len(text)):
        # Other languages spell the same numbers differently.
        others = (python_compact(seal.value), _javascript_compact(seal.value))
        sizes.update(map(len, others))
        if seal.declared_hash is not None and not any(_has_digest(seal.declared_hash, other) for other in others):
            yield _hash_mismatch(seal, found)
    if seal.declared_size is not None and seal.declared_size not in sizes:
        yield _size_mismatch(seal, len(text))


def _has_digest(declared: str, text: bytes) -> bool:
    return declared == f"sha256:{sha256_hex(text)}"


def _javascript_compact(value: Any) -> bytes:
    """Return compact JSON with numbers spelled as in JavaScript: 0.000001 instead of 1e-6, 1e-7 instead of 1e-07."""
    try:
        return orjson.dumps(_with_spelled_numbers(value))
    # Only values from JSON parsers other than `parse_json` raise this error.
    except TypeError:
        return compact(value)


def _with_spelled_numbers(value: Any) -> Any:
    match value:
        case dict():
            return {key: _with_spelled_numbers(item) for key, item in value.items()}
        case list():
            return [_with_spelled_numbers(item) for item in value]
        case float() if _is_spelled_out(value):
            return orjson.Fragment(f"{Decimal(repr(value)):f}")
        case int() if not -(2**63) <= value < 2**64:
            return orjson.Fragment(str(value))
    return value


def _is_spelled_out(number: float) -> bool:
    return 1e-6 <= abs(number) < 1e-5


def _seal_as_sent(subject: Subject, form: Format) -> Seal | None:
    """Return the payload with its declared hash and size, and with exact integers.

    The record cannot be used for this, because `parse_json` rounds integers beyond 64 bits.
    """
    seal = form.seal(subject.record.document)
    if seal is None or not subject.sent:
        return seal
    exact = keep_digits(subject.sent, None)
    return seal if exact is None else form.seal(exact)


def _hash_mismatch(seal: Seal, found: str) -> Issue:
    return make(
        PAYLOAD_HASH_MISMATCH,
        location=seal.hash_location,
        message=f"The payload's hash is {_short(found)}, not {_short(str(seal.declared_hash))} as declared.",
        expected=found,
        actual=seal.declared_hash,
    )


def _short(digest: str) -> str:
    return f"{digest[:19]}…"


def _size_mismatch(seal: Seal, size: int) -> Issue:
    return make(
        SIZE_MISMATCH,
        location=seal.size_location,
        message=f"The payload is {size:,} bytes of compact JSON, not {seal.declared_size:,} as declared.",
        hint=f"Declare {size}, counted over the compact JSON in UTF-8, after the last change of the payload.",
        expected=size,
        actual=seal.declared_size,
    )


def skip(subject: Subject) -> str | None:
    return None


def check(subject: Subject) -> Iterable[Issue]:
    form = BY_NAME[subject.record.format]
    yield from _expiry(subject, form.places)
    for place in (form.places.timestamp, form.places.expires_at):
        if place:
            yield from _utc(place, at(subject.record.document, place), demands_z=form.demands_z)
    yield from _skew(subject, form.places)
    yield from _trace_id(subject, form.places)
    yield from integrity_issues(_seal_as_sent(subject, form))
    yield from _confidence(subject, form.places)
    yield from _assumed_data(subject)


def _expiry(subject: Subject, places: Places) -> Iterable[Issue]:
    record = subject.record
    if record.expires_at is None:
        return
    expires, location = utc_text(record.expires_at), places.expires_at or ()
    if record.timestamp is not None and record.expires_at < record.timestamp:
        yield make(
            EXPIRES_BEFORE_TIMESTAMP,
            location=location,
            message=f"The handoff expires at {expires}, before its own timestamp, {utc_text(record.timestamp)}.",
            actual=expires,
        )
    if record.expires_at < subject.received_at:
        yield make(
            EXPIRED,
            location=location,
            message=f"The handoff expired at {expires}; it arrived at {utc_text(subject.received_at)}.",
            actual=expires,
        )


def _utc(place: Location, written: object, *, demands_z: bool) -> Iterable[Issue]:
    read = moment(written)
    if read is None or read.offset in ("Z", "z") or (read.is_utc and not demands_z):
        return
    offset = f"with the offset {read.offset}" if read.offset else "without an offset"
    taken = "" if read.offset else ", and is taken as UTC"
    yield make(
        TIMESTAMP_NOT_UTC,
        location=place,
        message=f"{last_name(place)} is {show(written)}, {offset}{taken}.",
        hint=f'Write it in UTC with Z: "{utc_text(read.at)}".',
        expected=utc_text(read.at),
        actual=written,
    )


def _skew(subject: Subject, places: Places) -> Iterable[Issue]:
    sent = subject.record.timestamp
    if sent is None or sent - subject.received_at <= MAX_SKEW:
        return
    ahead = sent - subject.received_at
    yield make(
        CLOCK_SKEW,
        location=places.timestamp or (),
        message=f"The timestamp {utc_text(sent)} is over {_duration(ahead)} ahead of the server's clock, "
        f"{utc_text(subject.received_at)}.",
        actual=utc_text(sent),
        ahead_seconds=round(ahead.total_seconds()),
    )


def _duration(span: timedelta) -> str:
    minutes = int(span.total_seconds() // 60)
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60:,} hours" if minutes < 2 * 24 * 60 else f"{minutes // 60 // 24:,} days"


def _trace_id(subject: Subject, places: Places) -> Iterable[Issue]:
    if places.trace_id is None:
        return
    written = at(subject.record.document, places.trace_id)
    if isinstance(written, str) and not _UUID4.fullmatch(written):
        yield make(
            TRACE_ID_NOT_V4,
            location=places.trace_id,
            message=f"{last_name(places.trace_id)} {show(written)} is a UUID, but not of version 4.",
            actual=written,
        )


def _confidence(subject: Subject, places: Places) -> Iterable[Issue]:
    given, floor = subject.record.confidence, subject.policy.confidence_floor
    if given is None or given >= floor:
        return
    location = places.confidence or ()
    written = at(subject.record.document, location)
    word = f"{show(written)}, read as {given:g}" if isinstance(written, str) else f"{given:g}"
    yield make(
        LOW_CONFIDENCE,
        location=location,
        message=f"The sender's confidence is {word}, below {floor:g}.",
        expected=floor,
        actual=written,
    )


def _assumed_data(subject: Subject) -> Iterable[Issue]:
    """Yield a finding if the agent says that its data is assumed, and the context does not mention assumed data.

    Handoffs from people and tools are not checked, because they bring facts. Handoffs that only give the receiver a
    task (`is_order`) are not checked, because they may say what to assume.
    """
    found = first_assumption(subject.record)
    if found is None or not subject.role.is_worker or is_order(subject.record):
        return
    location = placer(subject.record)(found.place)
    yield make(
        ASSUMED_DATA,
        location=location,
        message=f"{dotted_path(location)} says that data is assumed or made up: {show(found.sentence)}",
        sentence=found.sentence,
    )
