"""The review page: the queue, one handoff of it with what was found, and the decision."""

import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import is_htmx, render_page, target_of
from handoffaudit.dashboard.reviewing.item import item_context, open_by, seen_by
from handoffaudit.dashboard.reviewing.keys import keys_for
from handoffaudit.dashboard.reviewing.place import AGE_NAMES, Place
from handoffaudit.dashboard.reviewing.queue import MOST_WAITING, Queue, first_free, progress_of, read_queue
from handoffaudit.dashboard.reviewing.told import told_of
from handoffaudit.dashboard.saved.opening import opens_with
from handoffaudit.dashboard.saved.tabs import Tabs, tabs_of
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import queue
from handoffaudit.handoffs.transitions import REVIEWABLE

TEMPLATE = "dashboard/review/page.html"
# Among so many, one is mostly free.
FIRST_ONES = 5


@require_safe
@page_for(Role.VIEWER)
def review(request: HttpRequest, who: Who) -> HttpResponse:
    if opening := opens_with(request, who, "review"):
        return opening
    try:
        queue = read_queue(request, who)
    except FilterError as bad:
        return _not_understood(request, bad)
    if not is_htmx(request) and any(name in Place.__slots__ and not value for name, value in request.GET.items()):
        # A plain form sends its empty fields along: the address that is kept and shared has none.
        return HttpResponseRedirect(reverse("dashboard:review", args=[who.tenant.slug]) + (queue.query or "?view=all"))
    context = {
        **shell(request, who, queue),
        "queue": queue,
        "first": first_free(queue.rows),
        "told": told_of(request, who),
    }
    return render_page(request, TEMPLATE, context, partials=("more",))


def _tabs(request: HttpRequest, who: Who, place: Place, numbers: Mapping[str, str]) -> Tabs:
    query, view = (one.query.removeprefix("?") for one in (place.but(cursor=""), Place(view=place.view)))
    return tabs_of(request, who, "review", query, part=view, numbers=numbers)


@require_safe
@page_for(Role.VIEWER)
def review_next(request: HttpRequest, who: Who) -> HttpResponse:
    """On to the first one that nobody else has open; what was done last is told there."""
    address = reverse("dashboard:review", args=[who.tenant.slug])
    try:
        queue = read_queue(request, who, FIRST_ONES)
        free = first_free(queue.rows)
        if free is None and queue.next:
            free = first_free(read_queue(request, who).rows)
    except FilterError:
        return HttpResponseRedirect(address)
    if free:
        address = reverse("dashboard:review_item", args=[who.tenant.slug, free.pk])
    return HttpResponseRedirect(with_done(f"{address}{queue.query}", request.GET.get("done", "")))


@require_safe
@page_for(Role.VIEWER)
def review_item(request: HttpRequest, who: Who, pk: uuid.UUID) -> HttpResponse:
    """With `ahead=1` it is fetched before it is opened: that holds nothing."""
    return item_page(request, who, _get(who, pk), is_ahead=request.GET.get("ahead") == "1")


@require_POST
@page_for(Role.REVIEWER)
def review_hold(request: HttpRequest, who: Who, pk: uuid.UUID) -> HttpResponse:
    """Opens one that was fetched ahead. 409: it is not as it was fetched any more."""
    handoff = _get(who, pk)
    if handoff.state not in REVIEWABLE or request.POST.get("version") != str(handoff.version):
        return HttpResponse("It changed since it was fetched.\n", status=409, content_type="text/plain")
    holder = open_by(who, handoff)
    if holder is None or holder.mine:
        return HttpResponse(status=204)
    return render_page(request, "dashboard/review/holder.html", {"holder": holder})


def item_page(
    request: HttpRequest, who: Who, handoff: Handoff, status: int = 200, *, is_ahead: bool = False, **extra: Any
) -> HttpResponse:
    """The queue with this handoff open in it; whoever may decide holds it softly by opening it."""
    try:
        # Alone, it is put beside a queue that is there already.
        is_alone = target_of(request) == "item"
        queue = Queue(Place.of(request), []) if is_alone else read_queue(request, who)
    except FilterError as bad:
        return _not_understood(request, bad)
    holder = None
    if handoff.state in REVIEWABLE:
        holder = seen_by(handoff, who) if is_ahead else open_by(who, handoff)
    context = {
        **shell(request, who, queue),
        "queue": queue,
        "first": first_free(queue.rows),
        "told": told_of(request, who),
        "holder": holder,
        "then": queue.after(handoff),
        **item_context(who, handoff),
        **extra,
    }
    return render_page(request, TEMPLATE, context, partials=("item",), status=status)


def shell(request: HttpRequest, who: Who, queue: Queue) -> dict[str, Any]:
    """What stands around the queue; what only a whole page shows is not asked for before."""
    place = queue.place
    known = SimpleLazyObject(lambda: stats.list_known_values(who.tenant))
    concerning = cache(lambda: _concerning(who))
    progress = SimpleLazyObject(lambda: progress_of(who, queue.left_out))
    return {
        # A refused decision is answered under the address of another page.
        "section": "review",
        "place": place,
        "saved": SimpleLazyObject(lambda: _tabs(request, who, place, concerning())),
        "concerning": concerning,
        "view": place.view or "all",
        "ages": AGE_NAMES,
        "known": known,
        "codes": SimpleLazyObject(lambda: known.codes),
        "progress": progress,
        "waiting_told": SimpleLazyObject(lambda: progress.waiting.up_to(MOST_WAITING)),
        "keys": keys_for(may_review=who.may(Role.REVIEWER)),
    }


def _concerning(who: Who) -> dict[str, str]:
    """How much some views have of what is about the person, in figures; nothing is about who only looks on."""
    if not who.may(Role.REVIEWER):
        return {}
    counted = queue.count_concerning(who.tenant, who.person, MOST_WAITING + 1)
    most = f"{MOST_WAITING}+"
    return {view: most if number > MOST_WAITING else str(number) for view, number in counted.items() if number}


def with_done(address: str, done: str) -> str:
    """The address, carrying along which handoff to tell of."""
    if not done:
        return address
    return f"{address}{'&' if '?' in address else '?'}{urlencode({'done': done})}"


def _not_understood(request: HttpRequest, bad: FilterError) -> HttpResponse:
    return render_page(request, TEMPLATE, {"bad": bad, "section": "review"}, status=400)


def _get(who: Who, pk: uuid.UUID) -> Handoff:
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
