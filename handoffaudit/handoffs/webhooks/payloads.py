"""What subscribers are told of an event: one JSON object, the same for every kind of subscriber."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from django.conf import settings

from handoffaudit.handoffs import alert_texts
from handoffaudit.handoffs.models import Alert, Event, Handoff

LONGEST_NOTE = 5000


def page(tenant_slug: str, path: str) -> str:
    """The address of a page. Without `HANDOFFAUDIT_PUBLIC_URL` nobody here knows its host."""
    return f"{settings.PUBLIC_URL}/t/{tenant_slug}/{path}"


def of_verdict(event: Event, handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    return {"handoff": _handoff(event, handoff, tenant_slug)}


def of_decision(event: Event, handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    actor = {"kind": event.actor_kind, "name": event.actor}
    return {
        "handoff": _handoff(event, handoff, tenant_slug),
        "actor": actor,
        "note": event.reason[:LONGEST_NOTE],
    }


def of_alert(alert: Alert, change: str, tenant_slug: str) -> dict[str, Any]:
    """`change`: `opened`, `again` or `closed`."""
    about = alert_texts.about(alert)
    # Who only counts what happened is looked into where all alerts stand.
    path = f"handoffs/?{about.query}" if about.query else ""
    return {
        "alert": {
            "id": alert.pk,
            "kind": alert.kind,
            "change": change,
            "level": alert.level,
            "value": alert_texts.value(alert),
            "text": about.title(alert),
            "meaning": about.meaning,
            "opened_at": moment(alert.opened_at),
            "link": page(tenant_slug, path),
        }
    }


def dumped(delivery: uuid.UUID, event: str, at: datetime, tenant_slug: str, content: Mapping[str, Any]) -> str:
    """The bytes that are sent, as text. `id` is the delivery's: who gets it twice has seen it."""
    told = {"id": str(delivery), "event": event, "at": moment(at), "tenant": tenant_slug, **content}
    return orjson.dumps(told).decode()


def moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _handoff(event: Event, handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    """The handoff as of the event; what it says beside the state is of now."""
    return {
        "id": str(handoff.pk),
        "handoff_id": handoff.handoff_id,
        "state": event.to_state,
        "flagged": handoff.flagged,
        "handoff_type": handoff.handoff_type,
        "source_agent_id": handoff.source_agent_id,
        "target_agent_id": handoff.target_agent_id,
        "trace_id": handoff.trace_id or None,
        "quality_score": handoff.score,
        "codes": handoff.codes,
        "link": page(tenant_slug, f"handoffs/{handoff.pk}/"),
    }
