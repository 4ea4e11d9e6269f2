"""The compliance report as a page, and as downloads for the same period."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from io import StringIO
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.dashboard.safe_text import readable
from handoffaudit.dashboard.templatetags.formats import format_share
from handoffaudit.diagnostics.compliance_export import as_csv, as_json, as_text, escape_formula
from handoffaudit.diagnostics.compliance_report import (
    KINDS,
    WEEK_TABLES,
    ComplianceReport,
    build_report,
    list_week_rates,
    parse_expected_pairs,
)
from handoffaudit.diagnostics.file_stats import Change, FileTally, Pair
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.periods import window_of
from handoffaudit.handoffs.rates import OutcomeCounts

# The downloads contain every pair; a page with more pairs than this would be too long to read.
MOST_PAIRS = 200

MOST_LINES = 15

# The downloads have more agents.
MOST_WEEK_ROWS = 25

_PARTS = {"accepted": "accepted", "approved": "decided", "blocked": "stopped"}


@dataclass(frozen=True, slots=True)
class FileLine:
    names: tuple[str, ...]
    tally: FileTally
    link: str = ""


@dataclass(frozen=True, slots=True)
class HandoffLine:
    """An outcome line with its final texts; `code` is set if the name is a rule code.

    `link` is empty if there is no list to link to.
    """

    names: tuple[str, ...]
    name: str
    share_text: str
    decided: str
    stopped: str
    link: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    kind: str
    title: str
    lines: Sequence[HandoffLine]
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
        "change": Change(report.validation.overall.share, report.validation.before.share),
        "runtimes": [
            FileLine((one.name or "(not given)",), one.tally, links.reports(runtime=one.name) if one.name else "")
            for one in report.files.runtimes
        ],
        "pairs": [_pair(pair, links) for pair in pairs[:MOST_PAIRS]],
        "more_pairs": len(pairs) - MOST_PAIRS,
        "parts": [_part(report, kind, links) for kind in KINDS if report.validation.by[kind].lines],
        "week_tables": [_week_rows(kind, links, report.made_at) for kind in WEEK_KINDS],
    }
    if report.validation.overall.total:
        context["chart"] = _chart(links, report, width=ALONE, prefix="wide")
        context["narrow_chart"] = _chart(links, report, width=NARROW, prefix="narrow")
    return render_page(request, "dashboard/diagnostics/compliance.html", context, status=400 if bad else 200)


def _pair(pair: Pair, links: Links) -> FileLine:
    link = links.reports(agent=pair.agent, phase=pair.phase) if pair.tally.total else ""
    return FileLine((pair.phase, pair.agent), pair.tally, link)


def _part(report: ComplianceReport, kind: str, links: Links) -> Part:
    found = report.validation.by[kind]
    names = kind.split("_")
    lines = [
        HandoffLine(
            names=line.names,
            name=readable(line.names[0]) or "(no name)",
            share_text=format_share(line.judged.share),
            decided=f"{line.judged.decided:,}",
            stopped=f"{line.judged.stopped:,}",
            link=links.handoffs(**dict(zip(names, line.names, strict=True))),
            code=line.names[0] if kind == "code" else "",
        )
        for line in found.lines[:MOST_LINES]
    ]
    return Part(kind, KINDS[kind], lines, found.others, len(found.lines) - len(lines))


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
    title = "Handoffs over time: accepted without a person, approved by one, blocked"
    return draw_stacked_bars(bars, order=tuple(_PARTS), width=width, height=210, title=title, prefix=prefix)


def _file(
    form: str, kind: str, written: Callable[[ComplianceReport], str | bytes]
) -> Callable[[HttpRequest, TenantMembership], HttpResponse]:
    """Return a view that answers the report of the period in the address as a file."""

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
    """Return the table with a link and a sign for each cell."""
    table = WEEK_TABLES[kind.name](links.tenant, now)
    starts = [_midnight(day) for day in table.weeks]

    def href(agent: str, start: datetime) -> str:
        filters = {kind.agent_filter: agent}
        return links.between(kind.list_name, start, start + timedelta(days=7), **filters) if agent else ""

    rows = [
        {
            "agent": one.agent,
            "whole": one.whole,
            "cells": [
                {
                    "share": share,
                    "day": table.weeks[number],
                    "tone": (tone := one.tone(number)),
                    "sign": _SIGNS.get(tone, ""),
                    "href": href(one.agent, starts[number]),
                }
                for number, share in enumerate(one.weeks)
            ],
        }
        for one in table.agents[:MOST_WEEK_ROWS]
    ]
    more = len(table.agents) > MOST_WEEK_ROWS
    return {"kind": kind, "weeks": table.weeks, "rows": rows, "more": more}


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
