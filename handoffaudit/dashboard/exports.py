"""Downloads: lists with the rows that the filters or a person select, and evidence bundles."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Self, TypeVar
from uuid import UUID
from weakref import WeakSet

from django.conf import settings
from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.review.queue import QueueFilters, page_of
from handoffaudit.dashboard.selection import Selection, refuse
from handoffaudit.dashboard.view_tabs import build_url
from handoffaudit.diagnostics import group_queries
from handoffaudit.diagnostics.agents import Agent, ShownRole, load_agents, load_roles
from handoffaudit.diagnostics.group_queries import GroupFilters
from handoffaudit.diagnostics.logs import search
from handoffaudit.diagnostics.logs.search import FoundLine
from handoffaudit.filter_fields import FilterError
from handoffaudit.filter_set import FilterSet
from handoffaudit.handoffs import db, queries
from handoffaudit.handoffs import export as handoffs_export
from handoffaudit.handoffs.export import ExportRow, Form
from handoffaudit.handoffs.filters import Filters, spell_traces
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.periods import window_of
from handoffaudit.handoffs.queries import Page
from handoffaudit.trust import bundle, signatures
from handoffaudit.trust.bundle import Subject
from handoffaudit.validation.logs.lines import agents_of, events_of, level_of, phase_of, trace_of

F = TypeVar("F", bound=FilterSet)

# A download occupies one of the server's 32 threads until the reader has received the whole file. `MOST_READ` limits
# the downloads whose reader is still reading; `MOST_AT_ONCE` also counts stalled downloads.
MOST_OF_PERSON = 2
MOST_OF_TENANT = 4
MOST_READ = 8
MOST_AT_ONCE = 16
STALLED_SECONDS = 30.0
COUNTED = 10_000
LONGEST_WORDS = 80

AGENT_COLUMNS: Final = (
    *("agent", "role", "role_is_declared", "sent", "received", "accepted", "judged", "introduced", "inherited"),
    "median_seconds",
)

LOG_COLUMNS: Final = ("source", "number", "at", "kind", "agents", "phase", "events", "level", "trace", "text", "why")

# Nobody closes the iterator of a response that was never sent, so the set must drop its entry by itself.
_under_way: "WeakSet[Parts]" = WeakSet()
_lock = threading.Lock()


class TooMany(Exception):
    """The error for too many downloads. The message says which limit is reached: person, tenant or server."""


class Parts:
    """The parts of a file. The file counts as a running download until the parts end or `close` is called."""

    def __init__(self, person: int, tenant: int, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self.person, self.tenant = person, tenant
        self._taken_at = time.monotonic()

    @classmethod
    def begin(cls, person: int, tenant: int, parts: Iterator[bytes]) -> Self:
        """Register a download and return its parts; raise `TooMany` if too many downloads are running."""
        with _lock:
            if sum(one.person == person for one in _under_way) >= MOST_OF_PERSON:
                raise TooMany(f"You have {MOST_OF_PERSON} exports under way already.")
            if sum(one.tenant == tenant for one in _under_way) >= MOST_OF_TENANT:
                raise TooMany(f"{MOST_OF_TENANT} exports of this tenant are under way already.")
            read = sum(not one.is_stalled for one in _under_way)
            if read >= MOST_READ or len(_under_way) >= MOST_AT_ONCE:
                raise TooMany(f"{len(_under_way)} exports are under way already.")
            made = cls(person, tenant, parts)
            _under_way.add(made)
        return made

    @property
    def is_stalled(self) -> bool:
        """Return whether the reader has taken no part for `STALLED_SECONDS`.

        A stalled download does not count against `MOST_READ`, so that other people can still download files.
        """
        return time.monotonic() - self._taken_at > STALLED_SECONDS

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._taken_at = time.monotonic()
        try:
            part = next(self._parts)
        except BaseException:
            self.close()
            raise
        db.release_connection()
        return part

    def close(self) -> None:
        with _lock:
            _under_way.discard(self)


@require_role(Role.VIEWER)
@require_safe
def export(request: HttpRequest, who: TenantMembership) -> HttpResponseBase:
    return _export_filtered(request, who, "handoffs", Filters, handoffs_export.render_list)


@require_role(Role.VIEWER)
@require_safe
def review_export(request: HttpRequest, who: TenantMembership) -> HttpResponseBase:
    """Export the review queue from its first row, whatever page the address names."""
    try:
        place, form = QueueFilters.of(request).first_page(), _form(request.GET)
        page = page_of(who, place, limit=handoffs_export.PART)
    except FilterError as bad:
        return render_page(request, "dashboard/review/page.html", {"bad": bad, "section": "review"}, status=400)
    query = place.query.removeprefix("?")
    return _file(request, who, "review", query, form, lambda: handoffs_export.render_handoffs(page, form))


@require_role(Role.VIEWER)
@require_safe
def groups_export(request: HttpRequest, who: TenantMembership) -> HttpResponseBase:
    return _export_filtered(request, who, "groups", GroupFilters, group_queries.export_groups)


@require_role(Role.VIEWER)
@require_safe
def count(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer how many handoffs the file would contain, counted up to `COUNTED`, for the export menu."""
    try:
        filters = Filters.from_query(request.GET)
    except FilterError as bad:
        return render_page(request, "dashboard/handoffs/bad.html", {"bad": bad}, status=400)
    number = queries.count(who.tenant, filters, COUNTED + 1)
    return render_page(
        request, "dashboard/handoffs/export_count.html", {"number": min(number, COUNTED), "more": number > COUNTED}
    )


