"""Actions on the selected rows of Handoffs and Findings: reassign, judge again, mute and export.

Each action first shows a page that names the number, and acts on its form. Decisions are in `dashboard/review/bulk.py`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.findings import mute_options
from handoffaudit.dashboard.review.decide import is_version
from handoffaudit.dashboard.view_tabs import build_url
from handoffaudit.diagnostics import group_queries, group_store
from handoffaudit.diagnostics.group_queries import GroupFilters
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.filter_fields import FilterError, is_number
from handoffaudit.filter_set import FilterSet
from handoffaudit.handoffs import export as handoffs_export
from handoffaudit.handoffs import judge, queries
from handoffaudit.handoffs.export import Form
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.queries import Page
from handoffaudit.handoffs.review import assignments
from handoffaudit.handoffs.review.base import ReviewError, WrongInput
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.text import pluralize

TEMPLATE: Final = "dashboard/selection/confirm.html"

# A page of a list has fewer rows.
MOST_SELECTED: Final = 100

_FILTERS: Final[dict[str, type[FilterSet]]] = {"handoffs": Filters, "groups": GroupFilters}

_LONGEST_QUERY: Final = 2000


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected rows of the list `page`, as the form sent them; `back` is the address of the list."""

    page: str
    rows: tuple[str, ...]
    query: str
    back: str

    @classmethod
    def of(cls, request: HttpRequest, who: TenantMembership, page: str) -> "Selection":
        """Read the selection of a form. Raise `FilterError` if there are no rows or too many."""
        rows = tuple(dict.fromkeys(request.POST.getlist("select")))
        if not 0 < len(rows) <= MOST_SELECTED:
            raise FilterError("select", str(len(rows)), f"select 1 to {MOST_SELECTED} rows.")
        asked = QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY])
        try:
            query = _FILTERS[page].from_query(asked).to_query()
        except FilterError:
            query = ""
        return cls(page, rows, query, build_url(reverse(f"dashboard:{page}", args=[who.tenant.slug]), query))

    @property
    def versions(self) -> dict[UUID, int]:
        """Return the selected handoffs with the versions that the person saw; raise `FilterError` for other rows."""
        found = {}
        for row in self.rows:
            reference, _, version = row.partition(":")
            try:
                found[UUID(reference)] = int(version) if is_version(version) else -1
            except ValueError:
                raise FilterError("select", row[:40], "select rows of the list.") from None
        return found

    @property
    def numbers(self) -> list[int]:
        """Return the selected finding groups; raise `FilterError` for other rows."""
        if wrong := [row for row in self.rows if not is_number(row)]:
            raise FilterError("select", wrong[0][:40], "select rows of the list.")
        return [int(row) for row in self.rows]


def _confirm(request: HttpRequest, selection: Selection, action: str, error: str = "", **context: Any) -> HttpResponse:
    shown = {
        "selection": selection,
        "action": action,
        "error": error,
        "section": selection.page,
        "posted": request.POST,
    }
    return render_page(request, TEMPLATE, shown | context, status=400 if error else 200)


def _refuse(request: HttpRequest, page: str, bad: FilterError) -> HttpResponse:
    return render_page(request, TEMPLATE, {"bad": bad, "section": page, "list_page": page}, status=400)


def _run(rows: Iterable[Any], act: Callable[[Any], object]) -> tuple[int, Counter[str]]:
    """Act on each row; return how many were changed, and why the others were not."""
    done, refused = 0, Counter[str]()
    for row in rows:
        try:
            act(row)
            done += 1
        except WrongInput:
            raise
        except ReviewError as error:
            refused[error.message] += 1
        except judge.NotParked:
            refused["Only parked handoffs can be judged again."] += 1
        except (Handoff.DoesNotExist, FindingGroup.DoesNotExist):
            refused["They do not exist any more."] += 1
    return done, refused


def _finish(
    request: HttpRequest, selection: Selection, what: str, done: int, refused: Counter[str]
) -> HttpResponseRedirect:
    """Tell what was done, and return to the list."""
    noun = "handoff" if selection.page == "handoffs" else "finding group"
    if done:
        messages.success(request, f"{pluralize(done, noun)} {what}.")
    for reason, number in refused.most_common(5):
        messages.warning(request, f"{pluralize(number, noun)} left unchanged: {reason}")
    return HttpResponseRedirect(selection.back)


