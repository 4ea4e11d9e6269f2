"""The review queue, and one handoff of it beside the queue."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.review_item import item_context, open_by
from handoffaudit.handoffs import holding, queries
from handoffaudit.handoffs.filters import BadFilter, Filters
from handoffaudit.handoffs.models import Handoff, ReviewHold
from handoffaudit.handoffs.states import REVIEWABLE

TEMPLATE = "dashboard/review/page.html"
SEARCHED = (("code", "codes"), ("handoff_type", "types"), ("source", "sources"), ("target", "targets"))


@dataclass(frozen=True, slots=True)
class Row:
    """One handoff of the queue; `hold` is somebody else's."""

    handoff: Handoff
    hold: ReviewHold | None


@dataclass(frozen=True, slots=True)
class Queue:
    """A page of the queue; `query` is what its links carry along, to stay on it."""

    rows: list[Row]
    search: str
    cursor: str
    found_by: str
    query: str
    newest: str
    next: str

    def after(self, handoff: Handoff) -> Handoff | None:
        """The next one down that nobody else has open; past the end, the first one."""
        listed = [row.handoff.pk for row in self.rows]
        start = listed.index(handoff.pk) + 1 if handoff.pk in listed else 0
        return first_free([*self.rows[start:], *self.rows[:start]], handoff.pk)


def first_free(rows: Iterable[Row], besides: uuid.UUID | None = None) -> Handoff | None:
    return next((row.handoff for row in rows if row.hold is None and row.handoff.pk != besides), None)


@page_for(Role.VIEWER)
def review(request: HttpRequest, who: Who) -> HttpResponse:
    try:
        queue = read_queue(request, who)
    except BadFilter as bad:
        return render_page(request, TEMPLATE, {"bad": bad}, status=400)
    return render_page(request, TEMPLATE, {"queue": queue, "first": first_free(queue.rows)})


@page_for(Role.VIEWER)
def review_next(request: HttpRequest, who: Who) -> HttpResponse:
    """On to the first one that nobody else has open."""
    address = reverse("dashboard:review", args=[who.tenant.slug])
    try:
        queue = read_queue(request, who)
    except BadFilter:
        return HttpResponseRedirect(address)
    free = first_free(queue.rows)
    if free:
        address = reverse("dashboard:review_item", args=[who.tenant.slug, free.pk])
    return HttpResponseRedirect(f"{address}{queue.query}")


@page_for(Role.VIEWER)
def review_item(request: HttpRequest, who: Who, pk: uuid.UUID) -> HttpResponse:
    try:
        handoff = queries.get(who.tenant, str(pk))
    except Handoff.DoesNotExist:
        raise Http404("There is no such handoff.") from None
    return item_page(request, who, handoff)


def item_page(request: HttpRequest, who: Who, handoff: Handoff, status: int = 200, **extra: Any) -> HttpResponse:
    """The queue with this handoff open in it; whoever may decide holds it softly by opening it."""
    try:
        queue = read_queue(request, who)
    except BadFilter as bad:
        return render_page(request, TEMPLATE, {"bad": bad}, status=400)
    waits = handoff.state in REVIEWABLE
    holder = open_by(who, handoff) if waits else None
    context = {
        # A refused decision is answered under the address of another page.
        "section": "review",
        "queue": queue,
        "first": first_free(queue.rows),
        "holder": holder,
        "then": queue.after(handoff),
        **item_context(who, handoff),
        **extra,
    }
    return render_page(request, TEMPLATE, context, partials=("item",), status=status)


def read_queue(request: HttpRequest, who: Who) -> Queue:
    """As the address has it: `q` narrows it, `cursor` is the place in it. Raises BadFilter."""
    asked = request.POST if request.method == "POST" else request.GET
    search = asked.get("q", "").strip()
    cursor = asked.get("cursor", "")
    filters, found_by = _searched(who, search)
    page = queries.review_queue(who.tenant, cursor=cursor, filters=filters)
    holds = holding.holders(page.items)
    others = {pk: hold for pk, hold in holds.items() if hold.person_id != who.person.pk}
    return Queue(
        rows=[Row(handoff, others.get(handoff.pk)) for handoff in page.items],
        search=search,
        cursor=cursor,
        found_by=found_by,
        query=query_of(q=search, cursor=cursor),
        newest=query_of(q=search) or "?" if cursor else "",
        next=query_of(q=search, cursor=page.next) if page.next else "",
    )


def _searched(who: Who, text: str) -> tuple[Filters, str]:
    """What is searched for is a known code, type or agent; else a trace."""
    if not text:
        return Filters(), ""
    known = queries.known_values(who.tenant)
    for field, values in SEARCHED:
        if text in getattr(known, values):
            return Filters(**{field: text}), field  # type: ignore[arg-type]
    return Filters.from_query({"trace": text}), "trace"


def query_of(**values: str) -> str:
    """The end of an address that carries the values that are given."""
    given = {name: value for name, value in values.items() if value}
    return f"?{urlencode(given)}" if given else ""


urlpatterns = [
    path("review/", review, name="review"),
    path("review/next/", review_next, name="review_next"),
    path("review/<uuid:pk>/", review_item, name="review_item"),
]
