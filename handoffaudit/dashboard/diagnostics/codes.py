"""Rule codes: the page of a rule code, the overturn rates, and links to the setting that would change them."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.filters import Links, choose_window
from handoffaudit.dashboard.help.public_pages import sides
from handoffaudit.diagnostics import codes
from handoffaudit.diagnostics.codes import (
    FEWEST_DECISIONS,
    MOST_DECISIONS,
    CodeDecisions,
    CodeReport,
    add_examples,
    overturn_rates,
)
from handoffaudit.drawing.charts import Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs.rates import Share
from handoffaudit.policy import kinds
from handoffaudit.validation.catalogue import CATALOGUE, FAMILIES, entry_of, example_of
from handoffaudit.validation.config import ANY_OTHER_TYPE


@dataclass(frozen=True, slots=True)
class Fix:
    link: str
    text: str


def find_fix(who: TenantMembership, code: str, handoff_type: str) -> Fix:
    """Return a link to the setting that controls a rule code, for handoffs of the type that is overturned most.

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
    links = Links(who.tenant, window)
    context = choice.context | {
        "found": found,
        "noisy": [_overturn_row(who, one, links) for one in noisy],
        "quiet": [_overturn_row(who, one, links) for one in found.codes if not one.noisy],
        "fewest": FEWEST_DECISIONS,
        "most_decisions": MOST_DECISIONS,
    }
    return render_page(request, "dashboard/diagnostics/noise.html", context, status=choice.status)


def _overturn_row(who: TenantMembership, one: CodeDecisions, links: Links) -> OverturnRow:
    types = sorted(one.types.items(), key=lambda item: (-item[1].part, -item[1].total, item[0]))
    return OverturnRow(
        one,
        links.code(one.code),
        links.handoffs(code=one.code, state="approved"),
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
        "handoffs": links.handoffs(code=code),
        "sources": [
            (name, number, number / most, links.handoffs(code=code, source=name)) for name, number in found.sources
        ],
        "types": [(name, number, links.handoffs(code=code, type=name)) for name, number in found.types],
        "fix": find_fix(who, code, found.decided.main_type or next((name for name, _ in found.types), "")),
        "chart": _chart(links, found, width=900, prefix="wide") if found.number else None,
        "narrow_chart": _chart(links, found, width=340, prefix="narrow") if found.number else None,
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
