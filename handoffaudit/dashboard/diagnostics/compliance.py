"""The compliance report as a page, and as downloads for the same period."""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from html import escape
from io import StringIO
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.dashboard.safe_text import add_breaks, readable
from handoffaudit.dashboard.templatetags.formats import format_share, tally_cells, whole_percent
from handoffaudit.dashboard.templatetags.ui import agent_pair, code, code_title
from handoffaudit.diagnostics.compliance_export import as_csv, as_json, as_text, escape_formula
from handoffaudit.diagnostics.compliance_report import (
    KINDS,
    WEEK_TABLES,
    ComplianceReport,
    OutcomeLine,
    build_report,
    list_week_rates,
    parse_expected_pairs,
)
from handoffaudit.diagnostics.file_stats import FileTally, Pair
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.periods import window_of
from handoffaudit.handoffs.rates import OutcomeCounts, Share, ShareChange

# The downloads contain every pair of the report; a page with more pairs than this would be too long to read.
MOST_PAIRS = 200

MOST_LINES = 15

# The page shows at most this many agents; the downloads have at most 100.
MOST_WEEK_ROWS = 25

_PARTS = {"accepted": "accepted", "approved": "decided", "blocked": "stopped"}


@dataclass(frozen=True, slots=True)
class FileLine:
    name: str
    tally: FileTally
    link: str


@dataclass(frozen=True, slots=True)
class Part:
    """The outcomes of handoffs by one of `KINDS`. `rows` is markup; `more` is the number of lines left out."""

    kind: str
    title: str
    rows: SafeString
    others: OutcomeCounts
    more: int


@require_role(Role.VIEWER)
@require_safe
def compliance_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    choice = choose_window(request)
    bad = choice.bad
    try:
        expected = parse_expected_pairs(request.GET.getlist("expect"))
    except FilterError as found:
        expected, bad = [], found
    links = Links(who.tenant, choice.window)
    report = build_report(who.tenant, choice.window, timezone.now(), expected)
    pairs = report.files.pairs
    asked = [*choice.window.query.items(), *(("expect", f"{phase}/{agent}") for phase, agent in expected)]
    context: dict[str, Any] = choice.context | {
        "bad": bad,
        "query": urlencode(asked),
        "report": report,
        "change": ShareChange(report.validation.overall.share, report.validation.before.share),
        "runtimes": [
            FileLine(one.name or "(not given)", one.tally, links.reports(runtime=one.name) if one.name else "")
            for one in report.files.runtimes
        ],
        "pairs": mark_safe("".join(_pair_row(pair, links) for pair in pairs[:MOST_PAIRS])),  # noqa: S308 -- _pair_row escapes
        "more_pairs": len(pairs) - MOST_PAIRS,
        "parts": [_part(report, kind, links) for kind in KINDS if report.validation.by[kind].lines],
        "week_tables": [_week_rows(kind, links, report.made_at) for kind in WEEK_KINDS],
    }
    if report.validation.overall.total:
        context["chart"] = _chart(links, report, width=ALONE, prefix="wide")
        context["narrow_chart"] = _chart(links, report, width=NARROW, prefix="narrow")
    return render_page(request, "dashboard/diagnostics/compliance.html", context, status=400 if bad else 200)


def _pair_row(pair: Pair, links: Links) -> str:
    """Return the markup of a row of the table of files. A template would be slow for dozens of rows."""
    head = add_breaks(escape(f"{readable(pair.phase)}, {readable(pair.agent)}"))
    if pair.tally.total:
        head = f'<a href="{escape(links.reports(agent=pair.agent, phase=pair.phase))}">{head}</a>'
    return f'<tr><th scope="row">{head}</th>{tally_cells(pair.tally)}</tr>'


def _part(report: ComplianceReport, kind: str, links: Links) -> Part:
    found = report.validation.by[kind]
    shown = found.lines[:MOST_LINES]
    rows = mark_safe("".join(_line_row(kind, line, links) for line in shown))  # noqa: S308 -- _line_row escapes
    return Part(kind, KINDS[kind], rows, found.others, len(found.lines) - len(shown))


def _line_row(kind: str, line: OutcomeLine, links: Links) -> str:
    """Return the markup of a row: the name, the share, and the other numbers.

    The name links to the handoffs. A rule code links to its page instead, and its share links to the handoffs.
    """
    names, judged = line.names, line.judged
    href = escape(links.handoffs(**dict(zip(kind.split("_"), names, strict=True))))
    share = format_share(judged.share)
    if kind == "code":
        page = escape(reverse("dashboard:code", args=[links.tenant.slug, names[0]]))
        head = f'<a href="{page}">{code(names[0])}</a>'
        share = f'<a href="{href}">{share}<span class="hidden">, {escape(code_title(names[0]))}: see them</span></a>'
    else:
        head = agent_pair(*names) if len(names) > 1 else add_breaks(escape(readable(names[0]) or "(no name)"))
        head = f'<a href="{href}">{head}</a>' if href else head
    numbers = f'<td class="end">{judged.decided:,}</td><td class="end">{judged.stopped:,}</td>'
    return f'<tr><th scope="row">{head}</th><td class="end">{share}</td>{numbers}</tr>'


def _chart(links: Links, report: ComplianceReport, *, width: int, prefix: str) -> Drawing:
    bars = [
        Bar(
            label=links.window.short(one.since),
            title=f"{one.span}, {format_share(one.value.share)} accepted",
            parts={name: getattr(one.value, part) for name, part in _PARTS.items()},
            href=links.between("handoffs", one.since, one.until),
        )
        for one in report.validation.over_time
    ]
    title = "Handoffs over time: accepted without a person, approved by a person, blocked"
    return draw_stacked_bars(bars, order=tuple(_PARTS), width=width, height=210, title=title, prefix=prefix)


