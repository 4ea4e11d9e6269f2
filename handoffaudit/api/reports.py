"""API of reports: compliance, reasons why handoff files were not used, and overturn rates of rule codes."""

from enum import StrEnum
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.diagnostics import codes as noise_of
from handoffaudit.diagnostics.codes import CodeDecisions
from handoffaudit.diagnostics.compliance_export import as_csv, as_json, as_text, tally_json, window_json
from handoffaudit.diagnostics.compliance_report import build_report, parse_expected_pairs
from handoffaudit.diagnostics.file_stats import Change
from handoffaudit.diagnostics.reasons import Matrix, Reasons, load_reasons
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.periods import Window, format_utc, window_of
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE

router = Router()

# Content types of the report in formats other than JSON.
TEXTS: Final = ("text/csv", "text/plain")


class Form(StrEnum):
    JSON = "json"
    CSV = "csv"
    TEXT = "text"


class WindowQuery(Schema):
    period: str = Field("", description="A number of hours or days (24h, 7d, 30d), or monday. Default: 7d.")
    since: str = Field("", description="Start, instead of `period`: a date, or a date and time; in whole hours, UTC.")
    until: str = Field("", description="End (exclusive). Default: now.")


class ComplianceQuery(WindowQuery):
    format: str = Field("json", description="json, csv or text.")
    expect: list[str] = Field([], description="Pairs `phase/agent` to list even if they never ran.")


class WindowOut(Schema):
    period: str | None = Field(description="The requested period; null if `since` or `until` was given.")
    since: str = Field(description="Start of the period.")
    until: str = Field(description="End of the period (exclusive).")
    compared_since: str = Field(description="Start of the previous period of the same length.")
    compared_until: str = Field(description="End of the previous period.")


class ReasonShareOut(Schema):
    number: int = Field(description="The number.")
    percent: float | None = Field(description="Percent of all; null if the total is 0.")


class FileTallyOut(Schema):
    used: int = Field(description="How often the file was used.")
    total: int = Field(description="The number of expected files.")
    percent: float | None = Field(
        description="File compliance in percent. Null for 0/0; 100 only if every file was used."
    )
    told: str = Field(description="The share in words: `199/200 (99.5%)`, `0/0 (n/a)`.")
    reasons: dict[str, ReasonShareOut] = Field(description="Reasons why the file was not used, with counts.")
    text_fallback_ok: int = Field(description="How often the text block in the response replaced the file.")
    text_fallback_fail: int = Field(description="How often the response had no usable text block either.")


class RuntimeOut(FileTallyOut):
    runtime: str | None = Field(description="The runtime of the agents; null if not reported.")


class PairOut(FileTallyOut):
    phase: str = Field(description="The phase.")
    agent: str = Field(description="The agent.")


class FilesOut(Schema):
    overall: FileTallyOut = Field(description="The totals.")
    by_runtime: list[RuntimeOut] = Field(description="Totals by agent runtime.")
    by_phase_and_agent: list[PairOut] = Field(description="Phase and agent pairs, lowest compliance first.")
    others: FileTallyOut = Field(description="The sum of the pairs that are not listed.")


class DecidedOut(Schema):
    accepted: int = Field(description="Handoffs accepted without a person.")
    total: int = Field(description="Settled final attempts: accepted, approved and blocked.")
    percent: float | None = Field(description=f"The acceptance rate. {ACCEPTANCE_RATE} Null if the total is 0.")
    told: str = Field(description="The rate in words.")
    approved: int = Field(description="Handoffs approved by a person.")
    stopped: int = Field(description="Blocked: rejected, held or declined.")


class JudgedLineOut(DecidedOut):
    type: str | None = Field(None, description="The handoff type, in lines by type.")
    source: str | None = Field(None, description="The source agent, in lines by source.")
    target: str | None = Field(None, description="The target agent, in lines by target.")
    code: str | None = Field(None, description="The rule code, in lines by code.")


class JudgedLinesOut(Schema):
    items: list[JudgedLineOut] = Field(description="Lines with the most handoffs first.")
    others: DecidedOut = Field(description="The sum of the lines that are not listed.")


class JudgedStretchOut(DecidedOut):
    since: str = Field(description="Start of the time bucket.")
    until: str = Field(description="End of the time bucket (exclusive).")


class ValidationOut(Schema):
    overall: DecidedOut = Field(description="The totals.")
    compared: DecidedOut = Field(description="The totals of the previous period.")
    by_type: JudgedLinesOut = Field(description="Totals by handoff type.")
    by_source: JudgedLinesOut = Field(description="Totals by source agent.")
    by_target: JudgedLinesOut = Field(description="Totals by target agent.")
    by_source_target: JudgedLinesOut = Field(description="Totals by route.")
    by_code: JudgedLinesOut = Field(description="Totals by rule code.")
    over_time: list[JudgedStretchOut] = Field(description="Equal time buckets, oldest first.")


