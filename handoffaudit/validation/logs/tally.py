"""Bulk counting of log lines. A gigabyte has millions of lines, and creating an object per line would take minutes.

The first character of a line tells its form. For each form, one pattern (for JSON: one decoder) reads all lines in the
usual spelling of the form. `reader` parses the few other lines one by one. Only `reader` defines what a line means, and
which lines are errors.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec

from handoffaudit.validation.logs.lines import AGENT_FIELDS, GATE_LEVELS, TRACE_EVENTS, parse_level
from handoffaudit.validation.logs.reader import LONGEST_LINE, SAME_EVENT, read_bytes, read_line
from handoffaudit.validation.logs.sums import (
    GATE_KIND,
    HEALTH_KIND,
    OLDER_KIND,
    OLDER_REASONS,
    TRACE_KIND,
    Counts,
    Tally,
    minute_of,
)


def tally(text: bytes, counts: Counts | None = None) -> Tally:
    """Return the tally of the lines of a text. If `counts` is given, add the counts of the text to `counts`."""
    made = Tally(counts or Counts())
    plain = text.replace(b"\r\n", b"\n") if b"\r" in text else text
    lines = _decode(plain, made)
    by_start: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        by_start[line[:1]].append(line)
    for start, group in by_start.items():
        _READERS.get(start, _each)(group, made)
    for values in (made.agents, made.phases, made.events, made.levels, made.traces, made.runs):
        values.discard("")
    return made


_TIME = r"(\d{4}-\d\d-\d\d[T ]\d\d):([0-5]\d):[0-5]\d(?:[.,]\d{1,9})?(Z|[+-]\d\d:?00|)"

_BARE = r'([^\s"]\S*)'

_HEALTH = re.compile(
    rf"^agent={_BARE} phase={_BARE} source=(handoff_json|text_fallback)"
    rf"(?: reason=(file_missing|json_parse_error|schema_invalid))? timestamp={_TIME.replace('[T ]', 'T')}"
    rf"(?: fallback=(text_fallback_ok|text_fallback_fail))?(?: runtime={_BARE})?"
    rf"(?: iter=[^\s\"]\S*)?(?: run={_BARE})?$",
    re.MULTILINE | re.ASCII,
)

_PART = r'([^|\n"]*)'

_OLDER = re.compile(
    rf"^{_TIME} \| phase={_PART} \| agent={_PART}(?: \| runtime={_PART})?(?: \| iter=[^|\n\"]*)?"
    r" \| handoff_json=(found|missing|unparsable) \| source=(handoff_json|text_fallback)$",
    re.MULTILINE | re.ASCII,
)

_GATE = re.compile(
    rf"^\[{_TIME}\] \[(VALIDATION|SKIP|ERROR|DEBUG|TRIGGER|INFO|WARN|WARNING)\] \[([^\]\n]*)\].*$",
    re.MULTILINE | re.ASCII,
)

_STAMP = re.compile(rf"^{_TIME}$", re.MULTILINE | re.ASCII)


def _decode(plain: bytes, made: Tally) -> list[str]:
    """Return the lines as text; count lines that are not UTF-8, or too long, as bad."""
    try:
        lines = plain.decode().split("\n")
    except UnicodeDecodeError:
        return _decode_each(plain, made)
    # A character has at most four bytes.
    return lines if max(map(len, lines)) < LONGEST_LINE // 4 else _decode_each(plain, made)


def _decode_each(plain: bytes, made: Tally) -> list[str]:
    kept = []
    for line in plain.split(b"\n"):
        try:
            kept.append(line.decode())
        except UnicodeDecodeError:
            made.add(read_bytes(line))
            continue
        if len(line) >= LONGEST_LINE:
            made.add(read_bytes(line))
            kept.pop()
    return kept


def _each(lines: Iterable[str], made: Tally) -> None:
    for line in lines:
        if line.strip(_BLANK):
            made.add(read_line(line))


_BLANK: Final = " \t\r\n\ufeff"

_Found = list[tuple[str, ...]]


def _match_lines(pattern: re.Pattern[str], lines: list[str], made: Tally, stamp: Callable[[Any], Any]) -> _Found:
    """Return the groups of all lines that match the pattern and whose `stamp` is a valid time.

    All other lines are parsed one by one and added to `made`.
    """
    found: _Found = pattern.findall("\n".join(lines))
    if len(found) != len(lines) or not all(minute_of(*one) for one in set(map(stamp, found))):
        fitting: list[str] = []
        others: list[str] = []
        for line in lines:
            match = pattern.fullmatch(line)
            fits = match is not None and minute_of(*stamp(match.groups("")))
            (fitting if fits else others).append(line)
        _each(others, made)
        found = pattern.findall("\n".join(fitting))
    return found


def _healths(lines: list[str], made: Tally) -> None:
    stamp = itemgetter(4, 5, 6)
    found = _match_lines(_HEALTH, lines, made, stamp)
    _span(map(stamp, found), made)
    made.runs.update(map(itemgetter(9), found))
    made.traces.update(made.runs)
    made.agents.update(map(itemgetter(0), found))
    made.phases.update(map(itemgetter(1), found))
    made.events.update(map(itemgetter(3), found), map(itemgetter(7), found))
    made.counts.healths.update(map(itemgetter(4, 6, 0, 1, 8, 2, 3, 7), found))
    made.kinds[HEALTH_KIND] += len(found)


def _olders(lines: list[str], made: Tally) -> None:
    stamp = itemgetter(0, 1, 2)
    found = _match_lines(_OLDER, lines, made, stamp)
    _span(map(stamp, found), made)
    made.counts.olders.update(map(itemgetter(0, 2, 3, 4, 5, 6, 7), found))
    made.agents.update(agent.strip() for agent in set(map(itemgetter(4), found)))
    made.phases.update(phase.strip() for phase in set(map(itemgetter(3), found)))
    made.events.update(OLDER_REASONS[json] for json in set(map(itemgetter(6), found)))
    made.kinds[OLDER_KIND] += len(found)


def _gates(lines: list[str], made: Tally) -> None:
    stamp = itemgetter(0, 1, 2)
    found = _match_lines(_GATE, lines, made, stamp)
    _span(map(stamp, found), made)
    made.counts.gates.update(map(itemgetter(0, 2, 3, 4), found))
    for event, component in set(map(itemgetter(3, 4), found)):
        name = SAME_EVENT.get(event, event)
        made.agents.add(component.strip())
        made.events.add(name)
        made.levels.add(GATE_LEVELS.get(name, ""))
    made.kinds[GATE_KIND] += len(found)


_TEXT = str | None

_AGENTS: Final = tuple(sorted(AGENT_FIELDS))

_NAME = str | int | float | bool | None

# Frozen structs are hashable, so a set can collect the few distinct values.
_Named = msgspec.defstruct("_Named", [(name, _NAME, None) for name in _AGENTS], frozen=True, gc=False)

_Fields = msgspec.defstruct(
    "_Fields",
    [
        ("trace_id", str),
        ("timestamp", str),
        ("event_type", _TEXT, None),
        ("event", _TEXT, None),
        ("workflow", _TEXT, None),
        ("phase", _TEXT, None),
        ("level", _TEXT, None),
        ("span_id", _TEXT, None),
        ("parent_span_id", _TEXT, None),
        ("duration_ms", int | float | None, None),
        ("details", _Named | str | int | float | bool | list[Any] | None, None),
        *((name, _NAME, None) for name in _AGENTS),
    ],
    gc=False,
)

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Fields)

_EVENTS: Final = frozenset(TRACE_EVENTS)

_names = attrgetter(*_AGENTS)

_timestamp, _trace_id, _event = attrgetter("timestamp"), attrgetter("trace_id"), attrgetter("event_type", "event")

_counted = attrgetter("event_type", "event", "level", "phase")


def _traces(lines: list[str], made: Tally) -> None:
    rows, kept = _trace_rows(lines, made)
    stamps = "\n".join(map(_timestamp, rows))
    found: _Found = _STAMP.findall(stamps)
    if stamps.count("\n") >= max(len(rows), 1) or not _all_sound(rows, found):
        _each((line for row, line in zip(rows, kept, strict=True) if not _is_sound(row)), made)
        rows = [row for row in rows if _is_sound(row)]
        found = _STAMP.findall("\n".join(map(_timestamp, rows)))
    _span(map(itemgetter(0, 1, 2), found), made)
    made.counts.traces.update(zip(map(itemgetter(0, 2), found), map(_counted, rows), strict=True))
    for event_type, event, level, phase in set(map(_counted, rows)):
        made.events.add(event_type or event)
        made.levels.add(parse_level(level or ""))
        made.phases.add(phase or "")
    made.kinds[TRACE_KIND] += len(rows)
    made.traces.update(map(_trace_id, rows))
    details = {row.details for row in rows if isinstance(row.details, _Named)}
    for values in {*map(_names, rows), *map(_names, details)}:
        made.agents.update(value for value in values if isinstance(value, str))


def _all_sound(rows: list[Any], found: _Found) -> bool:
    took = [row.duration_ms for row in rows if row.duration_ms is not None]
    return (
        len(found) == len(rows)
        and all(minute_of(*stamp) for stamp in set(found))
        and (not took or (min(took) >= 0 and max(took) < math.inf))
        and all(map(_trace_id, rows))
        and all((event if kind is None else kind) in _EVENTS for kind, event in set(map(_event, rows)))
    )


def _is_sound(row: Any) -> bool:
    """Return whether the fields form a valid trace line in the usual spelling."""
    took = row.duration_ms
    stamp = _STAMP.fullmatch(row.timestamp)
    return bool(
        (row.event if row.event_type is None else row.event_type) in _EVENTS
        and row.trace_id
        and (took is None or 0 <= took < math.inf)
        and stamp
        and minute_of(*stamp.groups())
    )


def _trace_rows(lines: list[str], made: Tally) -> tuple[list[Any], list[str]]:
    """Return the lines that are JSON objects with the fields of a trace line, parsed and as text.

    All other lines are parsed one by one and added to `made`.
    """
    text = "\n".join(lines)
    # A single broken line would send all lines to the slow path. Most broken lines are cut, so filter these first.
    if text.count("}\n") + text.endswith("}") < len(lines):
        _each((line for line in lines if not line.endswith("}")), made)
        lines = [line for line in lines if line.endswith("}")]
        text = "\n".join(lines)
    try:
        rows: list[Any] = _decoder.decode_lines(text)
        if len(rows) == len(lines):
            return rows, lines
    except (msgspec.DecodeError, RecursionError):
        pass
    rows, kept = [], []
    for line in lines:
        try:
            rows.append(_decoder.decode(line))
        except (msgspec.DecodeError, RecursionError):
            made.add(read_line(line))
        else:
            kept.append(line)
    return rows, kept


def _span(stamps: Iterable[tuple[str, ...]], made: Tally) -> None:
    """Extend the time range of the tally to include the stamps (hour, minute, zone)."""
    for stamp in set(stamps):
        at = minute_of(*stamp)
        if at is not None:
            made.span(at)


_READERS: Final[dict[str, Callable[[list[str], Tally], None]]] = {
    "{": _traces,
    "[": _gates,
    "a": _healths,
    **{str(digit): _olders for digit in range(10)},
}
