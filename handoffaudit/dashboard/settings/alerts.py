"""The page of alerts: active alerts, the alert rules with their current values, and resolved alerts."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.diagnostics.llm_health import AlertText, describe_alert, open_alerts
from handoffaudit.dashboard.policies import base
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import (
    Field,
    Line,
    field_of,
    format_optional,
    menu,
    number,
    read_text,
)
from handoffaudit.diagnostics.alert_rules import Measured, measure
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.alerts import format_span
from handoffaudit.handoffs.rates import REJECTION_RATE
from handoffaudit.handoffs.transitions import SYSTEM
from handoffaudit.policy.alert_rules import LEVELS, AlertRule, AlertRuleModel, NoData, Watched, parse_row
from handoffaudit.policy.kinds import alert_policy
from handoffaudit.policy.values import InvalidPolicy, fields_of, to_plain
from handoffaudit.policy.versions import WHOLE_ROW, Change, Stale
from handoffaudit.validation.text import pluralize

TITLES = {
    Watched.REJECTION_RATE: "Rejection rate",
    Watched.QUEUE_AGE: "Queue age",
    Watched.FAIL_OPEN: "Fail-open",
    Watched.OVERDUE_HOLDS: "Overdue holds",
}
WHAT = {
    Watched.REJECTION_RATE: f"{REJECTION_RATE} Only handoffs received in the window count.",
    Watched.QUEUE_AGE: "How long the oldest handoff has waited to be judged. Parked handoffs are left out.",
    Watched.FAIL_OPEN: "Handoffs received in the window, accepted without the LLM check and not checked since.",
    Watched.OVERDUE_HOLDS: "Held handoffs that wait for longer than their type allows.",
}
SENTENCES = {
    Watched.REJECTION_RATE: "Warn when the rejection rate over {window} is at least {warning}; alert at {alert}.",
    Watched.QUEUE_AGE: "Warn when the oldest handoff has waited {warning} to be judged; alert after {alert}.",
    Watched.FAIL_OPEN: "Warn at {warning} accepted in {window} without the LLM check; alert at {alert}.",
    Watched.OVERDUE_HOLDS: "Warn at {warning} held for longer than their type allows; alert at {alert}.",
}
FORM = fields_of(AlertRuleModel)
LABELS = {name: field.title or name for name, field in FORM.items()}
NO_DATA = {
    NoData.OK: "all is well",
    NoData.KEEP: "an active alert stays as it is",
    NoData.ALERT: "an alert of its own",
}
PAGE_SIZE = 50
_LEVELS, _TIMES = ("on", "warning", "alert"), ("clear_minutes", "renotify_minutes")
SHOWN = {
    Watched.REJECTION_RATE: (*_LEVELS, "window_minutes", "minimum", "no_data", *_TIMES),
    Watched.QUEUE_AGE: (*_LEVELS, *_TIMES),
    Watched.FAIL_OPEN: (*_LEVELS, "window_minutes", "no_data", *_TIMES),
    Watched.OVERDUE_HOLDS: (*_LEVELS, *_TIMES),
}


def lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of alert rules."""
    found = []
    for change in changes:
        label = "Alert rule" if change.field == WHOLE_ROW else LABELS.get(change.field, change.field)
        old, new = format_optional(change.old), format_optional(change.new)
        found.append(Line(TITLES[Watched(change.row)], label, old, new))
    return found


PAGE: PolicyPage[AlertRule] = PolicyPage(
    alert_policy,
    "Alerts",
    "Queue age and overdue holds are watched, with high levels; the others are off.",
    lines,
)


@dataclass(slots=True)
class Card:
    """One alert rule with its current value in words and its form; `errors` holds messages by field.

    `is_open` is true if the form was refused.
    """

    row: AlertRule
    now: str
    given: dict[str, Any]
    errors: dict[str, str] = field(default_factory=dict)
    is_open: bool = False

    @property
    def title(self) -> str:
        return TITLES[self.row.name]

    @property
    def what(self) -> str:
        return WHAT[self.row.name]

    @property
    def sentence(self) -> str:
        """Say in one sentence when the saved rule warns and alerts."""
        row = self.row
        return SENTENCES[row.name].format(
            window=format_span(row.window_minutes * 60),
            warning=_format_level(row, row.warning),
            alert=_format_level(row, row.alert),
        )

    @property
    def fields(self) -> list[Field]:
        return [self._field(name) for name in SHOWN[self.row.name]]

    def _field(self, name: str) -> Field:
        made = field_of(name, FORM[name], self.given[name], self.errors.get(name, ""))
        if name in ("warning", "alert"):
            made = replace(made, help=str(LEVELS[self.row.name]))
        elif name == "no_data":
            made = replace(made, choices=menu(NO_DATA))
        return replace(made, name=f"{self.row.name.value}-{name}")


@dataclass(frozen=True, slots=True)
class Past:
    """A resolved alert; `closed_by` names who acknowledged the alert, and is empty if the alert closed by itself."""

    text: AlertText
    lasted: str
    closed_by: str


