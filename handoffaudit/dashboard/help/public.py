"""Codes and problems for everybody: what an answer of the API names can be read without an account. Nothing of a tenant
stands here; who is signed in is led on to the same page of the first tenant of theirs."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Membership
from handoffaudit.dashboard.help.examples import sides
from handoffaudit.dashboard.help.layers import by_layer
from handoffaudit.problem_types import PROBLEM_TYPES
from handoffaudit.validation.codes import entry_of
from handoffaudit.validation.explanations import explanation_of


@require_safe
def codes(request: HttpRequest) -> HttpResponse:
    return _shown(request, "codes", {"layers": by_layer()}, "dashboard:help_codes")


@require_safe
def code(request: HttpRequest, code: str) -> HttpResponse:
    """A code of the catalogue, or one of a family that is made as it is needed."""
    explained = explanation_of(code)
    if explained is None:
        raise Http404(f"The product has no code {code[:80]!r}: it is of a layer of your own.")
    context = {"code": code, "explained": explained, "sides": sides(explained), "entry": entry_of(code)}
    return _shown(request, "code", context, "dashboard:code", code)


@require_safe
def problems(request: HttpRequest) -> HttpResponse:
    return _shown(request, "problems", {"problems": PROBLEM_TYPES.values()}, "dashboard:help_problems")


@require_safe
def problem(request: HttpRequest, name: str) -> HttpResponse:
    """The address that is a problem document's `type`."""
    found = next((one for one in PROBLEM_TYPES.values() if one.name == name), None)
    if found is None:
        raise Http404("There is no such problem.")
    return _shown(request, "problem", {"problem": found}, "dashboard:help_problems")


def _shown(request: HttpRequest, page: str, context: dict[str, Any], inside: str, *about: str) -> HttpResponse:
    """`inside` and `about`: the page of a tenant that tells the same, for its members."""
    slug = None
    if request.user.is_authenticated:
        member = Membership.objects.filter(person=request.user.pk).order_by("pk")
        slug = member.values_list("tenant__slug", flat=True).first()
    context["inside"] = reverse(inside, args=[slug, *about]) if slug else ""
    return render(request, f"dashboard/help/public/{page}.html", context)


urlpatterns = [
    path("codes/", codes, name="help_codes"),
    # A rule of somebody's own may have anything in its id, a slash too.
    path("codes/<path:code>/", code, name="help_code"),
    path("problems/", problems, name="help_problems"),
    path("problems/<slug:name>/", problem, name="help_problem"),
]
