"""Rule codes explained with an example, and the public pages of codes and problem types."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Membership
from handoffaudit.problem_types import PROBLEM_TYPES
from handoffaudit.validation.catalogue import CATALOGUE, FAMILIES, Example, entry_of, example_of, text_of
from handoffaudit.validation.issues import Code


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a document; `marked` is true if the line differs in the other document.

    `indent` is the whitespace before the text, which is never marked.
    """

    indent: str
    text: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One document with the context and evidence sent beside it; `label` says which document it is."""

    label: str
    document: list[Line]
    beside: list[Line]


def sides(example: Example) -> tuple[Side, Side]:
    before, after = _compared(text_of(example.before), text_of(example.after))
    beside, beside_after = _compared(_document_text(example.beside), _document_text(example.beside_after))
    return Side("Before", before, beside), Side("After", after, beside_after)


def _document_text(beside: Mapping[str, Any]) -> str:
    return json.dumps(beside, indent=2, ensure_ascii=False) if beside else ""


def _compared(one: str, other: str) -> tuple[list[Line], list[Line]]:
    old, new = one.splitlines(), other.splitlines()
    left: list[Line] = []
    right: list[Line] = []
    for kind, since, until, since_new, until_new in _matched(old, new).get_opcodes():
        left += [_line(line, marked=kind != "equal") for line in old[since:until]]
        right += [_line(line, marked=kind != "equal") for line in new[since_new:until_new]]
    return left, right


def _matched(old: list[str], new: list[str]) -> "SequenceMatcher[str]":
    """Compare the lines without a trailing comma, which only says that another entry follows."""
    one, other = ([line.rstrip(",") for line in lines] for lines in (old, new))
    return SequenceMatcher(None, one, other, autojunk=False)


def _line(line: str, *, marked: bool) -> Line:
    text = line.lstrip()
    return Line(line[: len(line) - len(text)], text, marked)


def by_layer() -> dict[str, list[Code]]:
    layers: dict[str, list[Code]] = {}
    for entry in (*CATALOGUE.values(), *FAMILIES.values()):
        layers.setdefault(entry.layer, []).append(entry)
    return layers


@require_safe
def codes(request: HttpRequest) -> HttpResponse:
    return _public_page(request, "codes", {"layers": by_layer()}, "dashboard:help_codes")


@require_safe
def code(request: HttpRequest, code: str) -> HttpResponse:
    """Show a rule code of the catalogue, or a rule code of a family whose members depend on the policy."""
    example = example_of(code)
    if example is None:
        raise Http404(f"The product has no code {code[:80]!r}: it belongs to a layer of your own.")
    context = {"code": code, "example": example, "sides": sides(example), "entry": entry_of(code)}
    return _public_page(request, "code", context, "dashboard:code", code)


@require_safe
def problems(request: HttpRequest) -> HttpResponse:
    return _public_page(request, "problems", {"problems": PROBLEM_TYPES.values()}, "dashboard:help_problems")


@require_safe
def problem(request: HttpRequest, name: str) -> HttpResponse:
    """Show the page at the address that problem documents carry as `type`."""
    found = next((one for one in PROBLEM_TYPES.values() if one.name == name), None)
    if found is None:
        raise Http404("There is no such problem.")
    return _public_page(request, "problem", {"problem": found}, "dashboard:help_problems")


def _public_page(request: HttpRequest, page: str, context: dict[str, Any], inside: str, *about: str) -> HttpResponse:
    """Render a public page; for a member, `inside` and `about` name the same page inside the tenant."""
    slug = None
    if request.user.is_authenticated:
        member = Membership.objects.filter(person=request.user.pk).order_by("pk")
        slug = member.values_list("tenant__slug", flat=True).first()
    context["inside"] = reverse(inside, args=[slug, *about]) if slug else ""
    return render(request, f"dashboard/help/public/{page}.html", context)


urlpatterns = [
    path("codes/", codes, name="help_codes"),
    # The id of a tenant's own rule may contain any character, even a slash.
    path("codes/<path:code>/", code, name="help_code"),
    path("problems/", problems, name="help_problems"),
    path("problems/<slug:name>/", problem, name="help_problem"),
]
