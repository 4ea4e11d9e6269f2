"""One handoff: what is wrong with it, where, and what would make it pass."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.handoff import attempts, document_page, logs, parts
from handoffaudit.dashboard.handoff.along import along
from handoffaudit.dashboard.handoff.claims import claims_of
from handoffaudit.dashboard.handoff.document_page import number
from handoffaudit.dashboard.handoff.headline import headline
from handoffaudit.dashboard.handoff.history import history_of
from handoffaudit.dashboard.handoff.issue_groups import grouped
from handoffaudit.dashboard.handoff.places import Found, batch
from handoffaudit.dashboard.handoff.shown_document import ShownDocument, shown_document
from handoffaudit.dashboard.partials import target_of
from handoffaudit.diagnostics import file_reports
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs import leases, queries
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HandoffBody
from handoffaudit.handoffs.review import assignments
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.validation.formats import handoff_file

TEMPLATE = "dashboard/handoff/page.html"


@require_safe
@page_for(Role.VIEWER)
def handoff(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """The page, or the part of it that htmx asks for."""
    shown = parts.handoff_or_404(who, pk)
    match target_of(request):
        case "judging":
            return _judging(request, shown)
        case "document":
            return document_page.document_part(request, who, shown)
        case "attempts":
            context = attempts.lineage_context(request, who, shown, queries.current_verdict(shown))
            response = render(request, "dashboard/handoff/attempts.html", {"handoff": shown, "who": who, **context})
        case "history":
            context = {"handoff": shown, "history": history_of(shown, request.GET.get("before", ""))}
            response = render(request, "dashboard/handoff/history.html", context)
        case _:
            response = render(request, TEMPLATE, _page(request, who, shown))
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _page(request: HttpRequest, who: Who, shown: Handoff) -> dict[str, Any]:
    body, verdict = parts.body_of(shown), queries.current_verdict(shown)
    document = shown_document(body, verdict)
    history, latest = history_of(shown, request.GET.get("before", "")), history_of(shown, limit=1)
    facts = verdict or {}
    is_full = request.GET.get("chain") == "full"
    issues = _issues(request, shown, document.found)
    list_of = along(request.GET, who, shown)
    return {
        "handoff": shown,
        "along": list_of,
        "verdict": verdict,
        "headline": headline(shown, document.found, latest.events),
        "is_waiting": shown.state in WAITING_STATES,
        "is_reviewable": shown.state in REVIEWABLE,
        "holder": _holder(who, shown),
        "history": history,
        "chain": parts.chain_drawings(facts.get("chain"), f"?chain=full{list_of.rest}#chain", is_full=is_full),
        "chain_is_full": is_full,
        "tokens": parts.token_drawings(facts.get("token_counts")),
        "logs": logs.logs_of(shown),
        "handoffs_url": reverse("dashboard:handoffs", args=[who.tenant.slug]),
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, shown.pk]),
        **issues,
        **_beside(who, shown, body, document, verdict),
        **attempts.lineage_context(request, who, shown, verdict),
        **document_page.document_context(request, shown, body, document, issues["found"]),
    }


def _issues(request: HttpRequest, shown: Handoff, found: Sequence[Found]) -> dict[str, Any]:
    """Those of the verdict that this page of their list shows."""
    first = number(request.GET.get("issues", "0")) or 0
    placed = batch(found, first)
    return {
        "found": placed,
        "issue_groups": grouped(shown, placed, found),
        "issues_total": len(found),
        "found_before": min(first, len(found)),
        "found_after": max(len(found) - first - len(placed), 0),
        "next_issue": first + len(placed),
    }


def _beside(
    who: Who, shown: Handoff, body: HandoffBody, document: ShownDocument, verdict: dict[str, Any] | None
) -> dict[str, Any]:
    """What was given with it, what it claims, and what stands around it."""
    has_claims = bool((verdict or {}).get("claims"))
    arrived = None if document.is_lifted else document.value
    sources = parts.sources_of(shown, body, arrived) if has_claims else parts.Sources()
    return {
        "claims": claims_of(verdict, document.value, sources.evidence, sources.searched),
        "beside": parts.aside_trees(body),
        "parent": parts.parent_of(shown),
        "file_report": _file_report(who, shown),
    }


def _file_report(who: Who, shown: Handoff) -> FileReport | None:
    """The report of a handoff file that the handoff arrived as."""
    return file_reports.report_of_handoff(who.tenant, shown.pk) if shown.format == handoff_file.NAME else None


def _judging(request: HttpRequest, shown: Handoff) -> HttpResponse:
    """The answer to a page that waits for the verdict: nothing new, or to load itself again. The structural one comes
    before the model's."""
    response = HttpResponse(status=HTTPStatus.NO_CONTENT)
    if shown.parked or shown.state not in WAITING_STATES or request.GET.get("seen") != str(shown.version):
        response["HX-Refresh"] = "true"
        response.status_code = HTTPStatus.OK
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


@require_POST
@page_for(Role.ADMIN)
def again(request: HttpRequest, who: Who, pk: UUID) -> HttpResponse:
    """Has a parked handoff judged once more."""
    shown = parts.handoff_or_404(who, pk)
    try:
        leases.retry_parked(tenant=who.tenant, reference=str(shown.pk), actor=Actor.person(who.person))
    except leases.NotParked:
        messages.info(request, "It is not parked any more.")
    else:
        messages.success(request, "It is in the queue again.")
    return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)


def _holder(who: Who, shown: Handoff) -> assignments.Holder | None:
    """Who has it open in the review queue; this page holds nothing."""
    held = assignments.list_holders([shown]).get(shown.pk)
    return assignments.Holder(held.person, held.until, mine=held.person_id == who.person.pk) if held else None


urlpatterns = [
    *attempts.urlpatterns,
    *logs.urlpatterns,
    *document_page.urlpatterns,
    path("handoffs/<uuid:pk>/", handoff, name="handoff"),
    path("handoffs/<uuid:pk>/again/", again, name="handoff_again"),
]
