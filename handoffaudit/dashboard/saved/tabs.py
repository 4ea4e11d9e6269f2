"""The saved views of a list, and which of them is in force.

A link to a view carries its filters, so that it opens for everybody, and its number (`saved`), so that one who changes
the filters still sees which view was changed.
"""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from handoffaudit.accounts import saved_views
from handoffaudit.accounts.models import Membership, Role, SavedView
from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.partials import is_htmx


@dataclass(frozen=True, slots=True)
class Tab:
    """`modified`: the filters in force are no longer those that were kept."""

    view: SavedView
    href: str
    in_force: bool
    modified: bool
    may_change: bool

    @property
    def is_shared(self) -> bool:
        return self.view.person_id is None


@dataclass(frozen=True, slots=True)
class Tabs:
    """`address` is the list without filters, `query` what it is narrowed by now. `fresh`: the answer is a part of the
    page, and the tabs stand outside of it."""

    page: str
    address: str
    query: str
    tabs: list[Tab]
    may_share: bool
    fresh: bool

    @property
    def current(self) -> Tab | None:
        return next((tab for tab in self.tabs if tab.in_force), None)

    @property
    def may_save(self) -> bool:
        """Whether there is something to keep that is not kept already."""
        return bool(self.query) and (self.current is None or self.current.modified)

    @property
    def carry(self) -> str:
        """What the list's own links carry along, to stay in the view."""
        return f"saved={self.current.view.pk}" if self.current else ""

    def href(self, query: str) -> str:
        """The list narrowed by a query, still in this view."""
        return joined(self.address, query, self.carry)


def joined_query(*parts: str) -> str:
    return "&".join(part for part in parts if part)


def joined(address: str, *parts: str) -> str:
    query = joined_query(*parts)
    return f"{address}{'&' if '?' in address else '?'}{query}" if query else address


def membership_of(who: Who) -> Membership:
    return Membership(tenant=who.tenant, person=who.person, role=who.role)


def tabs_of(request: HttpRequest, who: Who, page: str, query: str) -> Tabs:
    """For the list whose address is named `page`, narrowed by `query` as the list itself writes it."""
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    views = saved_views.listing(tenant=who.tenant, person=who.person, page=page)
    in_force = _in_force(views, request.GET.get("saved", ""), query)
    member = membership_of(who)
    tabs = [
        Tab(
            view=view,
            href=joined(address, view.query, f"saved={view.pk}"),
            in_force=view is in_force,
            modified=view is in_force and view.query != query,
            may_change=saved_views.may_change(view, member),
        )
        for view in views
    ]
    return Tabs(page, address, query, tabs, who.may(Role.REVIEWER), is_htmx(request))


def _in_force(views: list[SavedView], asked: str, query: str) -> SavedView | None:
    """The one that was opened; else the one that has just these filters. One that is gone, or somebody else's, is
    none: the filters are in the address anyway."""
    opened = next((view for view in views if str(view.pk) == asked), None)
    return opened or next((view for view in views if query and view.query == query), None)
