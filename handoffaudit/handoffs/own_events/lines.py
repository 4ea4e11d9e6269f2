"""The product's own events as lines of logs, and the same facts for structured logs; secrets are masked."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.arrivals import NewHandoff
from handoffaudit.handoffs.models import Handoff, ModelCall
from handoffaudit.validation.asking.masking import masked
from handoffaudit.validation.loglines import GateLine, HealthLine, TraceLine, write_gate, write_health, write_trace
from handoffaudit.validation.text import clean
from handoffaudit.validation.verdict import Verdict

COMPONENT: Final = "hook-gate"
LLM: Final = "llm"
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


def invocation(at: datetime, event: str, told: Mapping[str, Any]) -> str:
    """Return the gate line of a call of the gate: which delegation, and how much text there is to judge."""
    lengths = f"objective {told['objective_characters']:,} characters, result {told['result_characters']:,} characters"
    details = masked(f"{event}: {told['tool']} to {told['target']}, {lengths}")
    return write_gate(GateLine(at, "TRIGGER", COMPONENT, details))


def of_llm_call(call: ModelCall) -> dict[str, Any]:
    """Return what was asked of the LLM and what came of it, without its words."""
    return {
        "use": call.use,
        "model": call.model,
        "prompt": call.prompt,
        "outcome": call.outcome,
        "cached": call.cached,
        "tries": call.tries,
        "latency_ms": round(call.latency_ms),
        "tokens_in": call.tokens_in,
        "tokens_out": call.tokens_out,
        "tokens_cached": call.tokens_cached,
        "cost_usd": call.cost_usd,
        "id": str(call.handoff) if call.handoff else None,
        "tenant": call.tenant_id,
    }


def llm_call(call: ModelCall) -> str:
    """Return the gate line of a call of the LLM."""
    if call.cached:
        how = "answered from the cache"
    elif call.tries:
        how = (
            f"{round(call.latency_ms):,} ms, {call.tokens_in + call.tokens_cached:,} tokens in, "
            f"{call.tokens_out:,} tokens out, {call.cost_usd:.4f} USD"
        )
    else:
        how = "not asked"
    why = f": {masked(call.detail)}" if call.detail else ""
    about = f", handoff {call.handoff}" if call.handoff else ""
    event_type = "INFO" if call.outcome == "ok" else "ERROR"
    details = f"{call.use} by {call.model}: {call.outcome}, {how}{about}{why}"
    return write_gate(GateLine(call.at, event_type, LLM, details))


def gate(at: datetime, event: str, answer: Mapping[str, Any]) -> str:
    """A gate line on an answer of the gate for hooks. `event`: the name of the hook's event, empty where none was
    read."""
    status = str(answer["status"])
    asks = (answer.get("hookSpecificOutput") or {}).get("permissionDecision") == "ask"
    decision = "block" if answer["blocked"] else "ask" if asks else "allow"
    reason = masked(clean(str(answer["reason"]), _LONGEST_REASON))
    details = f"{event or 'no event'}: {status}, {decision}{f': {reason}' if reason else ''}"
    return write_gate(GateLine(at, _EVENT_TYPES[status], COMPONENT, details))


def health(line: HealthLine) -> str:
    return write_health(replace(line, **{name: masked(getattr(line, name)) for name in _HEALTH_TEXTS}))
