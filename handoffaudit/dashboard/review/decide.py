"""Actions on one handoff in review (decide, reassign, take back, reopen, undo), and the forecast of a bulk decision."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role, target_of
from handoffaudit.dashboard.handoffs.page import clean_query
from handoffaudit.dashboard.review.item import Notice, notice_of
from handoffaudit.dashboard.review.page import item_page, with_done
from handoffaudit.dashboard.review.queue import MOST_WAITING, QueueFilters, progress_of
from handoffaudit.dashboard.view_tabs import build_url
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.review import undo as review_undo
from handoffaudit.handoffs.review.base import NothingToUndo, NotReviewable, ReviewError, Stale, find_reviewer
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.review.queue import count_pressing
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.policy.kinds import load_config

NOTICE_TEMPLATE = "dashboard/review/notice.html"

MOST_DIGITS = 9

Action = Callable[[str, int], Handoff]


@require_role(Role.REVIEWER)
@require_POST
def decide(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    decision = decision_of(request)
    if decision is None:
        return _incomplete(request, who, pk, "Choose Approve or Decline.")

    def act(note: str, version: int) -> Handoff:
        return decisions.decide_handoff(
            tenant=who.tenant,
            reference=str(pk),
            decision=decision,
            note=note,
            actor=Actor.person(who.person),
            seen_version=version,
        )

    return _do(request, who, pk, act)


@require_role(Role.REVIEWER)
@require_POST
def pass_on(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    name = request.POST.get("to", "")

    def act(note: str, version: int) -> Handoff:
        return activity.reassign(
            tenant=who.tenant,
            reference=str(pk),
            note=note,
            actor=Actor.person(who.person),
            to=find_reviewer(who.tenant, name) if name else None,
            seen_version=version,
        )

    return _do(request, who, pk, act)


@require_role(Role.REVIEWER)
@require_POST
def take_back(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    def act(note: str, version: int) -> Handoff:
        return activity.return_to_queue(
            tenant=who.tenant, reference=str(pk), actor=Actor.person(who.person), seen_version=version
        )

    return _do(request, who, pk, act, stays=True)


@require_role(Role.REVIEWER)
@require_POST
def reopen(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    def act(note: str, version: int) -> Handoff:
        return review_undo.reopen(
            tenant=who.tenant,
            reference=str(pk),
            note=note,
            actor=Actor.person(who.person),
            seen_version=version,
        )

    return _do(request, who, pk, act, stays=True)


@require_role(Role.REVIEWER)
@require_POST
def undo(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    def act(note: str, version: int) -> Handoff:
        (result,) = review_undo.undo_changes(
            tenant=who.tenant, references=[(str(pk), version)], actor=Actor.person(who.person)
        )
        if result.error:
            raise result.error
        return queries.get(who.tenant, str(pk))

    return _do(request, who, pk, act, stays=True)


@require_role(Role.REVIEWER)
@require_POST
def undo_last(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Undo the last change of this person; a second request undoes the change before that."""
    try:
        handoff = review_undo.undo_last(tenant=who.tenant, actor=Actor.person(who.person))
    except NothingToUndo as refused:
        if target_of(request) == "told":
            nothing = Notice(None, refused.message, tone="info")
            return render_page(request, NOTICE_TEMPLATE, notice_context(request, who, nothing), status=409)
        messages.info(request, refused.message)
        return HttpResponseRedirect(
            reverse("dashboard:review", args=[who.tenant.slug]) + QueueFilters.or_all(request).list_query
        )
    if target_of(request) == "told":
        return render_page(request, NOTICE_TEMPLATE, notice_context(request, who, notice_of(who, handoff)))
    return HttpResponseRedirect(_after(request, who, handoff, stays=True))


def _do(
    request: HttpRequest, who: TenantMembership, pk: uuid.UUID, act: Action, *, stays: bool = False
) -> HttpResponse:
    """Run the action and answer with its result.

    If the request asks for a notice, the answer is a notice. If the request came from the handoff's own page, the
    answer is a redirect to that page. Otherwise, the answer is a redirect in review: with `stays` to the same handoff,
    which waits for a decision, else to the next handoff. Raise `Http404` for an unknown handoff.
    """
    version = request.POST.get("version", "")
    if not is_version(version):
        return _incomplete(request, who, pk, "Open the handoff again.")
    try:
        handoff = act(request.POST.get("note", ""), int(version))
    except Handoff.DoesNotExist:
        raise Http404("There is no such handoff.") from None
    except ReviewError as refused:
        return _render_refusal(request, who, pk, refused)
    done = notice_of(who, handoff)
    if target_of(request) == "told":
        return render_page(request, NOTICE_TEMPLATE, notice_context(request, who, done))
    if request.POST.get("next") == "handoff":
        messages.success(request, f"{handoff.source_agent_id} → {handoff.target_agent_id}: {done.text}")
        address = reverse("dashboard:handoff", args=[who.tenant.slug, pk])
        return HttpResponseRedirect(build_url(address, clean_query(request.POST.get("list", ""))))
    return HttpResponseRedirect(_after(request, who, handoff, stays=stays))


def notice_context(request: HttpRequest, who: TenantMembership, done: Notice) -> dict[str, Any]:
    """Return the template context for a notice with the counts that the change affected."""
    progress = progress_of(who)
    return {
        "notice": done,
        "progress": progress,
        "waiting_count": count_pressing(who.tenant, MOST_WAITING),
        "is_alone": True,
        "queue_filters": QueueFilters.or_all(request),
    }