@require_role(Role.REVIEWER)
@require_POST
def assign(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Reassign the selected handoffs that wait for review."""
    reviewers = assignments.list_reviewers(who.tenant)
    try:
        selection = Selection.of(request, who, "handoffs")
        versions = selection.versions
    except FilterError as bad:
        return _refuse(request, "handoffs", bad)
    if "confirmed" not in request.POST:
        return _confirm(request, selection, "assign", reviewers=reviewers)
    name, actor = request.POST.get("to", ""), Actor.person(who.person)
    to = next((one for one in reviewers if one.username == name), None)
    if name and to is None:
        return _confirm(
            request, selection, "assign", f"{name[:40]} is not a reviewer of this tenant.", reviewers=reviewers
        )

    def act(row: tuple[UUID, int]) -> None:
        assignments.reassign(
            tenant=who.tenant,
            reference=str(row[0]),
            note=request.POST.get("note", ""),
            actor=actor,
            to=to,
            seen_version=row[1],
        )

    try:
        done, refused = _run(versions.items(), act)
    except WrongInput as wrong:
        return _confirm(request, selection, "assign", wrong.message, reviewers=reviewers)
    return _finish(request, selection, f"assigned to {to.username}" if to else "taken out of the queue", done, refused)


@require_role(Role.ADMIN)
@require_POST
def judge_again(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Put the selected handoffs that are parked back into the queue."""
    try:
        selection = Selection.of(request, who, "handoffs")
        versions = selection.versions
    except FilterError as bad:
        return _refuse(request, "handoffs", bad)
    if "confirmed" not in request.POST:
        parked = queries.of_tenant(who.tenant).filter(pk__in=list(versions), parked=True).count()
        return _confirm(request, selection, "judge", parked=parked)
    actor = Actor.person(who.person)
    done, refused = _run(versions, lambda pk: judge.retry_parked(tenant=who.tenant, reference=str(pk), actor=actor))
    return _finish(request, selection, "put into the queue again", done, refused)


@require_role(Role.REVIEWER)
@require_POST
def mute(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Mute the selected finding groups, each until it has grown."""
    try:
        selection = Selection.of(request, who, "groups")
        numbers = selection.numbers
    except FilterError as bad:
        return _refuse(request, "groups", bad)
    options = mute_options(0)
    if "confirmed" not in request.POST:
        return _confirm(request, selection, "mute", options=options)
    until, note = request.POST.get("until", group_store.FIFTH), request.POST.get("note", "")
    try:
        done, refused = _run(
            numbers,
            lambda pk: group_store.mute_group(
                tenant=who.tenant, group=pk, until=until, note=note, actor=who.person.username
            ),
        )
    except Refused as wrong:
        return _confirm(request, selection, "mute", wrong.message, options=options)
    return _finish(request, selection, "muted", done, refused)


@require_role(Role.VIEWER)
@require_POST
def export_handoffs(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Send the selected handoffs as a file, newest first."""
    try:
        selection = Selection.of(request, who, "handoffs")
        found = queries.of_tenant(who.tenant).filter(pk__in=list(selection.versions)).order_by("-id")
        form = _form(request)
    except FilterError as bad:
        return _refuse(request, "handoffs", bad)
    parts = handoffs_export.render_handoffs(lambda _: Page(list(found), None), form)
    return _file(who, "handoffs", form, b"".join(parts))


@require_role(Role.VIEWER)
@require_POST
def export_groups(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Send the selected finding groups as a file, those with the most handoffs first."""
    try:
        numbers = Selection.of(request, who, "groups").numbers
        form = _form(request)
    except FilterError as bad:
        return _refuse(request, "groups", bad)
    return _file(who, "findings", form, b"".join(group_queries.export_some(who.tenant, numbers, form)))


def _form(request: HttpRequest) -> Form:
    asked = request.POST.get("format", "")
    try:
        return Form(asked)
    except ValueError:
        raise FilterError("format", asked[:40], f"use {' or '.join(Form)}.") from None


def _file(who: TenantMembership, name: str, form: Form, content: bytes) -> HttpResponse:
    answer = HttpResponse(content, content_type=handoffs_export.CONTENT_TYPES[form])
    answer["Content-Disposition"] = f'attachment; filename="{who.tenant.slug}-{name}-selected.{form}"'
    return answer


urlpatterns = [
    path("handoffs/selected/assign/", assign, name="selected_assign"),
    path("handoffs/selected/judge-again/", judge_again, name="selected_judge"),
    path("handoffs/selected/export/", export_handoffs, name="selected_export"),
    path("groups/selected/mute/", mute, name="selected_mute"),
    path("groups/selected/export/", export_groups, name="selected_groups_export"),
]
