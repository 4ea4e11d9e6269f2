"""One box that finds: a handoff by its id, else what the list can be narrowed by that bears the name."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.naming import names_of
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.saved.tabs import joined
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff

LONGEST = 200
MOST = 30


@dataclass(frozen=True, slots=True)
class Match:
    """`label` says what it is, `value` as a person reads it, `query` narrows the list to it."""

    label: str
    value: str
    query: str
    exact: bool


@page_for(Role.VIEWER)
@require_safe
def find(request: HttpRequest, who: Who) -> HttpResponse:
    """On to the one that is meant; a choice where several may be."""
    text = request.GET.get("q", "").strip()[:LONGEST].replace("\x00", "")
    address = reverse("dashboard:handoffs", args=[who.tenant.slug])
    if not text:
        return HttpResponseRedirect(address)
    try:
        handoff = queries.get(who.tenant, text)
        return HttpResponseRedirect(reverse("dashboard:handoff", args=[who.tenant.slug, handoff.pk]))
    except Handoff.DoesNotExist:
        found = list(islice(_matches(who, text), MOST))
    exact = [match for match in found if match.exact]
    meant = exact if len(exact) == 1 else found
    if len(meant) == 1:
        return HttpResponseRedirect(joined(address, meant[0].query))
    return render_page(request, "dashboard/handoffs/found.html", {"found": found, "text": text, "address": address})


def _matches(who: Who, text: str) -> Iterator[Match]:
    """Whatever is named so, or has it in its name; in any case."""
    by_trace = Filters(trace=text)
    if queries.list_handoffs(who.tenant, by_trace, limit=1).items:
        yield Match("Trace", text, by_trace.to_query(), exact=True)
    known, wanted = stats.list_known_values(who.tenant), text.casefold()
    for label, field, values in (
        ("Source", "source", known.sources),
        ("Target", "target", known.targets),
        ("Type", "handoff_type", known.types),
    ):
        for value in values:
            if wanted in value.casefold():
                query = Filters(**{field: value}).to_query()  # type: ignore[arg-type]
                yield Match(label, value, query, exact=value.casefold() == wanted)
    for code in known.codes:
        names = names_of(code)
        if any(wanted in name for name in names):
            yield Match("Reason", code_title(code), Filters(code=code).to_query(), exact=wanted in names)


urlpatterns = [path("handoffs/find/", find, name="handoffs_find")]
