"""The list of traces, and the wrong values of one trace."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.navigation import open_item_url
from handoffaudit.dashboard.safe_text import readable
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.dashboard.view_tabs import (
    build_url,
    join_query,
    redirect_to_default,
    redirect_without_blanks,
    tabs_of,
    view_query_of,
)
from handoffaudit.diagnostics.trace_list import list_changed_traces, list_traces
from handoffaudit.diagnostics.traces import Trace, Traced
from handoffaudit.filter_fields import (
    PERIODS,
    ChoiceFilter,
    FilterError,
    MomentTextFilter,
    Order,
    SortFilter,
    TextFilter,
)
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.filters import NEWEST, OLDEST, Filters, first_id_at, parse_cursor
from handoffaudit.handoffs.models import State
from handoffaudit.validation.origins import Origin

TEMPLATE = "dashboard/traces/list.html"

# The number of a row, the first handoff of its trace, and the mark of the trace when the page was sent. A trace gets
# another mark when it changes (`diagnostics.trace_list`).
_ROW_TOKEN: Final = re.compile(r"([0-9]{1,3})\.([0-9a-f]{32})\.([0-9]{1,12})")

MOST_NEW = 100

LATEST_START, EARLIEST_START = "-started", "started"

# Only the id has an index. The list computes the other columns from the handoffs of each trace.
SORTS = {
    NEWEST: Order("Newest handoff first", ("-id",)),
    OLDEST: Order("Oldest first, by newest handoff", ("id",)),
    LATEST_START: Order("Latest start first", ("-id",)),
    EARLIEST_START: Order("Earliest start first", ("id",)),
}


class _StatesFilter(ChoiceFilter):
    """A state; an address may also have several states, separated by commas."""

    def validate(self, value: str) -> None:
        for state in value.split(","):
            super().validate(state.strip())


@dataclass(frozen=True, slots=True)
class TraceFilters(FilterSet):
    """The filters and the order of the list of traces. A trace is listed if one of its handoffs matches.

    `agent` is the source or the target of the handoff.
    """

    since: str = declare(MomentTextFilter("Since", choices=PERIODS, empty_label="Any time", widget=forms.Select()))
    agent: str = declare(TextFilter("Agent"))
    state: str = declare(
        _StatesFilter("With a handoff", choices={state: state for state in State.values}, empty_label="In any state")
    )
    sort: str = declare(SortFilter("Order", orders=SORTS, usual=NEWEST, widget=forms.Select()))

    def of_handoffs(self) -> Filters:
        by_time = NEWEST if self.order.is_descending else OLDEST
        return Filters.from_query({"since": self.since, "state": self.state, "sort": by_time})

    @property
    def is_by_start(self) -> bool:
        return self.sort in (LATEST_START, EARLIEST_START)

    @property
    def is_narrowed(self) -> bool:
        return self != TraceFilters(sort=self.sort)


@require_role(Role.VIEWER)
@require_safe
def traces(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if live.is_asked(request):
        return _new(request, who)
    if opening := redirect_to_default(request, who, "traces"):
        return opening
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "form": SimpleLazyObject(lambda: TraceFilters.form(request.GET, agent=_agents(who))),
        "cursor": cursor,
    }
    try:
        filters = TraceFilters.from_query(request.GET)
        page = list_traces(
            who.tenant, filters.of_handoffs(), agent=filters.agent, cursor=cursor, by_start=filters.is_by_start
        )
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    query = filters.to_query()
    views = tabs_of(request, who, "traces", query)
    if cleaned := redirect_without_blanks(request, filters, query, views):
        return cleaned
    context |= {
        "traces": page.items,
        "query": query,
        "item_url": open_item_url(request, who.tenant.slug, "traces"),
        "filters": filters,
        "is_narrowed": filters.is_narrowed,
        "views": views,
        "newest": views.href(query) if cursor else "",
        "next": views.href(join_query(query, f"cursor={page.next}")) if page.next else "",
        "live": _live_address(who, views.link_query, is_counted=not cursor and filters.sort == NEWEST),
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = views.href(query)
    return response


def _live_address(who: TenantMembership, query: str, *, is_counted: bool) -> str:
    """Return the address that reports changed traces; `is_counted` adds the count of newer handoffs."""
    after = f"after={first_id_at(timezone.now())}" if is_counted else ""
    return build_url(reverse("dashboard:traces", args=[who.tenant.slug]), query, after)


@live.refuse_bad_filters
def _new(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer with the new cells of the changed traces that the page shows.

    With the parameter `after`, a handoff id, also answer with the number of matching handoffs that are newer than this
    id, whatever their trace.
    """
    parts = _changed_rows(request, who)
    asked = TraceFilters.from_query(request.GET)
    if request.GET.get("after"):
        href = build_url(
            reverse("dashboard:traces", args=[who.tenant.slug]), asked.to_query(), view_query_of(request.GET)
        )
        parts += live.number(request, _count_new(request, who, asked), MOST_NEW, href)
    return live.answer(request, who, parts)


def _count_new(request: HttpRequest, who: TenantMembership, asked: TraceFilters) -> int:
    filters, agent = asked.of_handoffs(), asked.agent
    after = parse_cursor(request.GET.get("after", ""))

    def count(narrowed: Filters) -> int:
        return queries.count_new(who.tenant, narrowed, after, MOST_NEW)

    if not agent:
        return count(filters)
    sent, received = replace(filters, source=agent), replace(filters, target=agent)
    # A handoff of the agent to itself is both sent and received.
    return min(count(sent) + count(received) - count(replace(sent, target=agent)), MOST_NEW)


