"""Views that create, change and delete saved views and choose a default view."""

from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied, TooManyFieldsSent
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from handoffaudit.accounts import Refused, saved_views
from handoffaudit.accounts.models import Role, SavedView
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.review.queue import QueueFilters
from handoffaudit.dashboard.traces import TraceFilters
from handoffaudit.dashboard.view_tabs import ALL, TITLES, build_url, find_built_in, membership_of
from handoffaudit.diagnostics.group_queries import GroupFilters
from handoffaudit.diagnostics.logs.filters import LogQuery
from handoffaudit.filter_fields import FilterError
from handoffaudit.filter_set import FilterSet
from handoffaudit.handoffs.filters import Filters

# These parameters belong to the page and are not filters, so a saved view does not keep them.
PASSING = {"saved", "cursor"}


LISTS: dict[str, type[FilterSet]] = {
    "handoffs": Filters,
    "review": QueueFilters,
    "groups": GroupFilters,
    "traces": TraceFilters,
    "logs": LogQuery,
}


def check_query(listed: type[FilterSet], text: str) -> str:
    """Return the query as the list writes it; raise `FilterError` for an unknown or bad filter."""
    try:
        asked = QueryDict(text, mutable=True)
    except TooManyFieldsSent:
        raise FilterError("query", text[:40], "use at most as many filters as the list has.") from None
    for name in PASSING & asked.keys():
        del asked[name]
    parameters = listed.parameters()
    if foreign := sorted(asked.keys() - set(parameters)):
        known = ", ".join(sorted(parameters))
        raise FilterError(foreign[0][:40], str(asked[foreign[0]])[:40], f"the list has no such filter; it has {known}.")
    return listed.from_query(asked).to_query()


@require_role(Role.VIEWER)
@require_POST
def make(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    page = request.POST.get("page", "")
    if page not in LISTS:
        raise Http404("There is no such list.")
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    try:
        query = check_query(LISTS[page], request.POST.get("query", ""))
    except FilterError as bad:
        messages.error(request, f"Not saved: {bad}")
        return HttpResponseRedirect(address)
    kept: dict[str, Any] = {"name": request.POST.get("name", ""), "shared": "shared" in request.POST}
    try:
        view = saved_views.save(member=membership_of(who), page=page, query=query, **kept)
    except Refused as refused:
        messages.error(request, f"Not saved: {refused.message}")
        return HttpResponseRedirect(build_url(address, query))
    for_whom = " for everybody" if view.person_id is None else ""
    messages.success(request, f"The view {view.name} is saved{for_whom}.")
    return _to(who, view)


@require_role(Role.VIEWER)
@require_POST
def change(request: HttpRequest, who: TenantMembership, pk: int) -> HttpResponse:
    """Rename, update or delete a saved view; the button sends `rename`, `update` or `delete` as `action`."""
    member, action = membership_of(who), request.POST.get("action", "")
    view = _get(who, pk)
    try:
        if action == "delete":
            view = saved_views.delete(member=member, pk=pk)
            messages.success(request, f"The view {view.name} is deleted.")
            return HttpResponseRedirect(
                build_url(reverse(f"dashboard:{view.page}", args=[who.tenant.slug]), view.query)
            )
        if action == "update":
            query = check_query(LISTS[view.page], request.POST.get("query", ""))
            view = saved_views.update(member=member, pk=pk, query=query)
            messages.success(request, f"The view {view.name} has these filters now.")
        else:
            view = saved_views.rename(member=member, pk=pk, name=request.POST.get("name", ""))
            messages.success(request, f"The view is named {view.name} now.")
    except SavedView.DoesNotExist as gone:
        raise Http404("There is no such view, or it belongs to somebody else.") from gone
    except (Refused, FilterError) as refused:
        messages.error(request, f"Not changed: {refused}")
    return _to(who, view)


def _get(who: TenantMembership, pk: int) -> SavedView:
    view = SavedView.objects.filter(pk=pk, tenant=who.tenant, page__in=LISTS).first()
    if view is None or view.person_id not in (None, who.person.pk):
        raise Http404("There is no such view, or it belongs to somebody else.")
    if not saved_views.may_change(view, membership_of(who)):
        raise PermissionDenied(f"Only {view.created_by}, who made this view, or an administrator may change it.")
    return view


def _to(who: TenantMembership, view: SavedView) -> HttpResponse:
    address = reverse(f"dashboard:{view.page}", args=[who.tenant.slug])
    return HttpResponseRedirect(build_url(address, view.query, f"saved={view.pk}"))


saved_view_urls = [
    path("views/make/", make, name="view_make"),
    path("views/<int:pk>/", change, name="view_change"),
]

# The form sends this value if the person follows the default view of the tenant.
AS_EVERYBODY: Final = ""


@require_role(Role.VIEWER)
@require_POST
def choose(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    page, everybody = request.POST.get("page", ""), "everybody" in request.POST
    if page not in LISTS:
        raise Http404("There is no such list.")
    if everybody and not who.may(Role.ADMIN):
        raise PermissionDenied("Only an administrator can choose the default view for everybody.")
    chosen = request.POST.get("view", "")
    member = membership_of(who)
    try:
        if chosen == AS_EVERYBODY and not everybody:
            saved_views.forget_default(member=member, page=page)
        else:
            view = find_built_in(page, chosen)
            saved = None if view or chosen in (ALL, "") else _find_view(who, page, chosen)
            saved_views.choose_default(
                member=member, page=page, view=saved, built_in=view.pk if view else "", everybody=everybody
            )
    except Refused as refused:
        messages.error(request, f"Not changed: {refused.message}")
    else:
        for_whom = "for everybody without a choice of their own" if everybody else "for you"
        messages.success(request, f"The default view of {TITLES[page]} is changed {for_whom}.")
    return HttpResponseRedirect(_back(request, who, page))


def _find_view(who: TenantMembership, page: str, chosen: str) -> SavedView:
    views = saved_views.list_views(tenant=who.tenant, person=who.person, page=page)
    found = next((view for view in views if str(view.pk) == chosen), None)
    if found is None:
        raise Refused("There is no such view, or it belongs to somebody else.")
    return found


def _back(request: HttpRequest, who: TenantMembership, page: str) -> str:
    """Return the address of the list with the filters that it had."""
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    try:
        query = check_query(LISTS[page], request.POST.get("query", ""))
    except FilterError:
        query = ""
    return build_url(address, query or f"saved={ALL}")


default_view_urls = [path("views/opening/", choose, name="view_opening")]
