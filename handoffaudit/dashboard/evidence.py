"""Downloads of evidence bundles, from the pages of a handoff, a trace and compliance."""

from collections.abc import Callable
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.view_tabs import build_url
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.models import Handoff
from handoffaudit.trust import bundle, signatures
from handoffaudit.trust.bundle import Subject


@require_role(Role.VIEWER)
@require_safe
def handoff_evidence(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponseBase:
    back = reverse("dashboard:handoff", args=[who.tenant.slug, pk])
    return _download(request, who, back, lambda: bundle.about_handoff(who.tenant, str(pk)))


@require_role(Role.VIEWER)
@require_safe
def trace_evidence(request: HttpRequest, who: TenantMembership, trace_id: str) -> HttpResponseBase:
    back = reverse("dashboard:trace", args=[who.tenant.slug, trace_id])
    return _download(request, who, back, lambda: bundle.about_trace(who.tenant, trace_id))


@require_role(Role.VIEWER)
@require_safe
def period_evidence(request: HttpRequest, who: TenantMembership) -> HttpResponseBase:
    asked = {name: request.GET.get(name, "") for name in ("period", "since", "until")}
    back = build_url(reverse("dashboard:compliance", args=[who.tenant.slug]), request.GET.urlencode())
    return _download(request, who, back, lambda: bundle.find_subject(who.tenant, asked))


def _download(request: HttpRequest, who: TenantMembership, back: str, find: Callable[[], Subject]) -> HttpResponseBase:
    """Return the bundle, or redirect to the page with the reason why there is none."""
    try:
        subject = find()
        if request.method == "HEAD":
            return HttpResponse(content_type="application/zip")
        key = signatures.load_key(settings.DATA_FOLDER)
        made = bundle.build(subject, key, by=who.person.username, with_audit=who.may(Role.ADMIN))
        parts = bundle.Download(made)
    except (Handoff.DoesNotExist, bundle.NothingFound) as error:
        raise Http404(str(error)) from error
    except FilterError as bad:
        return HttpResponse(f"{bad}\n", status=400, content_type="text/plain; charset=utf-8")
    except (bundle.TooLarge, bundle.Busy, signatures.WrongKey) as error:
        messages.error(request, f"No evidence bundle: {error}")
        return HttpResponseRedirect(back)
    answer = StreamingHttpResponse(parts, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="{bundle.file_name(subject)}"'
    return answer


urlpatterns = [
    path("handoffs/<uuid:pk>/evidence.zip", handoff_evidence, name="handoff_evidence"),
    path("traces/<path:trace_id>/evidence.zip", trace_evidence, name="trace_evidence"),
    path("diagnostics/compliance/evidence.zip", period_evidence, name="compliance_evidence"),
]
