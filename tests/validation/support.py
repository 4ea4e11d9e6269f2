"""Real documents to change in one place, and helpers that judge them."""

import copy
import itertools
from datetime import UTC, datetime
from typing import Any

import orjson

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.formats import read
from handoffaudit.validation.layers import LAYERS, History, Subject
from handoffaudit.validation.pipeline import run
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.tokenizers import default_counter
from handoffaudit.validation.verdict import Verdict

NOW = datetime(2026, 2, 1, 8, 1, tzinfo=UTC)

PAYLOAD: dict[str, Any] = {
    "handoff_id": "01c05620-9248-41b6-9da5-afbce7f068a0",
    "source_agent_id": "researcher",
    "target_agent_id": "writer",
    "tenant_id": "default",
    "call_chain": ["planner", "researcher"],
    "handoff_type": "research_result",
    "data": {"text": "Three of five suppliers answered; the median price is 12.40 EUR."},
    "context_refs": ["brief-2026-02"],
    "confidence": 0.8,
    "timestamp": "2026-02-01T08:00:00Z",
}

UNIVERSAL: dict[str, Any] = {
    "handoff": {
        "version": "3.0",
        "schema_type": "universal",
        "timestamp": "2026-02-01T08:00:00Z",
        "trace_id": "d53a8f7e-049d-4f0d-910f-824ba3bf6e11",
        "source": {
            "skill": "curator",
            "workflow_id": "2025-11-23T0811-guide-review",
            "session_path": "work/collaboration",
            "phase": "done",
        },
        "target": {"skill": "writer-editor"},
        "context": {
            "summary": "Review and polish multi-agent orchestration user guide",
            "problem_type": "implementation",
        },
        "payload": {"working": {"title": "Review and polish", "priority": "high"}},
        "meta": {"token_count": 150, "confidence": "medium", "handoff_chain": ["curator"], "handoff_reason": ""},
    }
}


def payload(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(PAYLOAD), **changes}


def universal(**sections: Any) -> dict[str, Any]:
    """Return the universal document with changes merged into its sections."""
    document = copy.deepcopy(UNIVERSAL)
    for name, change in sections.items():
        held = document["handoff"].get(name)
        merge = isinstance(change, dict) and isinstance(held, dict)
        document["handoff"][name] = {**held, **change} if merge else change
    return document


def record_of(document: dict[str, Any], form: str | None = None, **envelope: Any) -> Record:
    reading = read(document, form, Envelope(**envelope))
    assert reading.record is not None, reading.issues
    return reading.record


def subject_of(document: dict[str, Any], form: str | None = None, **given: Any) -> Subject:
    policy = TypePolicy("*", **given.pop("policy", {}))
    return Subject(
        record=record_of(document, form, **given.pop("envelope", {})),
        policy=policy,
        history=given.pop("history", History()),
        received_at=given.pop("received_at", NOW),
        counter=given.pop("counter", None) or default_counter(),
        **given,
    )


def judge(document: dict[str, Any], form: str | None = None, layers: Any = LAYERS, **given: Any) -> Verdict:
    ticks = itertools.count()
    return run(
        subject_of(document, form, **given),
        validation_id="0195-validation",
        now=lambda: NOW,
        monotonic=lambda: next(ticks) / 1000,
        layers=layers,
    )


def codes(verdict: Verdict) -> list[str]:
    return [issue.code for issue in verdict.issues]


def raw(document: Any) -> bytes:
    return orjson.dumps(document)
