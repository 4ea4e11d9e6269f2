"""Saved views made, renamed, changed and deleted; each answer leads back to the list."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from handoffaudit.accounts import saved_views
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Role, SavedView
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.saved.pages import LISTS, checked
from handoffaudit.dashboard.saved.tabs import joined, membership_of
from handoffaudit.handoffs.filters import FilterError


@page_for(Role.VIEWER)
@require_POST
def make(request: HttpRequest, who: Who) -> HttpResponse:
    page = request.POST.get("page", "")
    if page not in LISTS:
        raise Http404("There is no such list.")
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    try:
        query = checked(LISTS[page], request.POST.get("query", ""))
    except FilterError as bad:
        messages.error(request, f"Not saved: {bad}")
        return HttpResponseRedirect(address)
    kept: dict[str, Any] = {"name": request.POST.get("name", ""), "shared": "shared" in request.POST}
    try:
        view = saved_views.save(member=membership_of(who), page=page, query=query, **kept)
    except Refused as refused:
        messages.error(request, f"Not saved: {refused.message}")
        return HttpResponseRedirect(joined(address, query))
    for_whom = " for everybody" if view.person_id is None else ""
    messages.success(request, f"The view {view.name} is saved{for_whom}.")
    return _to(who, view)


@page_for(Role.VIEWER)
@require_POST
def change(request: HttpRequest, who: Who, pk: int) -> HttpResponse:
    """By the button that was used: `rename`, `update` to the filters in force, or `delete`."""
    member, action = membership_of(who), request.POST.get("action", "")
    view = _get(who, pk)
    try:
        if action == "delete":
            view = saved_views.delete(member=member, pk=pk)
            messages.success(request, f"The view {view.name} is deleted.")
            return HttpResponseRedirect(joined(reverse(f"dashboard:{view.page}", args=[who.tenant.slug]), view.query))
        if action == "update":
            query = checked(LISTS[view.page], request.POST.get("query", ""))
            view = saved_views.update(member=member, pk=pk, query=query)
            messages.success(request, f"The view {view.name} has these filters now.")
        else:
            view = saved_views.rename(member=member, pk=pk, name=request.POST.get("name", ""))
            messages.success(request, f"The view is named {view.name} now.")
    except SavedView.DoesNotExist as gone:
        raise Http404("There is no such view, or it is somebody else's.") from gone
    except (Refused, FilterError) as refused:
        messages.error(request, f"Not changed: {refused}")
    return _to(who, view)


def _get(who: Who, pk: int) -> SavedView:
    view = SavedView.objects.filter(pk=pk, tenant=who.tenant, page__in=LISTS).first()
    if view is None or view.person_id not in (None, who.person.pk):
        raise Http404("There is no such view, or it is somebody else's.")
    if not saved_views.may_change(view, membership_of(who)):
        raise PermissionDenied(f"Only {view.created_by}, who made this view, or an administrator may change it.")
    return view


def _to(who: Who, view: SavedView) -> HttpResponse:
    address = reverse(f"dashboard:{view.page}", args=[who.tenant.slug])
    return HttpResponseRedirect(joined(address, view.query, f"saved={view.pk}"))


urlpatterns = [
    path("views/make/", make, name="view_make"),
    path("views/<int:pk>/", change, name="view_change"),
]