class ComplianceOut(WindowOut):
    tenant: str = Field(description="The tenant's name in addresses.")
    made_at: str = Field(description="When the report was created.")
    handoff_files: FilesOut = Field(description="Handoff file usage.")
    validation: ValidationOut = Field(description="Outcomes of handoffs.")


class ChangeOfShareOut(Schema):
    points: float | None = Field(description="Percentage points vs the previous period; null without earlier data.")
    direction: str = Field(description="better, worse, same or none.")
    before: str = Field(description="The previous share in words.")


class ReasonOut(ReasonShareOut):
    reason: str = Field(description="file_missing, json_parse_error or schema_invalid.")
    change: ChangeOfShareOut = Field(description="Change vs the previous period.")
    agents: dict[str, int] = Field(description="The agents concerned, with counts.")


class CellOut(FileTallyOut):
    phase: str = Field(description="The phase.")
    main_reason: str | None = Field(description="The most frequent reason; null if there is none.")


class AgentFilesOut(FileTallyOut):
    agent: str = Field(description="The agent.")
    change: ChangeOfShareOut = Field(description="Change vs the previous period.")
    phases: list[CellOut] = Field(description="The phases in which the agent ran.")


class FileStretchOut(FileTallyOut):
    since: str = Field(description="Start of the time bucket.")
    until: str = Field(description="End of the time bucket (exclusive).")


class CodeNoiseOut(Schema):
    code: str = Field(description="The rule code.")
    overturned: int = Field(
        description="Overturned decisions: a reviewer approved a handoff that the rule code blocked."
    )
    confirmed: int = Field(description="Upheld decisions: a reviewer confirmed the finding.")
    percent: float | None = Field(description="Overturn rate in percent; null without decisions.")
    noisy: bool = Field(description="Whether reviewers overturn the rule code too often.")
    types: dict[str, str] = Field(description="The handoff types, with the overturn rate of each in words.")


class NoiseOut(Schema):
    decisions: int = Field(description="Decisions of reviewers in the period.")
    approved: int = Field(description="Of these, approvals.")
    codes: list[CodeNoiseOut] = Field(description="Rule codes with the highest overturn rate first.")
    sampled: bool = Field(description="Only the newest decisions are covered.")


class DiagnosticsOut(WindowOut):
    overall: FileTallyOut = Field(description="The totals.")
    change: ChangeOfShareOut = Field(description="Change vs the previous period.")
    by_reason: list[ReasonOut] = Field(description="Most frequent reason first.")
    by_agent: list[AgentFilesOut] = Field(
        description="Lowest compliance first, without phases in which the agent did not run."
    )
    others: FileTallyOut = Field(description="The sum of the agents that are not listed.")
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
    return serializers.json_response(as_json(report))


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
    found = load_reasons(tenant, window)
    return serializers.json_response(
        _reasons(found) | {"noise": _noise(noise_of.overturn_rates(tenant, window.since, window.until))}
    )


def _window(query: WindowQuery) -> Window:
    return window_of({"period": query.period, "since": query.since, "until": query.until}, timezone.now())


def _reasons(found: Reasons) -> dict[str, Any]:
    return {
        **window_json(found.window),
        "overall": tally_json(found.overall),
        "change": _change(found.change, found.change.direction),
        "by_reason": [
            {
                "reason": one.reason,
                "number": one.change.now.part,
                "percent": one.change.now.percent,
                "change": _change(one.change, one.change.fewer),
                "agents": dict(one.agents),
            }
            for one in found.reasons
        ],
        "by_agent": _agents(found.matrix),
        "others": tally_json(found.matrix.others),
        "over_time": [
            {"since": format_utc(one.since), "until": format_utc(one.until), **tally_json(one.value)}
            for one in found.over_time
        ],
    }


def _agents(matrix: Matrix) -> list[dict[str, Any]]:
    return [
        {
            "agent": row.agent,
            **tally_json(row.tally),
            "change": _change(row.change, row.change.direction),
            "phases": [
                {"phase": phase, "main_reason": tally.main_reason or None, **tally_json(tally)}
                for phase, tally in zip(matrix.phases, row.cells, strict=True)
                if tally
            ],
        }
        for row in matrix.rows
    ]


def _change(change: Change, direction: str) -> dict[str, Any]:
    return {"points": change.points, "direction": direction, "before": str(change.before)}


def _noise(found: noise_of.OverturnRates) -> dict[str, Any]:
    return {
        "decisions": found.decisions.total,
        "approved": found.decisions.part,
        "codes": [_code(one) for one in found.codes],
        "sampled": found.sampled,
    }


def _code(one: CodeDecisions) -> dict[str, Any]:
    return {
        "code": one.code,
        "overturned": one.overturned,
        "confirmed": one.confirmed,
        "percent": one.share.percent,
        "noisy": one.noisy,
        "types": {name: str(types) for name, types in one.types.items()},
    }
