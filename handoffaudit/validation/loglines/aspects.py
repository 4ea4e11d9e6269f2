"""What lines of all forms are asked about in the same words: agents, phase, events, level, trace."""

from collections.abc import Mapping
from typing import Any, Final

from handoffaudit.validation.loglines.lines import GateLine, HealthLine, Line, TraceLine

# Fields in which a trace line, or its details, names an agent.
AGENT_FIELDS: Final = frozenset(
    f"{name}{end}" for name in ("agent", "source_agent", "target_agent", "source", "target") for end in ("", "_id")
)
GATE_LEVELS: Final = {"ERROR": "error", "WARNING": "warning", "INFO": "info", "DEBUG": "debug"}
_SAME_LEVEL: Final = {"warn": "warning", "err": "error"}


def agents_of(line: Line) -> tuple[str, ...]:
    """The agents that a line names; a gate line's component is one."""
    match line:
        case HealthLine():
            return (line.agent,) if line.agent else ()
        case GateLine():
            return (line.component,) if line.component else ()
        case TraceLine():
            details = line.details if isinstance(line.details, dict) else {}
            return tuple(dict.fromkeys((*named_in(line.extra), *named_in(details))))
        case _:
            return ()


def named_in(fields: Mapping[str, Any]) -> list[str]:
    """The agents that a trace line's fields or its details name."""
    return [
        fields[name] for name in sorted(AGENT_FIELDS & fields.keys()) if isinstance(fields[name], str) and fields[name]
    ]


def phase_of(line: Line) -> str:
    return line.phase if isinstance(line, HealthLine | TraceLine) else ""


def events_of(line: Line) -> tuple[str, ...]:
    """The event type of gate and trace lines; the reason of health lines, and how the fallback went."""
    match line:
        case HealthLine():
            return tuple(str(one) for one in (line.reason, line.fallback) if one)
        case GateLine() | TraceLine():
            return (line.event_type,)
        case _:
            return ()


def level_of(line: Line) -> str:
    """In lower case: the level of a trace line, and of a gate line whose event type is one."""
    match line:
        case TraceLine():
            return level_named(line.level)
        case GateLine():
            return GATE_LEVELS.get(line.event_type, "")
        case _:
            return ""


def level_named(level: str) -> str:
    low = level.lower()
    return _SAME_LEVEL.get(low, low)


def trace_of(line: Line) -> str:
    """The trace of a trace line, the run of a health line."""
    match line:
        case TraceLine():
            return line.trace_id
        case HealthLine():
            return line.run_id
        case _:
            return ""
