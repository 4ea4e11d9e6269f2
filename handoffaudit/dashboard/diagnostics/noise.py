"""Which rule cries wolf: codes that those who review overturned."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.diagnostics.choosing import Links, chosen
from handoffaudit.dashboard.diagnostics.mending import Mend, mend
from handoffaudit.dashboard.partials import render_page
from handoffaudit.diagnostics.noise import FEWEST_DECISIONS, MOST_DECISIONS, CodeDecisions, add_examples, overturn_rates
from handoffaudit.handoffs.rates import Share

MOST_CARDS = 20
MOST_TYPES = 5


@dataclass(frozen=True, slots=True)
class Line:
    """A code that was decided on; `types` the ones with the most overturned, with the handoffs of each."""

    decided: CodeDecisions
    why: str
    handoffs: str
    mend: Mend
    types: Sequence[tuple[str, Share]]


@page_for(Role.VIEWER)
@require_safe
def noise_page(request: HttpRequest, who: Who) -> HttpResponse:
    choice = chosen(request)
    window = choice.window
    found = overturn_rates(who.tenant, window.since, window.until)
    noisy = add_examples(who.tenant, found.noisy[:MOST_CARDS], window.since, window.until)
    links = Links(who.tenant, window)
    context = choice.context | {
        "found": found,
        "noisy": [_line(who, one, links) for one in noisy],
        "quiet": [_line(who, one, links) for one in found.codes if not one.noisy],
        "fewest": FEWEST_DECISIONS,
        "most_decisions": MOST_DECISIONS,
    }
    return render_page(request, "dashboard/diagnostics/noise.html", context, status=choice.status)


def _line(who: Who, one: CodeDecisions, links: Links) -> Line:
    types = sorted(one.types.items(), key=lambda item: (-item[1].part, -item[1].total, item[0]))
    return Line(
        one,
        links.code(one.code),
        links.handoffs(code=one.code, state="approved"),
        mend(who, one.code, one.main_type),
        types[:MOST_TYPES],
    )


urlpatterns = [path("diagnostics/noise/", noise_page, name="noise")]
