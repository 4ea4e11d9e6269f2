"""Pages about rule codes: for each code, a page inside a tenant and a public page; and the page of overturn rates.

The page inside a tenant has a link to the setting that controls the code. The module also has the public pages of
problem types.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Membership, Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.diagnostics import codes
from handoffaudit.diagnostics.codes import (
    FEWEST_DECISIONS,
    MOST_DECISIONS,
    CodeDecisions,
    CodeReport,
    add_examples,
    overturn_rates,
)
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.rates import Share
from handoffaudit.policy import kinds
from handoffaudit.problem_types import PROBLEM_TYPES
from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.issues import Code
from handoffaudit.validation.layers import CATALOGUE, FAMILIES, Example, entry_of, example_of, text_of


@dataclass(frozen=True, slots=True)
class Fix:
    link: str
    text: str


def find_fix(who: TenantMembership, code: str, handoff_type: str) -> Fix:
    """Return a link to the setting that controls a rule code for handoffs of this type.

    A person who may not change the setting gets a link to view the setting.
    """
    family, _, rest = code.partition(".")
    if family == "business_rule" and (found := _rule_fix(who, rest.rpartition(".")[2])):
        return found
    if family == "schema" and kinds.schemas.current(who.tenant).row(handoff_type):
        return _fix(who, "schemas", {"edit": handoff_type}, f"the schema of {handoff_type}")
    row = handoff_type if kinds.strictness.current(who.tenant).row(handoff_type) else ANY_OTHER_TYPE
    named = "of any other type" if row == ANY_OTHER_TYPE else row
    if who.may(Role.ADMIN):
        return _fix(who, "strictness", {"edit": row}, f"the strictness row {named}")
    return _fix(who, "strictness_row", {"type": row}, f"the strictness row {named}")


def _rule_fix(who: TenantMembership, rule_id: str) -> Fix | None:
    for one in kinds.rules.current(who.tenant).rows:
        if any(rule.rule_id == rule_id for rule in one.rules):
            return _fix(who, "rules", {"set": one.set_id, "rule": rule_id}, f"the rule {rule_id}")
    return None


def _fix(who: TenantMembership, page: str, query: dict[str, str], what: str) -> Fix:
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    return Fix(f"{address}?{urlencode(query)}", f"{'Change' if who.may(Role.ADMIN) else 'See'} {what}")


MOST_CARDS = 20

MOST_TYPES = 5


@dataclass(frozen=True, slots=True)
class OverturnRow:
    """A rule code with decisions; `types` holds the handoff types with the most overturned handoffs."""

    decided: CodeDecisions
    why: str
    handoffs: str
    fix: Fix
    types: Sequence[tuple[str, Share]]


@require_role(Role.VIEWER)
@require_safe
def overturn_rate_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    choice = choose_window(request)
    window = choice.window
    found = overturn_rates(who.tenant, window.since, window.until)
    noisy = add_examples(who.tenant, found.noisy[:MOST_CARDS], window.since, window.until)
    links, in_cards = Links(who.tenant, window), {one.code for one in noisy}
    context = choice.context | {
        "found": found,
        "noisy": [_overturn_row(who, one, links) for one in noisy],
        "quiet": [_overturn_row(who, one, links) for one in found.codes if one.code not in in_cards],
        "fewest": FEWEST_DECISIONS,
        "most_decisions": MOST_DECISIONS,
    }
    return render_page(request, "dashboard/diagnostics/noise.html", context, status=choice.status)


def _overturn_row(who: TenantMembership, one: CodeDecisions, links: Links) -> OverturnRow:
    # A decision of the period may be about an older handoff, so the link to the list has no period.
    approved = Filters(code=one.code, state=(State.APPROVED,)).to_query()
    types = sorted(one.types.items(), key=lambda item: (-item[1].part, -item[1].total, item[0]))
    return OverturnRow(
        one,
        links.code(one.code),
        f"{reverse('dashboard:handoffs', args=[who.tenant.slug])}?{approved}",
        find_fix(who, one.code, one.main_type),
        types[:MOST_TYPES],
    )


overturn_rate_urls = [path("diagnostics/noise/", overturn_rate_page, name="noise")]


@require_role(Role.VIEWER)
@require_safe
def code_page(request: HttpRequest, who: TenantMembership, code: str) -> HttpResponse:
    """Show a rule code of the catalogue, a family of rule codes, or a rule code of one of the tenant's handoffs."""
    if "\x00" in code or not (code in CATALOGUE or code in FAMILIES or codes.is_known(who.tenant, code)):
        raise Http404(f"No handoff has the code {code[:80]!r}.")
    choice = choose_window(request)
    links = Links(who.tenant, choice.window)
    found = codes.load_report(who.tenant, code, choice.window)
    most = max((number for _, number in found.sources), default=1)
    example = example_of(code)
    context = choice.context | {
        "code": code,
        "example": example,
        "sides": sides(example) if example else (),
        "entry": entry_of(code),
        "found": found,
        "is_counted": code != UNVERIFIED,
        "handoffs": links.handoffs(code=code),
        "sources": [
            (name, number, number / most, links.handoffs(code=code, source=name)) for name, number in found.sources
        ],
        "most_sources": codes.MOST_SOURCES,
        "types": [(name, number, links.handoffs(code=code, type=name)) for name, number in found.types],
        "fix": find_fix(who, code, found.decided.main_type or next((name for name, _ in found.types), "")),
        "chart": _chart(links, found, width=ALONE, prefix="wide") if found.number else None,
        "narrow_chart": _chart(links, found, width=NARROW, prefix="narrow") if found.number else None,
    }
    return render_page(request, "dashboard/diagnostics/code.html", context, status=choice.status)


