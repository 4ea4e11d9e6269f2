"""API of handoff file reports, and of the policy that says which reports count as failed."""

from typing import Annotated, Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import BeforeValidator, Field, ValidationInfo

from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.batch import NAMED
from handoffaudit.api.errors import problem_response
from handoffaudit.api.requests import NEXT, PageQuery, ReportId, check_names, read_body, with_filters
from handoffaudit.api.schemas import RejectedOut
from handoffaudit.api.serializers import Answer, Extended, ProblemOut, Stored, answer, codes_link, links, receipt_of
from handoffaudit.diagnostics import file_reports
from handoffaudit.diagnostics.file_reports import FileFilters
from handoffaudit.diagnostics.models import FileReport, RetentionRun
from handoffaudit.policy.kinds import file_policy
from handoffaudit.policy.retention import Data
from handoffaudit.policy.strictness import STRICT_FILES, HandoffFilesModel, HandoffFilesPolicy
from handoffaudit.policy.versions import Table
from handoffaudit.validation.formats import schema

router = Router()

EXAMPLE: dict[str, Any] = {
    "run_id": "run-17",
    "agent": "planner",
    "phase": "plan",
    "runtime": "claude",
    "iteration": 1,
    "expected_path": "run-17/planner/handoff.json",
    "file": {"exists": False},
    "elsewhere": ["run-17/handoff.json"],
    "response_text": "Done.\n---HANDOFF---\nSTATUS: complete\nARTIFACTS: plan.md\nNEXT: plan_review\nSUMMARY: Planned.",
    "timestamp": "2026-02-15T00:15:00Z",
}

BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": schema("handoff-file-report"), "example": EXAMPLE}},
    }
}


class IssueOfFileOut(Answer):
    code: str = Field(description="The rule code of the finding.", examples=["files.handoff_file_missing"])
    path: str = Field(description="The place in the report.", examples=["file.exists"])
    message: str = Field(description="What is wrong, in one sentence.")
    hint: str = Field(description="How to fix the finding.")
    line: int | None = Field(None, description="The line in the file where the JSON is broken.")
    column: int | None = Field(None, description="The column in that line.")


def _links(pk: Any, info: ValidationInfo) -> dict[str, str]:
    tenant: Any = info.context
    return {
        "self": f"/api/v1/handoff-files/{pk}",
        "handoff": f"/api/v1/handoffs/{info.data['handoff']}",
        "page": f"{settings.PUBLIC_URL}/t/{tenant.slug}/diagnostics/files/{pk}/",
        "codes": codes_link(),
    }


class ListedOut(file_reports.ReportSummary):
    links: Annotated[dict[str, str], BeforeValidator(_links)] = Field(
        validation_alias="id",
        description="`self`, `handoff` and `page` of the report, and `codes`, the documentation of rule codes.",
    )


class ReportOut(ListedOut):
    handoff_id: str = Field(description="The sender's id of the handoff.")
    policy: Annotated[dict[str, Any], Stored] = Field(
        description="The handoff file policy applied to the report, with its version.",
        examples=[{STRICT_FILES: False, "version": 0}],
    )
    why: str = Field(description="What was found, in one sentence.")
    issues: Annotated[list[IssueOfFileOut], Stored] = Field(description="The findings in the file or the report.")
    line: str = Field(
        description="The log line.",
        examples=["agent=planner phase=plan source=text_fallback reason=file_missing timestamp=2026-02-15T00:15:00Z"],
    )


class ReportsOut(Answer):
    items: list[ListedOut] = Field(description="The reports, newest first.")
    next: str | None = Field(description=NEXT)


@with_filters(FileFilters)
class ReportsQuery(PageQuery):
    pass


STRICT = HandoffFilesModel.model_fields[STRICT_FILES].description


class FilePolicyOut(policies.PolicyOut):
    strict_handoff_files: bool = Field(description=STRICT)


class FilePolicyIn(policies.PolicyIn):
    strict_handoff_files: bool = Field(description=STRICT)


