"""One trace: its handoffs in time, where what is wrong came in, who carried it on."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import render_page, target_of
from handoffaudit.dashboard.readable import cut, readable
from handoffaudit.dashboard.saved.tabs import joined
from handoffaudit.dashboard.tracing import log_lines, origins
from handoffaudit.dashboard.tracing.addresses import address_of
from handoffaudit.diagnostics.traces import Trace, Traced, draw_trace, load_trace
from handoffaudit.drawing.lanes import folds
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import FilterError, Filters, parse_cursor
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.provenance import Origin, Sign, Suspect
from handoffaudit.validation.text import pluralize

TEMPLATE: Final = "dashboard/traces/trace.html"
LIVE_FOR: Final = timedelta(minutes=10)
MOST_NEW: Final = 100
MOST_SUSPECTS: Final = 3
_SHOWN_VALUES: Final = 3
_SIGNS: Final = {
    Sign.NUMBER: "a number or a date among them",
    Sign.CARRIED: "carried on",
    Sign.SPREAD: "several of them by several later handoffs",
    Sign.ASSUMED: "says that it assumes or simulates something",
}
_WIDE: Final = 1040
_NARROW: Final = 330


@dataclass(frozen=True, slots=True)
class Row:
    """A handoff in the list, with the wrong values of earlier ones that it carries."""

    traced: Traced
    is_origin: bool
    carried: tuple[str, ...]
    findings: int


@dataclass(frozen=True, slots=True)
class ShownSuspect:
    """A handoff to look at, and in words what speaks against it."""

    traced: Traced
    why: str


@page_for(Role.VIEWER)
@require_safe
def trace(request: HttpRequest, who: Who, trace_id: str) -> HttpResponse:
    if live.is_asked(request):
        return _new(request, who, trace_id)
    if target_of(request) == "trace-logs":
        return log_lines.log_lines(request, who, trace_id)
    shown = load_trace(who.tenant, trace_id)
    if shown is None:
        raise Http404("There is no handoff with this trace.")
    asked = origins.Asked.of(request.GET)
    chosen = origins.marked(shown, asked)
    found = origins.listed(shown, asked, chosen)
    newest = max(one.handoff.pk for one in shown.handoffs)
    context: dict[str, Any] = {
        "trace": shown,
        "address": address_of(who.tenant.slug, trace_id),
        "title": readable(trace_id),
        "told": told(shown),
        "figures": _figures(shown),
        "drawings": _drawings(shown, who.tenant.slug, asked, chosen),
        "is_full": asked.is_full,
        "fold_query": asked.query(lanes="" if asked.is_full else "full"),
        "chosen": readable(chosen.value) if chosen else "",
        "all_query": asked.query(value=origins.ALL),
        "kinds": origins.kinds(shown, asked),
        "folds": folds(len(shown.handoffs)),
        "rows": _rows(shown),
        "suspects": _suspects(shown),
        "more_suspects": max(len(shown.suspects) - MOST_SUSPECTS, 0),
        "origins": found[: origins.SHOWN],
        "later_origins": found[origins.SHOWN : origins.MOST],
        "hidden_origins": max(len(found) - origins.MOST, 0),
        "shares": sorted((one for one in shown.shares if one.total), key=lambda one: -one.total),
        "handoffs_url": reverse("dashboard:handoffs", args=[who.tenant.slug]),
        "log_search": log_lines.search_of(who.tenant, trace_id),
        "live": joined(address_of(who.tenant.slug, trace_id), f"after={newest}") if _is_live(shown) else "",
    }
    return render_page(request, TEMPLATE, context)


def told(shown: Trace) -> str:
    """What is first to be known of a trace."""
    first = shown.first
    if first is None:
        return "Nothing was found wrong in this trace."
    at = shown.handoffs[first.origin]
    by = readable(at.handoff.source_agent_id) or "an agent without a name"
    if not first.flaw.value:
        return f"No ungrounded value was found. The first finding is at handoff {at.number}, by {by}."
    if first.from_outside:
        return (
            f"No value was made up here: what could not be grounded came from outside, first at handoff {at.number}, "
            f"by {by}."
        )
    value = readable(first.flaw.value)
    # Not "the first": mere words may have come in before it.
    start = f"Look first at handoff {at.number}, by {by}: “{value}” is in no source"
    return f"{start}; carried by {pluralize(len(first.carriers), 'later handoff')}." if first.carriers else f"{start}."


def _drawings(shown: Trace, slug: str, asked: origins.Asked, chosen: Origin | None) -> dict[str, Drawing]:
    """Wide, and narrow for small screens; one opened in whole is wider than any."""

    def drawn(name: str, width: int) -> Drawing:
        href = f"?{asked.query(lanes='full')}#lanes"
        return draw_trace(
            shown, slug=slug, origin=chosen, href=href, width=width, is_folded=not asked.is_full, prefix=f"lanes-{name}"
        )

    wide = {"wide": drawn("wide", _WIDE)}
    return wide if asked.is_full else wide | {"narrow": drawn("narrow", _NARROW)}


def _figures(shown: Trace) -> dict[str, Any]:
    times = [one.handoff.received_at for one in shown.handoffs]
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
    said = [f"{values}{more} came in here"] if one.values else []
    return "; ".join([*said, *(_SIGNS[sign] for sign in one.signs if sign in _SIGNS)])


def _is_live(shown: Trace) -> bool:
    return _is_young(max((one.handoff for one in shown.handoffs), key=lambda handoff: handoff.pk))


def _is_young(newest: Handoff | None) -> bool:
    return newest is not None and timezone.now() - newest.received_at < LIVE_FOR


def _new(request: HttpRequest, who: Who, trace_id: str) -> HttpResponse:
    """How many handoffs of the trace came after the newest one shown; once nothing has come for long, that is not
    asked any more."""
    filters = Filters(trace=trace_id)
    number = queries.count_new(who.tenant, filters, _after(request), MOST_NEW)
    newest = queries.list_handoffs(who.tenant, filters, limit=1).items
    if not _is_young(newest[0] if newest else None):
        return live.over()
    href = address_of(who.tenant.slug, trace_id)
    return live.answer(request, who, live.number(request, number, MOST_NEW, href))


def _after(request: HttpRequest) -> UUID:
    try:
        return parse_cursor(request.GET.get("after", ""))
    except FilterError as bad:
        raise Http404("There is no such handoff.") from bad


urlpatterns = [path("traces/<path:trace_id>/", trace, name="trace")]
