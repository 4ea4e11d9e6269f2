"""What changes in the queue while somebody looks at it: who has what open, and what is there no more."""

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import live
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.reviewing.queue import read_queue
from handoffaudit.handoffs.filters import FilterError


@require_safe
@page_for(Role.VIEWER)
def review_live(request: HttpRequest, who: Who) -> HttpResponse:
    """The signs of the rows, and which of the page's own (`rows`) are gone, where that is not as it shows them
    (`held`)."""
    try:
        queue = read_queue(request, who, shown=live.rows_shown(request))
        if request.GET.get("held") == queue.held:
            return live.answer(request, who)
        signs = render_to_string("dashboard/review/signs.html", {"queue": queue})
        return live.answer(request, who, [signs])
    except FilterError as bad:
        return live.refused(bad)


urlpatterns = [path("review/live/", review_live, name="review_live")]
