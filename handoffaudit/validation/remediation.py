"""The action that follows a verdict, decided from the verdict and the log of the earlier attempts."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.times import utc_text

_RANK = {severity: rank for rank, severity in enumerate(Severity)}
_EVIDENCE_LAYERS = frozenset({"evidence", "grounding"})


class Action(StrEnum):
    """The action that a verdict recommends.

    The library's `RemediationAction` has all actions except `accept`.
    """

    RETRY = "retry"
    RE_RETRIEVE = "re_retrieve"
    ESCALATE = "escalate"
    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    ACCEPT_WITH_WARNINGS = "accept_with_warnings"
    ACCEPT = "accept"


class RemediationState(StrEnum):
    PENDING = "pending"
    RETRYING = "retrying"
    RE_RETRIEVING = "re_retrieving"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    EXHAUSTED = "exhausted"


class Limits(Protocol):
    """The limits in a type's policy for the next action.

    The limits say how often senders may retry and retrieve again, whether critical findings escalate at once, and from
    which severity on a finding requires an action.
    """

    @property
    def max_retries(self) -> int: ...
    @property
    def max_re_retrievals(self) -> int: ...
    @property
    def auto_escalate_on_critical(self) -> bool: ...
    @property
    def min_severity_to_remediate(self) -> Severity: ...


class RemediationLog(msgspec.Struct, frozen=True):
    """The log of every action for one lineage of attempts. The library returns the log as `RemediationRecord`.

    `validation_id` is the verdict that opened the log. Each entry of `actions_taken` has "action" and "timestamp" (RFC
    3339, UTC). A retry also has "attempt", its number since the last new retrieval, and an escalation has "reason".
    """

    remediation_id: str
    validation_id: str
    started_at: datetime
    state: RemediationState = RemediationState.PENDING
    actions_taken: tuple[Mapping[str, Any], ...] = ()
    retry_count: int = 0
    max_retries: int = 2
    resolved_at: datetime | None = None
    resolution: str | None = None

    @property
    def re_retrievals(self) -> int:
        return sum(taken.get("action") == Action.RE_RETRIEVE for taken in self.actions_taken)

    def to_dict(self) -> dict[str, Any]:
        """Return the log as the API and files show it: plain JSON values."""
        return {
            "remediation_id": self.remediation_id,
            "validation_id": self.validation_id,
            "state": str(self.state),
            "actions_taken": [dict(taken) for taken in self.actions_taken],
            "retry_count": self.retry_count,
            "max_retries": self.max_retries,
            "started_at": utc_text(self.started_at),
            "resolved_at": utc_text(self.resolved_at) if self.resolved_at else None,
            "resolution": self.resolution,
        }


class Facts(msgspec.Struct, frozen=True):
    """The facts of a verdict that the decision needs.

    `severities` are the severities of the verdict's issues. `is_clean` is true if the handoff was accepted and no
    finding is a warning or worse. `is_rejected` is true if the server rejected the handoff, whatever the severities of
    its issues. The library sets neither `is_clean` nor `is_rejected`.
    """

    validation_id: str
    passed: bool
    severities: frozenset[Severity] = frozenset()
    has_evidence_error: bool = False
    is_clean: bool = False
    is_rejected: bool = False


def facts_of(validation_id: str, issues: Iterable[Issue], *, accepted: bool, enforced: bool = True) -> Facts:
    """Return the facts of a verdict.

    If `enforced` is false (shadow mode), an accepted handoff requires no action of its sender. An evidence error is an
    error of the evidence or the grounding layer. Do not call the function for a held verdict, because a person first
    has to decide about the attempt.
    """
    found = tuple(issues)
    counted = () if accepted and not enforced else found
    return Facts(
        validation_id=validation_id,
        passed=accepted,
        severities=frozenset(issue.severity for issue in counted),
        has_evidence_error=any(is_evidence_error(issue.layer, issue.severity) for issue in counted),
        is_clean=accepted and all(_RANK[issue.severity] < _RANK[Severity.WARNING] for issue in found),
        is_rejected=not accepted,
    )


def is_evidence_error(layer: str, severity: Severity) -> bool:
    return layer in _EVIDENCE_LAYERS and _RANK[severity] >= _RANK[Severity.ERROR]


def decide(
    facts: Facts,
    log: RemediationLog | None = None,
    *,
    policy: Limits,
    now: datetime,
    new_id: Callable[[], str],
) -> tuple[Action, RemediationLog]:
    """Return the action that is due now, and a new log with that action. The given log stays unchanged.

    `log` contains the earlier attempts, or is None for the first attempt. The first matching row of the table in
    `docs/repair.md` decides.
    """
    if log is None:
        before = RemediationLog(new_id(), facts.validation_id, now, max_retries=policy.max_retries)
    else:
        before = _under(log, policy)
    if _passes(facts, policy):
        action = Action.ACCEPT if facts.is_clean else Action.ACCEPT_WITH_WARNINGS
        return _record_end(before, action, RemediationState.RESOLVED, "passed", now)
    if Severity.CRITICAL in facts.severities and policy.auto_escalate_on_critical:
        return _record_escalation(before, "critical_severity", now)
    if before.retry_count < policy.max_retries:
        attempt = before.retry_count + 1
        state = RemediationState.RETRYING
        return _record_action(before, Action.RETRY, state, now, {"attempt": attempt}, retry_count=attempt)
    if before.re_retrievals < policy.max_re_retrievals:
        return _record_action(before, Action.RE_RETRIEVE, RemediationState.RE_RETRIEVING, now, retry_count=0)
    if facts.has_evidence_error:
        action = Action.INSUFFICIENT_EVIDENCE
        return _record_end(before, action, RemediationState.EXHAUSTED, action.value, now)
    return _record_escalation(before, "remediation_exhausted", now)


def _under(log: RemediationLog, policy: Limits) -> RemediationLog:
    """Return the log with the retry limit of the current policy."""
    same = log.max_retries == policy.max_retries
    return log if same else msgspec.structs.replace(log, max_retries=policy.max_retries)


def escalate(log: RemediationLog, reason: str, now: datetime) -> RemediationLog:
    """Return the log with its lineage escalated to a person for `reason`."""
    return _record_escalation(log, reason, now)[1]


def _passes(facts: Facts, policy: Limits) -> bool:
    """Return whether the verdict requires no action, because all findings are below the severity of the policy.

    A rejected handoff does not pass. A verdict that failed without an error does not pass either.
    """
    least = _RANK[policy.min_severity_to_remediate]
    if facts.is_rejected or any(_RANK[severity] >= least for severity in facts.severities):
        return False
    return facts.passed or any(_RANK[severity] >= _RANK[Severity.ERROR] for severity in facts.severities)


def _record_escalation(log: RemediationLog, reason: str, now: datetime) -> tuple[Action, RemediationLog]:
    return _record_action(log, Action.ESCALATE, RemediationState.ESCALATED, now, {"reason": reason})


def _record_end(
    log: RemediationLog, action: Action, state: RemediationState, resolution: str, now: datetime
) -> tuple[Action, RemediationLog]:
    return _record_action(log, action, state, now, resolution=resolution)


def _record_action(
    log: RemediationLog,
    action: Action,
    state: RemediationState,
    now: datetime,
    details: Mapping[str, Any] | None = None,
    *,
    retry_count: int | None = None,
    resolution: str | None = None,
) -> tuple[Action, RemediationLog]:
    """Return the action and the log with that action. An action after the end of the lineage reopens the log."""
    entry = {"action": action.value, "timestamp": utc_text(now), **(details or {})}
    return action, RemediationLog(
        remediation_id=log.remediation_id,
        validation_id=log.validation_id,
        started_at=log.started_at,
        state=state,
        actions_taken=(*log.actions_taken, entry),
        retry_count=log.retry_count if retry_count is None else retry_count,
        max_retries=log.max_retries,
        resolved_at=now if resolution else None,
        resolution=resolution,
    )
