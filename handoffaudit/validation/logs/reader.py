"""The splitter of a stream into log lines, and the parser of one line.

The first characters of a line decide its form, so that the error of a bad line is specific.
"""

import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import orjson

from handoffaudit.validation.formats.file_report import Fallback, Reason, Source
from handoffaudit.validation.json_text import MAX_DEPTH, could_be_deeper, to_json
from handoffaudit.validation.logs.lines import (
    ESCAPES,
    GATE_EVENTS,
    TRACE_EVENTS,
    BadLine,
    GateLine,
    HealthLine,
    Line,
    TraceLine,
)
from handoffaudit.validation.text import closest, either, show, type_name


class Fault(Exception):
    """Raised when a line cannot be read; the message says what was expected and what was found."""


def describe_unknown(what: str, found: object, choices: Iterable[str]) -> Fault:
    """Return the error for a word that is not among `choices`. The error names the nearest choice or all choices."""
    known = tuple(choices)
    near = closest(found, known)
    hint = f"did you mean {near}?" if near else f"it is one of {either(known)}"
    return Fault(f"the {what} {show(found)} is not known; {hint}")


_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))? ?(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)

# Filters support the same years. Near the limits of `datetime`, even a shift by half an hour could be out of range.
FIRST_YEAR: Final = 1970

LAST_YEAR: Final = 9000


def read_time(text: str) -> datetime:
    """Return the time in UTC. A time without a zone is in UTC.

    Raises `Fault` for a text that is not a time, and for a year outside 1970 to 9000, which filters do not support.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise Fault(f"expected a time like 2026-02-15T00:15:00Z, found {show(text)}")
    day, clock, fraction, zone = match.groups("")
    try:
        at = _parse_iso(f"{day}T{clock}{'' if zone in ('Z', 'z', 'UTC') else zone}")
    except (ValueError, OverflowError):
        raise Fault(f"{show(text)} is not a valid time") from None
    if not FIRST_YEAR <= at.year <= LAST_YEAR:
        raise Fault(f"expected a year from {FIRST_YEAR} to {LAST_YEAR}, found {show(text)}")
    return at.replace(microsecond=int(fraction[:6].ljust(6, "0"))) if fraction else at


@lru_cache(maxsize=4096)
def _parse_iso(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


_PAIR = re.compile(r'[ \t]*([A-Za-z_][\w.-]*)=(?:"((?:[^"\\]|\\.)*)"(?=[ \t]|$)|([^ \t"][^ \t]*)?(?=[ \t]|$))[ \t]*')

_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\nrt]))')


def read_pairs(text: str) -> dict[str, str]:
    """Return the key=value pairs of a text.

    Raises `Fault` for a part that is not a pair, and for a key that occurs twice.
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            raise Fault(f"expected key=value pairs, found {show(text[at:])}")
        key, quoted, plain = match.groups()
        if key in found:
            raise Fault(f"the key {key}= occurs twice")
        found[key] = unquote(quoted) if quoted is not None else plain or ""
        at = match.end()
    return found