def _file(
    form: str, kind: str, written: Callable[[ComplianceReport], str | bytes]
) -> Callable[[HttpRequest, TenantMembership], HttpResponse]:
    """Return a view that answers with a file: the report of the period that the address names."""

    @require_role(Role.VIEWER)
    @require_safe
    def file(request: HttpRequest, who: TenantMembership) -> HttpResponse:
        now = timezone.now()
        try:
            window = window_of(request.GET, now)
            report = build_report(who.tenant, window, now, parse_expected_pairs(request.GET.getlist("expect")))
        except FilterError as bad:
            return HttpResponse(f"{bad}\n", status=400, content_type="text/plain; charset=utf-8")
        name = f"compliance-{who.tenant.slug}-{window.since:%Y%m%dT%H}-{window.until:%Y%m%dT%H}.{form}"
        return _download(written(report), kind, name)

    return file


@dataclass(frozen=True, slots=True)
class WeekKind:
    """One table of rates by agent and week: its title, what it counts, and the list behind a cell."""

    name: str
    title: str
    counts: str
    list_name: str
    agent_filter: str


WEEK_KINDS: Final = (
    WeekKind("acceptance_rate", "Acceptance rate by week", "handoffs", "handoffs", "source"),
    WeekKind("file_compliance", "File compliance by week", "files", "file_reports", "agent"),
)

_SIGNS: Final = {"fell": "▼", "rose": "▲"}


def _week_rows(kind: WeekKind, links: Links, now: datetime) -> dict[str, Any]:
    """Return the table with a cell for each agent and week, from the first week that has a number."""
    table = WEEK_TABLES[kind.name](links.tenant, now)
    shown = table.agents[:MOST_WEEK_ROWS]
    first = next((at for at in range(len(table.weeks)) if any(one.weeks[at].total for one in shown)), 0)
    rows = []
    for one in shown:
        weeks = list(zip(table.weeks, one.weeks, one.tones, strict=True))[first:]
        cells = "".join(_week_cell(kind, links, one.agent, *week) for week in weeks)
        row = {"agent": one.agent, "whole": one.whole, "cells": mark_safe(cells)}  # noqa: S308 -- _week_cell escapes
        rows.append(row)
    more = len(table.agents) > MOST_WEEK_ROWS
    return {"kind": kind, "weeks": table.weeks[first:], "rows": rows, "more": more}


def _week_cell(kind: WeekKind, links: Links, agent: str, day: date, share: Share, tone: str) -> str:
    """Return the markup of a cell: a percentage, linked to the list behind it, and the number of items in the list."""
    href = ""
    if agent and share.total:
        start = _midnight(day)
        href = links.between(kind.list_name, start, start + timedelta(days=7), **{kind.agent_filter: agent})
    return _draw_week_cell(kind.counts, agent, day, share, tone, href)


# A template would be slow for the hundreds of cells of a page. The cells are cached: a cell depends only on the
# arguments, and only the cells of the current week change often.
@lru_cache(maxsize=4096)
def _draw_week_cell(counts: str, agent: str, day: date, share: Share, tone: str, href: str) -> str:
    if not share.total:
        nothing = f'<span class="none">\u2013<span class="hidden"> no {counts}</span></span>'
        return f'<td class="matrix-cell">{nothing}</td>'
    spoken = f"of {readable(agent) or '(no name)'}, week of {day.day} {day:%b}"
    text = f'{whole_percent(share)} <span class="hidden">{escape(spoken)}</span>'
    if tone:
        text += f' <span aria-hidden="true">{_SIGNS[tone]}</span><span class="hidden">{tone}</span>'
    if href:
        text = f'<a href="{escape(href)}" title="{format_share(share)}">{text}</a>'
    unusual = f" weeks-{tone}" if tone else ""
    return f'<td class="matrix-cell{unusual}">{text} <span class="muted">{share.total:,}</span></td>'


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _week_lines(who: TenantMembership) -> Iterator[Mapping[str, Any]]:
    for one in list_week_rates(who.tenant, timezone.now()):
        yield {
            "rate": one.rate,
            "agent": one.agent,
            "week": one.week.isoformat(),
            "part": one.share.part,
            "total": one.share.total,
            "percent": one.share.percent,
        }


@require_role(Role.VIEWER)
@require_safe
def weeks_csv(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(("rate", "agent", "week", "part", "total", "percent"))
    for line in _week_lines(who):
        writer.writerow([escape_formula(value) for value in line.values()])
    return _download(out.getvalue(), "text/csv; charset=utf-8", f"weeks-{who.tenant.slug}.csv")


@require_role(Role.VIEWER)
@require_safe
def weeks_json(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    lines = orjson.dumps({"items": list(_week_lines(who))}, option=orjson.OPT_INDENT_2)
    return _download(lines, "application/json", f"weeks-{who.tenant.slug}.json")


def _download(content: str | bytes, kind: str, name: str) -> HttpResponse:
    return HttpResponse(content, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


urlpatterns = [
    path("diagnostics/compliance/", compliance_page, name="compliance"),
    path(
        "diagnostics/compliance.json",
        _file("json", "application/json", lambda report: orjson.dumps(as_json(report), option=orjson.OPT_INDENT_2)),
        name="compliance_json",
    ),
    path("diagnostics/compliance.csv", _file("csv", "text/csv; charset=utf-8", as_csv), name="compliance_csv"),
    path("diagnostics/compliance/weeks.csv", weeks_csv, name="compliance_weeks_csv"),
    path("diagnostics/compliance/weeks.json", weeks_json, name="compliance_weeks_json"),
    path("diagnostics/compliance.txt", _file("txt", "text/plain; charset=utf-8", as_text), name="compliance_text"),
]
