"""LLM health: whether the LLM answers, what fails, what it costs and what waits for it."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.diagnostics import alerts
from handoffaudit.dashboard.partials import render_page
from handoffaudit.diagnostics.llm_health import CallTally, Latency, LLMHealth, TimeBucket, load_health
from handoffaudit.diagnostics.llm_status import COUNTED_AT_MOST, Standing
from handoffaudit.diagnostics.periods import PERIODS, Period
from handoffaudit.drawing.charts import BESIDE, NARROW, Bar, stacked_bars
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.validation.text import pluralize

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
    asked = request.GET.get("period", "") or DEFAULT
    bad = None if asked in PERIODS else FilterError("period", asked[:40], f"use one of {', '.join(PERIODS)}.")
    health = load_health(who.tenant, PERIODS.get(asked, PERIODS[DEFAULT]))
    context: dict[str, Any] = {
        "bad": bad,
        "alerts": alerts.open_alerts(who.tenant),
        "health": health,
        "tally": health.counted.overall,
        "no_key": health.status.standing is Standing.NO_KEY,
        "period": health.period,
        "periods": PERIODS.values(),
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
    bars = [_bar(stretch, health.period) for stretch in health.counted.over_time]
    return stacked_bars(
        bars, order=ORDER, width=width, height=210, title="Questions to the model over time", prefix=prefix
    )


def _bar(stretch: TimeBucket, period: Period) -> Bar:
    start, end = stretch.start, stretch.start + period.step
    return Bar(
        label=f"{start.day} {start:%b}" if period.name == "7d" else f"{start:%H:%M}",
        title=f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC",
        parts={name: getattr(stretch.tally, name) for name in ORDER},
    )


urlpatterns = [path("diagnostics/model/", health_page, name="model_health"), *alerts.acknowledge_urls]
