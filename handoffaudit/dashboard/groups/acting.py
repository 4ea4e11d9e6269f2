"""What a reviewer says of a group: mute it, take that back, or take the sign off one that came back."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.views.decorators.http import require_POST

from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.groups.group import answer, get_group
from handoffaudit.dashboard.groups.words import muted_words
from handoffaudit.diagnostics.groups import mutes
from handoffaudit.diagnostics.models import FindingGroup


@page_for(Role.REVIEWER)
@require_POST
def mute(request: HttpRequest, who: Who, group: int) -> HttpResponse:
    """Back to the group, where it can be undone; a note that is missing is asked for on the page itself."""
    until, note = request.POST.get("until", mutes.FIFTH), request.POST.get("note", "")
    try:
        found = mutes.mute_group(tenant=who.tenant, group=group, until=until, note=note, actor=who.person.username)
    except FindingGroup.DoesNotExist:
        raise Http404("There is no such finding group.") from None
    except Refused as refused:
        said = {"refused": refused, "note": note[: mutes.LONGEST_NOTE], "until": until}
        return answer(request, who, get_group(who, group), status=400, **said)
    messages.success(request, f"The group is muted {muted_words(found)}. To undo it, press Unmute.")
    return redirect("dashboard:group", tenant=who.tenant.slug, group=found.pk)


@page_for(Role.REVIEWER)
@require_POST
def unmute(request: HttpRequest, who: Who, group: int) -> HttpResponse:
    found = get_group(who, group)
    mutes.unmute_group(tenant=who.tenant, group=found.pk, actor=who.person.username)
    messages.success(request, "The group is not muted any more.")
    return redirect("dashboard:group", tenant=who.tenant.slug, group=found.pk)


@page_for(Role.REVIEWER)
@require_POST
def acknowledge(request: HttpRequest, who: Who, group: int) -> HttpResponse:
    found = get_group(who, group)
    mutes.acknowledge_group(tenant=who.tenant, group=found.pk, actor=who.person.username)
    messages.success(request, "The group stands among the others again.")
    return redirect("dashboard:group", tenant=who.tenant.slug, group=found.pk)


urlpatterns = [
    path("groups/<int:group>/mute/", mute, name="group_mute"),
    path("groups/<int:group>/unmute/", unmute, name="group_unmute"),
    path("groups/<int:group>/acknowledge/", acknowledge, name="group_acknowledge"),
]
