"""Entries of the audit log in words: what was done, what a saved policy changed, and where its comparison is."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.dashboard.agents.declared import PAGE as DECLARED
from handoffaudit.dashboard.diagnostics.files import PAGE as HANDOFF_FILES
from handoffaudit.dashboard.policies.pages import PolicyPage
from handoffaudit.dashboard.policies.prompts.page import PAGE as PROMPTS
from handoffaudit.dashboard.policies.rules.page import PAGE as RULES
from handoffaudit.dashboard.policies.schemas.page import PAGE as SCHEMAS
from handoffaudit.dashboard.policies.strictness.page import PAGE as STRICTNESS
from handoffaudit.dashboard.policies.strictness.words import lines as plain_lines
from handoffaudit.dashboard.policies.words import Line
from handoffaudit.dashboard.settings.alerts import PAGE as THRESHOLDS
from handoffaudit.dashboard.settings.retention import PAGE as RETENTION
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
    "key.create": "made the key",
    "key.revoke": "revoked the key",
    "strictness.save": "saved strictness",
    "rules.save": "saved rules",
    "schemas.save": "saved schemas",
    "prompts.save": "saved prompts",
    "handoff_files.save": "saved the policy of handoff files",
    "agents.save": "saved declared edges",
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
# The first part of an action, and what all of them are about.
KINDS: Final = {
    "person": "People",
    "key": "Keys",
    "strictness": "Strictness",
    "rules": "Rules",
    "schemas": "Schemas",
    "prompts": "Prompts",
    "agents": "Declared edges",
    "handoff_files": "Handoff files",
    "thresholds": "Thresholds of alerts",
    "alert": "Alerts",
    "group": "Findings",
    "view": "Shared views",
    "subscriber": "Webhooks and e-mail",
    "retention": "Retention",
    "tenant": "The tenant",
    "sample": "Sample data",
}
_PAGES: Final[dict[str, PolicyPage[Any]]] = {
    page.versions.kind.value: page
    for page in (STRICTNESS, RULES, SCHEMAS, PROMPTS, DECLARED, HANDOFF_FILES, THRESHOLDS, RETENTION)
}
_VERSION: Final = re.compile(r"version ([1-9][0-9]{0,8})\Z")


@dataclass(frozen=True, slots=True)
class Told:
    """An entry in words: `detail` as text, `lines` where it is a change of a policy, `comparison`: the address of what
    that version changed."""

    entry: AuditEntry
    action: str
    detail: str
    lines: Sequence[Line]
    comparison: str


def told(tenant: Tenant, entry: AuditEntry) -> Told:
    kind, _, done = entry.action.partition(".")
    detail = dict(entry.detail)
    changes = [Change(**change) for change in detail.pop("changes", [])]
    text = "; ".join(
        f"{name.replace('_', ' ')}: {_plain(value)}"
        for name, value in sorted(detail.items())
        if value not in ("", None)
    )
    version = _VERSION.match(entry.target) if done == "save" and kind in _PAGES else None
    comparison = ""
    if version is not None:
        query = urlencode({"from": int(version[1]) - 1, "to": version[1]})
        comparison = f"{reverse(_PAGES[kind].urls['compare'], args=[tenant.slug])}?{query}"
    return Told(entry, ACTIONS.get(entry.action, entry.action), text, _lines(kind, changes), comparison)


def as_recorded(entry: AuditEntry) -> str:
    """All of an entry's detail, as JSON."""
    return json.dumps(entry.detail, indent=2, ensure_ascii=False)


def _lines(kind: str, changes: Sequence[Change]) -> list[Line]:
    try:
        return _PAGES[kind].lines(changes) if kind in _PAGES else plain_lines(changes)
    except (KeyError, TypeError, ValueError):
        # What is recorded can be cut, or of an older release: it has to be shown all the same.
        return plain_lines(changes)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)
