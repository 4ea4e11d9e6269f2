"""The period of a diagnostics page, links to lists of that period, the order of agents, and rule codes by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.dashboard.view_tabs import build_url, join_query
from handoffaudit.diagnostics.agents import Agent
from handoffaudit.diagnostics.file_stats import OTHER
from handoffaudit.filter_fields import FilterError, Order, SortFilter, quote_blanks
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs import stats
from handoffaudit.handoffs.periods import OFFERED_PERIODS, Window, format_utc, window_of
from handoffaudit.validation.layers import CATALOGUE


def names_of(code: str) -> tuple[str, str]:
    """Return the names of a rule code in lower case: the code itself and its title."""
    return code.casefold(), code_title(code).casefold()


def find_code(tenant: Tenant, text: str) -> str:
    """Return the rule code that the text names; an empty string if the text names no rule code.

    The text may be a code or a title, in upper or lower case. A generated rule code is found only by its title.
    """
    wanted = " ".join(text.casefold().split())
    if not wanted:
        return ""
    # Only titles of generated rule codes contain a colon, such as `Breaks a business rule: total`.
    made = stats.list_known_values(tenant).codes if ":" in wanted else ()
    return _first(wanted, CATALOGUE) or _first(wanted, made)


def _first(wanted: str, codes: Iterable[str]) -> str:
    return next((code for code in codes if wanted in names_of(code)), "")


@dataclass(frozen=True, slots=True)
class Choice:
    """The period of a page; `bad` is set if the requested period is invalid and the page shows the default."""

    window: Window
    bad: FilterError | None

    @property
    def status(self) -> int:
        return 400 if self.bad else 200

    @property
    def context(self) -> dict[str, Any]:
        return {
            "window": self.window,
            "offered": OFFERED_PERIODS,
            "bad": self.bad,
            "query": urlencode(self.window.query),
        }


# The session keeps the last chosen period under this name.
REMEMBERED = "period"

_PARAMETERS = ("period", "since", "until")


def choose_window(request: HttpRequest) -> Choice:
    """Return the period that the address names, or else the period that this person last chose on any page.

    The session remembers a valid period of the address.
    """
    now = timezone.now()
    try:
        if not any(request.GET.get(name, "").strip() for name in _PARAMETERS):
            return Choice(_recall_window(request, now), None)
        window = window_of(request.GET, now)
    except FilterError as bad:
        return Choice(window_of({}, now), bad)
    if request.session.get(REMEMBERED) != window.query:
        request.session[REMEMBERED] = window.query
    return Choice(window, None)


def _recall_window(request: HttpRequest, now: datetime) -> Window:
    kept = request.session.get(REMEMBERED)
    try:
        return window_of(kept if isinstance(kept, dict) else {}, now)
    except FilterError:
        return window_of({}, now)


_NUMBERS: Final = ("fewest first", "most first")

# The columns by which agents are sorted, and the words of both directions.
_AGENT_COLUMNS: Final = {
    "name": ("Agent", "A to Z", "Z to A"),
    "sent": ("Sent", *_NUMBERS),
    "received": ("Received", *_NUMBERS),
    "accepted": ("Accepted", "lowest rate first", "highest rate first"),
    "introduced": ("Introduced", *_NUMBERS),
    "inherited": ("Inherited", *_NUMBERS),
    "time": ("Median time", "shortest first", "longest first"),
}

AGENT_ORDERS: Final = {"most": Order("Most handoffs first")} | {
    f"{sign}{column}": Order(f"{label}, {words[bool(sign)]}", (f"{sign}{column}",))
    for column, (label, *words) in _AGENT_COLUMNS.items()
    for sign in ("", "-")
}


@dataclass(frozen=True, slots=True)
class AgentOrder(FilterSet):
    """The order of the table of agents: `most`, or the name of a column, with `-` for descending."""

    sort: str = declare(SortFilter("Order", orders=AGENT_ORDERS, usual="most"))


_SORT_KEYS: Final[Mapping[str, Callable[[Agent], Any]]] = {
    "name": lambda agent: agent.name.casefold(),
    "sent": lambda agent: agent.handed_on,
    "received": lambda agent: agent.received,
    "accepted": lambda agent: agent.judged.share.value if agent.judged.share.total else None,
    "introduced": lambda agent: agent.stats.caused,
    "inherited": lambda agent: agent.stats.passed_on,
    "time": lambda agent: agent.stats.median_seconds,
}


def sort_agents(agents: Sequence[Agent], order: Order) -> list[Agent]:
    """Sort the agents; those without a value come last, and equal ones stay in their order."""
    if not order.columns:
        return list(agents)
    key = _SORT_KEYS[order.columns[0].removeprefix("-")]
    values = {agent.name: key(agent) for agent in agents}
    known = [agent for agent in agents if values[agent.name] is not None]
    known.sort(key=lambda agent: values[agent.name], reverse=order.is_descending)
    return known + [agent for agent in agents if values[agent.name] is None]


@dataclass(frozen=True, slots=True)
class SortedPage:
    """The address of a page with a period and a sorted table, for the heads of its columns."""

    address: str
    query: str

    def href(self, query: str) -> str:
        return build_url(self.address, join_query(self.query, query))


# Most addresses of a page contain the same few agents, rule codes and types.
@lru_cache(maxsize=2048)
def _quote(value: str) -> str:
    return quote_plus(quote_blanks(value))


@lru_cache(maxsize=512)
def _bounds_between(since: datetime, until: datetime) -> str:
    return urlencode({"since": format_utc(since), "until": format_utc(until)})


@dataclass(frozen=True)
class Links:
    """Addresses of lists that are filtered by a period.

    A page creates one instance. The instance computes the common parts of the addresses only once, because some pages
    have hundreds of addresses.
    """

    tenant: Tenant
    window: Window

    def handoffs(self, **filters: str) -> str:
        """Return the address of the handoff list; empty if a filter value, such as a sender name, is empty."""
        return "" if not all(filters.values()) else self._to("handoffs", filters)

    def reports(self, **filters: str) -> str:
        """Return the address of the list of reports of handoff files.

        A filter for the reason "other" is left out. This reason stands for files that are unused without a stated
        reason, and the list cannot filter by it.
        """
        return self._to("file_reports", _without_other(filters))

    def lines(self, agent: str = "", phase: str = "", reason: str = "") -> str:
        """Return the address of the log lines; the filter for events also finds the reason of a health line."""
        event = _without_other({"reason": reason}).get("reason", "")
        return self._to("logs", {"agent": agent, "phase": phase, "event": event})

    def code(self, code: str) -> str:
        return f"{reverse('dashboard:code', args=[self.tenant.slug, code])}?{urlencode(self.window.query)}"

    def between(self, name: str, since: datetime, until: datetime, **filters: str) -> str:
        """Return the address of a list that is filtered by a part of the period."""
        return self._address(name, filters, _bounds_between(since, until))

    def _to(self, name: str, filters: Mapping[str, str]) -> str:
        return self._address(name, filters, self._bounds)

    @cached_property
    def _bounds(self) -> str:
        return urlencode(self.window.bounds)

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {}

    def _address(self, name: str, filters: Mapping[str, str], bounds: str) -> str:
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = reverse(f"dashboard:{name}", args=[self.tenant.slug])
        query = "&".join([f"{key}={_quote(value)}" for key, value in filters.items() if value])
        return f"{path}?{query}&{bounds}" if query else f"{path}?{bounds}"


def _without_other(filters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if name != "reason" or value != OTHER}
