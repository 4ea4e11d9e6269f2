"""One finding group: what it is, how it went, its handoffs, and what was decided of them."""

from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.diagnostics.mending import mend
from handoffaudit.dashboard.groups.words import line, muted_words, untils
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.diagnostics.groups import queries
from handoffaudit.diagnostics.groups.queries import list_one
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.drawing.charts import Bar, stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.validation.codes import entry_of

TEMPLATE: Final = "dashboard/groups/group.html"
UNFOLDED: Final = 3


def get_group(who: Who, group: int) -> FindingGroup:
    """A group of the tenant, or 404."""
    try:
        return queries.get_group(who.tenant, group)
    except FindingGroup.DoesNotExist:
        raise Http404("There is no such finding group.") from None


def answer(request: HttpRequest, who: Who, group: FindingGroup, *, status: int = 200, **more: Any) -> HttpResponse:
    """The page of a group; `more` is what a form says that was not taken."""
    newest = queries.newest_handoffs(who.tenant, group.pk)
    trend = queries.trend(group)
    context: dict[str, Any] = {
        "group": group,
        "line": line(list_one(who.tenant, group)),
        "entry": entry_of(group.code),
        "mend": mend(who, group.code, newest[0].handoff_type if newest else ""),
        "example": queries.find_example(group, newest),
        "newest": newest,
        "decided": queries.count_decisions(who.tenant, group.pk),
        "looked_at": queries.MOST_LOOKED_AT,
        "untils": untils(group.number),
        "muted": muted_words(group) if group.muted_at else "",
        "review": f"{reverse('dashboard:review', args=[who.tenant.slug])}?group={group.pk}",
        "handoffs": f"{reverse('dashboard:handoffs', args=[who.tenant.slug])}?group={group.pk}",
        "chart": _chart(trend, width=900, prefix="wide"),
        "narrow_chart": _chart(trend, width=340, prefix="narrow"),
        **more,
    }
    return render_page(request, TEMPLATE, context, status=status)


@page_for(Role.VIEWER)
@require_safe
def group(request: HttpRequest, who: Who, group: int) -> HttpResponse:
    return answer(request, who, get_group(who, group))


@page_for(Role.VIEWER)
@require_safe
def newest(request: HttpRequest, who: Who, group: int) -> HttpResponse:
    """The newest handoffs of a group, to stand below its line in the list; the group's page for a plain request."""
    found = get_group(who, group)
    if not is_htmx(request):
        return HttpResponseRedirect(f"{reverse('dashboard:group', args=[who.tenant.slug, found.pk])}#newest")
    handoffs = queries.newest_handoffs(who.tenant, found.pk, UNFOLDED)
    context = {"group": found, "handoffs": handoffs, "example": queries.find_example(found, handoffs)}
    return render_page(request, "dashboard/groups/newest.html", context)


def _chart(trend: Any, *, width: int, prefix: str) -> Drawing:
    bars = [
        Bar(label=f"{day.day} {day:%b}", title=f"{day:%Y-%m-%d} UTC", parts={"handoffs": number})
        for day, number in trend
    ]
    title = "Handoffs with this finding a day"
    return stacked_bars(bars, order=("handoffs",), width=width, height=180, title=title, prefix=prefix)


urlpatterns = [
    path("groups/<int:group>/", group, name="group"),
    path("groups/<int:group>/newest/", newest, name="group_newest"),
]
