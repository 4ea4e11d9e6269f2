"""Live updates of an open page: small responses, which are empty if nothing changed.

The page sends what it shows, so the server stores nothing about viewers. The script is `static/js/live.js`.
"""

import re
import uuid
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Final, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.review.queue import MOST_WAITING
from handoffaudit.dashboard.templatetags import ui
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.handoffs.review.queue import count_pressing

P = ParamSpec("P")

# The script static/js/live.js sends at most this many rows.
MOST_ROWS = 100
# A person or a worker moves handoffs out of these states. Handoffs rarely leave the other states.
MOVING = (State.RECEIVED, State.VALIDATING, State.HELD, State.REJECTED)

# The id of a handoff, the version that the page shows, and the place of the state on the page.
_STATE_TOKEN: Final = re.compile(r"([0-9a-f]{32})\.([0-9]{1,12})\.([0-9a-z]{1,18})")


def token_of(handoff: Handoff) -> str:
    """Return the id and the version of a row that may still change; an empty text for a handoff that rarely changes."""
    return f"{handoff.pk.hex}.{handoff.version}" if handoff.state in MOVING else ""


def render_state(handoff: Handoff, place: object) -> SafeString:
    """Render the state of a handoff as an element that each live answer can replace.

    `place` distinguishes the places of a page that show the same handoff; it consists of digits and lower-case letters.
    """
    pk, version = handoff.pk.hex, handoff.version
    return format_html(
        '<span id="state-{}-{}" class="live-state" data-live-row="{}.{}.{}">{}</span>',
        *(place, pk),
        *(pk, version, place),
        ui.state(handoff.state),
    )


def newer_rows(request: HttpRequest, who: TenantMembership) -> list[Handoff]:
    """Return the handoffs in the parameter `rows` that changed since the page showed them.

    Raise `FilterError` for bad rows.
    """
    shown = rows_shown(request)
    found = queries.of_tenant(who.tenant).filter(pk__in=shown) if shown else []
    return [handoff for handoff in found if handoff.version != shown[handoff.pk]]


def rows_shown(request: HttpRequest) -> dict[uuid.UUID, int]:
    """Return the version that the page shows of each row in the parameter `rows`, by the id of the handoff.

    The states that `render_state` rendered are left out. Raise `FilterError` for bad rows.
    """
    text = request.GET.get("rows", "")
    shown: dict[uuid.UUID, int] = {}
    for token in text.split("~")[:MOST_ROWS] if text else ():
        if _STATE_TOKEN.fullmatch(token):
            continue
        pk, _, version = token.partition(".")
        try:
            shown[uuid.UUID(pk)] = int(version[:12])
        except ValueError:
            raise FilterError("rows", token[:40], "use the ids and versions of the rows that the page shows.") from None
    return shown


def number_seen(request: HttpRequest, name: str) -> int:
    """Return a number that the page shows, or -1 if the page shows none; raise `FilterError` for a bad number."""
    text = request.GET.get(name, "")
    if not text:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise FilterError(name, text[:40], "use the number that the page shows.")
    return int(text)


def number(request: HttpRequest, count: int, cap: int, href: str, what: str = "handoff") -> list[str]:
    """Return the element with the count of new rows, if the count differs from the shown count.

    From `cap` on, the count is a minimum. `href` leads to the new rows, and `what` names them for screen readers. Raise
    `FilterError` for a bad shown count.
    """
    if count == max(number_seen(request, "number"), 0):
        return []
    context = {"number": count, "more": count >= cap, "href": href, "what": what}
    return [render_to_string("dashboard/live/parts.html#number", context)]


def answer(request: HttpRequest, who: TenantMembership, parts: Iterable[str] = ()) -> HttpResponse:
    """Answer with the changed parts of the page, or with 204 if nothing changed.

    Each part is an element with the id of the element that it replaces. `parts` are the parts that the caller has
    found; the changed states and the count in the menu are added. Raise `FilterError` for a bad count of the menu.
    """
    found = [*parts, *_states(request, who), *_menu(request, who)]
    return HttpResponse("".join(found)) if found else HttpResponse(status=204)


def is_asked(request: HttpRequest) -> bool:
    """Return whether the script sent the request; any other request to the address gets the full page."""
    return "X-Live" in request.headers


def refuse_bad_filters(view: Callable[P, HttpResponse]) -> Callable[P, HttpResponse]:
    """Let a view answer a bad filter with 400, which makes the script stop polling; the text is for developers."""

    @wraps(view)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            return view(*args, **kwargs)
        except FilterError as bad:
            return HttpResponse(f"{bad}\n", status=400, content_type="text/plain; charset=utf-8")

    return wrapper


@require_role(Role.VIEWER)
@require_safe
@refuse_bad_filters
def live(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer live updates for pages of which only the menu and the states of handoffs change."""
    return answer(request, who)


def _states(request: HttpRequest, who: TenantMembership) -> list[str]:
    """Return the changed states among those that `render_state` rendered."""
    tokens = request.GET.get("rows", "").split("~")[:MOST_ROWS]
    shown = [match.groups() for token in tokens if (match := _STATE_TOKEN.fullmatch(token))]
    if not shown:
        return []
    found = {one.pk.hex: one for one in queries.of_tenant(who.tenant).filter(pk__in={pk for pk, _, _ in shown})}
    return [
        render_state(found[pk], place)
        for pk, version, place in shown
        if pk in found and found[pk].version != int(version)
    ]


def _menu(request: HttpRequest, who: TenantMembership) -> list[str]:
    seen = number_seen(request, "waiting")
    if seen < 0:
        return []
    count = count_pressing(who.tenant, MOST_WAITING)
    if count.number + count.more == seen:
        return []
    return [render_to_string("dashboard/live/parts.html#waiting", {"waiting_count": count})]


urlpatterns = [path("live/", live, name="live")]
