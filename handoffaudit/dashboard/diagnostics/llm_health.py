"""The page of LLM health, the texts of alerts, and the view that acknowledges an alert."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.view_tabs import list_url
from handoffaudit.diagnostics import alert_rules
from handoffaudit.diagnostics.llm_health import PERIODS_OF_CALLS, CallTally, Latency, LLMHealth, load_health
from handoffaudit.diagnostics.status import COUNTED_AT_MOST, Standing
from handoffaudit.drawing.charts import BESIDE, NARROW, Bar, draw_stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.models import Alert
from handoffaudit.handoffs.periods import PERIODS, Period, TimeBucket, choose_period
from handoffaudit.validation.text import pluralize


@dataclass(frozen=True, slots=True)
class AlertText:
    """An alert with its title, its meaning, and a link to its handoffs or to another page about it.

    `of_model` is true if the LLM health page says more about the alert.
    """

    alert: Alert
    title: str
    meaning: str
    link: str
    link_text: str
    of_model: bool = False


# The pages with a button that acknowledges an alert. The person returns to the page on which they pressed the button.
PAGES = ("overview", "model_health", "alerts")


def open_alerts(tenant: Tenant) -> list[AlertText]:
    """Return the active alerts of a tenant, newest first."""
    return [describe_alert(tenant, alert) for alert in alerts.list_open(tenant)]


def describe_alert(tenant: Tenant, alert: Alert) -> AlertText:
    """Return the texts of an open or a closed alert."""
    about = alerts.describe(alert)
    link, link_text = f"{reverse('dashboard:handoffs', args=[tenant.slug])}?{about.query}", about.link_text
    if not about.query:
        link, link_text = _elsewhere(tenant, alert)
    return AlertText(alert, about.title(alert), about.meaning, link, link_text, about.of_model)


def _elsewhere(tenant: Tenant, alert: Alert) -> tuple[str, str]:
    if alert.kind == AlertKind.WEBHOOK_FAILING:
        return reverse("dashboard:settings_webhooks", args=[tenant.slug]), "Webhooks"
    return list_url(tenant, "handoffs"), "See the last handoffs"


@require_role(Role.REVIEWER)
@require_POST
def acknowledge(request: HttpRequest, who: TenantMembership, alert: int) -> HttpResponse:
    """Acknowledge the alert and redirect to the page on which the person pressed the button."""
    try:
        acknowledged = alerts.acknowledge(tenant=who.tenant, alert=alert, actor=who.person.username)
    except Refused as refused:
        raise Http404(refused.message) from refused
    messages.success(request, f"The alert is acknowledged.{_describe_return(acknowledged)}")
    page = request.POST.get("page", "")
    return redirect(f"dashboard:{page if page in PAGES else 'alerts'}", tenant=who.tenant.slug)


def _describe_return(alert: Alert) -> str:
    """Return a sentence about when an acknowledged alert opens again; empty if no alert rule opened the alert."""
    if alert.kind not in alert_rules.BY_THRESHOLD:
        return ""
    worse = ", or if the value reaches the alert level" if alert.level == alert_rules.WARNING else ""
    return f" It opens again if its cause ends and comes back{worse}."


acknowledge_urls = [path("diagnostics/alerts/<int:alert>/acknowledge/", acknowledge, name="alert_acknowledge")]

DEFAULT = "24h"

ORDER = ("answered", "cached", "skipped", "failed")


@dataclass(frozen=True, slots=True)
class StatusLine:
    """A row of the tables by use and by LLM."""

    name: str
    tally: CallTally
    latency: Latency | None


@require_role(Role.VIEWER)
@require_safe
def health_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    period, bad = choose_period(request.GET.get("period", "") or DEFAULT, PERIODS_OF_CALLS)
    health = load_health(who.tenant, period)
    context: dict[str, Any] = {
        "bad": bad,
        "alerts": open_alerts(who.tenant),
        "health": health,
        "tally": health.counted.overall,
        "no_key": health.status.standing is Standing.NO_KEY,
        "period": health.period,
        "periods": [PERIODS[name] for name in PERIODS_OF_CALLS],
        "most": COUNTED_AT_MOST,
        "catch_up": _hours(settings.MODEL_CATCH_UP_HOURS),
        "use_lines": [
            StatusLine(use, tally, health.latencies.by_use.get(use)) for use, tally in health.counted.by_use.items()
        ],
        "model_lines": [
            StatusLine(model, tally, health.latencies.by_model.get(model))
            for model, tally in health.counted.by_model.items()
        ],
    }
    if health.counted.overall.questions:
        context["chart"] = _chart(health, width=BESIDE, prefix="wide")
        context["narrow_chart"] = _chart(health, width=NARROW, prefix="narrow")
    return render_page(request, "dashboard/diagnostics/model.html", context, status=400 if bad else 200)


def _hours(hours: int) -> str:
    """Format a number of hours as `7 days` or `36 hours`."""
    return pluralize(hours, "hour") if hours % 24 else pluralize(hours // 24, "day")


def _chart(health: LLMHealth, *, width: int, prefix: str) -> Drawing:
    bars = [_bar(bucket, health.period) for bucket in health.counted.over_time]
    return draw_stacked_bars(
        bars, order=ORDER, width=width, height=210, title="Questions to the LLM over time", prefix=prefix
    )


def _bar(bucket: TimeBucket[CallTally], period: Period) -> Bar:
    return Bar(
        label=f"{bucket.since.day} {bucket.since:%b}" if period.name == "7d" else f"{bucket.since:%H:%M}",
        title=bucket.span,
        parts={name: getattr(bucket.value, name) for name in ORDER},
    )


urlpatterns = [path("diagnostics/model/", health_page, name="model_health"), *acknowledge_urls]
