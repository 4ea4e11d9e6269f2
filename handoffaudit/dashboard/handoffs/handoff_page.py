"""The page of one handoff: headline, findings, activity and the log lines around it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role, target_of
from handoffaudit.dashboard.diagnostics.logs import AROUND, Link, filters_around, row_of
from handoffaudit.dashboard.handoffs import document as handoffs_document
from handoffaudit.dashboard.handoffs import sections
from handoffaudit.dashboard.handoffs.activity import activity_context
from handoffaudit.dashboard.handoffs.claims import claims_of
from handoffaudit.dashboard.handoffs.document import number
from handoffaudit.dashboard.handoffs.page import list_context
from handoffaudit.dashboard.handoffs.sections import ShownDocument, choose_document, handoff_or_404
from handoffaudit.dashboard.handoffs.verdict_findings import Finding, batch, fold, group_findings
from handoffaudit.dashboard.safe_text import readable
from handoffaudit.diagnostics import file_reports
from handoffaudit.diagnostics.logs import search, store
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.filter_fields import FilterError, quote_blanks
from handoffaudit.handoffs import approvals, judge, queries
from handoffaudit.handoffs.compare import find_accepted
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.models import WAITING_STATES, Event, Handoff, HandoffBody, State
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.base import last_change
from handoffaudit.handoffs.review.undo import find_decision
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.validation.formats import framework, handoff_file
from handoffaudit.validation.formats.framework_traces import origin_of
from handoffaudit.validation.logs.reader import FIRST_YEAR, LAST_YEAR
from handoffaudit.validation.text import pluralize


@dataclass(frozen=True, slots=True)
class Headline:
    """The headline of a handoff: `icon` and `tone` belong to its state; a person or the server wrote `note`."""

    icon: str
    tone: str
    text: str
    note: str = ""


def headline(handoff: Handoff, found: Sequence[Finding], events: Sequence[Event]) -> Headline:
    deciding = [entry.first for entry in fold(found) if entry.first.decides]
    last = events[-1].reason if events else ""
    match handoff.state:
        case State.RECEIVED | State.VALIDATING:
            return _describe_waiting(handoff, deciding, last)
        case State.REJECTED:
            return Headline("rejected", "bad", _because("Rejected", deciding))
        case State.HELD:
            return Headline("held", "wait", _because("Held for a person", deciding))
        case State.ACCEPTED:
            return _describe_accepted(handoff, found, deciding)
        case State.SUPERSEDED:
            return Headline("superseded", "quiet", "A later attempt took its place", last)
        case _:
            by = f" by {events[-1].actor}" if events else ""
            tone = "good" if handoff.state == State.APPROVED else "bad"
            return Headline(handoff.state, tone, f"{handoff.state.capitalize()}{by}", last)


def _describe_waiting(handoff: Handoff, deciding: Sequence[Finding], reason: str) -> Headline:
    if handoff.parked:
        return Headline("parked", "bad", "Parked: judging failed several times", reason)
    if handoff.verdict:
        so_far = _because("Would be blocked so far", deciding) if deciding else "No blocking finding so far"
        return Headline(handoff.state, "quiet", f"{so_far}; the LLM is being asked", "The LLM's answer appears here.")
    return Headline(handoff.state, "quiet", "Not judged yet", "The verdict appears here when it is available.")


def _because(what: str, deciding: Sequence[Finding]) -> str:
    if not deciding:
        return what
    if len(deciding) > 1:
        return f"{what} for {len(deciding)} reasons"
    title = deciding[0].title
    return f"{what}: {title[:1].lower()}{title[1:]}" if title[1:2].islower() else f"{what}: {title}"


def _describe_accepted(handoff: Handoff, found: Sequence[Finding], deciding: Sequence[Finding]) -> Headline:
    if handoff.flagged:
        note = "Accepted while the LLM could not be asked. The later LLM check would have rejected it."
        return Headline("warning", "bad", _because("Accepted unverified, then flagged", deciding), note)
    if handoff.would_decide:
        text = _because(f"Accepted in shadow mode; otherwise {handoff.would_decide}", deciding)
        return Headline("accepted", "wait", text)
    counted = [entry.first for entry in fold(found) if entry.first.is_counted]
    warnings = sum(not issue.decides and issue.code != UNVERIFIED for issue in counted)
    if handoff.is_llm_check_missed:
        others = f", with {pluralize(warnings, 'other warning')}" if warnings else ""
        return Headline("accepted", "wait", f"Accepted, not checked by the LLM{others}")
    if not warnings:
        checked = "no findings in the checks that ran" if handoff.unverified else "no findings"
        return Headline("accepted", "good", f"Accepted: {checked}")
    return Headline("accepted", "good", f"Accepted with {pluralize(warnings, 'warning')}")


MINUTES = int(AROUND.total_seconds()) // 60

LINES = 50


@require_safe
@require_role(Role.VIEWER)
def handoff_logs(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Show the log lines around the handoff: a section of the page for htmx, otherwise a full page."""
    handoff = handoff_or_404(who, pk)
    page = search.lines_around(who.tenant, handoff.trace_id, _agents(handoff), _at(handoff), MINUTES, LINES)
    context: dict[str, Any] = {
        "handoff": handoff,
        "rows": [row_of(who.tenant, found) for found in page.items],
        "more": page.crowded,
        "minutes": MINUTES,
        "logs_url": reverse("dashboard:logs", args=[who.tenant.slug]),
        "searches": list(_searches(handoff)),
    }
    return render_page(request, "dashboard/handoff/logs_page.html", context, partials=("logs",))


