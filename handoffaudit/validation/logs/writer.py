"""The writing of log lines that `reader` can parse, and the health line of a report about a handoff file."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from handoffaudit.validation.formats.base import integer
from handoffaudit.validation.formats.file_report import MARK, Fallback, FileFinding, Source
from handoffaudit.validation.json_text import to_json
from handoffaudit.validation.logs.lines import GateLine, HealthLine, TraceLine
from handoffaudit.validation.logs.reader import write_value
from handoffaudit.validation.text import clean, clean_or_empty
from handoffaudit.validation.times import utc_text

_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


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
    return " ".join(f"{key}={write_value(value)}" for key, value in pairs)


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


_LONGEST_ITERATION: Final = 40


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


def has_phase_failed(finding: FileFinding, *, strict: bool) -> bool:
    """Return whether the phase failed.

    With `strict`, only the handoff file counts, and the text of the response is ignored.
    """
    return finding.blocks or (strict and finding.source is not Source.HANDOFF_JSON)


def why(finding: FileFinding, *, strict: bool) -> str:
    """Describe the result of the file in one or two sentences."""
    if finding.reason is None:
        return "The handoff file was used."
    unusable = f"The handoff file cannot be used ({finding.reason})"
    if finding.fallback is None:
        return f"{unusable}, and no response with a {MARK} block was sent."
    if finding.fallback is Fallback.FAILED:
        return f"{unusable}. {finding.no_block}"
    if strict:
        return f"{unusable}; the response has a {MARK} block, but the policy accepts only the file."
    return f"{unusable}; the {MARK} block of the response was read instead."


def describe_report(finding: FileFinding, *, strict: bool) -> dict[str, Any]:
    """Return the result of a report as JSON values."""
    return {
        "source": str(finding.source),
        "reason": finding.reason and str(finding.reason),
        "fallback": finding.fallback and str(finding.fallback),
        "reasons": list(finding.reasons),
        "failed": has_phase_failed(finding, strict=strict),
        "why": why(finding, strict=strict),
        "issues": [_issue(issue.to_dict()) for issue in finding.issues],
        "wrong_path": finding.wrong_path or None,
    }


def _issue(issue: dict[str, Any]) -> dict[str, Any]:
    place = {name: issue["metadata"][name] for name in ("line", "column") if name in issue["metadata"]}
    return {
        "code": issue["code"],
        "path": issue["field_path"],
        "message": issue["message"],
        "hint": issue["hint"],
    } | place
