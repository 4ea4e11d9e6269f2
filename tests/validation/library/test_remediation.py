"""Tests of the action that is due after a result."""

from datetime import UTC, datetime
from typing import Any

import pytest

from handoffaudit.validation import (
    RemediationEngine,
    RemediationPolicy,
    RemediationRecord,
    ValidationIssue,
    ValidationResult,
    ValidationSeverity,
)

from .support import issue


def failed(*issues: ValidationIssue, **fields: Any) -> ValidationResult:
    return ValidationResult(overall_passed=False, issues=list(issues or [issue("business_rule")]), **fields)


def actions(result: ValidationResult, times: int, engine: RemediationEngine | None = None) -> list[str]:
    record: RemediationRecord | None = None
    found = []
    for _ in range(times):
        action, record = (engine or RemediationEngine()).decide(result, record)
        found.append(action.value)
    return found


def test_the_policy_as_shipped() -> None:
    policy = RemediationEngine().get_policy("Signal")
    assert policy == RemediationPolicy()
    assert policy.model_dump() == {
        "output_type": "*",
        "max_retries": 2,
        "max_re_retrievals": 1,
        "auto_escalate_on_critical": True,
        "min_severity_to_remediate": ValidationSeverity.ERROR,
    }


@pytest.mark.parametrize("as_mapping", [False, True])
def test_policies_by_type(as_mapping: bool) -> None:
    own, other = RemediationPolicy(output_type="Signal", max_retries=5), RemediationPolicy(max_retries=1)
    given = {policy.output_type: policy for policy in (own, other)}
    engine = RemediationEngine(given if as_mapping else [own, other])
    assert (engine.get_policy("Signal"), engine.get_policy("Note")) == (own, other)
    assert actions(failed(output_type="Note"), 2, engine) == ["retry", "re_retrieve"]


def test_the_whole_way_of_a_broken_rule() -> None:
    way = ["retry", "retry", "re_retrieve", "retry", "retry", "escalate"]
    assert actions(failed(), 6) == way
    assert actions(failed(issue("evidence")), 6) == [*way[:5], "insufficient_evidence"]


def test_what_passed() -> None:
    action, record = RemediationEngine().decide(ValidationResult(overall_passed=True, issues=[issue("own", "warning")]))
    assert (action, record.state, record.resolution) == ("accept_with_warnings", "resolved", "passed")
    assert record.resolved_at is not None


def test_a_critical_issue_goes_to_a_person() -> None:
    result = failed(issue("own", "critical"))
    action, record = RemediationEngine().decide(result)
    assert (action, record.state) == ("escalate", "escalated")
    (taken,) = record.actions_taken
    assert (taken["action"], taken["reason"]) == ("escalate", "critical_severity")
    not_at_once = RemediationEngine([RemediationPolicy(auto_escalate_on_critical=False)])
    assert not_at_once.decide(result)[0] == "retry"


def test_the_record() -> None:
    result = failed()
    before = datetime.now(UTC)
    _, first = RemediationEngine().decide(result)
    assert (first.validation_id, first.retry_count, first.max_retries) == (result.validation_id, 1, 2)
    assert before <= first.started_at <= datetime.now(UTC)
    _, second = RemediationEngine().decide(failed(), first)
    assert (first.retry_count, second.retry_count) == (1, 2)
    assert second.remediation_id == first.remediation_id
    assert [taken["attempt"] for taken in second.actions_taken] == [1, 2]
    assert all(datetime.fromisoformat(taken["timestamp"]) >= before for taken in second.actions_taken)


def test_the_record_may_be_given_as_current_record() -> None:
    engine = RemediationEngine()
    _, first = engine.decide(failed())
    _, second = engine.decide(failed(), current_record=first)
    assert (second.remediation_id, second.retry_count) == (first.remediation_id, 2)
    with pytest.raises(TypeError, match="record or current_record, not both"):
        engine.decide(failed(), first, current_record=first)
