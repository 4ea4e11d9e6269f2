"""Actions on the selected rows of lists: reassign, judge again, mute and hold.

Each action first shows a page that names the number of rows, and acts when the form of that page is sent. An action on
handoffs also accepts traces, and then acts on their handoffs. Decisions are in `dashboard/review/bulk.py`, exports
in `dashboard/exports.py`, and roles of agents in `dashboard/agents/agent.py`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlencode
from uuid import UUID

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.filters import AgentOrder
from handoffaudit.dashboard.findings import mute_options
from handoffaudit.dashboard.review.decide import is_version
from handoffaudit.dashboard.traces import TraceFilters
from handoffaudit.dashboard.view_tabs import join_query, list_url
from handoffaudit.diagnostics import group_store
from handoffaudit.diagnostics.group_queries import GroupFilters
from handoffaudit.diagnostics.logs.filters import LogQuery
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.filter_fields import FilterError, is_number
from handoffaudit.filter_set import FilterSet
from handoffaudit.handoffs import judge, legal_holds, queries
from handoffaudit.handoffs.filters import Filters, spell_traces
from handoffaudit.handoffs.models import Handoff, HoldScope
from handoffaudit.handoffs.periods import window_of
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.base import ReviewError, WrongInput, find_reviewer, list_reviewers
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.validation.text import pluralize, storable

TEMPLATE: Final = "dashboard/selection/confirm.html"

# No page of a list has more rows.
MOST_SELECTED: Final = 100

_FILTERS: Final[dict[str, type[FilterSet]]] = {
    "handoffs": Filters,
    "groups": GroupFilters,
    "traces": TraceFilters,
    "logs": LogQuery,
}

# The noun for the rows of each list, and its title.
_NOUNS: Final = {
    "handoffs": "handoff",
    "groups": "finding group",
    "traces": "trace",
    "agents": "agent",
    "logs": "log line",
}
_TITLES: Final = {
    "handoffs": "Handoffs",
    "groups": "Findings",
    "traces": "Traces",
    "agents": "Agents",
    "logs": "Logs",
}

_LONGEST_QUERY: Final = 2000
_LONGEST_NAME: Final = 500


class Action(NamedTuple):
    """The words of an action on its page: title, button, and the label and length limit of its note, if any."""

    title: str
    button: str
    note: str = ""
    longest_note: int = 0
    needs_note: bool = True


_ACTIONS: Final = {
    "assign": Action("Assign several", "Assign", "What the next person must know", 5000),
    "judge": Action("Judge several again", "Judge"),
    "mute": Action("Mute several", "Mute", "Why", 1000),
    "hold": Action("Hold several traces", "Hold", "Why", legal_holds.LONGEST_REASON),
    "role": Action("Declare the role of several agents", "Declare", "Note (optional)", 500, needs_note=False),
}

# The block and the number of a log line.
_LOG_LINE: Final = re.compile(r"([0-9a-f]{32}):([0-9]{1,12})")


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected rows of the list `page`, as the form sent them; `back` is the address of the list.

    `noun` is the word for a row, which is "handoff" if the rows are the handoffs of selected traces.
    """

    page: str
    rows: tuple[str, ...]
    query: str
    back: str
    noun: str

    @classmethod
    def of(cls, request: HttpRequest, who: TenantMembership, page: str) -> "Selection":
        """Read the selection of a form. Raise `FilterError` if there are no rows or too many."""
        rows = tuple(dict.fromkeys(request.POST.getlist("select")))
        if not 0 < len(rows) <= MOST_SELECTED:
            raise FilterError("select", str(len(rows)), f"select 1 to {MOST_SELECTED} rows.")
        query = _clean_query(page, QueryDict(request.POST.get("query", "")[:_LONGEST_QUERY]))
        return cls(page, rows, query, list_url(who.tenant, page, query), _NOUNS[page])

    @classmethod
    def of_handoffs(cls, request: HttpRequest, who: TenantMembership, among: Q) -> "Selection":
        """Read the selected handoffs or, of the selected traces, the handoffs that match `among`.

        The confirmation page sends the handoffs back, so that the action applies to exactly the handoffs that it named.
        Raise `FilterError` if there are no rows or too many.
        """
        page = _page_of(request)
        found = cls.of(request, who, page)
        if page == "traces" and "confirmed" not in request.POST:
            found = replace(found, rows=list_of_traces(who.tenant, found.names, among, MOST_SELECTED))
        return replace(found, noun=_NOUNS["handoffs"])

    @property
    def title(self) -> str:
        return _TITLES[self.page]

    @property
    def has_handoffs_of_traces(self) -> bool:
        return self.page == "traces" and self.noun == _NOUNS["handoffs"]

    @property
    def names(self) -> list[str]:
        """Return the selected traces or agents; raise `FilterError` for a text that cannot be a name."""
        # Forms send the names percent-encoded, because browsers change the line breaks of a value.
        names = [unquote(row) for row in self.rows]
        if wrong := [name for name in names if not name or len(name) > _LONGEST_NAME or not storable(name)]:
            raise FilterError("select", wrong[0][:40], "select rows of the list.")
        return names

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

    @property
    def places(self) -> list[tuple[UUID, int]]:
        """Return the blocks and numbers of the selected log lines; raise `FilterError` for other rows."""
        found = []
        for row in self.rows:
            place = _LOG_LINE.fullmatch(row)
            if place is None:
                raise FilterError("select", row[:40], "select rows of the list.")
            found.append((UUID(place[1]), int(place[2])))
        return found


