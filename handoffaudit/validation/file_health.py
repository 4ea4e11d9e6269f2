"""A report of a handoff file as its log line, and in words."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from handoffaudit.validation.formats.base import integer
from handoffaudit.validation.formats.file_report import Fallback, FileFinding, Source
from handoffaudit.validation.handoff_block import MARK
from handoffaudit.validation.loglines import HealthLine
from handoffaudit.validation.text import clean, clean_or_empty

_LONGEST_ITERATION: Final = 40


def health_line(report: Mapping[str, Any], finding: FileFinding, at: datetime) -> HealthLine:
    """The line on a report without flaws, to the second."""
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


def failed(finding: FileFinding, *, strict: bool) -> bool:
    """Whether the phase failed. `strict`: only the file counts."""
    return finding.blocks or (strict and finding.source is not Source.HANDOFF_JSON)


def why(finding: FileFinding, *, strict: bool) -> str:
    """How it ended, in a sentence or two."""
    if finding.reason is None:
        return "The handoff file was used."
    unusable = f"The handoff file can't be used ({finding.reason})"
    if finding.fallback is None:
        return f"{unusable}, and no response was sent along to read a {MARK} block from."
    if finding.fallback is Fallback.FAILED:
        return f"{unusable}. {finding.no_block}"
    if strict:
        return f"{unusable}; the {MARK} block of the response was read, but the policy lets only the file count."
    return f"{unusable}; the {MARK} block of the response was read in its place."


def explained(finding: FileFinding, *, strict: bool) -> dict[str, Any]:
    """What a report amounts to, as JSON values."""
    return {
        "source": str(finding.source),
        "reason": finding.reason and str(finding.reason),
        "fallback": finding.fallback and str(finding.fallback),
        "reasons": list(finding.reasons),
        "failed": failed(finding, strict=strict),
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
