"""The audit log: who did what, newest first, and whether it is whole."""

import json
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.policies.strictness.words import lines
from handoffaudit.dashboard.policies.words import Line
from handoffaudit.policy.difference import Change

ACTIONS = {
    "tenant.create": "made the tenant",
    "person.invite": "invited",
    "person.link": "made a new one-time link for",
    "person.role": "changed the role of",
    "person.remove": "removed",
    "person.welcome": "set a first password for",
    "person.password": "changed the password of",
    "key.create": "made the key",
    "key.revoke": "revoked the key",
    "strictness.save": "saved strictness",
    "rules.save": "saved rules",
    "schemas.save": "saved schemas",
    "prompts.save": "saved prompts",
    "thresholds.save": "saved thresholds",
    "retention.save": "saved retention",
    "retention.remove": "removed by retention",
    "view.share": "shared the view",
    "view.rename": "renamed the shared view",
    "view.change": "changed the shared view",
    "view.delete": "deleted the shared view",
    "view.open": "chose for everybody what opens the page",
    "alert.acknowledge": "acknowledged the alert",
    "group.mute": "muted the finding",
    "group.unmute": "unmuted the finding",
    "group.acknowledge": "took the sign off the finding",
    "subscriber.create": "added the subscriber",
    "subscriber.change": "changed the subscriber",
    "subscriber.pause": "paused the subscriber",
    "subscriber.resume": "switched on the subscriber",
    "subscriber.rotate": "made a new secret for the subscriber",
    "subscriber.delete": "deleted the subscriber",
    "subscriber.again": "sent something again to the subscriber",
}
MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Told:
    """An entry in words: `detail` as text, `lines` where it is a change of a policy."""

    entry: AuditEntry
    action: str
    detail: str
    lines: list[Line]


@page_for(Role.ADMIN)
@require_safe
def audit_page(request: HttpRequest, who: Who) -> HttpResponse:
    before = request.GET.get("before", "")
    usable = before.isascii() and before.isdigit() and len(before) <= MOST_DIGITS
    found = audit.newest_first(who.tenant, before=int(before) if usable else None)
    address = reverse("dashboard:settings_audit", args=[who.tenant.slug])
    checked = "check" in request.GET
    context: dict[str, Any] = {
        "tab": "audit",
        "told": [_told(entry) for entry in found.items],
        "newest": address if usable else "",
        "next": f"{address}?before={found.before}" if found.before else "",
        "checked": checked,
        "broken": audit.verify(who.tenant) if checked else None,
    }
    return render(request, "dashboard/settings/audit.html", context)


def _told(entry: AuditEntry) -> Told:
    detail = dict(entry.detail)
    changes = [Change(**change) for change in detail.pop("changes", [])]
    text = "; ".join(
        f"{name.replace('_', ' ')}: {_plain(value)}"
        for name, value in sorted(detail.items())
        if value not in ("", None)
    )
    return Told(entry, ACTIONS.get(entry.action, entry.action), text, lines(changes))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)


urlpatterns = [path("settings/audit/", audit_page, name="settings_audit")]
