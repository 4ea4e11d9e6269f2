"""Saved and built-in views of a list as tabs, and the default view that the list opens with."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from django.http import HttpRequest, HttpResponseRedirect, QueryDict
from django.urls import reverse

from handoffaudit.accounts import saved_views
from handoffaudit.accounts.models import DefaultView, Membership, Role, SavedView, Tenant
from handoffaudit.accounts.saved_views import Defaults
from handoffaudit.dashboard.access import TenantMembership, is_htmx
from handoffaudit.filter_set import FilterSet


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A view that the product ships: `pk` identifies it in addresses, and `why` explains it in a sentence."""

    pk: str
    name: str
    query: str
    why: str


ALL: Final = "all"

_KEY: Final = re.compile(r"[a-z0-9-]{1,40}\Z", re.ASCII)

# These are the names in the menu.
TITLES: Final = {
    "handoffs": "Handoffs",
    "review": "Review",
    "groups": "Findings",
    "traces": "Traces",
    "logs": "Logs",
}

BUILT_IN: Final[Mapping[str, tuple[BuiltIn, ...]]] = {
    "handoffs": (
        BuiltIn("waiting", "Waiting for a person", "state=held", "Held until a person decides"),
        BuiltIn(
            "rejected-today",
            "Rejected, last 24 hours",
            "state=rejected&since=24h",
            "Rejected handoffs of the last 24 hours",
        ),
        BuiltIn("send-again", "Awaiting retry", "state=rejected", "Rejected, without a later attempt"),
        BuiltIn("would-be-stopped", "Shadow blocks", "flag=shadowed", "Accepted only because of shadow mode"),
        BuiltIn("unverified", "Unverified", "flag=unverified", "Accepted, approved or held without the LLM check"),
        BuiltIn("overdue", "Overdue", "flag=overdue", "Held for longer than the limit of its type"),
    ),
    "groups": (
        BuiltIn(
            "to-review",
            "Waiting for review",
            "sort=waiting",
            "Groups with handoffs that wait for a person, the largest number first",
        ),
        BuiltIn("seen-last", "Seen last", "sort=newest", "Groups by their last handoff, newest first"),
        BuiltIn(
            "growing",
            "Growing",
            "sort=growing",
            "At least 10 handoffs in the last 7 days, and 1.5 times as many as in the 7 days before",
        ),
        BuiltIn("most", "Most handoffs", "sort=most", "The most frequent groups first"),
    ),
    "review": (
        BuiltIn("held", "Held", "view=held", "Held until a person decides"),
        BuiltIn("escalated", "Escalated", "view=escalated", "Rejected and critical, or not fixed by retries or repair"),
        BuiltIn("rejected", "Rejected", "view=rejected", "Other rejected handoffs, the newest first"),
        BuiltIn("mine", "Assigned to me", "view=mine", "Assigned to you, by yourself or somebody else"),
        BuiltIn("second", "Waiting for a second person", "view=second", "Proposed by another person; you may agree"),
        BuiltIn("proposed", "My proposals", "view=proposed", "Your proposals that wait for a second person"),
        BuiltIn(
            "passed-on",
            "Reassigned",
            "view=passed_on",
            "Out of the queue: assigned to a person, set aside, or marked as handled",
        ),
        BuiltIn("muted", "Muted", "view=muted", "All findings that block the handoff are muted"),
    ),
    "traces": (
        BuiltIn("today", "Last 24 hours", "since=24h", "With a handoff in the last 24 hours"),
        BuiltIn("rejected", "With a rejected handoff", "state=rejected", "With at least one rejected handoff"),
        BuiltIn("waiting", "Waiting for a person", "state=held", "With at least one held handoff"),
    ),
    "logs": (
        BuiltIn("failures", "Health lines", "kind=health", "Lines that say whether a handoff file was used"),
        BuiltIn("errors", "Errors", "level=error", "Lines with the level error"),
        BuiltIn("gate", "Gate", "kind=gate", "Calls, decisions and errors of gates"),
        BuiltIn("bad", "Lines that can't be read", "kind=bad", "Lines in no known format, with the reason"),
    ),
}


