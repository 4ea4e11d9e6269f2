"""The types of log lines, what a line names (agents, phase, events, level, trace), and the text of a line."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final

from handoffaudit.validation.formats.base import integer
from handoffaudit.validation.formats.file_report import Fallback, FileFinding, Reason, Source
from handoffaudit.validation.json_text import to_json
from handoffaudit.validation.text import clean, clean_or_empty
from handoffaudit.validation.times import utc_text

GATE_EVENTS: Final = ("VALIDATION", "SKIP", "ERROR", "DEBUG", "TRIGGER", "INFO", "WARNING")

TRACE_EVENTS: Final = (
    "workflow_started",
    "phase_started",
    "phase_completed",
    "handoff_created",
    "handoff_validated",
    "handoff_transmitted",
    "handoff_received",
    "handoff_processed",
    "error",
    "workflow_completed",
)


class Kind(StrEnum):
    """The forms of log lines.

    `OLDER` is a health line in the older form, and `BAD` a line that cannot be read.
    """

    HEALTH = "health"
    OLDER = "older"
    GATE = "gate"
    TRACE = "trace"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class KindText:
    """The title of a form of lines, and the characters by which a person recognises it."""

    title: str
    form: str


KIND_TEXTS: Final = {
    Kind.HEALTH: KindText("Health", "agent=… phase=…"),
    Kind.OLDER: KindText("Older health", "… | phase=…"),
    Kind.GATE: KindText("Gate", "[time] [event] …"),
    Kind.TRACE: KindText("Trace", "JSON"),
    Kind.BAD: KindText("Bad", "in no known format"),
}


@dataclass(frozen=True, slots=True)
class HealthLine:
    """The result of one handoff file.

    `reason` is None if the file was used. `fallback` is None if the text of the agent's response was not read in place
    of the file. Both are also None if the line does not name them. An empty text means that the value is unknown.
    """

    at: datetime
    agent: str
    phase: str
    source: Source
    reason: Reason | None = None
    fallback: Fallback | None = None
    runtime: str = ""
    iteration: str = ""
    run_id: str = ""
    older: bool = False

    @property
    def kind(self) -> Kind:
        return Kind.OLDER if self.older else Kind.HEALTH


@dataclass(frozen=True, slots=True)
class GateLine:
    """The action of a gate.

    `event_type` is one of `GATE_EVENTS`.
    """

    kind: ClassVar[Kind] = Kind.GATE
    at: datetime
    event_type: str
    component: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A step of a workflow.

    `event_type` is one of `TRACE_EVENTS`; `details` is any JSON value; `duration_ms` is in milliseconds, 0 or more.
    `extra` has the fields that the format does not name.
    """

    kind: ClassVar[Kind] = Kind.TRACE
    at: datetime
    event_type: str
    trace_id: str
    workflow: str = ""
    phase: str = ""
    details: Any = None
    level: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    duration_ms: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be read.

    Its form is unknown, a value is missing or invalid, or the line is too long or is not UTF-8. `why` is a sentence
    that gives the reason.
    """

    kind: ClassVar[Kind] = Kind.BAD
    why: str


Line = HealthLine | GateLine | TraceLine | BadLine

# The fields in which a trace line, or its details, names an agent.
AGENT_FIELDS: Final = frozenset(
    f"{name}{end}" for name in ("agent", "source_agent", "target_agent", "source", "target") for end in ("", "_id")
)

# Fields that say when and how a line was written, and fields that are shown elsewhere.
_NOT_SAID: Final = frozenset({"at", "older", "extra", "why"})

GATE_LEVELS: Final = {"ERROR": "error", "WARNING": "warning", "INFO": "info", "DEBUG": "debug"}

_SAME_LEVEL: Final = {"warn": "warning", "err": "error"}


def agents_of(line: Line) -> tuple[str, ...]:
    """Return the agents that a line names. The component of a gate line counts as an agent."""
    match line:
        case HealthLine():
            return (line.agent,) if line.agent else ()
        case GateLine():
            return (line.component,) if line.component else ()
        case TraceLine():
            details = line.details if isinstance(line.details, dict) else {}
            return tuple(dict.fromkeys((*agents_named(line.extra), *agents_named(details))))
        case _:
            return ()


def agents_named(fields: Mapping[str, Any]) -> list[str]:
    """Return the agents that the fields of a trace line, or of its details, name."""
    return [
        fields[name] for name in sorted(AGENT_FIELDS & fields.keys()) if isinstance(fields[name], str) and fields[name]
    ]


def fields_of(line: Line) -> dict[str, Any]:
    """Return the known fields of a line by name, without its time; a bad line has none."""
    return {one.name: getattr(line, one.name) for one in fields(line) if one.name not in _NOT_SAID}


def component_of(line: Line) -> str:
    """Return the name that a line is counted under: its agent, its component, or its phase."""
    match line:
        case HealthLine():
            return line.agent
        case GateLine():
            return line.component
        case _:
            return phase_of(line)


def phase_of(line: Line) -> str:
    return line.phase if isinstance(line, HealthLine | TraceLine) else ""


def events_of(line: Line) -> tuple[str, ...]:
    """Return the event type of a gate or trace line, or the reason and the fallback of a health line."""
    match line:
        case HealthLine():
            return tuple(str(one) for one in (line.reason, line.fallback) if one)
        case GateLine() | TraceLine():
            return (line.event_type,)
        case _:
            return ()


def level_of(line: Line) -> str:
    """Return the level in lower case, or an empty text if the line has none.

    A trace line states its level. A gate line has a level if its event type is a level.
    """
    match line:
        case TraceLine():
            return parse_level(line.level)
        case GateLine():
            return GATE_LEVELS.get(line.event_type, "")
        case _:
            return ""


def parse_level(level: str) -> str:
    low = level.lower()
    return _SAME_LEVEL.get(low, low)


def trace_of(line: Line) -> str:
    """Return the trace of a trace line, or the run of a health line."""
    match line:
        case TraceLine():
            return line.trace_id
        case HealthLine():
            return line.run_id
        case _:
            return ""


_LONGEST_ITERATION: Final = 40
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

# The escapes within the quotation marks of a health line: the letter after the backslash, and the character.
ESCAPES: Final = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_SHORT: Final = {char: "\\" + letter for letter, char in ESCAPES.items()}


def health_line(report: Mapping[str, Any], finding: FileFinding, at: datetime) -> HealthLine:
    """Return the health line of a report in which `report_flaws` finds nothing, with the time cut to the second."""
    return HealthLine(
        at=at.replace(microsecond=0),
        agent=clean_or_empty(report.get("agent")),
        phase=clean_or_empty(report.get("phase")),
        source=finding.source,
        reason=finding.reason,
        fallback=finding.fallback,
        runtime=clean_or_empty(report.get("runtime")),
        iteration=_iteration(report.get("iteration")),
        run_id=clean_or_empty(report.get("run_id")),
    )


def _iteration(value: object) -> str:
    number = integer(value)
    return "" if number is None else clean(str(number), _LONGEST_ITERATION)


def write_health(line: HealthLine) -> str:
    """Return the health line in the current form, without a line end.

    A line without a reason has no `reason=`, so a search for `reason=` finds the unused files.

    >>> from datetime import UTC, datetime
    >>> from handoffaudit.validation.formats.file_report import Reason, Source
    >>> at = datetime(2026, 2, 15, 0, 15, tzinfo=UTC)
    >>> write_health(HealthLine(at, "planner", "plan", Source.TEXT_FALLBACK, Reason.SCHEMA_INVALID))
    'agent=planner phase=plan source=text_fallback reason=schema_invalid timestamp=2026-02-15T00:15:00Z'
    """
    pairs = [("agent", line.agent), ("phase", line.phase), ("source", str(line.source))]
    pairs += [("reason", str(line.reason))] if line.reason else []
    pairs.append(("timestamp", utc_text(line.at)))
    known = {"fallback": line.fallback, "runtime": line.runtime, "iter": line.iteration, "run": line.run_id}
    pairs += [(key, str(value)) for key, value in known.items() if value]
    return " ".join(f"{key}={_write_value(value)}" for key, value in pairs)


def write_gate(line: GateLine) -> str:
    """Return `[TIMESTAMP] [EVENT_TYPE] [COMPONENT] DETAILS`, without a line end.

    This form has no escapes: characters that would break the line become a space, and `]` in a component becomes `)`.
    """
    component = _one_line(line.component).replace("]", ")")
    return f"[{utc_text(line.at)}] [{line.event_type}] [{component}] {_one_line(line.details)}".rstrip()


def write_trace(line: TraceLine) -> str:
    """Return a JSON object without a line end, and without empty fields except `details`."""
    fields: dict[str, Any] = {
        "trace_id": line.trace_id,
        "span_id": line.span_id,
        "parent_span_id": line.parent_span_id,
        "timestamp": utc_text(line.at),
        "event_type": line.event_type,
        "level": line.level,
        "workflow": line.workflow,
        "phase": line.phase,
    }
    known = {name: value for name, value in fields.items() if value}
    known["details"] = line.details
    if line.duration_ms is not None:
        known["duration_ms"] = line.duration_ms
    return json.dumps(to_json(line.extra | known), ensure_ascii=False, separators=(",", ":"))


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text.encode("utf-8", "replace").decode()).strip()


def _write_value(value: str) -> str:
    """Return the value as a health line writes it, quoted where needed.

    Half a surrogate pair becomes a question mark, because a text file cannot contain it.
    """
    value = value.encode("utf-8", "replace").decode()
    if value and value.isprintable() and not any(char in value for char in ' "\\') and not _has_space(value):
        return value
    return '"' + "".join(_escape(char) for char in value) + '"'


def _has_space(value: str) -> bool:
    return any(char.isspace() for char in value)


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable() or char == " ":
        return char
    return "".join(f"\\u{int.from_bytes(pair, 'big'):04x}" for pair in _pairs_of(char))


def _pairs_of(char: str) -> list[bytes]:
    encoded = char.encode("utf-16-be")
    return [encoded[at : at + 2] for at in range(0, len(encoded), 2)]
