"""The list that a handoff was opened from: the previous handoff, the next handoff and the way back."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode

from django.http import QueryDict
from django.urls import reverse

from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.filters import FINDING, ActiveFilter, active_filters
from handoffaudit.dashboard.findings import group_name
from handoffaudit.dashboard.navigation import build_trace_url
from handoffaudit.dashboard.safe_text import cut, readable
from handoffaudit.dashboard.saved_views.tabs import build_url, join_query
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics.groups import membership, queries
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import queries as handoffs_queries
from handoffaudit.handoffs.filters import FilterError, Filters, is_number
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.queries import Neighbours

_LONGEST: Final = 80

_VIEW: Final = re.compile(r"[a-z0-9-]{1,40}\Z", re.ASCII)

_QUIET: Final = Neighbours(None, None)


@dataclass(frozen=True, slots=True)
class ListContext:
    """The list that the reader came from: its previous and next handoff, and the way back.

    `query` is the part of the address that carries the list, and `back` the address of the list; both are
    empty where the address carries no list. `title` names the list and `told` its filters. `is_trace` is true
    for the order of a trace, oldest first; lists show the newest first.
    """

    before: Handoff | None
    after: Handoff | None
    title: str = ""
    told: str = ""
    query: str = ""
    back: str = ""
    fits: bool = True
    is_trace: bool = False

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the query as names and values for hidden fields of a form."""
        return parse_qsl(self.query)

    @property
    def head(self) -> str:
        """Return the start of a query for links to handoffs."""
        return f"?{self.query}" if self.query else ""

    @property
    def rest(self) -> str:
        """Return the query as a continuation of another query."""
        return f"&{self.query}" if self.query else ""


def list_context(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext:
    read = _LISTS.get(asked.get("in", ""))
    found = read(asked, who, handoff) if read else None
    return found or _trace(who, handoff)


def clean_query(asked: str) -> str:
    """Normalize a query that a form sent back; return an empty string where the query names no list."""
    query = QueryDict(asked[:2000])
    match query.get("in", ""):
        case "handoffs":
            try:
                return join_query("in=handoffs", Filters.from_query(query).to_query(), _view(query))
            except FilterError:
                return ""
        case "group" if is_number(query.get("group", "")):
            return urlencode({"in": "group", "group": query["group"]})
        case "trace":
            return "in=trace"
        case _:
            return ""


def _in_handoffs(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext | None:
    try:
        filters = Filters.from_query(asked)
    except FilterError:
        return None
    found = handoffs_queries.find_neighbours(who.tenant, filters, handoff.pk)
    told = ", ".join(_words(chip, who) for chip in active_filters(filters))
    return ListContext(
        before=found.newer,
        after=found.older,
        title="Handoffs",
        told=cut(told, _LONGEST),
        query=join_query("in=handoffs", filters.to_query(), _view(asked)),
        back=build_url(reverse("dashboard:handoffs", args=[who.tenant.slug]), filters.to_query(), _view(asked)),
        fits=found.fits,
    )


def _words(chip: ActiveFilter, who: TenantMembership) -> str:
    value = group_name(who.tenant, chip.value) if chip.label == FINDING else chip.value
    return f"{chip.label.lower()} {readable(value)}"


def _in_group(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext | None:
    number = asked.get("group", "")
    if not is_number(number):
        return None
    try:
        group = queries.get_group(who.tenant, int(number))
    except FindingGroup.DoesNotExist:
        return None
    found = handoffs_queries.find_neighbours_among(
        who.tenant, membership.handoffs_of(who.tenant, group.pk), "handoff", handoff.pk
    )
    return ListContext(
        before=found.newer,
        after=found.older,
        title=code_title(group.code),
        query=urlencode({"in": "group", "group": group.pk}),
        back=reverse("dashboard:group", args=[who.tenant.slug, group.pk]),
        fits=found.fits,
    )


def _in_trace(asked: QueryDict, who: TenantMembership, handoff: Handoff) -> ListContext | None:
    if not handoff.trace_id:
        return None
    back = build_trace_url(who.tenant.slug, handoff.trace_id)
    return _trace(who, handoff, title=cut(readable(handoff.trace_id), _LONGEST), query="in=trace", back=back)


def _trace(who: TenantMembership, handoff: Handoff, *, title: str = "", query: str = "", back: str = "") -> ListContext:
    filters = Filters(trace=handoff.trace_id)
    found = handoffs_queries.find_neighbours(who.tenant, filters, handoff.pk) if handoff.trace_id else _QUIET
    return ListContext(found.older, found.newer, title=title, query=query, back=back, is_trace=True)


def _view(asked: QueryDict) -> str:
    view = asked.get("saved", "")
    return f"saved={view}" if _VIEW.match(view) else ""


_LISTS: Final[dict[str, Callable[[QueryDict, TenantMembership, Handoff], ListContext | None]]] = {
    "handoffs": _in_handoffs,
    "group": _in_group,
    "trace": _in_trace,
}
