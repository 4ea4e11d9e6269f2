"""The page of one trace: its handoffs, the origins of wrong values, and its log lines."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role, target_of
from handoffaudit.dashboard.diagnostics.logs import row_of
from handoffaudit.dashboard.navigation import build_trace_url
from handoffaudit.dashboard.safe_text import cut, readable
from handoffaudit.dashboard.traces import (
    ALL_KINDS,
    MOST_ORIGINS,
    ROWS,
    SHOWN,
    Asked,
    find_marked_origin,
    list_origins,
    origin_kinds,
    place_query,
)
from handoffaudit.dashboard.view_tabs import build_url
from handoffaudit.diagnostics.logs import search, store
from handoffaudit.diagnostics.logs.filters import LogQuery
from handoffaudit.diagnostics.traces import (
    MOST_HANDOFFS,
    MOST_ON_A_PAGE,
    Trace,
    Traced,
    draw_trace,
    list_versions,
    load_trace,
)
from handoffaudit.drawing.lanes import Moment, draw_time_axis, needs_fold
from handoffaudit.drawing.svg import Drawing
from handoffaudit.filter_fields import FilterError, quote_blanks
from handoffaudit.handoffs import queries, tool_results
from handoffaudit.handoffs.filters import Filters, first_id_at, parse_cursor
from handoffaudit.handoffs.models import ToolResult
from handoffaudit.validation.origins import Origin, Sign, Suspect
from handoffaudit.validation.text import pluralize

MOST_LINES: Final = 50


def search_of(tenant: Tenant, trace_id: str) -> str:
    """Return the address of all log lines of the trace; empty if the tenant has sent no logs."""
    if not store.list_imports(tenant, limit=1)[0]:
        return ""
    return f"{reverse('dashboard:logs', args=[tenant.slug])}?{urlencode({'trace': quote_blanks(trace_id)})}"


def log_lines(request: HttpRequest, who: TenantMembership, trace_id: str) -> HttpResponse:
    """Show the newest log lines as a section of the trace page."""
    page = search.search_lines(who.tenant, LogQuery(trace=trace_id), limit=MOST_LINES)
    context: dict[str, Any] = {
        "rows": [row_of(who.tenant, found) for found in page.items],
        "more": bool(page.next),
        "logs_url": reverse("dashboard:logs", args=[who.tenant.slug]),
        "search": search_of(who.tenant, trace_id),
    }
    return render_page(request, "dashboard/traces/log_lines.html", context)


TEMPLATE: Final = "dashboard/traces/trace.html"

MOST_NEW: Final = 100

MOST_CALLS: Final = 100

_LONGEST_EXCERPT: Final = 120

MOST_SUSPECTS: Final = 3

_SHOWN_VALUES: Final = 3

_SIGNS: Final = {
    Sign.FAILED: "the answer to this handoff reports an error or an empty result",
    Sign.ASSUMED: "the first to say that its data is assumed or made up",
    Sign.BY_HAND: "the first to say that something is done manually, so no tool confirms it",
}

_WIDE: Final = 1040

_NARROW: Final = 330


@dataclass(frozen=True, slots=True)
class Row:
    """A handoff in the list, with the wrong values that it carries from earlier handoffs."""

    traced: Traced
    is_origin: bool
    carried: tuple[str, ...]
    findings: int


@dataclass(frozen=True, slots=True)
class ShownSuspect:
    """A handoff that deserves a look, with the reasons in words."""

    traced: Traced
    why: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool result in the list.

    `before` is the first handoff at or after the time of the result, or None.
    """

    result: ToolResult
    excerpt: str
    before: Traced | None

    @property
    def query(self) -> str:
        """Return the query for the part of the table with the handoff that followed; empty for the first part."""
        first = (self.before.number - 1) // ROWS * ROWS if self.before else 0
        return f"first={first}" if first else ""