def _changed_rows(request: HttpRequest, who: TenantMembership) -> list[str]:
    """Return the new cells of each changed trace. The parameter `rows` names the traces that the page shows."""
    tokens = request.GET.get("rows", "").split("~")[: live.MOST_ROWS]
    shown = [match.groups() for token in tokens if (match := _ROW_TOKEN.fullmatch(token))]
    marks = {UUID(first): int(mark) for _, first, mark in shown}
    changed = list_changed_traces(who.tenant, marks) if marks else {}
    rows = [{"number": number, "trace": changed[UUID(pk)]} for number, pk, _ in shown if UUID(pk) in changed]
    return [render_to_string(f"{TEMPLATE}#live_cells", row) for row in rows]


def _agents(who: TenantMembership) -> list[str]:
    known = stats.list_known_values(who.tenant)
    return sorted({*known.sources, *known.targets})


urlpatterns = [path("traces/", traces, name="traces")]


ALL_KINDS: Final = "all"

SHOWN: Final = 12

# The table shows this many handoffs at a time.
ROWS: Final = 25

MOST_ORIGINS: Final = 200

_MOST_REPEATED: Final = 10


@dataclass(frozen=True, slots=True)
class Kind:
    """A rule code that found wrong values, or the entry for all rule codes; `query` filters the list of values."""

    title: str
    number: int
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ShownOrigin:
    """A wrong value with its handoffs.

    `number` is its index in `Trace.origins`. `repeated` holds handoffs that carry the value, and `more` counts further
    carriers. `query` marks the path of the value on the page of the trace. `place` is the query with which
    the page of a handoff marks the value in the document.
    """

    number: int

    value: str
    codes: tuple[str, ...]
    first: Traced
    from_outside: bool
    flagged_first: bool
    repeated: tuple[Traced, ...]
    more: int
    query: str
    place: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The requested part of a trace's values: one rule code, and the value to mark.

    `number` is the index of the marked value; None marks the first wrong value, and -1 marks all values. `is_full` asks
    for the drawing without folded parts. `first` is the index of the first handoff in the table.
    """

    code: str = ""
    number: int | None = None
    is_full: bool = False
    first: int = 0

    @classmethod
    def of(cls, params: Mapping[str, str]) -> "Asked":
        value = params.get("value", "")
        is_number = value.isascii() and value.isdigit() and len(value) < 6
        number = -1 if value == ALL_KINDS else int(value) if is_number else None
        rows = params.get("first", "")
        first = int(rows) if rows.isascii() and rows.isdigit() and len(rows) < 6 else 0
        return cls(params.get("kind", "")[:100], number, params.get("lanes", "") == "full", first // ROWS * ROWS)

    def query(self, **changes: str) -> str:
        now = {
            "kind": self.code,
            "value": "" if self.number is None else ALL_KINDS if self.number < 0 else str(self.number),
            "lanes": "full" if self.is_full else "",
            "first": str(self.first) if self.first else "",
        }
        return urlencode({name: value for name, value in (now | changes).items() if value})


def place_query(value: str) -> str:
    """Return the query of a handoff's page that marks the place of the value in its document."""
    return urlencode({"in": "trace", "value": value})


def find_marked_origin(shown: Trace, asked: Asked) -> Origin | None:
    """Return the only value whose path is marked on the page, or None if the paths of all values are marked."""
    if asked.number is not None:
        return shown.origins[asked.number] if 0 <= asked.number < len(shown.origins) else None
    first = shown.first
    if first is None or not first.flaw.value:
        return None
    return next((one for one in shown.origins if first.step in one.flagged and first.flaw.value == one.value), None)


def origin_kinds(shown: Trace, asked: Asked) -> list[Kind]:
    """Return an entry for all values, then the rule codes that found values, most frequent first.

    With fewer than two rule codes, the list is empty.
    """
    counts = Counter(one.codes[0] for one in shown.origins)
    if len(counts) < 2:
        return []
    found = [
        Kind(code_title(code), number, asked.query(kind=code), code == asked.code)
        for code, number in counts.most_common()
    ]
    return [Kind("All", len(shown.origins), asked.query(kind=""), not asked.code), *found]


def list_origins(shown: Trace, asked: Asked, chosen: Origin | None) -> list[ShownOrigin]:
    """Return the wrong values, the most harmful first. With `asked.code`, return only the values of this rule code.

    Values introduced in the trace come before values from outside. Within both, numbers and dates come before words,
    then values that later handoffs carry before other values, and then earlier values before later values.
    """
    numbered = [(at, one) for at, one in enumerate(shown.origins) if asked.code in ("", one.codes[0])]
    in_turn = sorted(numbered, key=lambda each: _harm(each[1]))
    return [_describe_origin(shown, asked, at, one, is_chosen=one is chosen) for at, one in in_turn]


def _harm(one: Origin) -> tuple[bool, bool, bool, int]:
    """Return the key by which the most harmful value comes first."""
    return one.from_outside, not any(sign.isdigit() for sign in one.value), not one.carriers, one.step


def _describe_origin(shown: Trace, asked: Asked, at: int, one: Origin, *, is_chosen: bool) -> ShownOrigin:
    return ShownOrigin(
        number=at,
        value=readable(one.value),
        codes=one.codes,
        first=shown.handoffs[one.step],
        from_outside=one.from_outside,
        flagged_first=one.step in one.flagged,
        repeated=tuple(shown.handoffs[place] for place in one.carriers[:_MOST_REPEATED]),
        more=max(len(one.carriers) - _MOST_REPEATED, 0),
        query=asked.query(value=str(at)),
        place=place_query(one.value),
        is_chosen=is_chosen,
    )
