"""Subscribers are told of groups that came back, in the transaction in which they do."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs.webhooks import events, worker
from handoffaudit.handoffs.webhooks.subscriptions import EventType
from handoffaudit.validation.codes import entry_of

REGRESSED: Final = "regressed"


def came_back(groups: Iterable[FindingGroup], at: datetime) -> None:
    for one in groups:
        about = f"group:{one.pk}:{REGRESSED}:{int(at.timestamp() * 1000)}"
        events.add_event(one.tenant_id, EventType.GROUP, about, at, {"group": _told(one)})
    transaction.on_commit(worker.notify_webhook_workers)


def _told(group: FindingGroup) -> dict[str, Any]:
    return {
        "id": group.pk,
        "change": REGRESSED,
        "code": group.code,
        "title": entry_of(group.code).title,
        "path": group.path_shape,
        "source_agent_id": group.source_agent_id,
        "target_agent_id": group.target_agent_id,
        "number": group.number,
        "muted_by": group.muted_by,
        "muted_note": group.muted_note,
        "first_seen": events.format_moment(group.first_seen),
        "last_seen": events.format_moment(group.last_seen),
        "link": events.page_url(group.tenant.slug, f"groups/{group.pk}/"),
    }
