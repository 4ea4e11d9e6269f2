"""One handoff: what is wrong with it, where, and what would make it pass."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import attempts as attempt_pages
from handoffaudit.dashboard import handoff_parts as parts
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.attempts import advice_of, asked_of
from handoffaudit.dashboard.claims import claims_of
from handoffaudit.dashboard.document import PartNotFoundError, is_text, place_of, text_piece, tree
from handoffaudit.dashboard.headline import headline
from handoffaudit.dashboard.partials import is_htmx, render_page, target_of
from handoffaudit.dashboard.places import batch, spots_of
from handoffaudit.dashboard.shown_document import ShownDocument, shown_document
from handoffaudit.dashboard.unreadable import excerpt, raw_text
from handoffaudit.handoffs import comparing, holding, parking, queries, remedies
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HandoffBody, State
from handoffaudit.handoffs.states import REVIEWABLE

TEMPLATE = "dashboard/handoff/page.html"
PART_TEMPLATE = "dashboard/handoff/part.html"
MOST_EVENTS = 50
MOST_PATH = 1000
BESIDE = ("context", "evidence")


@require_safe
@page_for(Role.VIEWER)
def handoff(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    shown = _get(who, pk)
    if target_of(request) == "judging":
        return _judging(request, shown)
    body = queries.body(shown)
    verdict = queries.current_verdict(shown)
    document = shown_document(body, verdict)
    found = document.found
    first_issue = _number(request.GET.get("issues", "0")) or 0
    placed = batch(found, first_issue)
    events = queries.events(shown)
    facts = verdict or {}
    context = {
        "handoff": shown,
        "verdict": verdict,
        "headline": headline(shown, found, events),
        "found": placed,
        "found_before": min(first_issue, len(found)),
        "found_after": max(len(found) - first_issue - len(placed), 0),
        "next_issue": first_issue + len(placed),
        "is_waiting": shown.state in WAITING_STATES,
        "is_reviewable": shown.state in REVIEWABLE,
        "holder": _holder(who, shown),
        "parent": parts.parent_of(shown),
        "attempts": queries.earlier_attempts(shown),
        **_lineage(who, shown, verdict),
        "claims": claims_of(verdict, document.value, parts.evidence_of(shown, body)),
        "later": queries.later_attempt(shown),
        "events": events[-MOST_EVENTS:][::-1],
        "events_hidden": max(len(events) - MOST_EVENTS, 0),
        "chain": parts.chain_drawings(
            facts.get("chain"), "?chain=full#chain", is_full=request.GET.get("chain") == "full"
        ),
        "tokens": parts.token_drawings(facts.get("token_counts")),
        "beside": parts.aside_trees(body),
        "handoffs_url": reverse("dashboard:handoffs", args=[who.tenant.slug]),
        "chain_is_full": request.GET.get("chain") == "full",
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, shown.pk]),
        "is_lifted": document.is_lifted,
        **_document(request, bytes(body.original), document.value, placed),
    }
    return render_page(request, TEMPLATE, context, partials=("document",))


def _lineage(who: Who, shown: Handoff, verdict: dict[str, Any] | None) -> dict[str, Any]:
    """The other attempts, what was asked of the sender, and whether it can be repaired here."""
    lineage = comparing.attempts(shown)
    asked = asked_of(remedies.of(shown))
    advice = advice_of(shown, verdict)
    can_repair = shown.state == State.REJECTED and who.may(Role.REVIEWER)
    return {
        "lineage": lineage,
        "asked": asked,
        "advice": advice,
        "can_repair": can_repair,
        "has_lineage": bool(len(lineage) > 1 or asked or advice or can_repair),
    }


def _document(request: HttpRequest, original: bytes, value: Any, found: list[Any]) -> dict[str, Any]:
    if value is None:
        text, left_out = raw_text(original)
        return {"excerpt": excerpt(original, found), "raw": text, "raw_left_out": left_out, "unreadable": True}
    if request.GET.get("view") == "raw":
        text, left_out = raw_text(original)
        return {"raw": text, "raw_left_out": left_out}
    return {"tree": parts.document_tree(value, found)}


def _judging(request: HttpRequest, shown: Handoff) -> HttpResponse:
    """The answer to a page that waits for the verdict: nothing new, or to load itself again."""
    response = HttpResponse(status=HTTPStatus.NO_CONTENT)
    if shown.parked or shown.state not in WAITING_STATES:
        response["HX-Refresh"] = "true"
        response.status_code = HTTPStatus.OK
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


@require_safe
@page_for(Role.VIEWER)
def part(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """A part of the document, from some entry or character on: for htmx its entries, else a page of its own."""
    shown = _get(who, pk)
    body = queries.body(shown)
    of, where, start = request.GET.get("of", ""), request.GET.get("path", ""), _number(request.GET.get("from", "0"))
    document = _document_of(shown, body, of)
    if document.value is None or start is None or len(where) > MOST_PATH:
        raise Http404("The document has no such part.")
    try:
        context = {
            "handoff": shown,
            "of": of,
            "place": place_of(document.value, where),
            **_part(document, where, start),
        }
    except PartNotFoundError as error:
        raise Http404("The document has no such part.") from error
    context["part_url"] = request.path
    name = f"{PART_TEMPLATE}#{context['kind']}" if is_htmx(request) else PART_TEMPLATE
    response = render(request, name, context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _document_of(shown: Handoff, body: HandoffBody, of: str) -> ShownDocument:
    if not of:
        return shown_document(body, queries.current_verdict(shown))
    return ShownDocument(parts.parsed(body, of) if of in BESIDE else None, ())


def _part(document: ShownDocument, where: str, start: int) -> dict[str, Any]:
    value = document.value
    if is_text(value, where):
        text, following, length = text_piece(value, where, start)
        return {"kind": "text", "text": text, "following": following, "length": length, "path": where, "start": start}
    return {"kind": "entries", "node": tree(value, spots_of(document.found), path=where, start=start), "start": start}


@require_safe
@page_for(Role.VIEWER)
def raw(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """The bytes as they arrived."""
    shown = _get(who, pk)
    response = HttpResponse(bytes(queries.body(shown).original), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="handoff-{shown.pk}.txt"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


@require_POST
@page_for(Role.ADMIN)
def again(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """Has a parked handoff judged once more."""
    shown = _get(who, pk)
    try:
        parking.retry_parked(tenant=who.tenant, reference=str(shown.pk), actor=Actor.person(who.person))
    except parking.NotParked:
        messages.info(request, "It is not parked any more.")
    else:
        messages.success(request, "It is in the queue again.")
    return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _holder(who: Who, shown: Handoff) -> holding.Holder | None:
    """Who has it open in the review queue; this page holds nothing."""
    held = holding.holders([shown]).get(shown.pk)
    return holding.Holder(held.person, held.until, mine=held.person_id == who.person.pk) if held else None


def _get(who: Who, pk: UUID) -> Handoff:
    try:
        return queries.get(who.tenant, str(pk))
    except Handoff.DoesNotExist as error:
        raise Http404("There is no such handoff.") from error


urlpatterns = [
    *attempt_pages.urlpatterns,
    path("handoffs/<uuid:pk>/", handoff, name="handoff"),
    path("handoffs/<uuid:pk>/part/", part, name="handoff_part"),
    path("handoffs/<uuid:pk>/raw/", raw, name="handoff_raw"),
    path("handoffs/<uuid:pk>/again/", again, name="handoff_again"),
]
