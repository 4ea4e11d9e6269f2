"""The reasons why handoff files were not used, by agent and phase and over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.dashboard.safe_text import readable
from handoffaudit.dashboard.templatetags.formats import format_share, named, percent
from handoffaudit.dashboard.templatetags.ui import code, code_title
from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics import reasons as diagnostics_reasons
from handoffaudit.diagnostics.codes import CodeAgents, top_codes
from handoffaudit.diagnostics.file_stats import FALLBACK_FAILED, FALLBACK_OK, OTHER, REASONS, FileTally
from handoffaudit.diagnostics.news import has_moved
from handoffaudit.diagnostics.reasons import Matrix, ReasonChange, Reasons, UnusedFile, load_reasons
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs.periods import Window
from handoffaudit.handoffs.rates import Share, ShareChange
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
        "The log line gives only reason=text_fallback_ok: the handoff was read from the text block of the response. "
        "The line does not say why the file was not used.",
        "Have the agent write its handoff file as well. Send reports instead of lines to learn why a file is not used.",
    ),
    FALLBACK_FAILED: ReasonText(
        "Unrecoverable",
        "The log line gives reason=text_fallback_fail: neither the file nor the text block of the response could be "
        "used, so the phase failed.",
        "Have the agent write its handoff file, and end its response with the text block. Reports say "
        "what is wrong with the file and with the text block; send reports instead of log lines.",
    ),
    OTHER: ReasonText(
        "No reason given",
        "The log line says that the file was not used, but not why.",
        "Have the sender write reason= into its line, or send reports instead, which name the reason.",
    ),
}

_NONE = '<td class="matrix-cell"><span class="none">\u2013<span class="hidden"> did not run</span></span></td>'

ORDER = ("used", *REASONS, OTHER)

_LABELS = {reason: words.title[:1].lower() + words.title[1:] for reason, words in REASON_TEXTS.items()}


@dataclass(frozen=True, slots=True)
class Row:
    """An agent; `cells` is the markup of its phases, because hundreds of cell templates would be slow to render."""

    agent: str
    tally: FileTally
    change: ShareChange
    reports: str
    cells: SafeString


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
        # _code_row escapes its texts.
        "codes": mark_safe("".join(_code_row(one, links) for one in top_codes(who.tenant, choice.window))),  # noqa: S308
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
    rows = []
    for row in matrix.rows:
        pairs = zip(matrix.phases, row.cells, strict=True)
        cells = "".join(_cell(links, row, phase, tally) if tally else _NONE for phase, tally in pairs)
        reports = links.reports(agent=row.agent)
        rows.append(Row(row.agent, row.tally, row.change, reports, mark_safe(cells)))  # noqa: S308 -- _cell escapes
    return rows


def _cell(links: Links, row: diagnostics_reasons.Row, phase: str, tally: FileTally) -> str:
    """Return the markup of the results of an agent in a phase, with links to reports and log lines of the main reason.

    The cell is marked if the share of used files is significantly smaller than in the agent's other phases.
    """
    elsewhere = Share(row.tally.used - tally.used, row.tally.total - tally.total)
    is_low = tally.share.value < elsewhere.value and has_moved(elsewhere, tally.share)
    text = f'<b>{percent(tally.share)}</b> <span class="muted">{tally.used:,}/{tally.total:,}</span>'
    if is_low:
        text += ' <span class="hidden">unusually few for this agent</span>'
    if reason := tally.main_reason:
        reports = escape(links.reports(agent=row.agent, phase=phase, reason=reason))
        lines = escape(links.lines(row.agent, phase, reason))
        agent = escape(readable(row.agent))
        text += (
            f' <span class="matrix-why"><a href="{reports}">{REASON_TEXTS[reason].title}'
            f'<span class="hidden">: reports of {agent}</span></a>'
            f' <a class="matrix-lines" href="{lines}">log<span class="hidden"> lines of {agent}</span></a></span>'
        )
    return f'<td class="matrix-cell{" matrix-cell--bad" if is_low else ""}">{text}</td>'


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


def _code_row(found: CodeAgents, links: Links) -> str:
    """Return the markup of a table row: a rule code, its number of handoffs and its agents, with links to handoffs."""
    href, title = escape(links.handoffs(code=found.code)), escape(code_title(found.code))
    agents = (
        f"{named(name, links.handoffs(code=found.code, source=name))} {number:,}" for name, number in found.agents
    )
    return (
        f'<tr><th scope="row"><a href="{escape(links.code(found.code))}">{code(found.code)}</a></th>'
        f'<td class="end"><a href="{href}">{found.number:,}<span class="hidden"> with {title}</span></a></td>'
        f'<td class="text">{", ".join(agents)}</td></tr>'
    )


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
    return draw_stacked_bars(bars, order=ORDER, width=width, height=210, title=title, prefix=prefix, labels=_LABELS)


urlpatterns = [path("diagnostics/", reasons_page, name="diagnostics")]
