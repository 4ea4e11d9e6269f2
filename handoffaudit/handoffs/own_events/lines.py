"""The product's own events as lines of logs, and the same facts for structured logs; secrets are masked."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.arrivals import NewHandoff
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.asking.masking import masked
from handoffaudit.validation.loglines import GateLine, HealthLine, TraceLine, write_gate, write_health, write_trace
from handoffaudit.validation.text import clean
from handoffaudit.validation.verdict import Verdict

COMPONENT: Final = "hook-gate"
_EVENT_TYPES: Final = {"PASSED": "VALIDATION", "FAILED": "VALIDATION", "NOT_APPLICABLE": "SKIP", "UNKNOWN": "ERROR"}
_MOST_CODES = 50
_LONGEST_REASON = 1000
_HEALTH_TEXTS = ("agent", "phase", "runtime", "iteration", "run_id")


def of_arrival(handoff: NewHandoff, sender: Actor) -> dict[str, Any]:
    return _facts(handoff) | {"state": str(handoff.state), "sender": sender.name, "size_bytes": handoff.size_bytes}


def of_verdict(handoff: Handoff | NewHandoff, verdict: Verdict) -> dict[str, Any]:
    codes = sorted({issue.code for issue in verdict.issues})[:_MOST_CODES]
    told = {"outcome": verdict.outcome.value, "codes": codes, "quality_score": verdict.quality_score}
    return _facts(handoff) | told | {"unverified": verdict.unverified}


def of_decision(handoff: Handoff, actor: Actor, note: str) -> dict[str, Any]:
    who = {"kind": str(actor.kind), "name": actor.name}
    return _facts(handoff) | {"outcome": str(handoff.state), "actor": who, "note": clean(note, _LONGEST_REASON)}


def _facts(handoff: Handoff | NewHandoff) -> dict[str, Any]:
    return {
        "id": str(handoff.id),
        "handoff_id": handoff.handoff_id,
        "tenant": handoff.tenant_id,
        "source": handoff.source_agent_id,
        "target": handoff.target_agent_id,
        "type": handoff.handoff_type,
    }


def trace(event_type: str, handoff: Handoff | NewHandoff, at: datetime, details: dict[str, Any], **more: Any) -> str:
    """A trace line. A handoff of no trace stands for one of its own."""
    # The keys of the details are ours, their values the sender's.
    named = masked({"trace": handoff.trace_id or handoff.handoff_id, "parent": handoff.parent_handoff_id, **details})
    trace_id, parent = named.pop("trace"), named.pop("parent")
    line = TraceLine(at, event_type, trace_id, "handoffaudit", details=named, span_id=str(handoff.id), **more)
    return write_trace(replace(line, parent_span_id=parent))


def gate(at: datetime, event: str, answer: Mapping[str, Any]) -> str:
    """A gate line on an answer of the gate for hooks. `event`: the name of the hook's event, empty where none was
    read."""
    status = str(answer["status"])
    blocked = ", blocked" if answer["blocked"] else ""
    reason = masked(clean(str(answer["reason"]), _LONGEST_REASON))
    details = f"{event or 'no event'}: {status}{blocked}{f': {reason}' if reason else ''}"
    return write_gate(GateLine(at, _EVENT_TYPES[status], COMPONENT, details))


def health(line: HealthLine) -> str:
    return write_health(replace(line, **{name: masked(getattr(line, name)) for name in _HEALTH_TEXTS}))