@require_role(Role.VIEWER)
@require_safe
def alerts_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return _page(request, who)


@require_role(Role.VIEWER)
@require_safe
def old_address(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Redirect from the former page of alert rules to the rules on the page of alerts."""
    return redirect(f"{reverse('dashboard:alerts', args=[who.tenant.slug])}#rules")


@require_role(Role.ADMIN)
@require_POST
def save(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    try:
        watched = Watched(request.POST.get("row", ""))
    except ValueError as error:
        raise Http404("There is no alert rule of that name.") from error
    base = number(request.POST.get("base_version", ""))
    in_force = alert_policy.current(who.tenant).row(watched)
    given = (to_plain(in_force) if in_force else {"name": watched.value}) | _read_submitted(request, watched)
    try:
        row = parse_row(
            {name: read_text(FORM[name], value) if isinstance(value, str) else value for name, value in given.items()}
        )
        saved = alert_policy.upsert_row(
            tenant=who.tenant, base_version=-1 if base is None else base, row=row, actor=who.person.username
        )
    except InvalidPolicy as invalid:
        errors = {error.field: f"{error.message} {error.remedy}" for error in invalid.errors}
        return _page(request, who, (watched, given, errors), status=400)
    except Stale as stale:
        now = stale.current
        messages.error(request, f"Not saved: {now.changed_by} saved version {now.version} meanwhile. Look at it first.")
        return _page(request, who, (watched, given, {}), status=409)
    if saved.version == base:
        messages.info(request, "Nothing was changed.")
    else:
        messages.success(
            request, f"{TITLES[watched]} is saved as version {saved.version}; it takes effect within a minute."
        )
    return redirect("dashboard:alerts", tenant=who.tenant.slug)


def _read_submitted(request: HttpRequest, watched: Watched) -> dict[str, Any]:
    """Return the submitted values of the form: a boolean for `on`, and texts for the other fields."""
    given: dict[str, Any] = {}
    for name in SHOWN[watched]:
        value = request.POST.get(f"{watched.value}-{name}")
        if name == "on":
            given[name] = value is not None
        elif value is not None:
            given[name] = value.strip()[:40]
    return given


def _page(
    request: HttpRequest,
    who: TenantMembership,
    refused: tuple[Watched, dict[str, Any], dict[str, str]] | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    table, now = alert_policy.current(who.tenant), timezone.now()
    cards = []
    for row in table.rows:
        card = Card(row, _now(row, measure(who.tenant, row, now)), _format_row(row))
        if refused and refused[0] is row.name:
            card.given, card.errors, card.is_open = card.given | refused[1], refused[2], True
        cards.append(card)
    context = {"cards": cards, "table": table} | _alerts(request, who)
    return render(request, "dashboard/settings/alerts.html", context, status=status)


def _alerts(request: HttpRequest, who: TenantMembership) -> dict[str, Any]:
    """Return the active alerts and a page of the resolved ones."""
    before = number(request.GET.get("before", ""))
    found = alerts.list_alerts(who.tenant, is_open=False, before=before, limit=PAGE_SIZE + 1)
    address = reverse("dashboard:alerts", args=[who.tenant.slug])
    return {
        "tab": "alerts",
        "alerts": open_alerts(who.tenant),
        "past": [_past(describe_alert(who.tenant, alert)) for alert in found[:PAGE_SIZE]],
        "newest": f"{address}#resolved" if before is not None else "",
        "next": f"{address}?before={found[PAGE_SIZE - 1].pk}#resolved" if len(found) > PAGE_SIZE else "",
    }


def _past(text: AlertText) -> Past:
    alert = text.alert
    ended = alert.acknowledged_at or alert.last_at
    by = "" if alert.acknowledged_by == SYSTEM.name else alert.acknowledged_by
    return Past(text, format_span((ended - alert.opened_at).total_seconds()), by)


def _format_row(row: AlertRule) -> dict[str, Any]:
    """Return the row as its form shows the values."""
    plain = to_plain(row)
    return plain | {name: f"{plain[name]:g}" for name in ("warning", "alert")}


def _now(row: AlertRule, measured: Measured) -> str:
    if measured.value is None:
        return "too few handoffs to tell"
    if row.name is Watched.QUEUE_AGE and not measured.number:
        return "nothing waits"
    return _format_level(row, measured.value)


def _format_level(row: AlertRule, value: float) -> str:
    if row.name is Watched.REJECTION_RATE:
        return f"{value * 100:.1f} %"
    return format_span(value) if row.name is Watched.QUEUE_AGE else pluralize(int(value), "handoff")


urlpatterns = [
    path("diagnostics/alerts/", alerts_page, name="alerts"),
    path("settings/alerts/", old_address, name="thresholds"),
    path("settings/alerts/save/", save, name="thresholds_save"),
    *base.urls(PAGE),
]
