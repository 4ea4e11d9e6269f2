"""Lines written, so that each of them can be read back."""

import json
import re
from typing import Any

from handoffaudit.validation.loglines.lines import GateLine, HealthLine, TraceLine
from handoffaudit.validation.loglines.pairs import write_value
from handoffaudit.validation.plain import plain
from handoffaudit.validation.times import utc_text

_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def write_health(line: HealthLine) -> str:
    """In the present form, without a line end. A line without a reason has no `reason=`, so that who looks for that
    finds the files that were not used.

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
    return " ".join(f"{key}={write_value(value)}" for key, value in pairs)


def write_gate(line: GateLine) -> str:
    """`[TIMESTAMP] [EVENT_TYPE] [COMPONENT] DETAILS`, without a line end. This form knows no escapes: what would break
    the line becomes a space, and `]` in a component a `)`."""
    component = _one_line(line.component).replace("]", ")")
    return f"[{utc_text(line.at)}] [{line.event_type}] [{component}] {_one_line(line.details)}".rstrip()


def write_trace(line: TraceLine) -> str:
    """A JSON object, without a line end; fields that are not known are left out."""
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
    return json.dumps(plain(line.extra | known), ensure_ascii=False, separators=(",", ":"))


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text.encode("utf-8", "replace").decode()).strip()