def find_built_in(page: str, pk: str) -> BuiltIn | None:
    return next((one for one in BUILT_IN[page] if one.pk == pk), None)


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab above a list.

    `in_force` is true for the current view. `modified` is true if the list has other filters than its current view.
    `opens` is true for the default view of the list. `number` is the number of rows of the view as text, or empty if
    the list does not count them.
    """

    view: SavedView | BuiltIn
    href: str
    in_force: bool
    modified: bool
    may_change: bool
    opens: bool
    number: str = ""

    @property
    def key(self) -> str:
        """Return the view's key in addresses and forms."""
        return str(self.view.pk)

    @property
    def is_built_in(self) -> bool:
        return isinstance(self.view, BuiltIn)

    @property
    def is_shared(self) -> bool:
        return isinstance(self.view, SavedView) and self.view.person_id is None

    @property
    def title(self) -> str:
        if isinstance(self.view, BuiltIn):
            return self.view.why
        return f"Shared with everybody by {self.view.created_by}" if self.is_shared else ""


@dataclass(frozen=True, slots=True)
class Tabs:
    """The tabs of a list.

    `address` is the list without filters, and `query` holds its current filters. `fresh` is true if the response is a
    partial without the tabs. The tabs must then be sent beside it. `own` is the key of the default view that the person
    chose, and `everybodys` the key of the default view that an administrator chose; None if nobody chose one. `asked`
    is the key of the view that the address of the request names, or an empty string.
    """

    page: str
    title: str
    address: str
    query: str
    tabs: list[Tab]
    may_share: bool
    fresh: bool
    own: str | None
    everybodys: str | None
    asked: str

    @property
    def current(self) -> Tab | None:
        return next((tab for tab in self.tabs if tab.in_force), None)

    @property
    def everything(self) -> str:
        """Return the address of the list without filters, even where the list has a default view."""
        return f"{self.address}?saved={ALL}" if self.opens else self.address

    @property
    def everything_name(self) -> str:
        return "All"

    @property
    def opens(self) -> bool:
        """Return whether the list has a default view."""
        return any(tab.opens for tab in self.tabs)

    @property
    def everybodys_name(self) -> str:
        return next((tab.view.name for tab in self.tabs if tab.key == self.everybodys), self.everything_name)

    @property
    def may_save(self) -> bool:
        """Return whether the current filters can be saved as a view and are not saved yet."""
        return bool(self.query) and (self.current is None or self.current.modified)

    @property
    def saved_key(self) -> str:
        """Return the key that links and forms of the list send as `saved`: the key of the current view, or empty.

        A built-in view is repeated only if the address named it. Otherwise the filters in the address identify it.
        """
        tab = self.current
        return tab.key if tab and (tab.key == self.asked or not tab.is_built_in) else ""

    @property
    def saved_query(self) -> str:
        """Return `saved_key` as part of a query."""
        return f"saved={self.saved_key}" if self.saved_key else ""

    @property
    def link_query(self) -> str:
        """Return the query for the list in its current state: the current filters, in the same view."""
        return self.href(self.query).partition("?")[2]

    def href(self, query: str) -> str:
        """Return the address of the list with other filters, in the same view."""
        return build_url(self.address, query, self.saved_query) if query or self.saved_query else self.everything


def join_query(*parts: str) -> str:
    return "&".join(part for part in parts if part)


def build_url(address: str, *parts: str) -> str:
    query = join_query(*parts)
    return f"{address}{'&' if '?' in address else '?'}{query}" if query else address


def view_query_of(asked: QueryDict) -> str:
    """Return the part of a query that names a view; an empty string if the query names none.

    Links back to a list repeat this part, because the address of a list without any query opens its default view.
    """
    view = asked.get("saved", "")
    return f"saved={view}" if _KEY.match(view) else ""


def membership_of(who: TenantMembership) -> Membership:
    return Membership(tenant=who.tenant, person=who.person, role=who.role)


