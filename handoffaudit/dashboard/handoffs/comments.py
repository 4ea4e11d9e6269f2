"""Comments on a handoff, the assignment of the handoff, and the live updates of its page."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.handoffs.activity import newer_activity
from handoffaudit.dashboard.handoffs.handoff_page import TEMPLATE, page_context
from handoffaudit.dashboard.handoffs.page import clean_query
from handoffaudit.dashboard.handoffs.sections import handoff_or_404
from handoffaudit.dashboard.review.decide import is_version
from handoffaudit.dashboard.review.item import last_event
from handoffaudit.dashboard.review.page import item_page
from handoffaudit.dashboard.review.queue import QueueFilters
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.base import ReviewError, WrongInput, find_reviewer
from handoffaudit.handoffs.transitions import Actor


@require_role(Role.REVIEWER)
@require_POST
def comment_add(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Add a comment. A refused comment is shown again with the text, so that no input is lost."""
    shown, text = handoff_or_404(who, pk), request.POST.get("text", "")
    try:
        made = activity.add_comment(
            tenant=who.tenant, reference=str(shown.pk), text=text, actor=Actor.person(who.person)
        )
    except ReviewError as refused:
        return _render_refusal(request, who, shown, refused, text)
    return _back(request, who, shown, f"#comment-{made.pk}")


@require_role(Role.REVIEWER)
@require_POST
def comment_change(request: HttpRequest, who: TenantMembership, pk: UUID, comment: UUID) -> HttpResponse:
    """Edit or remove a comment of this person."""
    shown, actor = handoff_or_404(who, pk), Actor.person(who.person)
    text = request.POST.get("text", "")
    try:
        if request.POST.get("action") == "remove":
            activity.remove_comment(tenant=who.tenant, reference=str(shown.pk), comment=comment, actor=actor)
        else:
            activity.edit_comment(tenant=who.tenant, reference=str(shown.pk), comment=comment, text=text, actor=actor)
    except ReviewError as refused:
        return _render_refusal(request, who, shown, refused, text)
    return _back(request, who, shown, f"#comment-{comment}")


@require_role(Role.REVIEWER)
@require_POST
def assign(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Assign the handoff to a reviewer or to nobody, if nobody changed the handoff meanwhile."""
    shown, name = handoff_or_404(who, pk), request.POST.get("to", "")
    version, note = request.POST.get("version", ""), request.POST.get("note", "")
    try:
        activity.assign(
            tenant=who.tenant,
            reference=str(shown.pk),
            note=note,
            actor=Actor.person(who.person),
            to=find_reviewer(who.tenant, name) if name else None,
            seen_version=int(version) if is_version(version) else None,
        )
    except ReviewError as refused:
        messages.error(request, refused.message)
    else:
        messages.success(request, f"Assigned to {name or 'nobody'}.")
    return _back(request, who, shown, "#assignment")


def _render_refusal(
    request: HttpRequest, who: TenantMembership, shown: Handoff, refused: ReviewError, text: str
) -> HttpResponse:
    said: dict[str, Any] = {"comment_error": refused.message, "comment_text": text}
    status = 400 if isinstance(refused, WrongInput) else 409
    if request.POST.get("next") == "review":
        return item_page(request, who, shown, status, **said)
    return render(request, TEMPLATE, page_context(request, who, shown) | said, status=status)


def _back(request: HttpRequest, who: TenantMembership, shown: Handoff, anchor: str) -> HttpResponse:
    """Redirect to the page that the form was on."""
    if request.POST.get("next") == "review":
        address = reverse("dashboard:review_item", args=[who.tenant.slug, shown.pk])
        return HttpResponseRedirect(f"{address}{QueueFilters.or_all(request).query}{anchor}")
    query = clean_query(request.POST.get("list", ""))
    address = reverse("dashboard:handoff", args=[who.tenant.slug, shown.pk])
    return HttpResponseRedirect(f"{address}{'?' if query else ''}{query}{anchor}")


@require_safe
@require_role(Role.VIEWER)
@live.refuse_bad_filters
def handoff_live(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Answer the poll of a handoff page: the timeline if it changed, and a notice if somebody changed the handoff."""
    shown = handoff_or_404(who, pk)
    query = clean_query(request.GET.urlencode())
    context = {
        "who": who,
        "handoff": shown,
        "list_context": {"query": query, "head": f"?{query}" if query else "", "rest": f"&{query}" if query else ""},
    }
    parts = newer_activity(request, context)
    if live.number_seen(request, "version") not in (-1, shown.version):
        parts.append(render_to_string("dashboard/handoff/changed.html", context | {"change": last_event(shown)}))
    return live.answer(request, who, parts)


urlpatterns = [
    path("handoffs/<uuid:pk>/live/", handoff_live, name="handoff_live"),
    path("handoffs/<uuid:pk>/comments/", comment_add, name="comment_add"),
    path("handoffs/<uuid:pk>/comments/<uuid:comment>/", comment_change, name="comment_change"),
    path("handoffs/<uuid:pk>/assign/", assign, name="assign"),
]