def _export_filtered(
    request: HttpRequest,
    who: TenantMembership,
    page: str,
    filter_set: type[F],
    parts: Callable[[Tenant, F, Form], Iterator[bytes]],
) -> HttpResponseBase:
    """Return the file of the list `page`, or the page with an error if a filter of the address is invalid."""
    try:
        filters, form = filter_set.from_query(request.GET), _form(request.GET)
    except FilterError as bad:
        context = {"bad": bad, "form": filter_set.form(request.GET)}
        return render_page(request, f"dashboard/{page}/page.html", context, status=400)
    return _file(request, who, page, filters.to_query(), form, lambda: parts(who.tenant, filters, form))


def _file(
    request: HttpRequest, who: TenantMembership, page: str, query: str, form: Form, parts: Callable[[], Iterator[bytes]]
) -> HttpResponseBase:
    """Return the file of the list `page`, or redirect to the list if too many downloads are running."""
    if request.method == "HEAD":
        return HttpResponse(content_type=handoffs_export.CONTENT_TYPES[form])
    try:
        begun = Parts.begin(who.person.pk, who.tenant.pk, parts())
    except TooMany as full:
        messages.error(request, f"{full} Try again when one of them is done.")
        return HttpResponseRedirect(build_url(reverse(f"dashboard:{page}", args=[who.tenant.slug]), query))
    answer = StreamingHttpResponse(begun, content_type=handoffs_export.CONTENT_TYPES[form])
    answer["Content-Disposition"] = f'attachment; filename="{_name(who, page, query, form)}"'
    return answer


def _form(params: Mapping[str, str]) -> Form:
    asked = params.get("format", "")
    try:
        return Form(asked)
    except ValueError:
        raise FilterError("format", asked[:40], f"use {' or '.join(Form)}.") from None


def _name(who: TenantMembership, page: str, query: str, form: Form) -> str:
    """Return a file name that says what the file contains: `acme-handoffs-state-held-2026-02-15.csv`."""
    words = slugify(query.replace("&", "-").replace("=", "-").replace(".", "-"))[:LONGEST_WORDS].strip("-")
    parts = (who.tenant.slug, "findings" if page == "groups" else page, words, f"{timezone.now():%Y-%m-%d}")
    return f"{'-'.join(part for part in parts if part)}.{form}"


