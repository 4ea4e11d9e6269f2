"""What a list opens with is chosen by a plain form; its answer leads back to the list."""

from typing import Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from handoffaudit.accounts import saved_views
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Role, SavedView
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.saved.built_in import ALL, TITLES, built_in
from handoffaudit.dashboard.saved.pages import LISTS, checked
from handoffaudit.dashboard.saved.tabs import joined, membership_of
from handoffaudit.handoffs.filters import FilterError

# As a form has it: the choice is left to what stands for everybody.
AS_EVERYBODY: Final = ""


@page_for(Role.VIEWER)
@require_POST
def choose(request: HttpRequest, who: Who) -> HttpResponse:
    page, everybody = request.POST.get("page", ""), "everybody" in request.POST
    if page not in LISTS:
        raise Http404("There is no such list.")
    if everybody and not who.may(Role.ADMIN):
        raise PermissionDenied("Only an administrator chooses what a page opens with for everybody.")
    chosen = request.POST.get("view", "")
    member = membership_of(who)
    try:
        if chosen == AS_EVERYBODY and not everybody:
            saved_views.forget_default(member=member, page=page)
        else:
            view = built_in(page, chosen)
            saved = None if view or chosen in (ALL, "") else _saved(who, page, chosen)
            saved_views.choose_default(
                member=member, page=page, view=saved, built_in=view.pk if view else "", everybody=everybody
            )
    except Refused as refused:
        messages.error(request, f"Not changed: {refused.message}")
    else:
        for_whom = "for everybody without a choice of their own" if everybody else "for you"
        messages.success(request, f"What {TITLES[page]} opens with is changed {for_whom}.")
    return HttpResponseRedirect(_back(request, who, page))


def _saved(who: Who, page: str, chosen: str) -> SavedView:
    views = saved_views.list_views(tenant=who.tenant, person=who.person, page=page)
    found = next((view for view in views if str(view.pk) == chosen), None)
    if found is None:
        raise Refused("There is no such view, or it is somebody else's.")
    return found


def _back(request: HttpRequest, who: Who, page: str) -> str:
    """To the list as it was."""
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    try:
        query = checked(LISTS[page], request.POST.get("query", ""))
    except FilterError:
        query = ""
    return joined(address, query or f"saved={ALL}")


urlpatterns = [path("views/opening/", choose, name="view_opening")]
