"""API of reports: compliance, reasons for unused handoff files, overturn rates of rule codes, and evidence bundles."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import BeforeValidator, Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import check_names
from handoffaudit.api.serializers import Answer, Extended, Nullable, ProblemOut, Second, Text, answer, at
from handoffaudit.diagnostics.codes import FEWEST_DECISIONS, overturn_rates
from handoffaudit.diagnostics.compliance_export import (
    ComplianceOut,
    FileTallyOut,
    ReasonShareOut,
    WindowOut,
    as_csv,
    as_text,
)
from handoffaudit.diagnostics.compliance_report import build_report, list_week_rates, parse_expected_pairs
from handoffaudit.diagnostics.file_stats import GIVEN, FileTally
from handoffaudit.diagnostics.reasons import Matrix, Row, load_reasons
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import export
from handoffaudit.handoffs.periods import Window, window_of
from handoffaudit.handoffs.rates import ShareChange
from handoffaudit.policy.retention import HOURS_KEPT
from handoffaudit.trust import bundle, signatures

router = Router()

# Content types of the report in formats other than JSON.
TEXTS: Final = ("text/csv", "text/plain")


class Form(StrEnum):
    JSON = "json"
    CSV = "csv"
    TEXT = "text"


_OLD: Final = f"or to the day if it is more than {HOURS_KEPT.days} days ago"


class WindowQuery(Schema):
    period: str = Field(
        "", description="A number of hours or days (24h, 7d, 30d), or `monday` (since Monday). Default: 7d."
    )
    since: str = Field(
        "",
        description=f"Start, instead of `period`: a date, or a date and time (UTC); rounded down to the hour, {_OLD}.",
    )
    until: str = Field(
        "", description=f"End (exclusive), rounded up to the hour, {_OLD}. Default: the end of the current hour."
    )


class ComplianceQuery(WindowQuery):
    format: str = Field("json", description="json, csv or text.")
    expect: list[str] = Field([], description="Pairs `phase/agent` to list even if they never ran.")


class ChangeOfShareOut(Answer):
    points: float | None = Field(description="Percentage points vs the previous period; null without earlier data.")
    direction: str = Field(description="better, worse, same or none.")
    before: Text = Field(description="The previous share in words.")


def _fewer_is_better(change: ShareChange) -> Extended:
    """Return the change; its `direction` is `better` if the share fell."""
    return Extended(change, direction=change.fewer)


class ReasonOut(ReasonShareOut):
    number: int = Field(
        validation_alias=at("change.now.part"),
        description="Number of handoff files that went unused for this reason.",
    )
    percent: float | None = Field(
        validation_alias=at("change.now.percent"),
        description="Percent of all expected files; null if no file was expected.",
    )
    reason: str = Field(description=f"{', '.join(GIVEN[:-1])} or {GIVEN[-1]}.")
    change: Annotated[ChangeOfShareOut, BeforeValidator(_fewer_is_better)] = Field(
        description="Change vs the previous period."
    )
    agents: Annotated[dict[str, int], BeforeValidator(dict)] = Field(
        description="The three agents with the most of these files, each with its number of files."
    )


class CellOut(FileTallyOut):
    phase: str = Field(description="The phase.")
    main_reason: Nullable = Field(description="The most frequent reason; null if there is none.")


class AgentFilesOut(FileTallyOut):
    agent: str = Field(description="The agent.")
    change: ChangeOfShareOut = Field(description="Change vs the previous period.")
    phases: list[CellOut] = Field(description="The phases in which the agent ran.")


def _agents(matrix: Matrix) -> list[Extended]:
    """Return the agents, each with its tallies in the phases in which it ran."""
    return [
        Extended(row, phases=[Extended(cell, phase=phase) for phase, cell in _cells(matrix, row)])
        for row in matrix.rows
    ]


def _cells(matrix: Matrix, row: Row) -> Iterator[tuple[str, FileTally]]:
    return ((phase, cell) for phase, cell in zip(matrix.phases, row.cells, strict=True) if cell)


class FileStretchOut(FileTallyOut):
    since: Second = Field(description="Start of the time bucket.")
    until: Second = Field(description="End of the time bucket (exclusive).")


class CodeNoiseOut(Answer):
    code: str = Field(description="The rule code.")
    overturned: int = Field(
        description="Decisions that overturned the rule code: a reviewer approved a handoff that the rule code blocked."
    )
    confirmed: int = Field(
        description="Decisions that upheld the rule code: a reviewer declined a handoff that the rule code blocked."
    )
    percent: float | None = Field(
        validation_alias=at("share.percent"), description="Overturn rate in percent; null without decisions."
    )
    noisy: bool = Field(
        description=f"Whether reviewers made at least {FEWEST_DECISIONS} decisions on the rule code, and overturned it "
        "more often than they upheld it."
    )
    types: dict[str, Text] = Field(description="The handoff types, with the overturn rate of each in words.")


class NoiseOut(Answer):
    decisions: int = Field(validation_alias=at("decisions.total"), description="Decisions of reviewers in the period.")
    approved: int = Field(validation_alias=at("decisions.part"), description="Of these, approvals.")
    codes: list[CodeNoiseOut] = Field(
        description="Noisy rule codes first, then the rule codes that were overturned most often."
    )
    sampled: bool = Field(description="Whether only the newest decisions are counted.")


class DiagnosticsOut(WindowOut):
    overall: FileTallyOut = Field(description="The totals.")
    change: ChangeOfShareOut = Field(description="Change vs the previous period.")
    by_reason: list[ReasonOut] = Field(validation_alias="reasons", description="Most frequent reason first.")
    by_agent: Annotated[list[AgentFilesOut], BeforeValidator(_agents)] = Field(
        validation_alias="matrix",
        description="The agents, ordered by the lower bound (Wilson, 95 %) of their share of unused files, the highest "
        "first. `phases` has only phases in which the agent ran.",
    )
    others: FileTallyOut = Field(
        validation_alias=at("matrix.others"), description="The sum of the agents that are not listed."
    )
    over_time: list[FileStretchOut] = Field(description="Equal time buckets, oldest first.")
    noise: NoiseOut = Field(description="Overturn rates of the rule codes.")


@router.get(
    "/compliance",
    auth=KeyWith(Scope.READ),
    operation_id="get_compliance",
    summary="Get file compliance and acceptance rate of any period",
    response={200: ComplianceOut, 400: ProblemOut},
    openapi_extra={"responses": {200: {"content": {kind: {"schema": {"type": "string"}} for kind in TEXTS}}}},
)
def get_compliance(request: HttpRequest, query: Query[ComplianceQuery]) -> HttpResponse:
    check_names(request, ComplianceQuery)
    if query.format not in list(Form):
        raise FilterError("format", query.format[:40], f"use one of {', '.join(Form)}.")
    now = timezone.now()
    report = build_report(caller(request).tenant, _window(query), now, parse_expected_pairs(query.expect))
    if query.format == Form.CSV:
        return HttpResponse(as_csv(report), content_type="text/csv; charset=utf-8")
    if query.format == Form.TEXT:
        return HttpResponse(as_text(report), content_type="text/plain; charset=utf-8")
    return answer(ComplianceOut, report)


class WeekRateOut(Answer):
    rate: str = Field(description="acceptance_rate or file_compliance.")
    agent: str = Field(description="The source agent of the handoffs, or the agent of the files.")
    week: Text = Field(description="The Monday on which the week begins, UTC.", examples=["2026-02-09"])
    part: int = Field(validation_alias=at("share.part"), description="Number of accepted handoffs, or of used files.")
    total: int = Field(
        validation_alias=at("share.total"), description="Number of final attempts with a verdict, or of expected files."
    )
    percent: float = Field(validation_alias=at("share.percent"), description="The rate in percent.")


class WeekRatesOut(Answer):
    items: list[WeekRateOut] = Field(
        description="The current week and the 11 before it, for up to 100 agents per rate. Weeks without handoffs or "
        "files are left out."
    )
    next: str | None = Field(description="Always null: the list has one page.")


@router.get(
    "/compliance/weeks",
    auth=KeyWith(Scope.READ),
    operation_id="list_compliance_weeks",
    summary="List acceptance rate and file compliance by agent and week",
    response={200: WeekRatesOut},
)
def list_compliance_weeks(request: HttpRequest) -> HttpResponse:
    items = list(list_week_rates(caller(request).tenant, timezone.now()))
    return answer(WeekRatesOut, {"items": items, "next": None})


@router.get(
    "/diagnostics",
    auth=KeyWith(Scope.READ),
    operation_id="get_diagnostics",
    summary="Get reasons for unused handoff files, their change, and overturn rates",
    response={200: DiagnosticsOut, 400: ProblemOut},
)
def get_diagnostics(request: HttpRequest, query: Query[WindowQuery]) -> HttpResponse:
    check_names(request, WindowQuery)
    tenant, window = caller(request).tenant, _window(query)
    noise = overturn_rates(tenant, window.since, window.until)
    return answer(DiagnosticsOut, Extended(load_reasons(tenant, window), noise=noise))


def _window(query: WindowQuery) -> Window:
    return window_of({"period": query.period, "since": query.since, "until": query.until}, timezone.now())


evidence_router = Router(tags=["Evidence"])

ZIP = "application/zip"


class EvidenceQuery(WindowQuery):
    handoff: str = Field("", description="A handoff, by the server's UUID or the sender's id, with its other attempts.")
    trace: str = Field("", description="A trace, by the sender's id.")


@evidence_router.get(
    "/evidence",
    auth=KeyWith(Scope.READ),
    operation_id="get_evidence",
    summary="Get a signed evidence bundle about a handoff, a trace or a period",
    response={400: ProblemOut, 404: ProblemOut, 413: ProblemOut},
    openapi_extra={
        "responses": {
            200: {"description": "A ZIP file", "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}
        }
    },
)
def get_evidence(request: HttpRequest, query: Query[EvidenceQuery]) -> HttpResponseBase:
    """Return documents, verdicts, policies, decisions and seals as one signed ZIP file.

    The bundle has up to 1,000 handoffs. Entries of the audit log are included for keys with the scope `admin`. Check
    the file with `handoffaudit verify-bundle`: a file that was cut off has no signature.
    """
    check_names(request, EvidenceQuery)
    if query.handoff and query.trace:
        raise FilterError("trace", query.trace[:40], "give handoff or trace, not both.")
    who = caller(request)
    try:
        subject = bundle.find_subject(who.tenant, query.model_dump())
        key = signatures.load_key(settings.DATA_FOLDER)
        with_audit = Scope.ADMIN in who.key.scopes
        parts = export.Download(bundle.build(subject, key, by=f"key {who.key.name}", with_audit=with_audit))
    except bundle.NothingFound as error:
        raise Problem(404, "Not found", str(error)) from error
    except bundle.TooLarge as error:
        raise Problem(413, "Bundle too large", str(error), limit=bundle.MOST_HANDOFFS) from error
    except (export.Busy, signatures.WrongKey) as error:
        raise Problem(503, "No bundle now", str(error), headers={"Retry-After": "60"}) from error
    name = bundle.file_name(subject)
    return StreamingHttpResponse(
        parts, content_type=ZIP, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
