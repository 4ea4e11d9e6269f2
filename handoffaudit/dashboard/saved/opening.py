"""What a list opens with: chosen by each person, or by an administrator for everybody.

Only the bare address of a list opens with a view: it leads on to the address with the view's filters. Any other address
says itself what it shows; `?saved=all` shows all.
"""

from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse

from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.partials import is_htmx
from handoffaudit.dashboard.saved.tabs import defaults_of, joined, view_of


def opens_with(request: HttpRequest, who: Who, page: str) -> HttpResponseRedirect | None:
    """Where the bare address of a list leads; None where it shows the list as it is."""
    if request.GET or is_htmx(request):
        return None
    view = view_of(defaults_of(request, who, page).in_force, page)
    if view is None:
        return None
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    return HttpResponseRedirect(joined(address, view.query, f"saved={view.pk}"))