def _chart(links: Links, found: CodeReport, *, width: int, prefix: str) -> Drawing:
    bars = [
        Bar(
            label=links.window.short(one.since),
            title=one.span,
            parts={"handoffs": one.value},
            href=links.between("handoffs", one.since, one.until, code=found.code),
        )
        for one in found.over_time
    ]
    title = "Handoffs with this code over time"
    return draw_stacked_bars(bars, order=("handoffs",), width=width, height=180, title=title, prefix=prefix)


# A rule code of a tenant's own layer may contain any character, even a slash.
urlpatterns = [path("diagnostics/codes/<path:code>/", code_page, name="code")]


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
    before, after = _compare_lines(text_of(example.before), text_of(example.after))
    beside, beside_after = _compare_lines(_document_text(example.beside), _document_text(example.beside_after))
    return Side("Before", before, beside), Side("After", after, beside_after)


def _document_text(beside: Mapping[str, Any]) -> str:
    return json.dumps(beside, indent=2, ensure_ascii=False) if beside else ""


def _compare_lines(one: str, other: str) -> tuple[list[Line], list[Line]]:
    old, new = one.splitlines(), other.splitlines()
    left: list[Line] = []
    right: list[Line] = []
    for kind, since, until, since_new, until_new in _match_lines(old, new).get_opcodes():
        left += [_line(line, marked=kind != "equal") for line in old[since:until]]
        right += [_line(line, marked=kind != "equal") for line in new[since_new:until_new]]
    return left, right


def _match_lines(old: list[str], new: list[str]) -> "SequenceMatcher[str]":
    """Compare the lines without their trailing commas, which only say that another entry follows."""
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
def public_codes(request: HttpRequest) -> HttpResponse:
    return _public_page(request, "codes", {"layers": by_layer()}, "dashboard:help_codes")


@require_safe
def public_code(request: HttpRequest, code: str) -> HttpResponse:
    """Show a rule code of the catalogue, or a rule code of a family whose members depend on the policy."""
    example = example_of(code)
    if example is None:
        raise Http404(f"The product has no code {code[:80]!r}. It may belong to a layer of your own.")
    context = {"code": code, "example": example, "sides": sides(example), "entry": entry_of(code)}
    return _public_page(request, "code", context, "dashboard:code", code)


@require_safe
def public_problems(request: HttpRequest) -> HttpResponse:
    return _public_page(request, "problems", {"problems": PROBLEM_TYPES.values()}, "dashboard:help_problems")


@require_safe
def public_problem(request: HttpRequest, name: str) -> HttpResponse:
    """Show the page at the address that problem documents carry as `type`."""
    found = next((one for one in PROBLEM_TYPES.values() if one.name == name), None)
    if found is None:
        raise Http404("There is no such problem.")
    return _public_page(request, "problem", {"problem": found}, "dashboard:help_problems")


def _public_page(request: HttpRequest, page: str, context: dict[str, Any], inside: str, *about: str) -> HttpResponse:
    """Render a public page; for a member, `inside` and `about` name the matching page inside the tenant."""
    slug = None
    if request.user.is_authenticated:
        member = Membership.objects.filter(person=request.user.pk).order_by("pk")
        slug = member.values_list("tenant__slug", flat=True).first()
    context["inside"] = reverse(inside, args=[slug, *about]) if slug else ""
    return render(request, f"dashboard/help/public/{page}.html", context)


public_urls = [
    path("codes/", public_codes, name="help_codes"),
    # A rule that was built with the library may have any id, even one with a slash.
    path("codes/<path:code>/", public_code, name="help_code"),
    path("problems/", public_problems, name="help_problems"),
    path("problems/<slug:name>/", public_problem, name="help_problem"),
]
