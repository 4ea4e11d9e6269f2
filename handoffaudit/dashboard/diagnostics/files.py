"""Reports of handoff files: their list, the page of one report, and the policy that requires the file."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import orjson
from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import Line, format_value
from handoffaudit.dashboard.safe_text import excerpt, raw_text, readable
from handoffaudit.diagnostics import file_reports, file_stats
from handoffaudit.diagnostics.file_reports import REASONS, FileFilters
from handoffaudit.diagnostics.models import FileReport, RetentionRun
from handoffaudit.filter_fields import FilterError, quote_blanks
from handoffaudit.handoffs import queries as handoffs
from handoffaudit.handoffs.models import Handoff
from handoffaudit.policy.kinds import file_policy
from handoffaudit.policy.retention import Data
from handoffaudit.policy.strictness import STRICT_FILES, HandoffFilesModel, HandoffFilesPolicy
from handoffaudit.policy.versions import Change, Stale
from handoffaudit.validation.formats.base import obj
from handoffaudit.validation.formats.file_report import Fallback, FileFinding, judge_report, last_block
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.logs.lines import Kind
from handoffaudit.validation.paths import dotted_path
from handoffaudit.validation.times import utc_text

REPORT_TEMPLATE = "dashboard/diagnostics/files/report.html"

MOST_BLOCK = 4_000

_IN_REPORT = 2

_PARTS = re.compile(r"[^/\\]+|[/\\]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a path; `differs` is true if the other path does not contain the piece."""

    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class FileIssue:
    """A finding about a handoff file.

    `place` is the place in the content of the file. It is empty if the finding is about the whole file or about another
    field of the report.
    """

    code: str
    place: str
    message: str
    hint: str


