"""Decisions as plain forms: from the queue, from a handoff's own page, and for several at once."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.review import item_page, query_of
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.reviewing import (
    STATES,
    Decision,
    NotReviewable,
    Result,
    ReviewError,
    Stale,
    decide,
    decide_many,
)
from handoffaudit.handoffs.states import REVIEWABLE

MOST_AT_ONCE = 200
TOLD_ONE_BY_ONE = 5
MOST_DIGITS = 9


@page_for(Role.REVIEWER)
@require_POST
def decide_one(request: HttpRequest, who: Who, pk: uuid.UUID) -> HttpResponse:
    note = request.POST.get("note", "")
    decision = _decision(request)
    version = request.POST.get("version", "")
    try:
        handoff = queries.get(who.tenant, str(pk))
        if decision is None or not _is_version(version):
            error = "Nothing was decided: the form came incomplete. Choose Approve or Decline."
            return item_page(request, who, handoff, 400, error=error, note=note)
        handoff = decide(
            tenant=who.tenant,
            reference=str(pk),
            decision=decision,
            note=note,
            actor=Actor.person(who.person),
            seen_version=int(version),
        )
    except Handoff.DoesNotExist:
        raise Http404("There is no such handoff.") from None
    except ReviewError as refused:
        return _refused(request, who, str(pk), refused, note)
    messages.success(request, f"{handoff.source_agent_id} → {handoff.target_agent_id}: {handoff.state}.")
    return HttpResponseRedirect(_after(request, who, handoff))


def _refused(request: HttpRequest, who: Who, reference: str, refused: ReviewError, note: str) -> HttpResponse:
    handoff = queries.get(who.tenant, reference)
    if isinstance(refused, Stale | NotReviewable):
        told: dict[str, Any] = {"stale": refused.message}
        return item_page(request, who, handoff, 409, note=note, **told)
    return item_page(request, who, handoff, 400, error=refused.message, note=note)


def _after(request: HttpRequest, who: Who, decided: Handoff) -> str:
    """Back to the handoff's page where the decision was made there; else on to the next one of the queue."""
    slug = who.tenant.slug
    if request.POST.get("next") == "handoff":
        return reverse("dashboard:handoff", args=[slug, decided.pk])
    place = query_of(q=request.POST.get("q", ""), cursor=request.POST.get("cursor", ""))
    try:
        then = queries.get(who.tenant, str(uuid.UUID(request.POST.get("then", ""))))
        is_waiting = then.state in REVIEWABLE
    except (ValueError, Handoff.DoesNotExist):
        is_waiting = False
    if is_waiting:
        return reverse("dashboard:review_item", args=[slug, then.pk]) + place
    return reverse("dashboard:review_next", args=[slug]) + place


@page_for(Role.REVIEWER)
@require_POST
def decide_several(request: HttpRequest, who: Who) -> HttpResponse:
    decision = _decision(request)
    chosen = _chosen(request)
    if decision is None or not chosen:
        messages.error(request, "Nothing was decided: select handoffs of the queue, then choose Approve or Decline.")
    elif len(chosen) > MOST_AT_ONCE:
        messages.error(
            request, f"Nothing was decided: {len(chosen)} are selected, {MOST_AT_ONCE} at once are the most."
        )
    else:
        results = decide_many(
            tenant=who.tenant,
            references=chosen,
            decision=decision,
            note=request.POST.get("note", ""),
            actor=Actor.person(who.person),
        )
        _tell(request, decision, results)
    return HttpResponseRedirect(reverse("dashboard:review", args=[who.tenant.slug]))


def _tell(request: HttpRequest, decision: Decision, results: list[Result]) -> None:
    refused = [result for result in results if result.error]
    if done := len(results) - len(refused):
        messages.success(request, f"{done} {STATES[decision]}.")
    for result in refused[:TOLD_ONE_BY_ONE]:
        messages.warning(request, f"{result.reference} was not {STATES[decision]}. {result.error}")
    if (more := len(refused) - TOLD_ONE_BY_ONE) > 0:
        messages.warning(request, f"{more} more were not {STATES[decision]}, for reasons like these.")


def _decision(request: HttpRequest) -> Decision | None:
    given = request.POST.get("decision", "")
    return Decision(given) if given in list(Decision) else None


def _is_version(text: str) -> bool:
    # int() refuses thousands of digits.
    return text.isdecimal() and len(text) <= MOST_DIGITS


def _chosen(request: HttpRequest) -> list[tuple[str, int]]:
    """What is selected, as `<id>:<version seen>`; what is not written so is left out."""
    chosen = []
    for value in request.POST.getlist("select"):
        reference, _, version = value.partition(":")
        if _is_version(version):
            chosen.append((reference, int(version)))
    return chosen


urlpatterns = [
    path("handoffs/decide/", decide_several, name="decide_many"),
    path("handoffs/<uuid:pk>/decide/", decide_one, name="decide"),
]