def _clean_query(page: str, asked: QueryDict) -> str:
    """Return the filters of a list, or the period and order of Agents, or an empty text if the list refuses them."""
    try:
        if page == "agents":
            period = urlencode(window_of(asked, timezone.now()).query)
            return join_query(period, AgentOrder.from_query(asked).to_query())
        return _FILTERS[page].from_query(asked).to_query()
    except FilterError:
        return ""


def list_of_traces(tenant: Tenant, traces: Sequence[str], among: Q, most: int) -> tuple[str, ...]:
    """Return the traces' handoffs that match `among`, as rows. Raise `FilterError` if there are none or too many."""
    rows = queries.of_tenant(tenant).filter(among, trace_id__in=spell_traces(traces)).order_by("-id")
    found = tuple(f"{pk}:{version}" for pk, version in rows.values_list("pk", "version")[: most + 1])
    if not found:
        raise FilterError("select", pluralize(len(traces), "trace"), "the action applies to none of their handoffs.")
    if len(found) > most:
        raise FilterError(
            "select", pluralize(len(traces), "trace"), f"they have more than {most} handoffs: select fewer."
        )
    return found


def confirm(request: HttpRequest, selection: Selection, action: str, error: str = "", **context: Any) -> HttpResponse:
    shown = {
        "selection": selection,
        "action": action,
        "words": _ACTIONS[action],
        "error": error,
        "section": selection.page,
        "posted": request.POST,
    }
    return render_page(request, TEMPLATE, shown | context, status=400 if error else 200)


def refuse(request: HttpRequest, page: str, bad: FilterError) -> HttpResponse:
    context = {"bad": bad, "section": page, "list_url": f"dashboard:{page}", "list_title": _TITLES[page]}
    return render_page(request, TEMPLATE, context, status=400)


def _page_of(request: HttpRequest) -> str:
    return "traces" if request.POST.get("page") == "traces" else "handoffs"


def _run(rows: Iterable[Any], act: Callable[[Any], object]) -> tuple[int, Counter[str]]:
    """Call `act` on each row; return the number of changed rows, and the reasons of the others with their counts.

    Errors that concern the whole form, such as a missing note, are raised.
    """
    done, refused = 0, Counter[str]()
    for row in rows:
        try:
            act(row)
            done += 1
        except (ReviewError, Refused) as error:
            # The error concerns a value of the form, and so every row.
            if isinstance(error, WrongInput) or getattr(error, "field", "") in ("note", "reason", "until"):
                raise
            refused[error.message] += 1
        except judge.NotParked:
            refused["Only parked handoffs can be judged again."] += 1
        except (Handoff.DoesNotExist, FindingGroup.DoesNotExist):
            refused["Deleted meanwhile."] += 1
    return done, refused


