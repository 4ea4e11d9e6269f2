"""A code: what it means, why it matters and how to mend it; how often, whose, since when, and whether people agree."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.diagnostics.choosing import Links, chosen
from handoffaudit.dashboard.diagnostics.mending import mend
from handoffaudit.dashboard.help.examples import sides
from handoffaudit.dashboard.partials import render_page
from handoffaudit.diagnostics import codes
from handoffaudit.diagnostics.codes import CodeReport
from handoffaudit.drawing.charts import Bar, stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.validation.codes import CATALOGUE, FAMILIES, entry_of
from handoffaudit.validation.explanations import explanation_of


@page_for(Role.VIEWER)
@require_safe
def code_page(request: HttpRequest, who: Who, code: str) -> HttpResponse:
    """A code of the catalogue, a family of it, or one that a handoff of the tenant has."""
    if "\x00" in code or not (code in CATALOGUE or code in FAMILIES or codes.is_known(who.tenant, code)):
        raise Http404(f"No handoff has the code {code[:80]!r}.")
    choice = chosen(request)
    links = Links(who.tenant, choice.window)
    found = codes.load_report(who.tenant, code, choice.window)
    most = max((number for _, number in found.sources), default=1)
    explained = explanation_of(code)
    context = choice.context | {
        "code": code,
        "explained": explained,
        "sides": sides(explained) if explained else (),
        "entry": entry_of(code),
        "found": found,
        "handoffs": links.handoffs(code=code),
        "sources": [
            (name, number, number / most, links.handoffs(code=code, source=name)) for name, number in found.sources
        ],
        "types": [(name, number, links.handoffs(code=code, type=name)) for name, number in found.types],
        "mend": mend(who, code, found.decided.main_type or next((name for name, _ in found.types), "")),
        "chart": _chart(links, found, width=900, prefix="wide") if found.number else None,
        "narrow_chart": _chart(links, found, width=340, prefix="narrow") if found.number else None,
    }
    return render_page(request, "dashboard/diagnostics/code.html", context, status=choice.status)


def _chart(links: Links, found: CodeReport, *, width: int, prefix: str) -> Drawing:
    bars = [
        Bar(
            label=links.window.short(one.since),
            title=f"{one.since:%Y-%m-%d %H:%M} to {one.until:%Y-%m-%d %H:%M} UTC",
            parts={"handoffs": one.number},
            href=links.between("handoffs", one.since, one.until, code=found.code),
        )
        for one in found.over_time
    ]
    title = "Handoffs with this code over time"
    return stacked_bars(bars, order=("handoffs",), width=width, height=180, title=title, prefix=prefix)


# A code of somebody's own layer may have anything in it, a slash too.
urlpatterns = [path("diagnostics/codes/<path:code>/", code_page, name="code")]
