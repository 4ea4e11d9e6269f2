"""Diagnostics by API: compliance, the reasons of handoff files, and noise."""

from enum import StrEnum
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import shapes
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.reading_requests import check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.diagnostics import noise as noise_of
from handoffaudit.diagnostics.compliance.as_csv import as_csv
from handoffaudit.diagnostics.compliance.as_json import as_json, tally_json, window_json
from handoffaudit.diagnostics.compliance.as_text import as_text
from handoffaudit.diagnostics.compliance.reading import compliance, expected_pairs
from handoffaudit.diagnostics.noise import Decided
from handoffaudit.diagnostics.reasons import Matrix, Reasons, reasons
from handoffaudit.diagnostics.tallies import Change
from handoffaudit.diagnostics.windows import Window, window_of, written
from handoffaudit.handoffs.filters import BadFilter

router = Router()


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
    period: str | None
    since: str
    until: str
    compared_since: str
    compared_until: str


class ReasonShareOut(Schema):
    number: int
    percent: float | None


class TallyOut(Schema):
    used: int
    total: int
    percent: float | None = Field(description="None of 0/0; 100 only where it is all of them.")
    told: str = Field(description="`199/200 (99.5%)`, `0/0 (n/a)`.")
    reasons: dict[str, ReasonShareOut]
    text_fallback_ok: int
    text_fallback_fail: int


class RuntimeOut(TallyOut):
    runtime: str | None


class PairOut(TallyOut):
    phase: str
    agent: str


class FilesOut(Schema):
    overall: TallyOut
    by_runtime: list[RuntimeOut]
    by_phase_and_agent: list[PairOut]
    others: TallyOut = Field(description="What is beyond the pairs that are listed, summed.")


class JudgedOut(Schema):
    accepted: int = Field(description="Without a person.")
    total: int
    percent: float | None
    told: str
    approved: int = Field(description="By a person.")
    stopped: int = Field(description="Rejected, held or declined.")


class JudgedLineOut(JudgedOut):
    type: str | None = None
    source: str | None = None
    target: str | None = None
    code: str | None = None


class JudgedLinesOut(Schema):
    items: list[JudgedLineOut]
    others: JudgedOut


class JudgedStretchOut(JudgedOut):
    since: str
    until: str


class ValidationOut(Schema):
    overall: JudgedOut
    compared: JudgedOut
    by_type: JudgedLinesOut
    by_source: JudgedLinesOut
    by_target: JudgedLinesOut
    by_source_target: JudgedLinesOut
    by_code: JudgedLinesOut
    over_time: list[JudgedStretchOut]


class ComplianceOut(WindowOut):
    tenant: str
    made_at: str
    handoff_files: FilesOut
    validation: ValidationOut


class ChangeOut(Schema):
    points: float | None = Field(description="Percentage points against the time before; None: nothing to compare.")
    direction: str = Field(description="better, worse, same or none.")
    before: str


class ReasonOut(ReasonShareOut):
    reason: str
    change: ChangeOut
    agents: dict[str, int]


class CellOut(TallyOut):
    phase: str
    main_reason: str | None


class AgentOut(TallyOut):
    agent: str
    change: ChangeOut
    phases: list[CellOut]


class FileStretchOut(TallyOut):
    since: str
    until: str


class CodeNoiseOut(Schema):
    code: str
    overturned: int
    confirmed: int
    percent: float | None
    noisy: bool
    types: dict[str, str]


class NoiseOut(Schema):
    decisions: int
    approved: int
    codes: list[CodeNoiseOut]
    sampled: bool = Field(description="More were decided: these are the newest decisions.")


class DiagnosticsOut(WindowOut):
    overall: TallyOut
    change: ChangeOut
    by_reason: list[ReasonOut]
    by_agent: list[AgentOut] = Field(description="The worst first; phases in which it did not run are left out.")
    others: TallyOut
    over_time: list[FileStretchOut]
    noise: NoiseOut


@router.get(
    "/compliance",
    auth=KeyWith(Scope.READ),
    operation_id="get_compliance",
    summary="Handoff files used, and handoffs accepted without a person, in any period",
    response={200: ComplianceOut, 400: ProblemOut},
)
def get_compliance(request: HttpRequest, query: Query[ComplianceQuery]) -> HttpResponse:
    check_names(request, ComplianceQuery)
    if query.format not in list(Form):
        raise BadFilter("format", query.format[:40], f"use one of {', '.join(Form)}.")
    now = timezone.now()
    report = compliance(caller(request).tenant, _window(query), now, expected_pairs(query.expect))
    if query.format == Form.CSV:
        return HttpResponse(as_csv(report), content_type="text/csv; charset=utf-8")
    if query.format == Form.TEXT:
        return HttpResponse(as_text(report), content_type="text/plain; charset=utf-8")
    return shapes.answer(as_json(report))


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
    found = reasons(tenant, window)
    return shapes.answer(_reasons(found) | {"noise": _noise(noise_of.noise(tenant, window.since, window.until))})


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
            {"since": written(one.since), "until": written(one.until), **tally_json(one.tally)}
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


def _noise(found: noise_of.Noise) -> dict[str, Any]:
    return {
        "decisions": found.decisions.total,
        "approved": found.decisions.part,
        "codes": [_code(one) for one in found.codes],
        "sampled": found.sampled,
    }


def _code(one: Decided) -> dict[str, Any]:
    return {
        "code": one.code,
        "overturned": one.overturned,
        "confirmed": one.confirmed,
        "percent": one.share.percent,
        "noisy": one.noisy,
        "types": {name: str(types) for name, types in one.types.items()},
    }