@require_role(Role.VIEWER)
@require_safe
def report_page(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    try:
        report = file_reports.get_report(who.tenant, pk)
    except FileReport.DoesNotExist as error:
        if said := RetentionRun.removal_message(who.tenant, Data.FILE_REPORTS):
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
    return render_page(request, REPORT_TEMPLATE, context)


def _document(who: TenantMembership, report: FileReport) -> dict[str, Any]:
    """Return the document that arrived, or an empty dictionary if retention removed the handoff or its document."""
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
    """Return the template context for the content of the file.

    A text is shown as it arrived, with the place where parsing stopped. Parsed content is shown as indented JSON.
    """
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
    return "no agent: the work ends" if value is None else str(value) or "empty"


def apart(path: str, other: str) -> Sequence[Piece]:
    """Split `path` into pieces that `other` shares or lacks; without another path, return one piece."""
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


TEMPLATE = "dashboard/diagnostics/files/page.html"

MOST_CHANGES = 5


def _lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of the policy's only switch."""
    return [
        Line(STRICT_FILES, "Require handoff file", format_value(change.old), format_value(change.new))
        for change in changes
    ]


PAGE: PolicyPage[HandoffFilesPolicy] = PolicyPage(
    file_policy,
    "Handoff files",
    "The text of the response may replace the file.",
    _lines,
    below="diagnostics/files/policy",
)


@require_role(Role.VIEWER)
@require_safe
def reports(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    address = reverse("dashboard:file_reports", args=[who.tenant.slug])
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "form": SimpleLazyObject(lambda: _form(request.GET)),
        "cursor": cursor,
        "address": address,
        **_policy(request, who),
    }
    try:
        filters = FileFilters.from_query(request.GET)
        page = file_reports.list_reports(who.tenant, filters, cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    query = filters.to_query()
    if not is_htmx(request) and any(not str(value).strip() for value in request.GET.values()):
        # A plain form also sends its empty fields; the address that people save and share has none.
        return HttpResponseRedirect(f"{address}?{query}" if query else address)
    context |= {
        "reports": page.items,
        "form": SimpleLazyObject(lambda: _form(request.GET, filters)),
        "active_filters": list(filters.active()),
        "fresh": is_htmx(request),
        "newest": f"{address}?{query}" if cursor else "",
        "next": f"{address}?{query}&cursor={page.next}".replace("?&", "?") if page.next else "",
        "server": request.build_absolute_uri("/").rstrip("/"),
        "log_lines": _log_lines(who, filters),
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = f"{address}?{query}" if query else address
    return response


def _log_lines(who: TenantMembership, filters: FileFilters) -> str:
    """Return the address of the health lines in logs that match the filters.

    Return an empty text if no log has health lines, or if the page of logs cannot filter in the same way. The page has
    no filter for `source` or `failed`, and its filter `event` takes a reason or a fallback, but not both. The filter
    `runtime` becomes part of the searched text.
    """
    events = {filters.reason, filters.fallback} - {""}
    if filters.source or filters.failed or len(events) > 1 or not file_stats.has_log_counts(who.tenant):
        return ""
    asked = {
        "kind": Kind.HEALTH.value,
        "agent": filters.agent,
        "phase": filters.phase,
        "event": "".join(events),
        "trace": filters.run,
        "q": f"runtime={filters.runtime}" if filters.runtime else "",
        "since": filters.period or (utc_text(filters.since) if filters.since else ""),
        "until": utc_text(filters.until) if filters.until else "",
    }
    query = urlencode({name: quote_blanks(value) for name, value in asked.items() if value})
    return f"{reverse('dashboard:logs', args=[who.tenant.slug])}?{query}"


def _form(asked: QueryDict, filters: FileFilters | None = None) -> forms.Form:
    """Return the form of the filters.

    The menu `reason` offers an outcome of the fallback only if the address already filters by this outcome.
    """
    form = FileFilters.form(asked, filters)
    offered = {*REASONS, asked.get("reason", "")}
    reason: Any = form.fields["reason"]
    reason.options = {value: label for value, label in reason.options.items() if value in offered}
    return form


def _policy(request: HttpRequest, who: TenantMembership) -> dict[str, Any]:
    history = [one for one in file_policy.history(who.tenant, limit=MOST_CHANGES + 1) if one.table.version]
    return {
        "strict": file_reports.current_policy(who.tenant).strict,
        "policy_label": HandoffFilesModel.model_fields[STRICT_FILES].title,
        "policy_version": history[0].table.version if history else 0,
        "policy_changes": history[:MOST_CHANGES],
        "policy_history": PAGE.history(who.tenant.slug),
        "effect": file_reports.measure_effect(who.tenant),
        "may_set": who.may(Role.ADMIN),
        "policy_open": "policy" in request.GET,
    }


@require_role(Role.ADMIN)
@require_POST
def save_policy(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    strict, base = request.POST.get("strict") == "on", request.POST.get("base_version", "")
    back = redirect(f"{reverse('dashboard:file_reports', args=[who.tenant.slug])}?policy=open")
    if not (base.isascii() and base.isdigit() and len(base) < 9):
        return HttpResponse("The form has no version: load the page again.", status=HTTPStatus.BAD_REQUEST)
    try:
        saved = file_policy.save(
            tenant=who.tenant,
            base_version=int(base),
            rows=[HandoffFilesPolicy(strict)],
            actor=who.person.username,
            note=request.POST.get("note", ""),
        )
    except Stale as stale:
        now = "on" if stale.current.rows[0].strict_handoff_files else "off"
        messages.error(
            request, f"Not saved: {stale.current.changed_by} changed the policy meanwhile. {STRICT_FILES} is {now}."
        )
        return back
    if saved.version == int(base):
        messages.info(request, "Nothing was changed.")
    else:
        said = "the handoff file is required" if strict else "the text of the response may replace the file"
        messages.success(request, f"Saved as version {saved.version}: {said}.")
    return back


@require_role(Role.VIEWER)
@require_safe
def policy_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Redirect to the policy, which is an open section on the page of reports."""
    return redirect(f"{reverse('dashboard:file_reports', args=[who.tenant.slug])}?policy=open")


urlpatterns = [
    path("diagnostics/files/", reports, name="file_reports"),
    path("diagnostics/files/policy/", save_policy, name="file_policy_save"),
    path("diagnostics/files/policy/shown/", policy_page, name=PAGE.name),
    *base.urls(PAGE),
    path("diagnostics/files/<uuid:pk>/", report_page, name="file_report"),
]
