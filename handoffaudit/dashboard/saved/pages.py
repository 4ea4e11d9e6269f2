"""The lists whose filters can be kept, and how a query of each is read."""

from collections.abc import Callable
from dataclasses import dataclass

from django.core.exceptions import TooManyFieldsSent
from django.http import QueryDict

from handoffaudit.dashboard.diagnostics.log_filters import FIELDS as LOG_FIELDS
from handoffaudit.dashboard.diagnostics.log_filters import LogFilters
from handoffaudit.dashboard.reviewing.place import Place
from handoffaudit.dashboard.tracing import traces
from handoffaudit.diagnostics.groups.queries import NARROWING, GroupFilters
from handoffaudit.handoffs.filters import PARAMETERS, FilterError, Filters

# Of the page as it is shown, and not of what it shows.
PASSING = {"saved", "cursor"}


@dataclass(frozen=True, slots=True)
class Listed:
    """`written` gives a query as the list writes it, and raises `BadFilter`."""

    parameters: frozenset[str]
    written: Callable[[QueryDict], str]


def _review(asked: QueryDict) -> str:
    place = Place.read({name: asked.get(name, "").strip() for name in Place.__slots__})
    return place.but(cursor="").query.removeprefix("?")


LISTS = {
    "handoffs": Listed(frozenset(PARAMETERS), lambda asked: Filters.from_query(asked).to_query()),
    "review": Listed(frozenset(Place.__slots__), _review),
    "groups": Listed(frozenset(NARROWING), lambda asked: GroupFilters.from_query(asked).to_query()),
    "traces": Listed(frozenset(traces.NARROWING), traces.query_of),
    "logs": Listed(frozenset({*LOG_FIELDS, "since", "until"}), lambda asked: LogFilters.from_query(asked).to_query()),
}


def checked(listed: Listed, text: str) -> str:
    """The query as the list writes it. Raises `BadFilter` for what the list would not read, or does not know."""
    try:
        asked = QueryDict(text, mutable=True)
    except TooManyFieldsSent:
        raise FilterError("query", text[:40], "use at most as many filters as the list has.") from None
    for name in PASSING & asked.keys():
        del asked[name]
    if foreign := sorted(asked.keys() - listed.parameters):
        known = ", ".join(sorted(listed.parameters))
        raise FilterError(foreign[0][:40], str(asked[foreign[0]])[:40], f"the list has no such filter; it has {known}.")
    return listed.written(asked)
