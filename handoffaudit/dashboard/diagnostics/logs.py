"""The page of log lines: search, filters, the count of new lines, and the lines as pages show them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import singledispatch
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.diagnostics import uploads
from handoffaudit.dashboard.safe_text import cut, readable
from handoffaudit.dashboard.view_tabs import build_url, join_query, redirect_to_default, tabs_of, view_query_of
from handoffaudit.diagnostics.logs import search, store
from handoffaudit.diagnostics.logs.filters import KINDS, LONGEST_VALUE, LogQuery
from handoffaudit.diagnostics.logs.search import FoundLine
from handoffaudit.filter_fields import FilterError, quote_blanks
from handoffaudit.validation.formats.file_report import Fallback, Reason, Source
from handoffaudit.validation.logs.lines import (
    GATE_EVENTS,
    TRACE_EVENTS,
    BadLine,
    GateLine,
    HealthLine,
    Line,
    TraceLine,
    agents_of,
    events_of,
    fields_of,
    level_of,
    phase_of,
)
from handoffaudit.validation.logs.reader import FIRST_YEAR, LAST_YEAR
from handoffaudit.validation.text import clean
from handoffaudit.validation.times import utc_text

# A line may have up to 64 KB, so the page cuts its details.
MOST_DETAILS = 200

MOST_TEXT = 20_000

# Handoffs of an agent within this time before or after a line count as handoffs around the line.
AROUND = timedelta(minutes=15)

# Filters refuse moments outside these years.
_FIRST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
_LAST = datetime(LAST_YEAR, 12, 31, 23, 59, 59, tzinfo=UTC)

_GATE_TONES = {"ERROR": "bad", "WARNING": "wait"}

_TONE_ICONS = {"bad": "error", "wait": "warning", "good": "passed", "quiet": "info"}


@dataclass(frozen=True, slots=True)
class Fact:
    """A field of a line; `narrow` is the query for lines with the same value, empty if no filter exists."""

    name: str
    value: str
    narrow: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    address: str


@dataclass(frozen=True, slots=True)
class Glance:
    """The short form of a line; `who` is its agent or component, and `event` its event type or reason."""

    who: str
    phase: str
    event: str
    tone: str
    details: str

    @property
    def icon(self) -> str:
        return _TONE_ICONS[self.tone]


@dataclass(frozen=True, slots=True)
class LogRow:
    """A log line on a page.

    `at` is None if the line has no time. `text` is the original line with control characters made visible. `place` is
    the block and the number of the line, by which a form names a selected line.
    """

    at: datetime | None
    kind: str
    kind_name: str
    glance: Glance
    text: str
    source: str
    number: int
    place: str
    facts: list[Fact]
    links: list[Link]


def row_of(tenant: Tenant, found: FoundLine) -> LogRow:
    line = found.line
    shown = glance(line)
    facts = [fact for fact in facts_of(line) if fact.value]
    return LogRow(
        at=found.at,
        kind=line.kind.value,
        kind_name=KINDS[line.kind],
        glance=Glance(
            readable(shown.who), readable(shown.phase), shown.event, shown.tone, cut(shown.details, MOST_DETAILS)
        ),
        text=cut(found.text, MOST_TEXT),
        source=found.source,
        number=found.number,
        place=f"{found.block.hex}:{found.number}",
        facts=[Fact("kind", KINDS[line.kind], urlencode({"kind": line.kind.value})), *facts],
        links=list(links_of(tenant, line)),
    )


@singledispatch
def glance(line: Line) -> Glance:
    """Return the short form of a line. A format without a function of its own shows the searchable names."""
    tone = _GATE_TONES.get(level_of(line).upper(), "quiet")
    return Glance(", ".join(agents_of(line)), phase_of(line), ", ".join(events_of(line)), tone, "")


@singledispatch
def facts_of(line: Line) -> list[Fact]:
    """Return the fields of a line. A format without a function of its own shows each known field under its name."""
    return [_fact(name.replace("_", " "), _json(value)) for name, value in fields_of(line).items()]


@glance.register
def _(line: HealthLine) -> Glance:
    # Logs of other tools give the result of the fallback as their only reason.
    event = line.reason or line.fallback or line.source
    fallback = line.fallback if line.fallback and event is not line.fallback else ""
    said = {"runtime": line.runtime, "iter": line.iteration, "run": line.run_id, "fallback": fallback}
    text = " ".join(f"{name}={value}" for name, value in said.items() if value)
    if event is Source.TEXT_FALLBACK:
        text = f"{text} (no reason and no result given)".strip()
    return Glance(line.agent, line.phase, event.value, _tone(line), text)


def _tone(line: HealthLine) -> str:
    """Return the tone: `good` for a used file, `wait` if the response text was used instead, `bad` otherwise."""
    if line.source is Source.HANDOFF_JSON and line.reason is None and line.fallback is None:
        return "good"
    return "wait" if line.fallback is Fallback.OK else "bad"


@glance.register
def _(line: GateLine) -> Glance:
    return Glance(line.component, "", line.event_type, _GATE_TONES.get(line.event_type, "quiet"), line.details)


@glance.register
def _(line: TraceLine) -> Glance:
    tone = "bad" if line.event_type == "error" else _GATE_TONES.get(line.level.upper(), "quiet")
    who = ", ".join(agents_of(line)) or line.workflow
    return Glance(who, line.phase, line.event_type, tone, _json(line.details))


@glance.register
def _(line: BadLine) -> Glance:
    return Glance("", "", "not read", "bad", line.why)


@facts_of.register
def _(line: HealthLine) -> list[Fact]:
    return [
        _fact("agent", line.agent, "agent"),
        _fact("phase", line.phase, "phase"),
        _fact("reason", line.reason.value if line.reason else "", "event"),
        _fact("read from", line.source.value),
        _fact("fallback", line.fallback.value if line.fallback else ""),
        _fact("runtime", line.runtime),
        _fact("iteration", line.iteration),
        _fact("run", line.run_id, "trace"),
    ]


@facts_of.register
def _(line: GateLine) -> list[Fact]:
    return [
        _fact("event", line.event_type, "event"),
        _fact("component", line.component, "agent"),
        _fact("details", line.details),
    ]


@facts_of.register
def _(line: TraceLine) -> list[Fact]:
    duration = "" if line.duration_ms is None else f"{line.duration_ms:g} ms"
    return [
        _fact("trace", line.trace_id, "trace"),
        _fact("event", line.event_type, "event"),
        _fact("workflow", line.workflow),
        _fact("phase", line.phase, "phase"),
        *(_fact("agent", agent, "agent") for agent in agents_of(line)),
        _fact("level", line.level, "level", level_of(line)),
        _fact("duration", duration),
        _fact("span", line.span_id),
        _fact("parent span", line.parent_span_id),
        _fact("details", _json(line.details)),
        *(_fact(name, _json(value)) for name, value in line.extra.items()),
    ]


@facts_of.register
def _(line: BadLine) -> list[Fact]:
    return [_fact("why", line.why)]


def _fact(name: str, value: str, parameter: str = "", wanted: str = "") -> Fact:
    wanted = quote_blanks(clean(wanted or value, LONGEST_VALUE))
    narrow = urlencode({parameter: wanted}) if parameter and value else ""
    return Fact(readable(name), cut(value, MOST_TEXT), narrow)


def _json(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def links_of(tenant: Tenant, line: Line) -> Iterator[Link]:
    handoffs = reverse("dashboard:handoffs", args=[tenant.slug])
    if isinstance(line, TraceLine):
        yield Link("Handoffs of this trace", f"{handoffs}?{urlencode({'trace': quote_blanks(clean(line.trace_id))})}")
    if isinstance(line, HealthLine):
        if line.run_id:
            yield Link("Handoffs of this run", f"{handoffs}?{urlencode({'trace': quote_blanks(clean(line.run_id))})}")
        yield Link(
            f"Handoffs of {readable(line.agent)} around this time",
            f"{handoffs}?{urlencode({'source': quote_blanks(clean(line.agent))} | filters_around(line.at))}",
        )
        if line.reason:
            reports = reverse("dashboard:file_reports", args=[tenant.slug])
            yield Link("Reports with this reason", f"{reports}?{urlencode({'reason': line.reason.value})}")


def filters_around(at: datetime) -> dict[str, str]:
    """Return the filters of lists for the time from `AROUND` before `at` to `AROUND` after it."""
    return {"since": utc_text(max(at - AROUND, _FIRST)), "until": utc_text(min(at + AROUND, _LAST))}


EVENTS = {
    heading: {value: value for value in values}
    for heading, values in {
        "Reasons": Reason,
        "Fallback": Fallback,
        "Gate events": GATE_EVENTS,
        "Trace events": TRACE_EVENTS,
    }.items()
}


TEMPLATE = "dashboard/diagnostics/logs/page.html"

LINES = 100

MOST_NEW = 100


@require_role(Role.VIEWER)
@require_safe
def logs(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if opening := redirect_to_default(request, who, "logs"):
        return opening
    address = reverse("dashboard:logs", args=[who.tenant.slug])
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "form": SimpleLazyObject(lambda: LogQuery.form(request.GET, event=EVENTS)),
        "logs_url": address,
        "cursor": cursor,
    }
    looked_at = timezone.now()
    try:
        filters = LogQuery.from_query(request.GET)
        page = search.search_lines(who.tenant, filters, cursor=cursor, limit=LINES)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("lines",), status=400)
    query = filters.to_query()
    views = tabs_of(request, who, "logs", query)
    clean = views.href(query)
    if not is_htmx(request) and any(not str(value).strip() for value in request.GET.values()):
        # A plain form also sends its empty fields; the address that people save and share has none.
        return HttpResponseRedirect(clean)
    active = [replace(one, href=views.href(one.without)) for one in filters.active()]
    if not page.items and not active and not cursor and not store.list_imports(who.tenant, limit=1)[0]:
        context |= {"first": True, "server": _server(request), **uploads.form_context()}
        return render_page(request, TEMPLATE, context, partials=("lines",))
    context |= {
        "rows": [row_of(who.tenant, found) for found in page.items],
        "page": page,
        "is_short": bool(page.next) and len(page.items) < LINES,
        "active_filters": active,
        "query": query,
        "views": views,
        "newest": clean if cursor else "",
        "next": views.href(join_query(query, f"cursor={page.next}")) if page.next else "",
        "live": "" if cursor else _live_address(who, views.link_query, looked_at, page.reached if page.next else None),
    }
    response = render_page(request, TEMPLATE, context, partials=("lines",))
    if is_htmx(request):
        response["HX-Push-Url"] = clean
    return response


def _live_address(who: TenantMembership, query: str, looked_at: datetime, reached: datetime | None) -> str:
    shown = {"after": utc_text(looked_at)} | ({"shown_from": utc_text(reached)} if reached else {})
    return build_url(reverse("dashboard:logs_new", args=[who.tenant.slug]), query, urlencode(shown))


@require_role(Role.VIEWER)
@require_safe
@live.refuse_bad_filters
def new(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer how many new lines match the filters; the answer is empty if there are none."""
    filters = LogQuery.from_query(request.GET)
    after = _moment("after", request.GET.get("after", ""))
    shown_from = request.GET.get("shown_from")
    bounds = [filters.since, _moment("shown_from", shown_from) if shown_from else None]
    query = replace(filters, since=max((moment for moment in bounds if moment), default=None))
    number = store.count_new(who.tenant, query, after, MOST_NEW)
    href = build_url(reverse("dashboard:logs", args=[who.tenant.slug]), filters.to_query(), view_query_of(request.GET))
    return live.answer(request, who, live.number(request, number, MOST_NEW, href, "line"))


def _moment(name: str, text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise FilterError(name, text[:40], "use a moment like 2026-02-15T09:30:00Z.")
    return moment


def _server(request: HttpRequest) -> str:
    return settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")


urlpatterns = [
    path("diagnostics/logs/", logs, name="logs"),
    path("diagnostics/logs/new/", new, name="logs_new"),
    *uploads.urlpatterns,
]