@require_role(Role.VIEWER)
@require_POST
def export_handoffs(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Send the selected handoffs as a file, newest first."""
    try:
        selection = Selection.of(request, who, "handoffs")
        found = queries.of_tenant(who.tenant).filter(pk__in=list(selection.versions)).order_by("-id")
        form = _form(request.POST)
    except FilterError as bad:
        return refuse(request, "handoffs", bad)
    parts = handoffs_export.render_handoffs(lambda _: Page(list(found), None), form)
    return _small_file(who, "handoffs", form, b"".join(parts))


@require_role(Role.VIEWER)
@require_POST
def export_groups(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Send the selected finding groups as a file, those with the most handoffs first."""
    try:
        numbers = Selection.of(request, who, "groups").numbers
        form = _form(request.POST)
    except FilterError as bad:
        return refuse(request, "groups", bad)
    return _small_file(who, "findings", form, b"".join(group_queries.export_some(who.tenant, numbers, form)))


@require_role(Role.VIEWER)
@require_POST
def export_traces(request: HttpRequest, who: TenantMembership) -> HttpResponseBase:
    """Send the handoffs of the selected traces as a file, newest first."""
    try:
        selection = Selection.of(request, who, "traces")
        traces, form = spell_traces(selection.names), _form(request.POST)
    except FilterError as bad:
        return refuse(request, "traces", bad)
    rows = queries.of_tenant(who.tenant).filter(trace_id__in=traces)

    def page(cursor: str) -> Page:
        found = list((rows.filter(pk__lt=UUID(cursor)) if cursor else rows).order_by("-id")[: handoffs_export.PART])
        return Page(found, str(found[-1].pk) if len(found) == handoffs_export.PART else None)

    parts = partial(handoffs_export.render_handoffs, page, form)
    return _file(request, who, "traces", selection.query, form, parts)


@require_role(Role.VIEWER)
@require_POST
def export_agents(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Send the selected agents with their numbers in the period as a file, those with the most handoffs first."""
    try:
        selection = Selection.of(request, who, "agents")
        names, form = frozenset(selection.names), _form(request.POST)
    except FilterError as bad:
        return refuse(request, "agents", bad)
    window = window_of(QueryDict(selection.query), timezone.now())
    found = [one for one in load_agents(who.tenant, window.since, window.until).agents if one.name in names]
    roles = load_roles(who.tenant, names)
    rows = [_agent_row(one, roles[one.name]) for one in found]
    return _small_file(who, "agents", form, b"".join(handoffs_export.render_rows(AGENT_COLUMNS, [rows], form)))


def _agent_row(agent: Agent, role: ShownRole) -> ExportRow:
    share, seconds = agent.judged.share, agent.stats.median_seconds
    return {
        "agent": agent.name,
        "role": role.role.value,
        "role_is_declared": role.is_declared,
        "sent": agent.handed_on,
        "received": agent.received,
        "accepted": share.part,
        "judged": share.total,
        "introduced": agent.stats.caused,
        "inherited": agent.stats.passed_on,
        "median_seconds": None if seconds is None else round(seconds, 3),
    }


@require_role(Role.VIEWER)
@require_POST
def export_logs(request: HttpRequest, who: TenantMembership) -> HttpResponseBase:
    """Send the selected log lines as a file, in the order of the list."""
    try:
        selection = Selection.of(request, who, "logs")
        places, form = selection.places, _form(request.POST)
    except FilterError as bad:
        return refuse(request, "logs", bad)

    def parts() -> Iterator[bytes]:
        rows = [_log_row(one) for one in search.read_lines(who.tenant, places)]
        yield from handoffs_export.render_rows(LOG_COLUMNS, [rows], form)

    return _file(request, who, "logs", selection.query, form, parts)


def _log_row(found: FoundLine) -> ExportRow:
    line = found.line
    return {
        "source": found.source,
        "number": found.number,
        "at": found.at,
        "kind": found.kind.value,
        "agents": list(agents_of(line)),
        "phase": phase_of(line),
        "events": list(events_of(line)),
        "level": level_of(line),
        "trace": trace_of(line),
        "text": found.text,
        "why": found.why,
    }


def _small_file(who: TenantMembership, name: str, form: Form, content: bytes) -> HttpResponse:
    answer = HttpResponse(content, content_type=handoffs_export.CONTENT_TYPES[form])
    answer["Content-Disposition"] = f'attachment; filename="{who.tenant.slug}-{name}-selected.{form}"'
    return answer


urlpatterns = [
    path("handoffs/export/", export, name="handoffs_export"),
    path("handoffs/count/", count, name="handoffs_count"),
    path("review/export/", review_export, name="review_export"),
    path("groups/export/", groups_export, name="groups_export"),
    path("handoffs/selected/export/", export_handoffs, name="selected_export"),
    path("groups/selected/export/", export_groups, name="selected_groups_export"),
    path("traces/selected/export/", export_traces, name="selected_traces_export"),
    path("agents/selected/export/", export_agents, name="selected_agents_export"),
    path("diagnostics/logs/selected/export/", export_logs, name="selected_logs_export"),
]


@require_role(Role.VIEWER)
@require_safe
def handoff_evidence(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponseBase:
    back = reverse("dashboard:handoff", args=[who.tenant.slug, pk])
    return _download(request, who, back, lambda: bundle.about_handoff(who.tenant, str(pk)))


@require_role(Role.VIEWER)
@require_safe
def trace_evidence(request: HttpRequest, who: TenantMembership, trace_id: str) -> HttpResponseBase:
    back = reverse("dashboard:trace", args=[who.tenant.slug, trace_id])
    return _download(request, who, back, lambda: bundle.about_trace(who.tenant, trace_id))


@require_role(Role.VIEWER)
@require_safe
def period_evidence(request: HttpRequest, who: TenantMembership) -> HttpResponseBase:
    asked = {name: request.GET.get(name, "") for name in ("period", "since", "until")}
    back = build_url(reverse("dashboard:compliance", args=[who.tenant.slug]), request.GET.urlencode())
    return _download(request, who, back, lambda: bundle.find_subject(who.tenant, asked))


def _download(request: HttpRequest, who: TenantMembership, back: str, find: Callable[[], Subject]) -> HttpResponseBase:
    """Return the bundle. If it cannot be built, redirect to `back` with a message that says why.

    A subject without handoffs is answered with 404, and an invalid period with 400.
    """
    try:
        subject = find()
        if request.method == "HEAD":
            return HttpResponse(content_type="application/zip")
        key = signatures.load_key(settings.DATA_FOLDER)
        made = bundle.build(subject, key, by=who.person.username, with_audit=who.may(Role.ADMIN))
        parts = handoffs_export.Download(made)
    except (Handoff.DoesNotExist, bundle.NothingFound) as error:
        raise Http404(str(error)) from error
    except FilterError as bad:
        return HttpResponse(f"{bad}\n", status=400, content_type="text/plain; charset=utf-8")
    except (bundle.TooLarge, handoffs_export.Busy, signatures.WrongKey) as error:
        messages.error(request, f"No evidence bundle: {error}")
        return HttpResponseRedirect(back)
    answer = StreamingHttpResponse(parts, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="{bundle.file_name(subject)}"'
    return answer


evidence_urls = [
    path("handoffs/<uuid:pk>/evidence.zip", handoff_evidence, name="handoff_evidence"),
    path("traces/<path:trace_id>/evidence.zip", trace_evidence, name="trace_evidence"),
    path("diagnostics/compliance/evidence.zip", period_evidence, name="compliance_evidence"),
]