def logs_of(handoff: Handoff) -> dict[str, Any]:
    """Return the context with which the page loads the log lines; empty if the tenant has sent no logs."""
    if not store.list_imports(handoff.tenant, limit=1)[0]:
        return {}
    return {"searches": list(_searches(handoff)), "minutes": MINUTES}


def _at(handoff: Handoff) -> datetime:
    said = handoff.sender_timestamp
    # Log lines are from the years 1970 to 9000. A sender without a clock may write the year 1, 1970 or 9999.
    return said if said and FIRST_YEAR < said.year < LAST_YEAR else handoff.at


def _agents(handoff: Handoff) -> list[str]:
    return [agent for agent in (handoff.source_agent_id, handoff.target_agent_id) if agent]


def _searches(handoff: Handoff) -> Iterator[Link]:
    """Yield links to the log search: the lines of the trace, and the lines of each agent around the handoff."""
    address = reverse("dashboard:logs", args=[handoff.tenant.slug])
    if handoff.trace_id:
        yield Link("All lines of this trace", f"{address}?{urlencode({'trace': quote_blanks(handoff.trace_id)})}")
    around = filters_around(_at(handoff))
    for agent in dict.fromkeys(_agents(handoff)):
        query = urlencode({"agent": quote_blanks(agent)} | around)
        yield Link(f"Lines of {readable(agent)} around this time", f"{address}?{query}")


log_urls = [path("handoffs/<uuid:pk>/logs/", handoff_logs, name="handoff_logs")]

TEMPLATE = "dashboard/handoff/page.html"


