"""The Review page: the queue beside one handoff, live updates, and the keyboard shortcuts."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import path, reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role, target_of
from handoffaudit.dashboard.handoffs.activity import MOST_IN_REVIEW, newer_activity
from handoffaudit.dashboard.review.item import find_holder, find_notice, item_context, open_by
from handoffaudit.dashboard.review.queue import (
    MOST_WAITING,
    Queue,
    QueueFilters,
    first_free,
    progress_of,
    read_queue,
)
from handoffaudit.dashboard.view_tabs import Tabs, redirect_to_default, tabs_of
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import queue
from handoffaudit.handoffs.transitions import REVIEWABLE


@require_safe
@require_role(Role.VIEWER)
@live.refuse_bad_filters
def review_live(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer the poll of the queue: who has which handoffs open, which rows left the queue, and how many wait.

    The answer omits these three parts if `held`, the fingerprint that the page sends, is still current. The answer also
    has the activity of the open handoff, if this activity changed. The query parameter `rows` names the rows that the
    page shows (`live.rows_shown`).
    """
    queue = read_queue(request, who, shown=live.rows_shown(request))
    parts = _newer_activity(request, who, queue.queue_filters)
    if request.GET.get("held") != queue.held:
        parts.append(render_to_string("dashboard/review/parts.html#signs", {"queue": queue}))
        counts = {"who": who, "progress": progress_of(who, queue.left_out)}
        parts.append(render_to_string("dashboard/review/parts.html#progress", counts))
    return live.answer(request, who, parts)


def _newer_activity(request: HttpRequest, who: TenantMembership, filters: QueueFilters) -> list[str]:
    """Return the activity of the open handoff (`item`), if it changed."""
    try:
        pk = uuid.UUID(request.GET.get("item", ""))
    except ValueError:
        return []
    context = {"who": who, "handoff": _get(who, pk), "in_review": True, "queue_filters": filters}
    return newer_activity(request, context, MOST_IN_REVIEW)


live_urls = [path("review/live/", review_live, name="review_live")]


@dataclass(frozen=True, slots=True)
class Key:
    """A keyboard shortcut: `action` is the name that the script uses, and `role` the lowest role that has it.

    Each of `keys` is named as in `KeyboardEvent.key`; a space separates two keys that are pressed one after
    the other. The exception is `Ctrl Enter`: the two keys are pressed together. The script has code of its own for this
    shortcut, and does not look it up in the table.
    """

    action: str
    keys: tuple[str, ...]
    does: str
    role: Role = Role.REVIEWER

    @property
    def shown(self) -> list[list[str]]:
        """Return the shortcut as printed: a list of alternatives, each a list of one or more keys."""
        return [[_PRINTED.get(part, part) for part in key.split(" ")] for key in self.keys]


_PRINTED = {"ArrowDown": "↓", "ArrowUp": "↑", "Escape": "Esc", "X": "Shift x"}

KEYS = (
    Key("next", ("j", "ArrowDown"), "next (the arrow key only while the queue has the focus)", Role.VIEWER),
    Key("previous", ("k", "ArrowUp"), "previous", Role.VIEWER),
    Key(
        "approve",
        ("a",),
        "approve, and open the next handoff; a rejected handoff needs a note",
    ),
    Key("decline", ("d",), "decline, and open the next handoff"),
    Key("resend", ("r",), "decline an unreadable handoff, and ask its sender for a resend"),
    Key("handled", ("h",), "mark an unreadable handoff as handled"),
    Key("pass", ("p",), "reassign to another reviewer, or to nobody in particular; with a note"),
    Key("undo", ("u",), "undo your last decision, proposal or assignment; press again for the one before"),
    Key("reopen", ("o",), "reopen a decided handoff, with a note"),
    Key("note", ("n",), "write a note"),
    Key("similar", ("1", "2", "3"), "copy the note of a precedent"),
    Key("send", ("Ctrl Enter",), "in the note: take the decision that the line below names"),
    Key("select", ("x",), "select; while several are selected, a and d lead to the buttons for all of them"),
    Key("range", ("X",), "select all handoffs from the last selected one to this one"),
    Key("all", ("* a",), "select all listed handoffs; a link then leads to all that match"),
    Key("search", ("/",), "search the queue", Role.VIEWER),
    Key("help", ("?",), "these keys", Role.VIEWER),
    Key("leave", ("Escape",), "leave a field; then clear the selection; then return to the queue", Role.VIEWER),
)


def keys_for(*, may_review: bool) -> list[Key]:
    return [key for key in KEYS if may_review or key.role is Role.VIEWER]


TEMPLATE = "dashboard/review/page.html"

# Among this many rows, there is nearly always one that nobody else has open.
FIRST_ONES = 5


