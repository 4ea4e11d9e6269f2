"""What is newer than a page that somebody looks at: small, without writing anything, and nothing where nothing is.

A page sends what it has; nothing is remembered of who watches. `static/js/live.js` asks.
"""

import uuid
from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.review.queue import MOST_WAITING, waiting
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import Handoff, State

# As many as static/js/live.js sends.
MOST_ROWS = 100
# A person or a worker moves these on; the others stand.
MOVING = (State.RECEIVED, State.VALIDATING, State.HELD, State.REJECTED)


def token_of(handoff: Handoff) -> str:
    """How a page names a row that may still change, and the version it shows; empty for one that hardly will."""
    return f"{handoff.pk.hex}.{handoff.version}" if handoff.state in MOVING else ""


def newer_rows(request: HttpRequest, who: TenantMembership) -> list[Handoff]:
    """Of the rows that the page has (`rows`), those that changed since. Raises `BadFilter`."""
    shown = rows_shown(request)
    found = queries.of_tenant(who.tenant).filter(pk__in=shown) if shown else []
    return [handoff for handoff in found if handoff.version != shown[handoff.pk]]


def rows_shown(request: HttpRequest) -> dict[uuid.UUID, int]:
    """The rows that the page has (`rows`), with the version it shows of each. Raises `BadFilter`."""
    text = request.GET.get("rows", "")
    shown: dict[uuid.UUID, int] = {}
    for token in text.split("~")[:MOST_ROWS] if text else ():
        pk, _, version = token.partition(".")
        try:
            shown[uuid.UUID(pk)] = int(version[:12])
        except ValueError:
            raise FilterError("rows", token[:40], "use the ids and versions of the rows that the page shows.") from None
    return shown


def number_seen(request: HttpRequest, name: str) -> int:
    """A number that the page shows; -1 where it shows none. Raises `BadFilter`."""
    text = request.GET.get(name, "")
    if not text:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise FilterError(name, text[:40], "use the number that the page shows.")
    return int(text)


def number(request: HttpRequest, count: int, cap: int, href: str, what: str = "handoff") -> list[str]:
    """The count of new rows, where it is not the one shown. `what` they are, for who can't see where it stands."""
    if count == max(number_seen(request, "number"), 0):
        return []
    context = {"number": count, "more": count >= cap, "href": href, "what": what}
    return [render_to_string("dashboard/live/number.html", context)]


def answer(request: HttpRequest, who: TenantMembership, parts: Iterable[str] = ()) -> HttpResponse:
    """The parts of the page that are newer, each an element with the id of the one it replaces; 204: there are none."""
    found = [*parts, *_menu(request, who)]
    return HttpResponse("".join(found)) if found else HttpResponse(status=204)


def is_asked(request: HttpRequest) -> bool:
    """Whether the script asks, at an address that is a page for everybody else."""
    return "X-Live" in request.headers


def over() -> HttpResponse:
    """Nothing more will come: the script stops asking."""
    return HttpResponse(status=410)


def invalid_filter(bad: FilterError) -> HttpResponse:
    """The script stops asking; nobody reads it."""
    return HttpResponse(f"{bad}\n", status=400, content_type="text/plain; charset=utf-8")


@require_role(Role.VIEWER)
@require_safe
def live(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """For pages of which nothing but the menu changes."""
    try:
        return answer(request, who)
    except FilterError as bad:
        return invalid_filter(bad)


def _menu(request: HttpRequest, who: TenantMembership) -> list[str]:
    seen = number_seen(request, "waiting")
    if seen < 0:
        return []
    told = waiting(who.tenant, MOST_WAITING)
    if told.number + told.more == seen:
        return []
    return [render_to_string("dashboard/live/waiting.html", {"waiting_told": told})]


urlpatterns = [path("live/", live, name="live")]
