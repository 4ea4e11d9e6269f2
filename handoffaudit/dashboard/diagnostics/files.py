"""Reports of handoff files: which were used, and why the others were not; and whether only the file counts."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.diagnostics.file_report import report_page
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.dashboard.policies import history
from handoffaudit.dashboard.policies.pages import PolicyPage
from handoffaudit.dashboard.policies.words import Line, shown
from handoffaudit.diagnostics import file_reports, file_stats
from handoffaudit.diagnostics.file_reports import FileFilters
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.policy.handoff_files import FIELD, HandoffFilesPolicy
from handoffaudit.policy.kinds import file_policy
from handoffaudit.policy.versions import Change, Stale
from handoffaudit.validation.formats.file_report import Fallback, Reason
from handoffaudit.validation.logs.lines import Kind
from handoffaudit.validation.times import utc_text

TEMPLATE = "dashboard/diagnostics/files/page.html"
PERIODS = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}
REASONS = {
    Reason.FILE_MISSING.value: "file missing",
    Reason.JSON_PARSE_ERROR.value: "not JSON",
    Reason.SCHEMA_INVALID.value: "fields wrong",
}
FALLBACKS = {Fallback.OK.value: "read from the response", Fallback.FAILED.value: "no block in the response"}
MOST_CHANGES = 5


def _lines(changes: Iterable[Change]) -> list[Line]:
    """The one switch in words."""
    return [Line(FIELD, "Only the file counts", shown(change.old), shown(change.new)) for change in changes]


PAGE: PolicyPage[HandoffFilesPolicy] = PolicyPage(
    file_policy,
    "Handoff files",
    "The response's text may stand in for the file.",
    _lines,
    below="diagnostics/files/policy",
)


@dataclass(frozen=True, slots=True)
class Chip:
    """One filter in force; `without` is the query that leaves it out."""

    label: str
    value: str
    without: str


@page_for(Role.VIEWER)
@require_safe
def reports(request: HttpRequest, who: Who) -> HttpResponse:
    address = reverse("dashboard:file_reports", args=[who.tenant.slug])
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "asked": request.GET,
        "periods": PERIODS,
        "reasons": REASONS,
        "fallbacks": FALLBACKS,
        "cursor": cursor,
        "address": address,
        **_policy(request, who),
    }
    try:
        filters = FileFilters.from_query(request.GET)
        page = file_reports.list_reports(who.tenant, filters, cursor=cursor)
    except FilterError as bad:
        return render_page(request, TEMPLATE, context | {"bad": bad}, partials=("results",), status=400)
    query = filters.to_query()
    if not is_htmx(request) and any(not str(value).strip() for value in request.GET.values()):
        # A plain form sends its empty fields along: the address that is kept and shared has none.
        return HttpResponseRedirect(f"{address}?{query}" if query else address)
    context |= {
        "reports": page.items,
        "chips": list(_chips(filters)),
        "newest": f"{address}?{query}" if cursor else "",
        "next": f"{address}?{query}&cursor={page.next}".replace("?&", "?") if page.next else "",
        "server": request.build_absolute_uri("/").rstrip("/"),
        "log_lines": _log_lines(who, filters),
    }
    response = render_page(request, TEMPLATE, context, partials=("results",))
    if is_htmx(request):
        response["HX-Push-Url"] = f"{address}?{query}" if query else address
    return response


def _log_lines(who: Who, filters: FileFilters) -> str:
    """Where health lines of logs that say the same are searched; empty where no log has any. What a line has no field
    to be searched by stands in its text."""
    if not file_stats.has_log_counts(who.tenant):
        return ""
    asked = {
        "kind": Kind.HEALTH.value,
        "agent": filters.agent,
        "phase": filters.phase,
        "event": filters.reason or filters.fallback,
        "trace": filters.run,
        "q": f"runtime={filters.runtime}" if filters.runtime else "",
        "since": filters.period or (utc_text(filters.since) if filters.since else ""),
        "until": utc_text(filters.until) if filters.until else "",
    }
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{reverse('dashboard:logs', args=[who.tenant.slug])}?{query}"


def _chips(filters: FileFilters) -> Iterable[Chip]:
    texts = {
        "agent": "Agent",
        "phase": "Phase",
        "runtime": "Runtime",
        "run": "Run",
        "reason": "Reason",
        "source": "Source",
        "fallback": "Fallback",
        "failed": "Failed",
    }
    words = REASONS | FALLBACKS
    for name, label in texts.items():
        if value := getattr(filters, name):
            nothing: Any = {name: ""}
            yield Chip(label, words.get(value, value), replace(filters, **nothing).to_query())
    if filters.since:
        shown = PERIODS.get(filters.period) or filters.period or f"{filters.since:%Y-%m-%d %H:%M}"
        yield Chip("Since", shown, replace(filters, since=None, period="").to_query())
    if filters.until:
        yield Chip("Until", f"{filters.until:%Y-%m-%d %H:%M}", replace(filters, until=None).to_query())


def _policy(request: HttpRequest, who: Who) -> dict[str, Any]:
    history = [one for one in file_policy.history(who.tenant, limit=MOST_CHANGES + 1) if one.table.version]
    return {
        "strict": file_reports.current_policy(who.tenant).strict,
        "policy_version": history[0].table.version if history else 0,
        "policy_changes": history[:MOST_CHANGES],
        "policy_history": reverse(f"{PAGE.url}_history", args=[who.tenant.slug]),
        "effect": file_reports.measure_effect(who.tenant),
        "may_set": who.may(Role.ADMIN),
        "policy_open": "policy" in request.GET,
    }


@page_for(Role.ADMIN)
@require_POST
def save_policy(request: HttpRequest, who: Who) -> HttpResponse:
    strict, base = request.POST.get("strict") == "on", request.POST.get("base_version", "")
    back = redirect(f"{reverse('dashboard:file_reports', args=[who.tenant.slug])}?policy=open")
    if not (base.isascii() and base.isdigit() and len(base) < 9):
        return HttpResponse("The form has no version: load the page again.", status=HTTPStatus.BAD_REQUEST)
    try:
        saved = file_policy.save(
            tenant=who.tenant,
            base_version=int(base),
            rows=[HandoffFilesPolicy(strict)],
            actor=who.person.username,
            note=request.POST.get("note", ""),
        )
    except Stale as stale:
        now = "on" if stale.current.rows[0].strict_handoff_files else "off"
        messages.error(request, f"Not saved: {stale.current.changed_by} changed it meanwhile. {FIELD} is {now}.")
        return back
    if saved.version == int(base):
        messages.info(request, "Nothing was changed.")
    else:
        said = "only the file counts" if strict else "the response's text may stand in for the file"
        messages.success(request, f"Saved as version {saved.version}: {said}.")
    return back


@page_for(Role.VIEWER)
@require_safe
def policy_page(request: HttpRequest, who: Who) -> HttpResponse:
    """Where the policy stands: unfolded, on the page of reports."""
    return redirect(f"{reverse('dashboard:file_reports', args=[who.tenant.slug])}?policy=open")


urlpatterns = [
    path("diagnostics/files/", reports, name="file_reports"),
    path("diagnostics/files/policy/", save_policy, name="file_policy_save"),
    path("diagnostics/files/policy/shown/", policy_page, name=PAGE.name),
    *history.urls(PAGE),
    path("diagnostics/files/<uuid:pk>/", report_page, name="file_report"),
]
