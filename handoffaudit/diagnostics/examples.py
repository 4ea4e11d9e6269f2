"""Newest handoff files that were not used, with where each went wrong."""

from dataclasses import dataclass
from typing import Any

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.diagnostics.windows import Window
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.validation.formats.file_report import Reason

SHOWN = 3
# So many of the newest are looked through for examples of different agents.
_READ = 40


@dataclass(frozen=True, slots=True)
class Example:
    """`message` says what is wrong; `place` is a line and column, or the path of a field, unless the message has it."""

    report: FileReport
    message: str
    place: str


def examples(tenant: Tenant, window: Window, reason: str) -> list[Example]:
    """The newest of each agent and phase, and of those whose path was wrong; the newest first."""
    rows = FileReport.objects.filter(tenant=tenant, reason=reason, id__gte=first_id_at(window.since))
    found: dict[tuple[str, str, bool], FileReport] = {}
    for report in rows.filter(id__lt=first_id_at(window.until)).order_by("-id")[:_READ]:
        found.setdefault((report.agent, report.phase, bool(report.wrong_path)), report)
    return [_example(report) for report in list(found.values())[:SHOWN]]


def _example(report: FileReport) -> Example:
    answer = orjson.loads(report.content)
    issues = answer.get("issues") or [{}]
    first: dict[str, Any] = issues[0]
    message = first.get("message") or ""
    place = _place(first) if report.reason != Reason.FILE_MISSING else ""
    return Example(report, message, "" if place in message else place)


def _place(issue: dict[str, Any]) -> str:
    if "line" in issue:
        return f"line {issue['line']}, column {issue['column']}" if "column" in issue else f"line {issue['line']}"
    return str(issue.get("path") or "")