def _incomplete(request: HttpRequest, who: TenantMembership, pk: uuid.UUID, remedy: str) -> HttpResponse:
    return _render_refusal(request, who, pk, ReviewError(f"Nothing was changed: the form was incomplete. {remedy}"))


def _render_refusal(request: HttpRequest, who: TenantMembership, pk: uuid.UUID, refused: ReviewError) -> HttpResponse:
    """Render the page again with the text that the person typed, or only a notice if the request asks for one."""
    try:
        handoff = queries.get(who.tenant, str(pk))
    except Handoff.DoesNotExist:
        raise Http404("There is no such handoff.") from None
    is_stale = isinstance(refused, Stale | NotReviewable)
    status = 409 if is_stale else 400
    if target_of(request) == "told":
        context = notice_context(request, who, Notice(handoff, refused.message, tone="error"))
        return render_page(request, NOTICE_TEMPLATE, context, status=status)
    said: dict[str, Any] = {"stale" if is_stale else "error": refused.message}
    note = request.POST.get("note", "")
    return item_page(request, who, handoff, status, note=note, to=request.POST.get("to", ""), **said)


def _after(request: HttpRequest, who: TenantMembership, done: Handoff, *, stays: bool) -> str:
    """Return the address of the page to open next, which shows a notice about the change to `done`."""
    slug, query = who.tenant.slug, QueueFilters.or_all(request).query
    if stays:
        address = reverse("dashboard:review_item", args=[slug, done.pk])
    elif then := _find_waiting(who, request.POST.get("then", "")):
        address = reverse("dashboard:review_item", args=[slug, then.pk])
    else:
        address = reverse("dashboard:review_next", args=[slug])
    return with_done(f"{address}{query}", str(done.pk))


def _find_waiting(who: TenantMembership, reference: str) -> Handoff | None:
    try:
        found = queries.get(who.tenant, str(uuid.UUID(reference)))
    except (ValueError, Handoff.DoesNotExist):
        return None
    return found if found.state in REVIEWABLE else None


def decision_of(request: HttpRequest) -> Decision | None:
    given = request.POST.get("decision", "")
    return Decision(given) if given in set(Decision) else None


def is_version(text: str) -> bool:
    # int() refuses texts of thousands of digits.
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


# For a decision on more handoffs than this, the reviewer must type the number.
MOST_UNTYPED = 100


# The columns that decide whether a handoff can be approved.
_TELLING = ("state", "format", "handoff_type", "source_agent_id", "target_agent_id", "codes", "verdict", "approvable")


@dataclass(slots=True)
class Forecast:
    """The outcome that a bulk decision would have, shown before the reviewer confirms.

    `number` counts the selected handoffs. `held` and `rejected` count the handoffs that still wait for review, and
    `gone` counts the others. Nobody can approve the waiting handoffs that `to_itself` counts (an agent hands off to
    itself) and that `unreadable` counts (the document could not be read). `four_eyes` counts the waiting handoffs that
    need a second person. `is_more` is true if more than `most` handoffs are selected; then only `number` is counted.
    """

    number: int = 0
    held: int = 0
    rejected: int = 0
    to_itself: int = 0
    unreadable: int = 0
    four_eyes: int = 0
    gone: int = 0
    is_more: bool = False
    most: int = 0

    @property
    def declinable(self) -> int:
        return self.held + self.rejected

    @property
    def approvable(self) -> int:
        return self.declinable - self.to_itself - self.unreadable

    @property
    def needs_number(self) -> bool:
        return self.number > MOST_UNTYPED


def count_needing_note(who: TenantMembership, ids: list[uuid.UUID]) -> int:
    """Return how many of the handoffs cannot be approved without a note.

    A rejected handoff needs a note, unless another person has already proposed the approval with a note.
    """
    rejected = queries.of_tenant(who.tenant).filter(pk__in=ids, state=State.REJECTED, approvable=True)
    rows = [one for one in rejected.only("version", *_TELLING) if one.may_be_approved]
    proposals, actor = decisions.list_proposals(rows), Actor.person(who.person)
    explained = [
        one
        for one in proposals.values()
        if one.decision == decisions.Decision.APPROVE and one.note and not decisions.is_by(one, actor)
    ]
    return len(rows) - len(explained)


def forecast(who: TenantMembership, ids: list[uuid.UUID], *, is_more: bool, most: int) -> Forecast:
    found = Forecast(number=len(ids), is_more=is_more, most=most)
    if is_more:
        return found
    policies = load_config(who.tenant.pk)
    rows = queries.of_tenant(who.tenant).filter(pk__in=ids, state__in=REVIEWABLE).order_by()
    for state, approvable, kind, number in rows.values_list("state", "approvable", "handoff_type").annotate(
        Count("pk")
    ):
        found.held += number if state == State.HELD else 0
        found.rejected += number if state == State.REJECTED else 0
        found.to_itself += 0 if approvable else number
        found.four_eyes += number if policies.policy_for(kind).four_eyes else 0
    nameless = rows.filter(handoff_type="", source_agent_id="", target_agent_id="")
    found.unreadable = sum(one.is_unreadable for one in nameless.only(*_TELLING))
    found.gone = found.number - found.declinable
    return found


urlpatterns = [
    path("handoffs/<uuid:pk>/decide/", decide, name="decide"),
    path("handoffs/<uuid:pk>/pass-on/", pass_on, name="pass_on"),
    path("handoffs/<uuid:pk>/take-back/", take_back, name="take_back"),
    path("handoffs/<uuid:pk>/reopen/", reopen, name="reopen"),
    path("handoffs/<uuid:pk>/undo/", undo, name="undo"),
    path("review/undo/", undo_last, name="undo_last"),
]