@router.post(
    "/handoff-files",
    auth=KeyWith(Scope.INGEST, stores=True),
    operation_id="report_handoff_file",
    summary="Report the result of a handoff file check",
    response={201: ReportOut, 200: ReportOut, 409: ProblemOut, 413: ProblemOut, 422: RejectedOut | ProblemOut},
    openapi_extra=BODY,
)
def report_file(request: HttpRequest, handoff_id: str | None = NAMED) -> HttpResponse:
    """Store a report of a handoff file; the report is also stored as a handoff.

    If the report has a `timestamp`, or the call a `handoff_id`, the same report sent again is answered 200 with the
    first answer and counted once. Without either, each report counts as a new report.
    """
    who = caller(request)
    sent = read_body(request, settings.MAX_BODY_BYTES)
    received = file_reports.receive_report(who.tenant, who.actor, sent, handoff_id or "")
    receipt, report = received.receipt, received.report
    if report is not None:
        status = 201 if received.is_new else 200
        return _answer(report, who.tenant, status, Location=f"/api/v1/handoff-files/{report.pk}")
    kept = receipt_of(receipt) | {"links": links(receipt.id, who.tenant.slug)} if receipt.id else {}
    if receipt.status == 422:
        said = " ".join(issue.message for issue in receipt.issues)
        return problem_response(
            422, "Not a report of a handoff file", f"{said} The report is stored as rejected.", **kept
        )
    if receipt.status == 200:
        said = f"The stored handoff {receipt.handoff_id!r} is not a handoff file report. Use a new handoff_id."
        return problem_response(409, "The id is taken", said, **kept)
    return problem_response(receipt.status, receipt.title, receipt.detail, **kept)


@router.get(
    "/handoff-files",
    auth=KeyWith(Scope.READ),
    operation_id="list_handoff_files",
    summary="List reports of handoff files, newest first",
    response={200: ReportsOut, 400: ProblemOut},
)
def list_reports(request: HttpRequest, query: Query[ReportsQuery]) -> HttpResponse:
    who = caller(request)
    check_names(request, ReportsQuery)
    page = file_reports.list_reports(
        who.tenant, FileFilters.from_query(request.GET), cursor=query.cursor, limit=query.limit
    )
    return answer(ReportsOut, page, context=who.tenant)


@router.get(
    "/handoff-files/policy",
    auth=KeyWith(Scope.READ),
    operation_id="get_handoff_files_policy",
    summary="Get whether the handoff file is required",
    response={200: FilePolicyOut},
)
def get_policy(request: HttpRequest) -> HttpResponse:
    return _policy(file_policy.current(caller(request).tenant))


@router.put(
    "/handoff-files/policy",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_handoff_files_policy",
    summary="Set whether the handoff file is required, as a new version",
    response={200: FilePolicyOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Text blocks do not count any more.", strict_handoff_files=True),
)
def put_policy(request: HttpRequest, change: FilePolicyIn) -> HttpResponse:
    return _policy(policies.save_policy(request, file_policy, change, [{STRICT_FILES: change.strict_handoff_files}]))


def _policy(table: Table[HandoffFilesPolicy]) -> HttpResponse:
    return answer(FilePolicyOut, Extended(table, **file_policy.plain(table.rows[0])))


@router.get(
    "/handoff-files/{report_id}",
    auth=KeyWith(Scope.READ),
    operation_id="get_handoff_file",
    summary="Get one report of a handoff file",
    response={200: ReportOut, 404: ProblemOut},
)
def get_report(request: HttpRequest, report_id: ReportId) -> HttpResponse:
    who = caller(request)
    try:
        report = file_reports.get_report(who.tenant, report_id)
    except FileReport.DoesNotExist:
        said = RetentionRun.removal_message(who.tenant, Data.FILE_REPORTS)
        raise Http404(f"There is no report {report_id}.{said}") from None
    return _answer(report, who.tenant)


def _answer(report: FileReport, tenant: Tenant, status: int = 200, **headers: str) -> HttpResponse:
    """Answer with a report: its row, and the rest of the answer that its sender got."""
    shown = Extended(report, **file_reports.answer_of(report))
    return answer(ReportOut, shown, status, context=tenant, **headers)
