"""Logs as agents write them, stored in the usual way."""

from datetime import datetime, timedelta

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import index, store
from handoffaudit.diagnostics.models import LogImport
from handoffaudit.validation.times import utc_text

BAD = "agent=planner phase=plan source=teleport timestamp=2026-02-15T00:15:00Z"


def moment(minutes_ago: int = 5) -> datetime:
    return (timezone.now() - timedelta(minutes=minutes_ago)).replace(microsecond=0)


def health(at: datetime, agent: str = "planner", reason: str = "schema_invalid") -> str:
    return f"agent={agent} phase=plan source=text_fallback reason={reason} timestamp={utc_text(at)} run=run-7"


def older(at: datetime) -> str:
    return (
        f"{utc_text(at)} | phase=plan_review | agent=slot_b | runtime=codex | iter=1 | handoff_json=missing"
        " | source=text_fallback"
    )


def gate(at: datetime, event: str = "ERROR", details: str = "agent=planner decision=block") -> str:
    return f"[{utc_text(at)}] [{event}] [plan-gate] {details}"


def trace(at: datetime, trace_id: str = "trace-9") -> str:
    return (
        f'{{"trace_id": "{trace_id}", "timestamp": "{utc_text(at)}", "event_type": "handoff_created", "level": "WARN",'
        ' "workflow": "build", "phase": "build", "details": {"source_agent": "planner", "target_agent": "writer"},'
        ' "duration_ms": 12.5, "attempt_of": "day"}'
    )


def take(tenant: Tenant, *lines: str, source: str = "agents.log", read: bool = True) -> LogImport:
    """Store a log of these lines, and let a worker read them unless `read=False`."""
    text = "".join(f"{line}\n" for line in lines).encode()
    taken = store.store_log(tenant, source, "tests", [text])
    if read:
        index.drain()
    taken.refresh_from_db()
    return taken