def unquote(text: str) -> str:
    """Return the text between quotation marks with its escapes resolved."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape, text)
    # Two halves of a surrogate pair become one character, and half a pair becomes a replacement character.
    return plain if plain.isascii() else plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else ESCAPES[match[2]]


# In bytes; a longer line is stored cut at this length. A stored line of this length may be cut, so it is not read.
LONGEST_LINE: Final = 64 * 1024


class LineSplitter:
    """A splitter of a stream into lines without line ends. `rest` is the beginning of the line that is not complete."""

    def __init__(self) -> None:
        self.rest = b""
        self._skips = False

    def add(self, piece: bytes) -> list[bytes]:
        if self._skips:
            end = piece.find(b"\n")
            if end < 0:
                return []
            piece = piece[end:]
            self._skips = False
        lines = (self.rest + piece).split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > LONGEST_LINE:
            self.rest = self.rest[:LONGEST_LINE]
            self._skips = True
        if lines and max(map(len, lines)) > LONGEST_LINE:
            lines = [line[:LONGEST_LINE] for line in lines]
        return lines


_FORMS = (
    "agent=… phase=… source=… timestamp=…, TIME | phase=… | agent=… | handoff_json=…, "
    "[TIME] [EVENT] [COMPONENT] DETAILS, or a JSON object with trace_id"
)

_GATE = re.compile(r"\[([^\]]*)\][ \t]*\[([^\]]*)\][ \t]*\[([^\]]*)\](.*)", re.DOTALL)

_PAIR_START = re.compile(r"[A-Za-z_][\w.-]*=")

_OLDER_START = re.compile(r"\d{4}-\d\d-\d\d[^|]*\|")

OLDER_FOUND: Final = {
    "found": None,
    "missing": Reason.FILE_MISSING,
    "unparsable": Reason.JSON_PARSE_ERROR,
    "unparseable": Reason.JSON_PARSE_ERROR,
}

_NO_REASON = ("", "none", "null", "-")

SAME_EVENT: Final = {"WARN": "WARNING"}

_TEXTS = ("workflow", "phase", "level", "span_id", "parent_span_id")


def read_bytes(line: bytes) -> Line:
    """Return the line that the bytes hold; the bytes come from a file, without the line end."""
    if len(line) >= LONGEST_LINE:
        return BadLine(
            f"The line has {LONGEST_LINE:,} bytes or more: it is not read, and all bytes after these are left out."
        )
    if line.count(0) * 3 > len(line):
        return BadLine("The line is in UTF-16: save the log as UTF-8, and send it again.")
    try:
        return read_line(line.decode())
    except UnicodeDecodeError as error:
        found = line[error.start : error.start + 4].hex(" ")
        return BadLine(f"Expected UTF-8, found {found} at byte {error.start + 1:,}.")


def read_line(text: str) -> Line:
    """Parse a line in any form. Return a `BadLine`, and do not raise, if the line cannot be read."""
    line = text.strip(" \t\r\n\ufeff")
    reader = _reader_of(line)
    try:
        if reader:
            return reader(line)
    except Fault as fault:
        said = str(fault)
        return BadLine(f"{said[0].upper()}{said[1:].rstrip('.')}{'' if said.endswith('?') else '.'}")
    if not line:
        return BadLine("The line is empty.")
    return BadLine(f"Expected a line like {_FORMS}; found {show(line)}.")


def _reader_of(line: str) -> Callable[[str], Line] | None:
    if line.startswith("{"):
        return _trace
    if line.startswith("["):
        return _gate
    if _OLDER_START.match(line):
        return _older
    return _health if _PAIR_START.match(line) else None


def _health(line: str) -> HealthLine:
    fields = read_pairs(line)
    _demand(fields, ("agent", "phase", "source", "timestamp"), "a health line")
    reason, fallback = _why(fields)
    return HealthLine(
        at=read_time(fields["timestamp"]),
        agent=fields["agent"],
        phase=fields["phase"],
        source=_source(fields["source"]),
        reason=reason,
        fallback=fallback,
        runtime=fields.get("runtime", ""),
        iteration=fields.get("iter", ""),
        run_id=fields.get("run", ""),
    )


def _why(fields: dict[str, str]) -> tuple[Reason | None, Fallback | None]:
    """Return the reason and the fallback, ignoring case. Some lines give the fallback as the reason, or as both."""
    reason, fallback = fields.get("reason", ""), fields.get("fallback", "")
    if reason.lower() in _FALLBACKS and fallback.lower() in ("", reason.lower()):
        reason, fallback = "", reason
    return (
        None if reason.lower() in _NO_REASON else _reason(reason),
        None if fallback.lower() in _NO_REASON else _fallback(fallback),
    )


def _older(line: str) -> HealthLine:
    time, *parts = (part.strip() for part in line.split("|"))
    fields: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise Fault(f"expected key=value between the |, found {show(part)}")
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        fields[key.strip()] = unquote(value[1:-1]) if quoted else value.strip()
    _demand(fields, ("phase", "agent", "handoff_json"), "a health line in the older form")
    found = fields["handoff_json"]
    if found not in OLDER_FOUND:
        raise describe_unknown("handoff_json", found, ("found", "missing", "unparsable"))
    # The older form defines no reason, so an unknown word from another program is not a fault.
    known = {name: fields[name] for name in ("reason", "fallback") if fields.get(name, "").lower() in _WHY}
    given, fallback = _why(known)
    reason = given or OLDER_FOUND[found]
    unused = reason or fallback
    return HealthLine(
        at=read_time(time),
        agent=fields["agent"],
        phase=fields["phase"],
        source=_source(fields.get("source") or (Source.TEXT_FALLBACK if unused else Source.HANDOFF_JSON)),
        reason=reason,
        fallback=fallback,
        runtime=fields.get("runtime", ""),
        iteration=fields.get("iter", ""),
        run_id=fields.get("run", ""),
        older=True,
    )


def _demand(fields: dict[str, Any], needed: tuple[str, ...], where: str) -> None:
    missing = [name for name in needed if name not in fields]
    if missing:
        there = ", ".join(show(name)[1:-1] for name in list(fields)[:12]) or "nothing"
        raise Fault(f"{where} needs {' and '.join(missing)}, found {there}")


def _source(text: str) -> Source:
    if text not in _SOURCES:
        raise describe_unknown("source", text, _SOURCES)
    return Source(text)


def _reason(text: str) -> Reason:
    if text.lower() not in _REASONS:
        raise describe_unknown("reason", text, _REASONS)
    return Reason(text.lower())


def _fallback(text: str) -> Fallback:
    if text.lower() not in _FALLBACKS:
        raise describe_unknown("fallback", text, _FALLBACKS)
    return Fallback(text.lower())


_SOURCES = tuple(map(str, Source))

_REASONS = tuple(map(str, Reason))

_FALLBACKS = tuple(map(str, Fallback))

_WHY = frozenset((*_REASONS, *_FALLBACKS))


def _gate(line: str) -> GateLine:
    match = _GATE.fullmatch(line)
    if match is None:
        raise Fault(f"expected [TIME] [EVENT] [COMPONENT] DETAILS, found {show(line)}")
    time, event, component, details = match.groups()
    written = event.strip().upper()
    event_type = SAME_EVENT.get(written, written)
    if event_type not in GATE_EVENTS:
        raise describe_unknown("event type", event, GATE_EVENTS)
    return GateLine(read_time(time.strip()), event_type, component.strip(), details.strip())


def _trace(line: str) -> TraceLine:
    try:
        # The length of the line bounds the cost; orjson refuses NaN and lone surrogates.
        fields = orjson.loads(line)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Fault(f"expected a JSON object, but the line is not valid JSON ({error})") from None
    # Neither orjson nor json can write values that are as deep as orjson can read.
    return trace_of(to_json(fields) if could_be_deeper(line.encode(), MAX_DEPTH) else fields)


def trace_of(given: dict[str, Any]) -> TraceLine:
    """Return the trace line of a JSON object.

    Raises `Fault` if a required field is missing, or if a field has a wrong type. Also raises `Fault` for an unknown
    event type, for a negative duration, and for a timestamp that `read_time` refuses.
    """
    fields = dict(given)
    event = fields.pop("event_type", None)
    if event is None:
        event = fields.pop("event", None)
    if event is None:
        raise Fault(f"a trace line needs event_type, found {_names(given)}")
    if event not in TRACE_EVENTS:
        raise describe_unknown("event type", event, TRACE_EVENTS)
    trace_id, time = fields.pop("trace_id", None), fields.pop("timestamp", None)
    if not isinstance(trace_id, str) or not trace_id:
        raise Fault(f"the trace_id must be a text, but is {_describe(trace_id)}")
    if not isinstance(time, str):
        raise Fault(f"the timestamp must be a text like 2026-02-15T00:15:00Z, but is {_describe(time)}")
    texts = {name: _text(name, fields.pop(name, None)) for name in _TEXTS}
    return TraceLine(
        at=read_time(time),
        event_type=event,
        trace_id=trace_id,
        duration_ms=_duration(fields.pop("duration_ms", None)),
        details=fields.pop("details", None),
        extra=fields,
        **texts,
    )


def _names(fields: dict[str, Any]) -> str:
    return ", ".join(show(name) for name in list(fields)[:8]) or "an empty object"


def _describe(value: object) -> str:
    return "missing" if value is None else "empty" if value == "" else show(value)


def _text(name: str, value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise Fault(f"the {name} must be a text, but is {type_name(value)}")
    return value or ""


def _duration(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Fault(f"the duration_ms must be a number of at least 0, but is {show(value)}")
    return value
