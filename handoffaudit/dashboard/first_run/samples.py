"""Sample data at a click, and gone at a click."""

from urllib.parse import urlsplit

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import render_page
from handoffaudit.diagnostics import sample_tenants


@page_for(Role.ADMIN)
@require_POST
def make(request: HttpRequest, who: Who) -> HttpResponse:
    """A tenant of its own with the sample in it, for this person; on to it."""
    try:
        tenant = sample_tenants.create_sample(person=who.person, origin=who.tenant)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:overview", tenant=who.tenant.slug)
    return redirect("dashboard:overview", tenant=tenant.slug)


@page_for(Role.ADMIN)
@require_POST
def remove(request: HttpRequest, who: Who) -> HttpResponse:
    """The whole sample tenant; back to where the person came from."""
    try:
        origin = sample_tenants.remove_sample(tenant=who.tenant, person=who.person)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:overview", tenant=who.tenant.slug)
    messages.success(request, "The sample data is removed.")
    return redirect("dashboard:overview", tenant=origin.slug) if origin else redirect("home")


@page_for(Role.VIEWER)
@require_safe
def progress(request: HttpRequest, who: Who) -> HttpResponse:
    """The banner, which asks for itself until all is there."""
    if not who.tenant.is_sample:
        raise Http404("This is no sample data.")
    answer = render_page(request, "components/sample_banner.html", {})
    overview = reverse("dashboard:overview", args=[who.tenant.slug])
    if (
        sample_tenants.load_progress(who.tenant).done
        and urlsplit(request.headers.get("HX-Current-URL", "")).path == overview
    ):
        # It told that the sample is on its way, or figures of a part of it.
        answer["HX-Refresh"] = "true"
    return answer


urlpatterns = [
    path("sample/", make, name="sample"),
    path("sample/remove/", remove, name="sample_remove"),
    path("sample/progress/", progress, name="sample_progress"),
]
