"""The theme and the density, which cookies store so that the first rendering of a page is right."""

from collections.abc import Sequence

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role

COOKIE = "theme"
THEMES = ("light", "dark")
DENSITY_COOKIE = "density"
DENSITIES = ("compact",)
YEAR = 31_536_000


def theme_of(request: HttpRequest) -> str:
    """Return the chosen theme; an empty string follows the system."""
    return _kept(request, COOKIE, THEMES)


def density_of(request: HttpRequest) -> str:
    """Return the chosen density; an empty string is the comfortable density."""
    return _kept(request, DENSITY_COOKIE, DENSITIES)


def _kept(request: HttpRequest, cookie: str, known: Sequence[str]) -> str:
    value = request.COOKIES.get(cookie, "")
    return value if value in known else ""


@require_role(Role.VIEWER)
@require_POST
def theme(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    after = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(after, allowed_hosts={request.get_host()}):
        after = reverse("dashboard:overview", args=[who.tenant.slug])
    response = HttpResponseRedirect(after)
    if "density" in request.POST:
        _keep(response, DENSITY_COOKIE, request.POST["density"], DENSITIES)
    else:
        _keep(response, COOKIE, request.POST.get("theme", ""), THEMES)
    return response


def _keep(response: HttpResponse, cookie: str, chosen: str, known: Sequence[str]) -> None:
    if chosen in known:
        response.set_cookie(cookie, chosen, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.HTTPS)
    else:
        response.delete_cookie(cookie, samesite="Lax")
