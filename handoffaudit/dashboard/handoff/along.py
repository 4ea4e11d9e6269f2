"""Along the list that a handoff was opened from: the one before it there, the one after it, and the way back.

The address of the page carries the list: `in=handoffs` with that list's own filters, `in=group&group=12`, `in=trace`.
A link to it shows others the same. Without one, or with one that can't be read, it goes along the handoff's trace.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode

from django.http import QueryDict
from django.urls import reverse

from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.chips import FINDING, Chip, each_chip
from handoffaudit.dashboard.groups.words import group_name
from handoffaudit.dashboard.readable import cut, readable
from handoffaudit.dashboard.saved.tabs import joined, joined_query
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.dashboard.tracing.addresses import address_of
from handoffaudit.diagnostics.groups import membership
from handoffaudit.diagnostics.groups import queries as groups_queries
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import FilterError, Filters, is_number
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.queries import Neighbours

_LONGEST: Final = 80
_VIEW: Final = re.compile(r"[a-z0-9-]{1,40}\Z", re.ASCII)
_QUIET: Final = Neighbours(None, None)


@dataclass(frozen=True, slots=True)
class Along:
    """`query` is what the address carries of the list, `back` the list itself; both are empty where none is carried.

    `title` and `told` name it and what it is narrowed by. `is_trace`: in the order of the work, the oldest first; lists
    have the newest first.
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
        """The query as a form's hidden fields."""
        return parse_qsl(self.query)

    @property
    def head(self) -> str:
        """What links to this page begin their query with."""
        return f"?{self.query}" if self.query else ""

    @property
    def rest(self) -> str:
        """The same, behind another part of the query."""
        return f"&{self.query}" if self.query else ""


def along(asked: QueryDict, who: Who, handoff: Handoff) -> Along:
    read = _LISTS.get(asked.get("in", ""))
    found = read(asked, who, handoff) if read else None
    return found or _trace(who, handoff)


def kept(asked: str) -> str:
    """A query that came back by a form, as a page would carry it; empty where it is none."""
    query = QueryDict(asked[:2000])
    match query.get("in", ""):
        case "handoffs":
            try:
                return joined_query("in=handoffs", Filters.from_query(query).to_query(), _view(query))
            except FilterError:
                return ""
        case "group" if is_number(query.get("group", "")):
            return urlencode({"in": "group", "group": query["group"]})
        case "trace":
            return "in=trace"
        case _:
            return ""


def _in_handoffs(asked: QueryDict, who: Who, handoff: Handoff) -> Along | None:
    try:
        filters = Filters.from_query(asked)
    except FilterError:
        return None
    found = queries.find_neighbours(who.tenant, filters, handoff.pk)
    told = ", ".join(_words(chip, who) for chip in each_chip(filters))
    return Along(
        before=found.newer,
        after=found.older,
        title="Handoffs",
        told=cut(told, _LONGEST),
        query=joined_query("in=handoffs", filters.to_query(), _view(asked)),
        back=joined(reverse("dashboard:handoffs", args=[who.tenant.slug]), filters.to_query(), _view(asked)),
        fits=found.fits,
    )


def _words(chip: Chip, who: Who) -> str:
    value = group_name(who.tenant, chip.value) if chip.label == FINDING else chip.value
    return f"{chip.label.lower()} {readable(value)}"


def _in_group(asked: QueryDict, who: Who, handoff: Handoff) -> Along | None:
    number = asked.get("group", "")
    if not is_number(number):
        return None
    try:
        group = groups_queries.get_group(who.tenant, int(number))
    except FindingGroup.DoesNotExist:
        return None
    found = queries.find_neighbours_among(
        who.tenant, membership.handoffs_of(who.tenant, group.pk), "handoff", handoff.pk
    )
    return Along(
        before=found.newer,
        after=found.older,
        title=code_title(group.code),
        query=urlencode({"in": "group", "group": group.pk}),
        back=reverse("dashboard:group", args=[who.tenant.slug, group.pk]),
        fits=found.fits,
    )


def _in_trace(asked: QueryDict, who: Who, handoff: Handoff) -> Along | None:
    if not handoff.trace_id:
        return None
    back = address_of(who.tenant.slug, handoff.trace_id)
    return _trace(who, handoff, title=cut(readable(handoff.trace_id), _LONGEST), query="in=trace", back=back)


def _trace(who: Who, handoff: Handoff, *, title: str = "", query: str = "", back: str = "") -> Along:
    filters = Filters(trace=handoff.trace_id)
    found = queries.find_neighbours(who.tenant, filters, handoff.pk) if handoff.trace_id else _QUIET
    return Along(found.older, found.newer, title=title, query=query, back=back, is_trace=True)


def _view(asked: QueryDict) -> str:
    view = asked.get("saved", "")
    return f"saved={view}" if _VIEW.match(view) else ""


_LISTS: Final[dict[str, Callable[[QueryDict, Who, Handoff], Along | None]]] = {
    "handoffs": _in_handoffs,
    "group": _in_group,
    "trace": _in_trace,
}