def tabs_of(
    request: HttpRequest,
    who: TenantMembership,
    page: str,
    query: str,
    *,
    part: str = "",
    numbers: Mapping[str, str] = MappingProxyType({}),
) -> Tabs:
    """Return the tabs of the list `page`, whose current filters are `query` as the list writes them.

    Built-in views come first. If no view has exactly the filters `query`, the view with only the filters `part` is
    current, whatever other filters are set. `numbers` gives how many rows some built-in views have, by their keys.
    """
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    asked = request.GET.get("saved", "")
    saved = saved_views.list_views(tenant=who.tenant, person=who.person, page=page)
    views: list[SavedView | BuiltIn] = [*BUILT_IN[page], *saved]
    in_force = _in_force([*saved, *BUILT_IN[page]], asked, query, part)
    defaults = defaults_of(request, who, page)
    opens = view_of(defaults.in_force, page)
    member = membership_of(who)
    tabs = [
        Tab(
            view=view,
            href=build_url(address, view.query, f"saved={view.pk}"),
            in_force=view is in_force,
            modified=view is in_force and view.query != query,
            may_change=isinstance(view, SavedView) and saved_views.may_change(view, member),
            opens=opens is not None and view.pk == opens.pk,
            number=numbers.get(str(view.pk), ""),
        )
        for view in views
    ]
    return Tabs(
        page=page,
        title=TITLES[page],
        address=address,
        query=query,
        tabs=tabs,
        may_share=who.may(Role.REVIEWER),
        fresh=is_htmx(request),
        own=_find_view_key(defaults.own, page),
        everybodys=_find_view_key(defaults.everybodys, page),
        asked=asked,
    )


def defaults_of(request: HttpRequest, who: TenantMembership, page: str) -> Defaults:
    """Return the default views of a list; a request loads them once for the page and its tabs."""
    known: dict[str, Defaults] = vars(request).setdefault("_default_views", {})
    if page not in known:
        known[page] = saved_views.load_defaults(tenant=who.tenant, person=who.person, page=page)
    return known[page]


def _in_force(views: Sequence[SavedView | BuiltIn], asked: str, query: str, part: str) -> SavedView | BuiltIn | None:
    """Return the view that the address names, else a view with exactly the filters `query`, else a view of only `part`.

    A deleted view, or a view of another person, counts as no view: the address holds the filters anyway.
    """
    opened = next((view for view in views if str(view.pk) == asked), None)
    same = (view for wanted in (query, part) for view in views if wanted and view.query == wanted)
    return opened or next(same, None)


def _find_view_key(row: DefaultView | None, page: str) -> str | None:
    if row is None:
        return None
    view = view_of(row, page)
    return str(view.pk) if view else ALL


def view_of(row: DefaultView | None, page: str) -> SavedView | BuiltIn | None:
    """Return the view that a default names.

    Return None if nobody chose a default, if the choice is the list without filters, or if the product no longer has
    the built-in view.
    """
    return (row.view or find_built_in(page, row.built_in)) if row else None


def redirect_without_blanks(
    request: HttpRequest, filters: FilterSet, query: str, tabs: Tabs
) -> HttpResponseRedirect | None:
    """Return a redirect to the address without empty filters.

    Return None if the address has no empty filter, or if HTMX sent the request. A form without JavaScript sends its
    empty fields, too. With the redirect, people save and share an address without these fields.
    """
    blank = {name for name, text in request.GET.items() if not str(text).strip()}
    if is_htmx(request) or blank.isdisjoint(filters.parameters()):
        return None
    return HttpResponseRedirect(tabs.href(query))


def redirect_to_default(request: HttpRequest, who: TenantMembership, page: str) -> HttpResponseRedirect | None:
    """Return a redirect from the address of a list to the default view of the list.

    Return None if the address has a query, if HTMX sent the request, or if the list has no default view.
    """
    if request.GET or is_htmx(request):
        return None
    view = view_of(defaults_of(request, who, page).in_force, page)
    if view is None:
        return None
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    return HttpResponseRedirect(build_url(address, view.query, f"saved={view.pk}"))


def list_url(tenant: Tenant, page: str, query: str = "") -> str:
    """Return the address of a list with the filters `query`.

    Without filters, the address opens the list with all rows instead of its default view.
    """
    all_rows = f"saved={ALL}" if page in BUILT_IN else ""
    return build_url(reverse(f"dashboard:{page}", args=[tenant.slug]), query or all_rows)