@require_safe
@require_role(Role.VIEWER)
def review(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    if opening := redirect_to_default(request, who, "review"):
        return opening
    try:
        queue = read_queue(request, who)
    except FilterError as bad:
        return _not_understood(request, bad)
    blank = {name for name, text in request.GET.items() if not text}
    if not is_htmx(request) and not blank.isdisjoint(QueueFilters.parameters()):
        # A plain form also sends its empty fields; the address that people save and share has none.
        return HttpResponseRedirect(
            reverse("dashboard:review", args=[who.tenant.slug]) + queue.queue_filters.list_query
        )
    context = {
        **shell(request, who, queue),
        "queue": queue,
        "first": first_free(queue.rows),
        "notice": find_notice(request, who),
    }
    return render_page(request, TEMPLATE, context, partials=("more",))


def _tabs(request: HttpRequest, who: TenantMembership, queue_filters: QueueFilters, numbers: Mapping[str, str]) -> Tabs:
    query, view = (
        one.query.removeprefix("?") for one in (queue_filters.first_page(), QueueFilters(view=queue_filters.view))
    )
    return tabs_of(request, who, "review", query, part=view, numbers=numbers)


@require_safe
@require_role(Role.VIEWER)
def review_next(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Redirect to the first handoff that this person can decide (`Row.is_free`), or to the queue if there is none.

    The new address keeps the parameter `done`, so that the page shows the notice about the last change. With invalid
    filters, redirect to the unfiltered queue, without a notice.
    """
    address = reverse("dashboard:review", args=[who.tenant.slug])
    try:
        queue = read_queue(request, who, FIRST_ONES)
        free = first_free(queue.rows)
        if free is None and queue.next:
            free = first_free(read_queue(request, who).rows)
    except FilterError:
        return HttpResponseRedirect(address + QueueFilters().list_query)
    address += queue.queue_filters.list_query
    if free:
        address = reverse("dashboard:review_item", args=[who.tenant.slug, free.pk]) + queue.query
    return HttpResponseRedirect(with_done(address, request.GET.get("done", "")))


@require_safe
@require_role(Role.VIEWER)
def review_item(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    """Show one handoff; with `ahead=1` the page only prefetches the handoff, which reserves nothing."""
    return item_page(request, who, _get(who, pk), is_ahead=request.GET.get("ahead") == "1")


@require_POST
@require_role(Role.REVIEWER)
def review_hold(request: HttpRequest, who: TenantMembership, pk: uuid.UUID) -> HttpResponse:
    """Reserve a handoff that the page prefetched.

    Answer 204, or the name of another person who has the handoff open. Answer 409 if the handoff changed since.
    """
    handoff = _get(who, pk)
    if handoff.state not in REVIEWABLE or request.POST.get("version") != str(handoff.version):
        return HttpResponse("The handoff changed since it was fetched.\n", status=409, content_type="text/plain")
    holder = open_by(who, handoff)
    if holder is None or holder.mine:
        return HttpResponse(status=204)
    return render_page(request, "dashboard/review/parts.html#holder", {"holder": holder})


def item_page(
    request: HttpRequest,
    who: TenantMembership,
    handoff: Handoff,
    status: int = 200,
    *,
    is_ahead: bool = False,
    **extra: Any,
) -> HttpResponse:
    """Render the queue with this handoff open.

    A waiting handoff is reserved for a person who may decide, unless the page only prefetches it (`is_ahead`).
    """
    try:
        # If HTMX asks only for the item, the page already shows the queue.
        is_alone = target_of(request) == "item"
        queue = Queue(QueueFilters.of(request), []) if is_alone else read_queue(request, who)
    except FilterError as bad:
        return _not_understood(request, bad)
    holder = None
    if handoff.state in REVIEWABLE:
        holder = find_holder(handoff, who) if is_ahead else open_by(who, handoff)
    context = {
        **shell(request, who, queue),
        "queue": queue,
        "first": first_free(queue.rows),
        "notice": find_notice(request, who),
        "holder": holder,
        "then": queue.after(handoff),
        **item_context(who, handoff),
        **extra,
    }
    return render_page(request, TEMPLATE, context, partials=("item",), status=status)


def shell(request: HttpRequest, who: TenantMembership, queue: Queue) -> dict[str, Any]:
    """Return the context around the queue; values that only a whole page shows are computed lazily."""
    queue_filters = queue.queue_filters
    concerning = cache(lambda: _count_concerning(who))
    progress = SimpleLazyObject(lambda: progress_of(who, queue.left_out))
    return {
        # A refused decision is answered under the address of another page, so the section is given here.
        "section": "review",
        "queue_filters": queue_filters,
        "saved": SimpleLazyObject(lambda: _tabs(request, who, queue_filters, concerning())),
        "concerning": concerning,
        "view": queue_filters.view or "all",
        "form": SimpleLazyObject(lambda: _form(queue_filters, stats.list_known_values(who.tenant))),
        "progress": progress,
        "keys": keys_for(may_review=who.may(Role.REVIEWER)),
    }


def _form(queue_filters: QueueFilters, known: stats.KnownValues) -> forms.Form:
    return QueueFilters.form(
        dict(queue_filters.pairs()), type=known.types, source=known.sources, target=known.targets, code=known.codes
    )


def _count_concerning(who: TenantMembership) -> dict[str, str]:
    """Return how many handoffs concern this person, by view, formatted; a viewer has none."""
    if not who.may(Role.REVIEWER):
        return {}
    counted = queue.count_concerning(who.tenant, who.person, MOST_WAITING + 1)
    most = f"{MOST_WAITING}+"
    return {view: most if number > MOST_WAITING else str(number) for view, number in counted.items() if number}


def with_done(address: str, done: str) -> str:
    """Return the address with the id of the handoff that the next page shows a notice about."""
    if not done:
        return address
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'done': done})}"


def _not_understood(request: HttpRequest, bad: FilterError) -> HttpResponse:
    return render_page(request, TEMPLATE, {"bad": bad, "section": "review"}, status=400)


def _get(who: TenantMembership, pk: uuid.UUID) -> Handoff:
    try:
        handoff = queries.get(who.tenant, str(pk))
    except Handoff.DoesNotExist:
        raise Http404("There is no such handoff.") from None
    handoff.tenant = who.tenant
    return handoff


urlpatterns = [
    path("review/", review, name="review"),
    path("review/next/", review_next, name="review_next"),
    path("review/<uuid:pk>/", review_item, name="review_item"),
    path("review/<uuid:pk>/hold/", review_hold, name="review_hold"),
]
