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
from handoffaudit.diagnostics import noise as noise_of
from handoffaudit.diagnostics.compliance.export import as_csv, as_json, as_text, tally_json, window_json
from handoffaudit.diagnostics.compliance.report import build_report, parse_expected_pairs
from handoffaudit.diagnostics.file_tally import Change
from handoffaudit.diagnostics.noise import CodeDecisions
from handoffaudit.diagnostics.periods import Window, format_utc, window_of
from handoffaudit.diagnostics.reasons import Matrix, Reasons, load_reasons
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE

router = Router()

# Content types of the report in formats other than JSON.
TEXTS: Final = ("text/csv", "text/plain")


class Form(StrEnum):
    JSON = "json"
    CSV = "csv"
    TEXT = "text"


class WindowQuery(Schema):
    period: str = Field("", description="A number of hours or days (24h, 7d, 30d), or monday; 7d if nothing is given.")
    since: str = Field("", description="Instead of `period`: a date, or a date and time; counted in whole hours, UTC.")
    until: str = Field("", description="Not included; now if it is left out.")


class ComplianceQuery(WindowQuery):
    format: str = Field("json", description="json, csv or text.")
    expect: list[str] = Field([], description="Pairs `phase/agent` that are listed though they may never have run.")


class WindowOut(Schema):
    period: str | None = Field(description="The period as it was asked for; null where `since` or `until` said it.")
    since: str = Field(description="Its beginning.")
    until: str = Field(description="Its end, not included.")
    compared_since: str = Field(description="The beginning of the time before, of the same length.")
    compared_until: str = Field(description="Its end.")


class ReasonShareOut(Schema):
    number: int = Field(description="How many.")
    percent: float | None = Field(description="Of all, in percent; null of nothing.")


class FileTallyOut(Schema):
    used: int = Field(description="How often the file was used.")
    total: int = Field(description="Of how many.")
    percent: float | None = Field(description="None of 0/0; 100 only where it is all of them.")
    told: str = Field(description="`199/200 (99.5%)`, `0/0 (n/a)`.")
    reasons: dict[str, ReasonShareOut] = Field(description="Why it was not, with how many.")
    text_fallback_ok: int = Field(description="How often the response's text block stood in.")
    text_fallback_fail: int = Field(description="How often there was no such block to use either.")


class RuntimeOut(FileTallyOut):
    runtime: str | None = Field(description="What the agents run in; null where that was not reported.")


class PairOut(FileTallyOut):
    phase: str = Field(description="The phase.")
    agent: str = Field(description="The agent.")


class FilesOut(Schema):
    overall: FileTallyOut = Field(description="All together.")
    by_runtime: list[RuntimeOut] = Field(description="By what the agents run in.")
    by_phase_and_agent: list[PairOut] = Field(description="The worst first.")
    others: FileTallyOut = Field(description="What is beyond the pairs that are listed, summed.")


class DecidedOut(Schema):
    accepted: int = Field(description="Without a person.")
    total: int = Field(description="Final attempts that are settled: accepted, approved and blocked ones.")
    percent: float | None = Field(description=f"The acceptance rate. {ACCEPTANCE_RATE} Null of nothing.")
    told: str = Field(description="The same in words.")
    approved: int = Field(description="By a person.")
    stopped: int = Field(description="Blocked: rejected, held or declined.")


class JudgedLineOut(DecidedOut):
    type: str | None = Field(None, description="The handoff type, where lines are by type.")
    source: str | None = Field(None, description="Who handed over, where lines are by source.")
    target: str | None = Field(None, description="Who received, where lines are by target.")
    code: str | None = Field(None, description="The code, where lines are by code.")


class JudgedLinesOut(Schema):
    items: list[JudgedLineOut] = Field(description="Those with the most handoffs first.")
    others: DecidedOut = Field(description="What is beyond those listed, summed.")


class JudgedStretchOut(DecidedOut):
    since: str = Field(description="Its beginning.")
    until: str = Field(description="Its end, not included.")


class ValidationOut(Schema):
    overall: DecidedOut = Field(description="All together.")
    compared: DecidedOut = Field(description="The time before.")
    by_type: JudgedLinesOut = Field(description="By handoff type.")
    by_source: JudgedLinesOut = Field(description="By who handed over.")
    by_target: JudgedLinesOut = Field(description="By who received.")
    by_source_target: JudgedLinesOut = Field(description="By both.")
    by_code: JudgedLinesOut = Field(description="By what was found.")
    over_time: list[JudgedStretchOut] = Field(description="In equal stretches, the oldest first.")


class ComplianceOut(WindowOut):
    tenant: str = Field(description="The tenant's name in addresses.")
    made_at: str = Field(description="When the report was made.")
    handoff_files: FilesOut = Field(description="Whether handoff files were used.")
    validation: ValidationOut = Field(description="What became of handoffs.")


class ChangeOfShareOut(Schema):
    points: float | None = Field(description="Percentage points against the time before; None: nothing to compare.")
    direction: str = Field(description="better, worse, same or none.")
    before: str = Field(description="What it was then, in words.")


class ReasonOut(ReasonShareOut):
    reason: str = Field(description="file_missing, json_parse_error or schema_invalid.")
    change: ChangeOfShareOut = Field(description="Against the time before.")
    agents: dict[str, int] = Field(description="Whose, with how many.")


class CellOut(FileTallyOut):
    phase: str = Field(description="The phase.")
    main_reason: str | None = Field(description="The most frequent reason; null where there was none.")


class AgentFilesOut(FileTallyOut):
    agent: str = Field(description="The agent.")
    change: ChangeOfShareOut = Field(description="Against the time before.")
    phases: list[CellOut] = Field(description="The phases in which it ran.")


class FileStretchOut(FileTallyOut):
    since: str = Field(description="Its beginning.")
    until: str = Field(description="Its end, not included.")


class CodeNoiseOut(Schema):
    code: str = Field(description="The code.")
    overturned: int = Field(description="Decisions of people against it: what it stopped was approved.")
    confirmed: int = Field(description="Decisions of people that upheld it.")
    percent: float | None = Field(description="Overturned, in percent of both; null of nothing.")
    noisy: bool = Field(description="People overturn it so often that it cries wolf.")
    types: dict[str, str] = Field(description="The handoff types, with the share of each in words.")


class NoiseOut(Schema):
    decisions: int = Field(description="Decisions of people in the period.")
    approved: int = Field(description="Of these, approvals.")
    codes: list[CodeNoiseOut] = Field(description="Code by code, the noisiest first.")
    sampled: bool = Field(description="More were decided: these are the newest decisions.")


class DiagnosticsOut(WindowOut):
    overall: FileTallyOut = Field(description="All together.")
    change: ChangeOfShareOut = Field(description="Against the time before.")
    by_reason: list[ReasonOut] = Field(description="The most frequent reason first.")
    by_agent: list[AgentFilesOut] = Field(description="The worst first; phases in which it did not run are left out.")
    others: FileTallyOut = Field(description="What is beyond the agents listed, summed.")
    over_time: list[FileStretchOut] = Field(description="In equal stretches, the oldest first.")
    noise: NoiseOut = Field(description="Which codes people overturn.")


@router.get(
    "/compliance",
    auth=KeyWith(Scope.READ),
    operation_id="get_compliance",
    summary="Handoff files used, and handoffs accepted without a person, in any period",
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
    summary="Why handoff files were not used, whether it got better, and which codes are noisy",
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
            {"since": format_utc(one.since), "until": format_utc(one.until), **tally_json(one.tally)}
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