@require_safe
@require_role(Role.VIEWER)
def handoff(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Render the handoff page, or the section that htmx requests."""
    shown = sections.handoff_or_404(who, pk)
    match target_of(request):
        case "judging":
            return _answer_waiting_page(request, shown)
        case "document":
            return handoffs_document.document_part(request, who, shown)
        case "attempts":
            context = sections.lineage_context(request, who, shown, queries.current_verdict(shown))
            response = render(request, "dashboard/handoff/attempts.html", {"handoff": shown, "who": who, **context})
        case "activity":
            context = {"handoff": shown, "who": who, "list_context": list_context(request.GET, who, shown)}
            context |= activity_context(who, shown, request.GET.get("before", ""))
            response = render(request, "dashboard/handoff/activity.html", context)
        case _:
            response = render(request, TEMPLATE, page_context(request, who, shown))
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def page_context(request: HttpRequest, who: TenantMembership, shown: Handoff) -> dict[str, Any]:
    body, verdict = sections.body_of(shown), queries.current_verdict(shown)
    document = choose_document(body, verdict)
    latest = find_decision(shown) or last_change(shown)
    facts = verdict or {}
    is_full = request.GET.get("chain") == "full"
    issues = _issues(request, shown, document.found)
    list_of = list_context(request.GET, who, shown)
    return {
        "handoff": shown,
        "list_context": list_of,
        "verdict": verdict,
        "headline": headline(shown, document.found, [latest] if latest else []),
        "approval": approvals.state_of(shown) if shown.state == State.APPROVED else None,
        "is_waiting": shown.state in WAITING_STATES,
        "is_reviewable": shown.state in REVIEWABLE,
        "holder": _holder(who, shown),
        "chain": sections.chain_drawings(facts.get("chain"), f"?chain=full{list_of.rest}#chain", is_full=is_full),
        "chain_is_full": is_full,
        "tokens": sections.token_drawings(facts.get("token_counts")),
        "logs": logs_of(shown),
        "handoffs_url": reverse("dashboard:handoffs", args=[who.tenant.slug]),
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, shown.pk]),
        **issues,
        **activity_context(who, shown, request.GET.get("before", "")),
        **_beside(who, shown, body, document, verdict),
        **sections.lineage_context(request, who, shown, verdict),
        **handoffs_document.document_context(request, shown, body, document, issues["found"]),
    }


def _issues(request: HttpRequest, shown: Handoff, found: Sequence[Finding]) -> dict[str, Any]:
    """Return the context of the list of findings: the findings on this page of the list, grouped."""
    first = number(request.GET.get("issues", "0")) or 0
    placed = batch(found, first)
    return {
        "found": placed,
        "issue_groups": group_findings(shown, placed, found),
        "issues_total": sum(entry.first.is_counted for entry in fold(found)),
        "found_before": min(first, len(found)),
        "found_after": max(len(found) - first - len(placed), 0),
        "next_issue": first + len(placed),
    }


def _beside(
    who: TenantMembership, shown: Handoff, body: HandoffBody, document: ShownDocument, verdict: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the context of the sections for claims, context, evidence, reason, parent, file report and origin."""
    has_claims = bool((verdict or {}).get("claims"))
    arrived = None if document.is_lifted else document.value
    sources = sections.sources_of(shown, body, arrived) if has_claims else sections.Sources()
    return {
        "claims": claims_of(
            verdict, document.value, sources.evidence, sources.searched, sections.results_of(shown, verdict)
        ),
        "beside": sections.aside_trees(body),
        "reason_beside": body.reason,
        "parent": sections.parent_of(shown),
        "file_report": _file_report(who, shown),
        "origin": origin_of(document.value) if shown.format == framework.NAME else None,
    }


def _file_report(who: TenantMembership, shown: Handoff) -> FileReport | None:
    """Return the report of the handoff file that contained the handoff, or None."""
    return file_reports.report_of_handoff(who.tenant, shown.pk) if shown.format == handoff_file.NAME else None


def _answer_waiting_page(request: HttpRequest, shown: Handoff) -> HttpResponse:
    """Answer a page that waits for the verdict: `HX-Refresh` reloads the page, 204 says that nothing is new.

    The structural verdict arrives before the LLM's verdict, so a page can reload twice.
    """
    response = HttpResponse(status=HTTPStatus.NO_CONTENT)
    if shown.parked or shown.state not in WAITING_STATES or request.GET.get("seen") != str(shown.version):
        response["HX-Refresh"] = "true"
        response.status_code = HTTPStatus.OK
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


@require_role(Role.VIEWER)
@require_safe
def compare(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Show a handoff beside the handoff that `with` names, or else beside the nearest accepted handoff.

    The nearest accepted handoff has the same route and type (`find_accepted`).
    """
    shown = handoff_or_404(who, pk)
    context: dict[str, Any] = {"handoff": shown, "list_context": list_context(request.GET, who, shown)}
    try:
        passed = _find_handoff(who, request.GET["with"]) if request.GET.get("with") else None
    except FilterError as bad:
        return render(request, "dashboard/handoff/pair_page.html", context | {"bad": bad}, status=400)
    context["is_named"] = passed is not None
    passed = passed or find_accepted(shown)
    context["pair"] = sections.Pair.of(passed, shown) if passed else None
    return render(request, "dashboard/handoff/pair_page.html", context)


def _find_handoff(who: TenantMembership, reference: str) -> Handoff:
    try:
        return queries.get(who.tenant, str(UUID(reference)))
    except (ValueError, Handoff.DoesNotExist):
        raise FilterError("with", reference[:40], "use the id of a handoff of this tenant, or leave it out.") from None


@require_POST
@require_role(Role.ADMIN)
def again(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Put a parked handoff back into the queue."""
    shown = sections.handoff_or_404(who, pk)
    try:
        judge.retry_parked(tenant=who.tenant, reference=str(shown.pk), actor=Actor.person(who.person))
    except judge.NotParked:
        messages.info(request, "The handoff is no longer parked.")
    else:
        messages.success(request, "The handoff is in the queue again.")
    return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)


def _holder(who: TenantMembership, shown: Handoff) -> activity.Holder | None:
    """Return who has the handoff open in the review queue; opening this page reserves nothing."""
    held = activity.list_holders([shown]).get(shown.pk)
    return activity.Holder(held.person, held.until, mine=held.person_id == who.person.pk) if held else None


urlpatterns = [
    *sections.urlpatterns,
    *log_urls,
    *handoffs_document.urlpatterns,
    path("handoffs/<uuid:pk>/", handoff, name="handoff"),
    path("handoffs/<uuid:pk>/compare/", compare, name="handoff_compare"),
    path("handoffs/<uuid:pk>/again/", again, name="handoff_again"),
]
