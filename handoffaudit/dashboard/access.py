"""Access to pages by role, the rendering of pages and htmx partials in the reader's time zone, and the error pages.

Pages show moments in the time zone of the person or browser. Charts, periods and filters stay in UTC, because handoffs
are counted per hour and per day in UTC.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache, wraps
from typing import Any, Concatenate, Final, cast
from zoneinfo import ZoneInfo, available_timezones

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control, patch_vary_headers
from django_htmx.http import HttpResponseClientRefresh

from handoffaudit import problem_types
from handoffaudit.accounts import sign_in
from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.database_faults import fault_of, page

# The script static/js/shell.js sets the cookie to the time zone of the browser.
COOKIE = "time_zone"

_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


@cache
def zone_names() -> tuple[str, ...]:
    """Return the names of all time zones that a person can choose; empty on a system without time zone data."""
    return tuple(sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")))


@cache
def _list_zones() -> frozenset[str]:
    return frozenset(available_timezones())


def is_zone(name: str) -> bool:
    """Return whether there is a time zone of this name.

    The name is compared with the known names, and is never used as the path of a file.
    """
    return name in _list_zones()


def browser_zone(request: HttpRequest) -> str:
    """Return the time zone that the browser named, or an empty text."""
    name = request.COOKIES.get(COOKIE, "")
    return name if is_zone(name) else ""


def zone_of(request: HttpRequest, person: Person) -> tzinfo:
    """Return the person's chosen time zone, or else the browser's, or else UTC."""
    name = person.time_zone if is_zone(person.time_zone) else browser_zone(request)
    return ZoneInfo(name) if name and name != "UTC" else UTC


@contextmanager
def use_zone(zone: tzinfo) -> Iterator[None]:
    """Show moments in this time zone inside the context."""
    token = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(token)


def to_local(value: datetime) -> datetime:
    """Return the moment in the reader's time zone."""
    return value.astimezone(_zone.get())


def current_zone() -> tzinfo:
    return _zone.get()


def is_htmx(request: HttpRequest) -> bool:
    """Return whether the response may be a partial.

    A request of htmx may get a partial, except a request for a page of the browser history, which needs the whole page.
    """
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def target_of(request: HttpRequest) -> str:
    """Return the id of the element that htmx will replace; an empty string for a plain request."""
    return request.headers.get("HX-Target", "") if is_htmx(request) else ""


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    partials: Collection[str] = (),
    status: int = 200,
) -> HttpResponse:
    """Render the page, or only the partial that has the name of the requested element.

    `partials` names the partials that a request may ask for alone.
    """
    target = target_of(request)
    name = f"{template}#{target}" if target in partials else template
    response = render(request, name, dict(context), status=status)
    # Caches must keep the page and its partials apart, because all have the same address.
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


MOST_TENANTS: Final = 50


@dataclass(frozen=True, slots=True)
class TenantMembership:
    """The signed-in person in one tenant."""

    person: Person
    tenant: Tenant
    role: Role
    # The tenants of the person by name, at most `MOST_TENANTS`.
    tenants: Sequence[Tenant] = ()

    def may(self, role: Role) -> bool:
        return self.role.includes(role)


PageView = Callable[Concatenate[HttpRequest, TenantMembership, ...], HttpResponseBase]


def require_role(role: Role) -> Callable[[PageView], Callable[..., Any]]:
    """Return a decorator that admits members of the address's tenant whose role includes this role.

    The view gets `who` after `request`. A person who is not signed in is sent to the sign-in page. A person who is not
    a member gets 404, as if the tenant did not exist. A member with too small a role gets 403. An administrator who has
    to set up a second factor first is sent to the page for it. The view's attribute `role` has the required role, for
    the guides of Help and for the access tests.
    """

    def decorate(view: PageView) -> Callable[..., Any]:
        @wraps(view)
        def wrapper(request: HttpRequest, tenant: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                # htmx would insert the sign-in page into the current page, so the response makes htmx reload the page.
                return HttpResponseClientRefresh() if is_htmx(request) else redirect_to_login(request.get_full_path())
            who = _member(request, tenant)
            if not who.may(role):
                raise PermissionDenied(f"This needs the role {role.value}; yours is {who.role.value}.")
            if sign_in.is_missing(request, who.person, who.role):
                return HttpResponseClientRefresh() if is_htmx(request) else redirect("mfa_index")
            request.who = who  # type: ignore[attr-defined]
            with use_zone(zone_of(request, who.person)):
                response = view(request, who, *args, **kwargs)
            patch_cache_control(response, private=True, no_store=True)
            return response

        wrapper.role = role  # type: ignore[attr-defined]
        return wrapper

    return decorate


def find_member(request: HttpRequest) -> TenantMembership | None:
    """Return the membership of the person in the tenant of the address, or None.

    The function also accepts an address at which there is no page.
    """
    head, slug, *_ = [*request.path.strip("/").split("/"), "", ""]
    user = getattr(request, "user", None)
    if head != "t" or not re.fullmatch(r"[-\w]+", slug, re.ASCII) or user is None or not user.is_authenticated:
        return None
    return _membership(request, slug)


def _member(request: HttpRequest, slug: str) -> TenantMembership:
    who = _membership(request, slug)
    if who is None:
        raise Http404("There is no such page.")
    return who


def _membership(request: HttpRequest, slug: str) -> TenantMembership | None:
    # Most people have few tenants, so one query reads the tenant of the address and the tenants of the menu.
    of_person = Membership.objects.select_related("tenant").filter(person=request.user.pk)
    listed = list(of_person.order_by("tenant__name")[:MOST_TENANTS])
    membership = next((one for one in listed if one.tenant.slug == slug), None)
    if membership is None and len(listed) == MOST_TENANTS:
        membership = of_person.filter(tenant__slug=slug).first()
    if membership is None:
        return None
    tenants = [one.tenant for one in listed]
    return TenantMembership(cast("Person", request.user), membership.tenant, Role(membership.role), tenants)


def answer_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400 in plain text, because nothing in the request can be trusted."""
    said = problem_types.explain_unknown_host(request) or "This request can't be answered."
    return HttpResponse(f"400 Bad Request\n\n{said}\n", status=400, content_type="text/plain; charset=utf-8")


def answer_forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _render_refusal(request, "403.html", 403, str(exception))


# The path of a handoff's page, also with a mistyped id.
_HANDOFF_PATH = re.compile(r"/t/[-\w]+/handoffs/([^/]{1,100})/?", re.ASCII)


def answer_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    asked = _HANDOFF_PATH.fullmatch(request.path)
    return _render_refusal(request, "404.html", 404, handoff=asked[1] if asked else "")


def answer_broken(request: HttpRequest) -> HttpResponse:
    """Answer an unexpected error of a page, or any error that happened outside of a view."""
    fault = fault_of(sys.exception())
    return page(fault) if fault else render(request, "500.html", status=500)


def _render_refusal(
    request: HttpRequest, template: str, status: int, reason: str = "", handoff: str = ""
) -> HttpResponse:
    # A member also gets the menu. To everybody else, the tenant must seem not to exist.
    if not hasattr(request, "who") and (who := find_member(request)):
        request.who = who  # type: ignore[attr-defined]
    return render(request, template, {"reason": reason, "handoff": handoff}, status=status)
