"""The reasons why handoff files were not used, by agent and phase and over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.dashboard.templatetags.formats import format_share
from handoffaudit.diagnostics import codes, file_stats
from handoffaudit.diagnostics import reasons as diagnostics_reasons
from handoffaudit.diagnostics.file_stats import FALLBACK_FAILED, FALLBACK_OK, OTHER, REASONS, Change, FileTally
from handoffaudit.diagnostics.reasons import Matrix, ReasonChange, Reasons, UnusedFile, load_reasons
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs.periods import Window
from handoffaudit.validation.formats.file_report import Reason


@dataclass(frozen=True, slots=True)
class ReasonText:
    title: str
    what: str
    fix: str


REASON_TEXTS = {
    Reason.FILE_MISSING.value: ReasonText(
        "File missing",
        "There was no handoff file where it was expected: the agent wrote none, or wrote it elsewhere.",
        "Give the agent the full path in its instructions, and let it write the file as its last step. If the paths "
        "below differ, correct the path in the instructions or the expected path.",
    ),
    Reason.JSON_PARSE_ERROR.value: ReasonText(
        "Not JSON",
        "The file exists, but is not valid JSON.",
        "Have the agent write one JSON object and nothing else: no code fence around it, no comment, no comma after "
        "the last entry. The example names the place where reading stopped.",
    ),
    Reason.SCHEMA_INVALID.value: ReasonText(
        "Fields wrong",
        "The file is JSON, but a field of the contract is missing or has another type.",
        "Have the agent write status (a string), artifacts (a list), next (any value, null too) and summary (a "
        "string).",
    ),
    FALLBACK_OK: ReasonText(
        "Recovered from text",
        "The log line gives reason=text_fallback_ok and nothing else: the handoff was read from the text block of the "
        "response, and why the file was not used is not said.",
        "Have the agent write its handoff file as well. Send reports instead of lines to learn why a file is not used.",
    ),
    FALLBACK_FAILED: ReasonText(
        "Unrecoverable",
        "The log line gives reason=text_fallback_fail: neither the file nor the text block of the response could be "
        "used, so the phase failed.",
        "Have the agent write its handoff file, and end its response with the text block. Send reports instead of "
        "lines to learn what each of them lacks.",
    ),
    OTHER: ReasonText(
        "No reason given",
        "The log line says that the file was not used, but not why.",
        "Have the sender write reason= into its line, or send reports instead, which name the reason.",
    ),
}

ORDER = ("used", *REASONS, OTHER)


@dataclass(frozen=True, slots=True)
class Cell:
    """The results of an agent in a phase; `reports` and `lines` link to the main reason."""

    tally: FileTally
    reason: str
    reports: str
    lines: str


@dataclass(frozen=True, slots=True)
class Row:
    agent: str
    tally: FileTally
    change: Change
    reports: str
    cells: Sequence[Cell | None]


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    number: int
    link: str


@dataclass(frozen=True, slots=True)
class Card:
    """One reason with its explanation, its fix, the agents it concerns, and the newest examples."""

    found: ReasonChange
    words: ReasonText
    agents: Sequence[Agent]
    examples: Sequence[UnusedFile]
    reports: str
    lines: str


@dataclass(frozen=True, slots=True)
class CodeLine:
    code: str
    number: int
    why: str
    handoffs: str
    agents: Sequence[Agent]


@require_role(Role.VIEWER)
@require_safe
def reasons_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    choice = choose_window(request)
    links = Links(who.tenant, choice.window)
    found = load_reasons(who.tenant, choice.window)
    context: dict[str, Any] = choice.context | {
        "found": found,
        "fallback_ok": links.reports(reason=FALLBACK_OK),
        "fallback_failed": links.reports(reason=FALLBACK_FAILED),
        "all_reports": links.reports(),
        "codes": _codes(who, choice.window, links),
        "server": request.build_absolute_uri("/").rstrip("/"),
    }
    if found.overall.total:
        context |= {
            "phases": found.matrix.phases,
            "rows": _rows(found.matrix, links),
            "cards": [_card(who, one, choice.window, links) for one in found.reasons],
            "chart": _chart(links, found, width=ALONE, prefix="wide"),
            "narrow_chart": _chart(links, found, width=NARROW, prefix="narrow"),
        }
    else:
        context["ever"] = file_stats.has_any(who.tenant)
    return render_page(request, "dashboard/diagnostics/reasons.html", context, status=choice.status)


def _rows(matrix: Matrix, links: Links) -> list[Row]:
    return [
        Row(
            row.agent,
            row.tally,
            row.change,
            links.reports(agent=row.agent),
            [
                _cell(links, row.agent, phase, tally) if tally else None
                for phase, tally in zip(matrix.phases, row.cells, strict=True)
            ],
        )
        for row in matrix.rows
    ]


def _cell(links: Links, agent: str, phase: str, tally: FileTally) -> Cell:
    reason = tally.main_reason
    return Cell(
        tally,
        REASON_TEXTS[reason].title if reason else "",
        links.reports(agent=agent, phase=phase, reason=reason),
        links.lines(agent, phase, reason),
    )


def _card(who: TenantMembership, found: ReasonChange, window: Window, links: Links) -> Card:
    reason = found.reason
    return Card(
        found,
        REASON_TEXTS[reason],
        [Agent(name, number, links.reports(agent=name, reason=reason)) for name, number in found.agents],
        diagnostics_reasons.newest_unused(who.tenant, window, reason) if reason != OTHER else [],
        links.reports(reason=reason),
        links.lines(reason=reason),
    )


def _codes(who: TenantMembership, window: Window, links: Links) -> list[CodeLine]:
    return [
        CodeLine(
            one.code,
            one.number,
            links.code(one.code),
            links.handoffs(code=one.code),
            [Agent(name, number, links.handoffs(code=one.code, source=name)) for name, number in one.agents],
        )
        for one in codes.top_codes(who.tenant, window)
    ]


def _chart(links: Links, found: Reasons, *, width: int, prefix: str) -> Drawing:
    bars = [
        Bar(
            label=links.window.short(one.since),
            title=f"{one.span}, {format_share(one.value.share)} used",
            parts={"used": one.value.used, **one.value.file_reasons},
            href=links.between("file_reports", one.since, one.until),
        )
        for one in found.over_time
    ]
    title = "Handoff files over time: used, and why not"
    return draw_stacked_bars(bars, order=ORDER, width=width, height=210, title=title, prefix=prefix)


urlpatterns = [path("diagnostics/", reasons_page, name="diagnostics")]
