"""The audit log: its entries with their changes, and the check of its integrity."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Membership, Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.agents.agent import PAGE as ROLES
from handoffaudit.dashboard.agents.declared import PAGE as DECLARED
from handoffaudit.dashboard.diagnostics.files import PAGE as HANDOFF_FILES
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import Line
from handoffaudit.dashboard.policies.prompts import PAGE as PROMPTS
from handoffaudit.dashboard.policies.rules import PAGE as RULES
from handoffaudit.dashboard.policies.schemas import PAGE as SCHEMAS
from handoffaudit.dashboard.policies.strictness import PAGE as STRICTNESS
from handoffaudit.dashboard.policies.strictness_editor import lines as plain_lines
from handoffaudit.dashboard.settings.alerts import PAGE as THRESHOLDS
from handoffaudit.dashboard.settings.retention import PAGE as RETENTION
from handoffaudit.filter_fields import LONGEST, ChoiceFilter, DayFilter, FilterError, TextFilter
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.policy.versions import Change

ACTIONS: Final = {
    "tenant.create": "made the tenant",
    "sample.create": "made the sample tenant",
    "sample.fill": "filled the sample tenant",
    "sample.remove": "removed the sample tenant",
    "person.invite": "invited",
    "person.link": "made a new one-time link for",
    "person.role": "changed the role of",
    "person.remove": "removed",
    "person.welcome": "set a first password for",
    "person.password": "changed the password of",
    "person.sign_in": "signed in through the provider as",
    "person.join": "made a member of",
    "person.link_oidc": "linked the provider's account of",
    "person.link_used": "signed in with a one-time link as",
    "person.role_kept": "kept the role of the last administrator",
    "person.factor_add": "added a second factor of",
    "person.factor_remove": "removed a second factor of",
    "person.factor_renew": "renewed the recovery codes of",
    "person.factor_reset": "reset the second factors of",
    "key.create": "made the key",
    "key.revoke": "revoked the key",
    "key.bind": "changed the agents of the key",
    "key.refuse": "was refused for the agent",
    "trace.refuse": "was refused handoffs of the trace",
    "strictness.save": "saved strictness",
    "rules.save": "saved rules",
    "schemas.save": "saved schemas",
    "prompts.save": "saved prompts",
    "handoff_files.save": "saved the policy of handoff files",
    "roles.save": "saved roles of agents",
    "agents.save": "saved declared routes",
    "thresholds.save": "saved alert rules",
    "retention.save": "saved retention",
    "retention.begin": "began to remove by retention",
    "retention.remove": "removed by retention",
    "hold.place": "placed a legal hold on the",
    "hold.lift": "lifted the legal hold on the",
    "erasure.request": "asked for the erasure",
    "erasure.confirm": "confirmed the erasure",
    "erasure.cancel": "cancelled the erasure",
    "erasure.done": "erased a value:",
    "view.share": "shared the view",
    "view.rename": "renamed the shared view",
    "view.change": "changed the shared view",
    "view.delete": "deleted the shared view",
    "view.open": "changed everybody's default view of the page",
    "alert.acknowledge": "acknowledged the alert",
    "group.mute": "muted the finding group",
    "group.unmute": "unmuted the finding group",
    "group.acknowledge": "acknowledged the finding group",
    "code.mute": "muted the rule code",
    "code.unmute": "unmuted the rule code",
    "case.keep": "kept as a case",
    "case.remove": "removed the case",
    "subscriber.create": "added the webhook",
    "subscriber.change": "changed the webhook",
    "subscriber.pause": "paused the webhook",
    "subscriber.resume": "switched on the webhook",
    "subscriber.rotate": "made a new secret for the webhook",
    "subscriber.delete": "deleted the webhook",
    "subscriber.again": "sent a delivery again to the webhook",
}

# The first part of each action's name, with the label of its kind of subject.
KINDS: Final = {
    "person": "People",
    "key": "Keys",
    "strictness": "Strictness",
    "rules": "Rules",
    "schemas": "Schemas",
    "prompts": "Prompts",
    "agents": "Declared routes",
    "roles": "Roles of agents",
    "handoff_files": "Handoff files",
    "thresholds": "Alert rules",
    "alert": "Alerts",
    "group": "Findings",
    "code": "Muted codes",
    "case": "Cases",
    "view": "Shared views",
    "subscriber": "Webhooks and e-mail",
    "retention": "Retention",
    "trace": "Traces",
    "hold": "Legal holds",
    "erasure": "Erasures",
    "tenant": "The tenant",
    "sample": "Sample data",
}

_PAGES: Final[dict[str, PolicyPage[Any]]] = {
    page.versions.kind.value: page
    for page in (STRICTNESS, RULES, SCHEMAS, PROMPTS, DECLARED, ROLES, HANDOFF_FILES, THRESHOLDS, RETENTION)
}

_VERSION: Final = re.compile(r"version ([1-9][0-9]{0,8})\Z")


@dataclass(frozen=True, slots=True)
class EntryText:
    """An entry of the audit log in words.

    `detail` holds the recorded details other than changes, as text. For a saved policy, `lines` lists the changes, and
    `comparison` is the address that compares the versions; else both are empty.
    """

    entry: AuditEntry
    action: str
    detail: str
    lines: Sequence[Line]
    comparison: str


def describe_entry(tenant: Tenant, entry: AuditEntry) -> EntryText:
    kind, _, done = entry.action.partition(".")
    detail = dict(entry.detail)
    changes = [Change(**change) for change in detail.pop("changes", [])]
    text = "; ".join(
        f"{name.replace('_', ' ')}: {_plain(value)}"
        for name, value in sorted(detail.items())
        if value not in ("", None, {})
    )
    version = _VERSION.match(entry.target) if done == "save" and kind in _PAGES else None
    comparison = ""
    if version is not None:
        query = urlencode({"from": int(version[1]) - 1, "to": version[1]})
        comparison = f"{reverse(_PAGES[kind].urls['compare'], args=[tenant.slug])}?{query}"
    return EntryText(entry, ACTIONS.get(entry.action, entry.action), text, _lines(kind, changes), comparison)


def as_recorded(entry: AuditEntry) -> str:
    """Return all details of an entry as JSON."""
    return json.dumps(entry.detail, indent=2, ensure_ascii=False)


def _lines(kind: str, changes: Sequence[Change]) -> list[Line]:
    try:
        return _PAGES[kind].lines(changes) if kind in _PAGES else plain_lines(changes)
    except (KeyError, TypeError, ValueError):
        # A recorded change can be cut or come from an older release, and the page must show it all the same.
        return plain_lines(changes)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_plain(item)}" for name, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)


MOST_DIGITS = 18

MOST_NAMES = 500


@dataclass(frozen=True, slots=True)
class AuditFilters(FilterSet):
    """The filters of the audit log: part of the name of a person or key, the kind of subject, and whole days in UTC."""

    person: str = declare(TextFilter("Person or key", widget=forms.TextInput(attrs={"maxlength": LONGEST})))
    kind: str = declare(ChoiceFilter("About", choices=KINDS, empty_label="Everything"))
    since: datetime | None = declare(DayFilter("From (UTC)", name="from"))
    until: datetime | None = declare(DayFilter("To, included", name="to", later=1))


@require_role(Role.ADMIN)
@require_safe
def audit_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    before = request.GET.get("before", "")
    usable = before.isascii() and before.isdigit() and len(before) <= MOST_DIGITS
    address = reverse("dashboard:settings_audit", args=[who.tenant.slug])
    asked = {name: text for name in AuditFilters.parameters() if (text := request.GET.get(name, "").strip())}
    checked = "check" in request.GET
    members = Membership.objects.filter(tenant=who.tenant).order_by("person__username")
    names = members.values_list("person__username", flat=True)[:MOST_NAMES]
    context: dict[str, Any] = {
        "tab": "settings_audit",
        "asked": asked,
        "form": AuditFilters.form(asked, person=list(names)),
        "newest": _with(address, asked) if usable else "",
        "checked": checked,
        "broken": audit.verify(who.tenant) if checked else None,
    }
    try:
        given = AuditFilters.from_query(request.GET)
        found = audit.list_entries(
            who.tenant,
            actor=given.person,
            kind=given.kind,
            since=given.since,
            until=given.until,
            before=int(before) if usable else None,
        )
    except FilterError as bad:
        return render(request, "dashboard/settings/audit.html", context | {"bad": bad}, status=400)
    context["entries"] = [describe_entry(who.tenant, entry) for entry in found.items]
    context["next"] = _with(address, asked | {"before": str(found.before)}) if found.before else ""
    return render(request, "dashboard/settings/audit.html", context)


@require_role(Role.ADMIN)
@require_safe
def entry_page(request: HttpRequest, who: TenantMembership, number: int) -> HttpResponse:
    """Show one entry with everything that was recorded."""
    entry = audit.get_entry(who.tenant, number) if len(str(number)) <= MOST_DIGITS else None
    if entry is None:
        raise Http404("There is no such entry.")
    context = {"tab": "settings_audit", "item": describe_entry(who.tenant, entry), "recorded": as_recorded(entry)}
    return render(request, "dashboard/settings/audit_entry.html", context)


def _with(address: str, query: dict[str, str]) -> str:
    return f"{address}?{urlencode(query)}" if query else address


urlpatterns = [
    path("settings/audit/", audit_page, name="settings_audit"),
    path("settings/audit/<int:number>/", entry_page, name="settings_audit_entry"),
]
