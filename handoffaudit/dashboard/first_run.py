"""First steps in an empty tenant, shown as its Overview, and the sample data."""

from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Membership, Role
from handoffaudit.dashboard import connect
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.connect_ways import WAYS
from handoffaudit.dashboard.diagnostics import llm_health
from handoffaudit.diagnostics import sample_tenants


def page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Render the first steps."""
    context: dict[str, Any] = {
        "ways": WAYS,
        "watch": connect.watch(request, who),
        "invited": Membership.objects.filter(tenant=who.tenant).order_by()[:2].count() > 1,
        "administrators": connect.administrators(who.tenant),
        # An open alert may say that no handoffs arrive.
        "alerts": llm_health.open_alerts(who.tenant),
    }
    return render_page(request, "dashboard/first_run/page.html", context)


@require_role(Role.ADMIN)
@require_POST
def make(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Create a sample tenant for this person and redirect to its overview."""
    try:
        tenant = sample_tenants.create_sample(person=who.person, origin=who.tenant)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:overview", tenant=who.tenant.slug)
    return redirect("dashboard:overview", tenant=tenant.slug)


@require_role(Role.ADMIN)
@require_POST
def remove(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Remove the whole sample tenant and redirect to the tenant that the person came from."""
    try:
        origin = sample_tenants.remove_sample(tenant=who.tenant, person=who.person)
    except Refused as refused:
        messages.error(request, refused.message)
        return redirect("dashboard:overview", tenant=who.tenant.slug)
    messages.success(request, "The sample data is removed.")
    return redirect("dashboard:overview", tenant=origin.slug) if origin else redirect("home")


@require_role(Role.VIEWER)
@require_safe
def progress(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Answer the sample banner, which polls until the sample is complete."""
    if not who.tenant.is_sample:
        raise Http404("This tenant is not a sample tenant.")
    answer = render_page(request, "components/sample_banner.html", {})
    overview = reverse("dashboard:overview", args=[who.tenant.slug])
    if (
        sample_tenants.load_progress(who.tenant).done
        and urlsplit(request.headers.get("HX-Current-URL", "")).path == overview
    ):
        # The overview says that the sample is on its way, or shows only a part of its numbers.
        answer["HX-Refresh"] = "true"
    return answer


urlpatterns = [
    path("sample/", make, name="sample"),
    path("sample/remove/", remove, name="sample_remove"),
    path("sample/progress/", progress, name="sample_progress"),
]
