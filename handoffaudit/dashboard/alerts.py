"""Open alerts in words, wherever they are shown, and the button that acknowledges one."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.models import Alert


@dataclass(frozen=True, slots=True)
class Told:
    """An alert: what happened, what it means and what to do, and where the handoffs are. `of_model`: Model health says
    more."""

    alert: Alert
    title: str
    meaning: str
    link: str
    link_text: str
    of_model: bool = False


# Where alerts stand, and the button leads back to.
PAGES = ("overview", "model_health", "alerts")


def told(tenant: Tenant) -> list[Told]:
    """Those that are open, newest first."""
    return [of(tenant, alert) for alert in alerts.list_open(tenant)]


def of(tenant: Tenant, alert: Alert) -> Told:
    """An alert in words, whether it stands or is over."""
    about = alerts.describe(alert)
    link, link_text = f"{reverse('dashboard:handoffs', args=[tenant.slug])}?{about.query}", about.link_text
    if not about.query:
        link, link_text = _elsewhere(tenant, alert)
    return Told(alert, about.title(alert), about.meaning, link, link_text, about.of_model)


def _elsewhere(tenant: Tenant, alert: Alert) -> tuple[str, str]:
    if alert.kind == AlertKind.WEBHOOK_FAILING:
        return reverse("dashboard:settings_webhooks", args=[tenant.slug]), "Webhooks"
    return reverse("dashboard:handoffs", args=[tenant.slug]), "See the last handoffs"


@page_for(Role.REVIEWER)
@require_POST
def acknowledge(request: HttpRequest, who: Who, alert: int) -> HttpResponse:
    """Back to the page that it was pressed on."""
    try:
        alerts.acknowledge(tenant=who.tenant, alert=alert, actor=who.person.username)
    except Refused as refused:
        raise Http404(refused.message) from refused
    messages.success(request, "The alert is acknowledged.")
    page = request.POST.get("page", "")
    return redirect(f"dashboard:{page if page in PAGES else 'alerts'}", tenant=who.tenant.slug)


urlpatterns = [path("diagnostics/alerts/<int:alert>/acknowledge/", acknowledge, name="alert_acknowledge")]
