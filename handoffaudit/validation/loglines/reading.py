"""One line read: by what it begins with it is known which form was meant, so that a bad one can say what is wrong."""

import math
import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from handoffaudit.validation.formats.file_report import Fallback, Reason, Source
from handoffaudit.validation.loglines.faults import Fault, unknown
from handoffaudit.validation.loglines.lines import (
    GATE_EVENTS,
    TRACE_EVENTS,
    BadLine,
    GateLine,
    HealthLine,
    Line,
    TraceLine,
)
from handoffaudit.validation.loglines.pairs import read_pairs, unquoted
from handoffaudit.validation.loglines.times import read_time
from handoffaudit.validation.text import shown, type_name

# In bytes; a longer line is kept cut at this length.
LONGEST_LINE: Final = 64 * 1024

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
    """A line as it stands in a file, without its line end."""
    if len(line) >= LONGEST_LINE:
        return BadLine(f"A line of less than {LONGEST_LINE:,} bytes is expected, and this one is longer: it is cut.")
    try:
        return read_line(line.decode())
    except UnicodeDecodeError as error:
        found = line[error.start : error.start + 4].hex(" ")
        return BadLine(f"UTF-8 is expected, and at byte {error.start + 1:,} there is {found}.")


def read_line(text: str) -> Line:
    """What a line says, in whichever of the forms; never raises."""
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
    return BadLine(f"A line like {_FORMS} is expected, and there is {shown(line)}.")


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
    reason, fallback = fields.get("reason", ""), fields.get("fallback", "")
    if reason in _FALLBACKS and not fallback:
        reason, fallback = "", reason
    return HealthLine(
        at=read_time(fields["timestamp"]),
        agent=fields["agent"],
        phase=fields["phase"],
        source=_source(fields["source"]),
        reason=None if reason.lower() in _NO_REASON else _reason(reason),
        fallback=None if fallback.lower() in _NO_REASON else _fallback(fallback),
        runtime=fields.get("runtime", ""),
        iteration=fields.get("iter", ""),
        run_id=fields.get("run", ""),
    )


def _older(line: str) -> HealthLine:
    time, *parts = (part.strip() for part in line.split("|"))
    fields: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise Fault(f"key=value between the | is expected, and there is {shown(part)}")
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        fields[key.strip()] = unquoted(value[1:-1]) if quoted else value.strip()
    _demand(fields, ("phase", "agent", "handoff_json"), "a health line in the older form")
    found = fields["handoff_json"]
    if found not in OLDER_FOUND:
        raise unknown("handoff_json", found, ("found", "missing", "unparsable"))
    reason = OLDER_FOUND[found]
    return HealthLine(
        at=read_time(time),
        agent=fields["agent"],
        phase=fields["phase"],
        source=_source(fields.get("source") or (Source.TEXT_FALLBACK if reason else Source.HANDOFF_JSON)),
        reason=reason,
        runtime=fields.get("runtime", ""),
        iteration=fields.get("iter", ""),
        run_id=fields.get("run", ""),
        older=True,
    )


def _demand(fields: dict[str, Any], needed: tuple[str, ...], where: str) -> None:
    missing = [name for name in needed if name not in fields]
    if missing:
        there = ", ".join(shown(name)[1:-1] for name in list(fields)[:12]) or "nothing"
        raise Fault(f"{where} needs {' and '.join(missing)}, and there is {there}")


def _source(text: str) -> Source:
    if text not in _SOURCES:
        raise unknown("source", text, _SOURCES)
    return Source(text)


def _reason(text: str) -> Reason:
    if text not in _REASONS:
        raise unknown("reason", text, _REASONS)
    return Reason(text)


def _fallback(text: str) -> Fallback:
    if text not in _FALLBACKS:
        raise unknown("fallback", text, _FALLBACKS)
    return Fallback(text)


_SOURCES = tuple(map(str, Source))
_REASONS = tuple(map(str, Reason))
_FALLBACKS = tuple(map(str, Fallback))


def _gate(line: str) -> GateLine:
    match = _GATE.fullmatch(line)
    if match is None:
        raise Fault(f"[TIME] [EVENT] [COMPONENT] DETAILS is expected, and there is {shown(line)}")
    time, event, component, details = match.groups()
    written = event.strip().upper()
    event_type = SAME_EVENT.get(written, written)
    if event_type not in GATE_EVENTS:
        raise unknown("event type", event, GATE_EVENTS)
    return GateLine(read_time(time.strip()), event_type, component.strip(), details.strip())


def _trace(line: str) -> TraceLine:
    try:
        # bounded by the length of the line; orjson takes no NaN and no lone surrogate
        fields = orjson.loads(line)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Fault(f"a JSON object is expected, and the line is no valid JSON ({error})") from None
    return trace_of(fields)


def trace_of(given: dict[str, Any]) -> TraceLine:
    """The trace line that a JSON object is. Raises `Fault`."""
    fields = dict(given)
    event = fields.pop("event_type", None)
    if event is None:
        event = fields.pop("event", None)
    if event is None:
        raise Fault(f"a trace line needs event_type, and there is {_names(given)}")
    if event not in TRACE_EVENTS:
        raise unknown("event type", event, TRACE_EVENTS)
    trace_id, time = fields.pop("trace_id", None), fields.pop("timestamp", None)
    if not isinstance(trace_id, str) or not trace_id:
        raise Fault(f"the trace_id is expected to be a text, and is {_found(trace_id)}")
    if not isinstance(time, str):
        raise Fault(f"the timestamp is expected to be a text like 2026-02-15T00:15:00Z, and is {_found(time)}")
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
    return ", ".join(shown(name) for name in list(fields)[:8]) or "an empty object"


def _found(value: object) -> str:
    return "missing" if value is None else "empty" if value == "" else shown(value)


def _text(name: str, value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise Fault(f"the {name} is expected to be a text, and is {type_name(value)}")
    return value or ""


def _duration(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Fault(f"the duration_ms is expected to be a number of 0 and more, and is {shown(value)}")
    return value
