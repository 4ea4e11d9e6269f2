"""Light, dark, or as the system has it: kept in a cookie, so that the first byte of a page is right."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for

COOKIE = "theme"
THEMES = ("light", "dark")
YEAR = 31_536_000


def theme_of(request: HttpRequest) -> str:
    """Empty: as the system has it."""
    value = request.COOKIES.get(COOKIE, "")
    return value if value in THEMES else ""


@page_for(Role.VIEWER)
@require_POST
def theme(request: HttpRequest, who: Who) -> HttpResponse:
    after = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(after, allowed_hosts={request.get_host()}):
        after = reverse("dashboard:overview", args=[who.tenant.slug])
    response = HttpResponseRedirect(after)
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        response.set_cookie(COOKIE, chosen, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.HTTPS)
    else:
        response.delete_cookie(COOKIE, samesite="Lax")
    return response
