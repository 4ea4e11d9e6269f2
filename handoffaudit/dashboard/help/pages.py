"""The help: where everything is, codes, guides, the API's reference."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.help import guides, reference
from handoffaudit.dashboard.help.layers import by_layer
from handoffaudit.dashboard.help.searching import LONGEST_QUERY, search
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.reviewing.keys import keys_for
from handoffaudit.problem_types import PROBLEM_TYPES
from handoffaudit.validation.codes import CATALOGUE


@page_for(Role.VIEWER)
@require_safe
def home(request: HttpRequest, who: Who) -> HttpResponse:
    """Everything at a glance, or what a search found."""
    query = request.GET.get("q", "").strip()[:LONGEST_QUERY]
    context = {
        "query": query,
        "found": search(who.tenant, query),
        "guides": guides.GUIDES,
        "looked_up": guides.LOOKED_UP,
        "review_keys": keys_for(may_review=who.may(Role.REVIEWER)),
        "codes": len(CATALOGUE),
        "calls": len(reference.operations()),
    }
    return render_page(request, "dashboard/help/home.html", context)


@page_for(Role.VIEWER)
@require_safe
def codes(request: HttpRequest, who: Who) -> HttpResponse:
    return render_page(request, "dashboard/help/codes.html", {"layers": by_layer()})


@page_for(Role.VIEWER)
@require_safe
def guide(request: HttpRequest, who: Who, name: str) -> HttpResponse:
    shown = guides.guide(name)
    context = {
        "guide": shown,
        "guides": guides.GUIDES,
        "looked_up": guides.LOOKED_UP,
        "sections": guides.sections(name),
        "text": guides.rendered(name, who, _server(request)),
    }
    return render_page(request, "dashboard/help/guide.html", context)


@page_for(Role.VIEWER)
@require_safe
def calls(request: HttpRequest, who: Who) -> HttpResponse:
    return render_page(request, "dashboard/help/calls.html", {"tags": reference.by_tag(), "server": _server(request)})


@page_for(Role.VIEWER)
@require_safe
def call(request: HttpRequest, who: Who, name: str) -> HttpResponse:
    shown = reference.operation(name)
    context = {"call": shown, "curl": shown.curl(_server(request), who.tenant.slug)}
    return render_page(request, "dashboard/help/call.html", context)


@page_for(Role.VIEWER)
@require_safe
def problems(request: HttpRequest, who: Who) -> HttpResponse:
    return render_page(request, "dashboard/help/problems.html", {"problems": PROBLEM_TYPES.values()})


def _server(request: HttpRequest) -> str:
    return settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")


urlpatterns = [
    path("help/", home, name="help"),
    path("help/codes/", codes, name="help_codes"),
    path("help/guide/<slug:name>/", guide, name="help_guide"),
    path("help/problems/", problems, name="help_problems"),
    path("help/api/", calls, name="help_api"),
    path("help/api/<slug:name>/", call, name="help_call"),
]
