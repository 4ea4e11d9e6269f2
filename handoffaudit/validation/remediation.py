"""What is to be done about a verdict: a pure decision over a record of the tries before it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.times import utc_text

_RANK = {severity: rank for rank, severity in enumerate(Severity)}
_EVIDENCE_LAYERS = frozenset({"evidence", "grounding"})


class RemediationAction(StrEnum):
    RETRY = "retry"
    RE_RETRIEVE = "re_retrieve"
    ESCALATE = "escalate"
    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    ACCEPT_WITH_WARNINGS = "accept_with_warnings"


class RemediationState(StrEnum):
    PENDING = "pending"
    RETRYING = "retrying"
    RE_RETRIEVING = "re_retrieving"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    EXHAUSTED = "exhausted"


class RemediationPolicy(BaseModel):
    """How often the sender of a type is asked to try again, and what is taken to a person at once."""

    model_config = ConfigDict(frozen=True)

    output_type: str = ANY_OTHER_TYPE
    max_retries: int = Field(default=2, ge=0)
    max_re_retrievals: int = Field(default=1, ge=0)
    auto_escalate_on_critical: bool = True
    min_severity_to_remediate: Severity = Severity.ERROR


class RemediationRecord(BaseModel):
    """Every action of one lineage of attempts, with its time.

    `validation_id` is the verdict that it began with. `actions_taken`: each with "action" and "timestamp" (RFC 3339,
    UTC); retries with "attempt", their number since the last new retrieval; escalations with "reason".
    """

    remediation_id: str = Field(default_factory=lambda: str(uuid4()))
    validation_id: str
    state: RemediationState = RemediationState.PENDING
    actions_taken: list[dict[str, Any]] = Field(default_factory=list)
    retry_count: int = 0
    max_retries: int = 2
    started_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    resolved_at: datetime | None = None
    resolution: str | None = None

    @property
    def re_retrievals(self) -> int:
        return sum(taken.get("action") == RemediationAction.RE_RETRIEVE for taken in self.actions_taken)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the decision needs of a verdict. `severities`: those of its issues."""

    validation_id: str
    passed: bool
    severities: frozenset[Severity] = frozenset()
    has_evidence_error: bool = False


def facts_of(validation_id: str, issues: Iterable[Issue], *, accepted: bool, enforced: bool = True) -> Facts:
    """The facts of a verdict. Not `enforced` (shadow): what was accepted asks nothing of its sender.

    An evidence error is an error of the evidence or the grounding layer. A held verdict waits for a person, who decides
    about this attempt and not about the next: there is nothing to decide here until then.
    """
    counted = () if accepted and not enforced else tuple(issues)
    return Facts(
        validation_id=validation_id,
        passed=accepted,
        severities=frozenset(issue.severity for issue in counted),
        has_evidence_error=any(is_evidence_error(issue.layer, issue.severity) for issue in counted),
    )


def is_evidence_error(layer: str, severity: Severity) -> bool:
    return layer in _EVIDENCE_LAYERS and _RANK[severity] >= _RANK[Severity.ERROR]


@lru_cache(maxsize=1024)
def policy_of(policy: TypePolicy) -> RemediationPolicy:
    """The part of a type's policy that this decision is about."""
    return RemediationPolicy(
        output_type=policy.handoff_type,
        max_retries=policy.max_retries,
        max_re_retrievals=policy.max_re_retrievals,
        auto_escalate_on_critical=policy.auto_escalate_on_critical,
        min_severity_to_remediate=policy.min_severity_to_remediate,
    )


def decide(
    facts: Facts,
    record: RemediationRecord | None = None,
    *,
    policy: RemediationPolicy,
    now: datetime,
    new_id: Callable[[], str],
) -> tuple[RemediationAction, RemediationRecord]:
    """What is due now, and the record with it added; the record given is left as it is.

    `record` is that of the attempts before this one, None for the first. The first row of the table that holds counts.
    """
    before = _fresh(facts, policy, now, new_id) if record is None else _under(record, policy)
    if _passes(facts, policy):
        return _ended(before, RemediationAction.ACCEPT_WITH_WARNINGS, RemediationState.RESOLVED, "passed", now)
    if Severity.CRITICAL in facts.severities and policy.auto_escalate_on_critical:
        return _escalated(before, "critical_severity", now)
    if before.retry_count < policy.max_retries:
        attempt = before.retry_count + 1
        state = RemediationState.RETRYING
        return _taken(before, RemediationAction.RETRY, state, now, {"attempt": attempt}, retry_count=attempt)
    if before.re_retrievals < policy.max_re_retrievals:
        return _taken(before, RemediationAction.RE_RETRIEVE, RemediationState.RE_RETRIEVING, now, retry_count=0)
    if facts.has_evidence_error:
        action = RemediationAction.INSUFFICIENT_EVIDENCE
        return _ended(before, action, RemediationState.EXHAUSTED, action.value, now)
    return _escalated(before, "remediation_exhausted", now)


def _fresh(facts: Facts, policy: RemediationPolicy, now: datetime, new_id: Callable[[], str]) -> RemediationRecord:
    # Without pydantic's checks. Every field is given: for one left to its default pydantic inspects the function that
    # makes it, each time anew, which takes longer than all the layers together.
    return RemediationRecord.model_construct(
        remediation_id=new_id(),
        validation_id=facts.validation_id,
        state=RemediationState.PENDING,
        actions_taken=[],
        retry_count=0,
        max_retries=policy.max_retries,
        started_at=now,
        resolved_at=None,
        resolution=None,
    )


def _under(record: RemediationRecord, policy: RemediationPolicy) -> RemediationRecord:
    """The record under the limits that hold now."""
    same = record.max_retries == policy.max_retries
    return record if same else record.model_copy(update={"max_retries": policy.max_retries})


def escalate(record: RemediationRecord, reason: str, now: datetime) -> RemediationRecord:
    """The record with its lineage taken to a person for `reason`."""
    return _escalated(record, reason, now)[1]


def _passes(facts: Facts, policy: RemediationPolicy) -> bool:
    """Nothing at the policy's severity or above. A verdict that failed without an issue to blame has not passed."""
    least = _RANK[policy.min_severity_to_remediate]
    if any(_RANK[severity] >= least for severity in facts.severities):
        return False
    return facts.passed or any(_RANK[severity] >= _RANK[Severity.ERROR] for severity in facts.severities)


def _escalated(record: RemediationRecord, reason: str, now: datetime) -> tuple[RemediationAction, RemediationRecord]:
    return _taken(record, RemediationAction.ESCALATE, RemediationState.ESCALATED, now, {"reason": reason})


def _ended(
    record: RemediationRecord, action: RemediationAction, state: RemediationState, resolution: str, now: datetime
) -> tuple[RemediationAction, RemediationRecord]:
    return _taken(record, action, state, now, resolved_at=now, resolution=resolution)


def _taken(
    record: RemediationRecord,
    action: RemediationAction,
    state: RemediationState,
    now: datetime,
    said: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[RemediationAction, RemediationRecord]:
    """An action taken after the record had ended opens it again."""
    entry = {"action": action.value, "timestamp": utc_text(now), **(said or {})}
    update = {
        "state": state,
        "actions_taken": [*record.actions_taken, entry],
        "resolved_at": None,
        "resolution": None,
        **changes,
    }
    return action, record.model_copy(update=update)
