"""The help: where everything is, codes, guides, the API's reference."""

from collections.abc import Iterable

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Membership, Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.help import guides, reference
from handoffaudit.dashboard.help.searching import LONGEST_QUERY, search
from handoffaudit.dashboard.partials import render_page
from handoffaudit.problem_types import PROBLEM_TYPES
from handoffaudit.validation.codes import CATALOGUE, FAMILIES, Code


@page_for(Role.VIEWER)
@require_safe
def home(request: HttpRequest, who: Who) -> HttpResponse:
    """Everything at a glance, or what a search found."""
    query = request.GET.get("q", "").strip()[:LONGEST_QUERY]
    context = {
        "query": query,
        "found": search(who.tenant, query),
        "guides": guides.GUIDES,
        "codes": len(CATALOGUE),
        "calls": len(reference.operations()),
    }
    return render_page(request, "dashboard/help/home.html", context)


@page_for(Role.VIEWER)
@require_safe
def codes(request: HttpRequest, who: Who) -> HttpResponse:
    layers = _by_layer([*CATALOGUE.values(), *FAMILIES.values()])
    return render_page(request, "dashboard/help/codes.html", {"layers": layers})


@page_for(Role.VIEWER)
@require_safe
def guide(request: HttpRequest, who: Who, name: str) -> HttpResponse:
    shown = guides.guide(name)
    context = {
        "guide": shown,
        "guides": guides.GUIDES,
        "sections": guides.sections(name),
        "text": guides.rendered(name, who.tenant),
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


@login_required
@require_safe
def problem(request: HttpRequest, name: str) -> HttpResponse:
    """The address that is a problem document's `type`: on to the help of the person's first tenant."""
    if name not in {one.name for one in PROBLEM_TYPES.values()}:
        raise Http404("There is no such problem.")
    membership = Membership.objects.select_related("tenant").filter(person=request.user.pk).order_by("pk").first()
    if membership is None:
        return redirect("home")
    return redirect(f"{reverse('dashboard:help_problems', args=[membership.tenant.slug])}#{name}")


def _server(request: HttpRequest) -> str:
    return settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")


def _by_layer(entries: Iterable[Code]) -> dict[str, list[Code]]:
    layers: dict[str, list[Code]] = {}
    for entry in entries:
        layers.setdefault(entry.layer, []).append(entry)
    return layers


urlpatterns = [
    path("help/", home, name="help"),
    path("help/codes/", codes, name="help_codes"),
    path("help/guide/<slug:name>/", guide, name="help_guide"),
    path("help/problems/", problems, name="help_problems"),
    path("help/api/", calls, name="help_api"),
    path("help/api/<slug:name>/", call, name="help_call"),
]