def list_calls(tenant: Tenant, trace_id: str, handoffs: Sequence[Traced]) -> list[ToolCall]:
    """Return the tool calls of a trace in the order of their times, at most one more than the page shows."""
    in_turn = sorted(handoffs, key=lambda one: one.handoff.at)
    times = [one.handoff.at for one in in_turn]
    calls = []
    found = tool_results.list_results(tenant.pk, trace_id, limit=MOST_CALLS + 1)
    for row in sorted(found, key=lambda row: (row.at, row.pk)):
        place = bisect_left(times, row.at)
        before = in_turn[place] if place < len(in_turn) else None
        calls.append(ToolCall(row, cut(row.content, _LONGEST_EXCERPT), before))
    return calls


@require_role(Role.VIEWER)
@require_safe
def tool_result(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    row = ToolResult.objects.filter(tenant=who.tenant, pk=pk).first()
    if row is None:
        raise Http404("There is no such tool result. It may have been deleted by retention.")
    content = orjson.loads(row.content)
    text = content if isinstance(content, str) else orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
    context = {"result": row, "text": readable(text), "address": build_trace_url(who.tenant.slug, row.trace_id)}
    return render_page(request, "dashboard/traces/tool_result.html", context)


@require_role(Role.VIEWER)
@require_safe
def trace(request: HttpRequest, who: TenantMembership, trace_id: str) -> HttpResponse:
    if live.is_asked(request):
        return _new(request, who, trace_id)
    if target_of(request) == "trace-logs":
        return log_lines(request, who, trace_id)
    shown = load_trace(who.tenant, trace_id, MOST_ON_A_PAGE)
    if shown is None:
        raise Http404("There is no handoff with this trace.")
    asked = Asked.of(request.GET)
    if len(shown.handoffs) > MOST_HANDOFFS:
        asked = replace(asked, is_full=False)
    chosen = find_marked_origin(shown, asked)
    found = list_origins(shown, asked, chosen)
    calls = list_calls(who.tenant, trace_id, shown.handoffs)
    context: dict[str, Any] = {
        "trace": shown,
        "address": build_trace_url(who.tenant.slug, trace_id),
        "title": readable(trace_id),
        "summary": summarize(shown),
        "figures": _stats(shown),
        **_drawing_context(shown, who.tenant.slug, asked, chosen, calls),
        "is_full": asked.is_full,
        "fold_query": asked.query(lanes="" if asked.is_full else "full"),
        "chosen": readable(chosen.value) if chosen else "",
        "all_query": asked.query(value=ALL_KINDS),
        "kinds": origin_kinds(shown, asked),
        "folds": needs_fold(len(shown.handoffs)) and len(shown.handoffs) <= MOST_HANDOFFS,
        **_table(shown, asked),
        "calls": calls[:MOST_CALLS],
        "has_more_calls": len(calls) > MOST_CALLS,
        "suspects": _suspects(shown),
        "more_suspects": max(len(shown.suspects) - MOST_SUSPECTS, 0),
        "origins": found[:SHOWN],
        "item_url": _open_place(request, who, shown),
        "later_origins": found[SHOWN:MOST_ORIGINS],
        "hidden_origins": max(len(found) - MOST_ORIGINS, 0),
        "shares": sorted((one for one in shown.shares if one.total), key=lambda one: -one.total),
        "handoffs_url": reverse("dashboard:handoffs", args=[who.tenant.slug]),
        "log_search": search_of(who.tenant, trace_id),
        "live": _live_address(who, shown, asked),
    }
    return render_page(request, TEMPLATE, context)


def _open_place(request: HttpRequest, who: TenantMembership, shown: Trace) -> str:
    """Return the address of the place that `open` names as `<handoff>.<number of the value>`; empty for none."""
    reference, _, number = request.GET.get("open", "").partition(".")
    try:
        found = shown.origins[int(number)] if number.isdecimal() else None
        address = reverse("dashboard:handoff", args=[who.tenant.slug, UUID(reference)])
    except (ValueError, IndexError):
        return ""
    return f"{address}?{place_query(found.value)}#wanted" if found else ""


def summarize(shown: Trace) -> str:
    """Summarize the most important result of a trace."""
    first = shown.first
    if first is None:
        return "Nothing was found wrong in this trace."
    at = shown.handoffs[first.origin]
    by = readable(at.handoff.source_agent_id) or "an agent without a name"
    if not first.flaw.value:
        return f"No ungrounded value was found. The first finding is at handoff {at.number}, by {by}."
    if first.from_outside:
        return (
            f"No ungrounded value was introduced in this trace. The ungrounded values in it came from outside, "
            f"first at handoff {at.number}, by {by}."
        )
    value = readable(first.flaw.value)
    # The text avoids "the first", because an ungrounded text may have entered the trace before this value.
    start = f"Look first at handoff {at.number}, by {by}: “{value}” is in no source"
    return f"{start}; carried by {pluralize(len(first.carriers), 'later handoff')}." if first.carriers else f"{start}."


def _drawings(
    shown: Trace, slug: str, asked: Asked, chosen: Origin | None, calls: Sequence[ToolCall]
) -> dict[str, Drawing]:
    """Draw the trace wide, and narrow for small screens; an unfolded trace is drawn wide only."""
    counts = Counter(one.before.number for one in calls if one.before)
    handoffs = tuple(replace(one, calls=counts[one.number]) for one in shown.handoffs)

    def draw(name: str, width: int) -> Drawing:
        # A live answer can be shown in the panel beside a list, where a query alone would be relative to the list.
        href = f"{build_url(build_trace_url(slug, shown.trace_id), asked.query(lanes='full'))}#lanes"
        prefix, is_folded = f"lanes-{name}", not asked.is_full
        with_calls = replace(shown, handoffs=handoffs)
        return draw_trace(
            with_calls, slug=slug, origin=chosen, href=href, width=width, is_folded=is_folded, prefix=prefix
        )

    moments = [Moment(one.number, one.handoff.at, one.handoff.state, one.handoff.token_count) for one in handoffs]
    found = {"wide": draw("wide", _WIDE), "time": draw_time_axis(moments, width=_WIDE, prefix="time-wide")}
    if asked.is_full:
        return found
    narrow_time = draw_time_axis(moments, width=_NARROW, prefix="time-narrow")
    return found | {"narrow": draw("narrow", _NARROW), "narrow_time": narrow_time}


def _drawing_context(
    shown: Trace, slug: str, asked: Asked, chosen: Origin | None, calls: Sequence[ToolCall]
) -> dict[str, Any]:
    """Return the context of the drawings and their descriptions; `drawn` is the mark that a live request compares."""
    first = asked.first if asked.first < len(shown.handoffs) else 0
    return {
        "drawings": _drawings(shown, slug, asked, chosen, calls),
        "drawn": _mark({one.handoff.pk: one.handoff.version for one in shown.handoffs}),
        # The first sentence names the agents. The sentences of the handoffs follow.
        "words": f"{first + 1}:{first + ROWS + 1}",
    }


def _table(shown: Trace, asked: Asked) -> dict[str, Any]:
    """Return the context of the table: some handoffs, and the queries of the previous and the next part."""
    rows, first = _rows(shown), asked.first if asked.first < len(shown.handoffs) else 0
    return {
        "number": len(rows),
        "rows": rows[first : first + ROWS],
        "first_row": first + 1,
        "last_row": min(first + ROWS, len(rows)),
        "rows_before": asked.query(first=str(first - ROWS)) if first > ROWS else asked.query(first=""),
        "has_rows_before": first > 0,
        "rows_after": asked.query(first=str(first + ROWS)) if first + ROWS < len(rows) else "",
    }


def _stats(shown: Trace) -> dict[str, Any]:
    times = [one.handoff.at for one in shown.handoffs]
    return {
        "agents": len(shown.agents),
        "findings": len(shown.attributed),
        "values": sum(not one.from_outside for one in shown.origins),
        "tainted": len(shown.tainted),
        "seconds": (max(times) - min(times)).total_seconds(),
        "started_at": min(times),
    }


def _rows(shown: Trace) -> list[Row]:
    counts = [0] * len(shown.handoffs)
    for one in shown.attributed:
        counts[one.step] += 1
    return [
        Row(one, at in shown.origin_steps, shown.tainted.get(at, ()), counts[at])
        for at, one in enumerate(shown.handoffs)
    ]


def _suspects(shown: Trace) -> list[ShownSuspect]:
    return [ShownSuspect(shown.handoffs[one.step], _why(one)) for one in shown.suspects[:MOST_SUSPECTS]]


def _why(one: Suspect) -> str:
    values = ", ".join(f"“{cut(value, 60)}”" for value in one.values[:_SHOWN_VALUES])
    more = f" and {len(one.values) - _SHOWN_VALUES} more" if len(one.values) > _SHOWN_VALUES else ""
    said = [f"introduced {values}{more}"] if one.values else []
    if not said and Sign.VALUE in one.signs:
        # Only a note (a finding of severity info) names the value, so the page does not list it as ungrounded.
        said = ["a note names a value that is in no source"]
    return "; ".join([*said, *(_SIGNS[sign] for sign in one.signs if sign in _SIGNS)])


def _live_address(who: TenantMembership, shown: Trace, asked: Asked) -> str:
    """Return the address that reports decisions and later handoffs.

    If the page leaves out handoffs of a long trace, only handoffs that arrive from now on count as later.
    """
    after = first_id_at(timezone.now()) if shown.has_more else max(one.handoff.pk for one in shown.handoffs)
    return build_url(build_trace_url(who.tenant.slug, shown.trace_id), asked.query(), f"after={after}")


def _mark(versions: Mapping[UUID, int]) -> str:
    """Return the number of handoffs, the last id, and a number that differs as soon as one of the handoffs changes."""
    return f"{len(versions)}.{max(versions).hex}.{sum(versions.values())}"


@live.refuse_bad_filters
def _new(request: HttpRequest, who: TenantMembership, trace_id: str) -> HttpResponse:
    """Answer with the number of handoffs that arrived later, and with the drawings if a handoff in them changed."""
    number = queries.count_new(who.tenant, Filters(trace=trace_id), _after(request), MOST_NEW)
    counted = live.number(request, number, MOST_NEW, build_trace_url(who.tenant.slug, trace_id))
    return live.answer(request, who, [*counted, *_newer_drawings(request, who, trace_id)])


def _newer_drawings(request: HttpRequest, who: TenantMembership, trace_id: str) -> list[str]:
    """Return the drawings of the handoffs that the page shows (`drawn`), if one of these changed."""
    count, _, _ = (seen := request.GET.get("drawn", "")).partition(".")
    most = min(int(count), MOST_ON_A_PAGE) if count.isascii() and count.isdigit() and len(count) < 6 else 0
    versions = list_versions(who.tenant, trace_id, most) if most else {}
    # A handoff that arrives late takes its place among the shown handoffs by its time. It would change the numbers of
    # later handoffs, and the table does not update these numbers.
    if not versions or (mark := _mark(versions)) == seen or mark.rpartition(".")[0] != seen.rpartition(".")[0]:
        return []
    shown = load_trace(who.tenant, trace_id, most)
    if shown is None:
        return []
    asked = Asked.of(request.GET)
    calls = list_calls(who.tenant, trace_id, shown.handoffs)
    context = _drawing_context(shown, who.tenant.slug, asked, find_marked_origin(shown, asked), calls)
    return [render_to_string("dashboard/traces/trace.html#drawn", context)]


def _after(request: HttpRequest) -> UUID:
    try:
        return parse_cursor(request.GET.get("after", ""))
    except FilterError as bad:
        raise Http404("There is no such handoff.") from bad


urlpatterns = [
    path("tool-results/<uuid:pk>/", tool_result, name="tool_result"),
    path("traces/<path:trace_id>/", trace, name="trace"),
]
