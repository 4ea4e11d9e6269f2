"""The document on the page of a handoff: as a tree, as it arrived, and what is looked up in it."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.handoff import parts
from handoffaudit.dashboard.handoff.document import Bounds, PartNotFoundError, is_text, place_of, text_piece, tree
from handoffaudit.dashboard.handoff.places import Found, batch, spots_of
from handoffaudit.dashboard.handoff.raw_lines import raw_part
from handoffaudit.dashboard.handoff.searching import MOST_POINTER, location_of, look_up
from handoffaudit.dashboard.handoff.shown_document import ShownDocument, shown_document
from handoffaudit.dashboard.partials import is_htmx
from handoffaudit.dashboard.unreadable import excerpt
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff, HandoffBody

PART_TEMPLATE = "dashboard/handoff/part.html"
MOST_PATH = 1000
# Of a larger document less is sent, and what is folded only once somebody unfolds it.
SENT_WHOLE = 16 * 1024
NODES, NODES_OF_LARGE = 200, 80
EVERYTHING = Bounds(nodes=400, weight=60_000, unfolded=64)
BESIDE = ("context", "evidence")


def document_part(request: HttpRequest, who: Who, shown: Handoff) -> HttpResponse:
    """The section of the page alone, for who changes how the document is shown."""
    body = parts.body_of(shown)
    document = shown_document(body, queries.current_verdict(shown))
    context = {
        "handoff": shown,
        "who": who,
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, shown.pk]),
        **document_context(request, shown, body, document, batch(document.found, 0)),
    }
    response = render(request, "dashboard/handoff/document.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def document_context(
    request: HttpRequest, shown: Handoff, body: HandoffBody, document: ShownDocument, placed: Sequence[Found]
) -> dict[str, Any]:
    """What the section shows: the tree with the issues `placed` in it, else what arrived."""
    if removed := queries.removal_of(shown) if document.value is None else None:
        return {"removed": removed}
    original = bytes(body.original)
    if document.value is None:
        raw = raw_part(original, number(request.GET.get("start", "0")) or 0)
        return {"excerpt": excerpt(original, placed), "raw": raw, "unreadable": True}
    if request.GET.get("view") == "raw":
        return {"raw": raw_part(original, number(request.GET.get("start", "0")) or 0)}
    asked = request.GET.get("at", "")[:MOST_POINTER]
    at = asked if asked and location_of(document.value, asked) is not None else ""
    is_missing = bool(asked) and not at and all(issue.pointer != asked for issue in placed)
    only, opened = request.GET.get("only") == "issues", request.GET.get("open") == "all"
    return {
        "tree": tree(
            document.value,
            spots_of(placed, at),
            counted=spots_of(document.found),
            bounds=_bounds(shown, only=only, opened=opened),
        ),
        "hits": look_up(document.value, request.GET["find"]) if request.GET.get("find") else None,
        "is_lifted": document.is_lifted,
        "only_issues": only,
        "all_open": opened,
        "at": at,
        "at_missing": asked if is_missing else "",
        "has_placed": any(issue.is_placed and issue.pointer for issue in placed),
    }


def _bounds(shown: Handoff, *, only: bool, opened: bool) -> Bounds:
    if opened:
        return EVERYTHING
    is_small = shown.size_bytes <= SENT_WHOLE
    return Bounds(nodes=NODES if is_small else NODES_OF_LARGE, fills_folded=is_small, only_found=only)


@require_safe
@page_for(Role.VIEWER)
def part(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """A part of the document, from some entry or character on: for htmx its entries, else a page of its own."""
    shown = parts.handoff_or_404(who, pk)
    body = parts.body_of(shown)
    of, where, start = request.GET.get("of", ""), request.GET.get("path", ""), number(request.GET.get("from", "0"))
    end = number(request.GET.get("to", ""))
    document = _document_of(shown, body, of)
    if document.value is None or start is None or len(where) > MOST_PATH:
        raise Http404("The document has no such part.")
    try:
        context = {
            "handoff": shown,
            "of": of,
            "place": place_of(document.value, where),
            **_part(document, where, start, end, unfolded=0 if is_htmx(request) else 2),
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


def _part(document: ShownDocument, where: str, start: int, end: int | None, *, unfolded: int) -> dict[str, Any]:
    value = document.value
    if is_text(value, where):
        text, following, length = text_piece(value, where, start)
        return {"kind": "text", "text": text, "following": following, "length": length, "path": where, "start": start}
    bounds = Bounds(unfolded=unfolded, fills_folded=False)
    node = tree(value, spots_of(document.found), bounds=bounds, path=where, start=start, end=end)
    return {"kind": "entries", "node": node, "start": start}


@require_safe
@page_for(Role.VIEWER)
def raw(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """The bytes as they arrived."""
    shown = parts.handoff_or_404(who, pk)
    body = queries.body(shown)
    if body is None:
        messages.info(request, "Retention has removed what arrived: there is nothing to download.")
        return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)
    response = HttpResponse(bytes(body.original), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="handoff-{shown.pk}.txt"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


urlpatterns = [
    path("handoffs/<uuid:pk>/part/", part, name="handoff_part"),
    path("handoffs/<uuid:pk>/raw/", raw, name="handoff_raw"),
]