def _finish(
    request: HttpRequest, selection: Selection, what: str, done: int, refused: Counter[str]
) -> HttpResponseRedirect:
    """Report the result, and return to the list."""
    if done:
        messages.success(request, f"{pluralize(done, selection.noun)} {what}.")
    for reason, number in refused.most_common(5):
        messages.warning(request, f"{pluralize(number, selection.noun)} left unchanged: {reason}")
    return HttpResponseRedirect(selection.back)


@require_role(Role.REVIEWER)
@require_POST
def assign(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Assign the selected handoffs or, of selected traces, those that wait for review."""
    reviewers = list_reviewers(who.tenant)
    try:
        selection = Selection.of_handoffs(request, who, Q(state__in=REVIEWABLE))
        versions = selection.versions
    except FilterError as bad:
        return refuse(request, _page_of(request), bad)
    if "confirmed" not in request.POST:
        return confirm(request, selection, "assign", reviewers=reviewers)
    name, actor = request.POST.get("to", ""), Actor.person(who.person)

    def act(row: tuple[UUID, int]) -> None:
        activity.reassign(
            tenant=who.tenant,
            reference=str(row[0]),
            note=request.POST.get("note", ""),
            actor=actor,
            to=to,
            seen_version=row[1],
        )

    try:
        to = find_reviewer(who.tenant, name) if name else None
        done, refused = _run(versions.items(), act)
    except WrongInput as wrong:
        return confirm(request, selection, "assign", wrong.message, reviewers=reviewers)
    return _finish(request, selection, f"assigned to {to.username}" if to else "taken out of the queue", done, refused)


@require_role(Role.ADMIN)
@require_POST
def judge_again(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Put the parked handoffs of the selection back into the queue."""
    try:
        selection = Selection.of_handoffs(request, who, Q(parked=True))
        versions = selection.versions
    except FilterError as bad:
        return refuse(request, _page_of(request), bad)
    if "confirmed" not in request.POST:
        parked = queries.of_tenant(who.tenant).filter(pk__in=list(versions), parked=True).count()
        return confirm(request, selection, "judge", parked=parked)
    actor = Actor.person(who.person)
    done, refused = _run(versions, lambda pk: judge.retry_parked(tenant=who.tenant, reference=str(pk), actor=actor))
    return _finish(request, selection, "put into the queue again", done, refused)


@require_role(Role.REVIEWER)
@require_POST
def mute(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Mute the selected finding groups, each until it has grown to the chosen limit, or forever."""
    try:
        selection = Selection.of(request, who, "groups")
        numbers = selection.numbers
    except FilterError as bad:
        return refuse(request, "groups", bad)
    options = mute_options(0)
    if "confirmed" not in request.POST:
        return confirm(request, selection, "mute", options=options)
    until, note = request.POST.get("until", group_store.FIFTH), request.POST.get("note", "")
    try:
        done, refused = _run(
            numbers,
            lambda pk: group_store.mute_group(
                tenant=who.tenant, group=pk, until=until, note=note, actor=who.person.username
            ),
        )
    except Refused as wrong:
        return confirm(request, selection, "mute", wrong.message, options=options)
    return _finish(request, selection, "muted", done, refused)


@require_role(Role.ADMIN)
@require_POST
def hold(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Place a legal hold on each of the selected traces."""
    try:
        selection = Selection.of(request, who, "traces")
        traces = selection.names
    except FilterError as bad:
        return refuse(request, "traces", bad)
    if "confirmed" not in request.POST:
        return confirm(request, selection, "hold")
    note, actor = request.POST.get("note", ""), who.person.username

    def act(trace: str) -> None:
        legal_holds.place(tenant=who.tenant, scope=HoldScope.TRACE, key=trace, reason=note, actor=actor)

    try:
        done, refused = _run(traces, act)
    except Refused as wrong:
        return confirm(request, selection, "hold", wrong.message)
    if not done:
        return confirm(request, selection, "hold", " ".join(refused))
    return _finish(request, selection, "put on legal hold: their handoffs are not deleted", done, refused)


urlpatterns = [
    path("handoffs/selected/assign/", assign, name="selected_assign"),
    path("handoffs/selected/judge-again/", judge_again, name="selected_judge"),
    path("groups/selected/mute/", mute, name="selected_mute"),
    path("traces/selected/hold/", hold, name="selected_hold"),
]
