"""One report of a handoff file: where it was expected and found, what is wrong with it, and what was read instead."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any
from uuid import UUID

import orjson
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.readable import readable
from handoffaudit.dashboard.unreadable import excerpt, raw_text
from handoffaudit.diagnostics import file_reports
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.diagnostics.retention import run
from handoffaudit.handoffs import queries as handoffs
from handoffaudit.handoffs.models import Handoff
from handoffaudit.policy.retention import Data
from handoffaudit.validation.formats.base import obj
from handoffaudit.validation.formats.block import last_block
from handoffaudit.validation.formats.file_report import Fallback, FileFinding, judge_report
from handoffaudit.validation.json_input import parse_json
from handoffaudit.validation.paths import dotted_path

TEMPLATE = "dashboard/diagnostics/files/report.html"
MOST_BLOCK = 4_000
_IN_REPORT = 2
_PARTS = re.compile(r"[^/\\]+|[/\\]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a path; `differs`: the other path has it not."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class FileIssue:
    """`place` is that in the file; empty where it is about the whole of it."""

    code: str
    place: str
    message: str
    hint: str


@page_for(Role.VIEWER)
@require_safe
def report_page(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    try:
        report = file_reports.get_report(who.tenant, pk)
    except FileReport.DoesNotExist as error:
        if said := run.removal_message(who.tenant, Data.FILE_REPORTS):
            messages.info(request, f"There is no such report.{said}")
            return redirect("dashboard:file_reports", tenant=who.tenant.slug)
        raise Http404("There is no such report.") from error
    context = {
        "report": report,
        "answer": file_reports.answer_of(report),
        "expected": apart(report.expected_path, report.wrong_path),
        "found": apart(report.wrong_path, report.expected_path),
        **_of_document(_document(who, report)),
    }
    return render_page(request, TEMPLATE, context)


def _document(who: Who, report: FileReport) -> dict[str, Any]:
    """What arrived; empty where the handoff is not kept any more."""
    try:
        body = handoffs.body(handoffs.get(who.tenant, str(report.handoff)))
    except Handoff.DoesNotExist:
        return {}
    return obj(parse_json(bytes(body.original))[0]) if body else {}


def _of_document(document: dict[str, Any]) -> dict[str, Any]:
    if not document:
        return {"issues": []}
    finding = judge_report(document)
    return {"issues": [_issue(finding, number) for number in range(len(finding.issues))]} | {
        "is_kept": True,
        **_content(document, finding),
        **_block(document, finding),
    }


def _issue(finding: FileFinding, number: int) -> FileIssue:
    issue = finding.issues[number]
    in_file = issue.location[:_IN_REPORT] == ("file", "content")
    return FileIssue(issue.code, dotted_path(issue.location[_IN_REPORT:]) if in_file else "", issue.message, issue.hint)


def _content(document: dict[str, Any], finding: FileFinding) -> dict[str, Any]:
    """The file as it came, with the spot where reading stopped."""
    content = obj(document.get("file")).get("content")
    if content is None:
        return {"excerpt": None, "content": None}
    is_text = isinstance(content, str)
    sent = content.encode("utf-8", "replace") if is_text else orjson.dumps(content, option=orjson.OPT_INDENT_2)
    text, left_out = raw_text(sent)
    return {
        "excerpt": excerpt(sent, finding.issues) if is_text else None,
        "content": text,
        "content_left_out": left_out,
        "is_parsed": not is_text,
    }


def _block(document: dict[str, Any], finding: FileFinding) -> dict[str, Any]:
    text = document.get("response_text")
    response = text if isinstance(text, str) else ""
    read = finding.content if finding.fallback is Fallback.OK else {}
    return {
        "was_tried": finding.fallback is not None,
        "no_block": finding.no_block,
        "response_block": readable(last_block(response).strip()[:MOST_BLOCK]) if finding.fallback else "",
        "read": {name: _words(value) for name, value in read.items()},
    }


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "nobody: the work ends" if value is None else str(value) or "empty"


def apart(path: str, other: str) -> Sequence[Piece]:
    """`path` in stretches that `other` has and has not; in one where there is no other."""
    if not other:
        return [Piece(path, differs=False)] if path else []
    parts, others = _PARTS.findall(path), _PARTS.findall(other)
    blocks = SequenceMatcher(None, parts, others, autojunk=False).get_matching_blocks()
    pieces, at = [], 0
    for block in blocks:
        pieces.append(Piece("".join(parts[at : block.a]), differs=True))
        pieces.append(Piece("".join(parts[block.a : block.a + block.size]), differs=False))
        at = block.a + block.size
    return [piece for piece in pieces if piece.text]
