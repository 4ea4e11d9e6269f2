"""Tests of the decision table of remediation, row by row, and of long sequences of attempts."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.issues import Severity, make
from handoffaudit.validation.layers import CATALOGUE
from handoffaudit.validation.library.models import RemediationPolicy, RemediationRecord
from handoffaudit.validation.remediation import (
    Action,
    Facts,
    RemediationLog,
    RemediationState,
    decide,
    facts_of,
)

START = datetime(2026, 2, 1, 8, 0, tzinfo=UTC)
PASSED = Facts("v", passed=True)
CLEAN = Facts("v", passed=True, is_clean=True)
WARNED = Facts("v", passed=True, severities=frozenset({Severity.WARNING}))
FAILED = Facts("v", passed=False, severities=frozenset({Severity.ERROR}))
CRITICAL = Facts("v", passed=False, severities=frozenset({Severity.ERROR, Severity.CRITICAL}))
UNCITED = Facts("v", passed=False, severities=frozenset({Severity.ERROR}), has_evidence_error=True)


def decided(facts: Facts, record: RemediationLog | None = None, **policy: Any):
    ids = (f"remediation-{number}" for number in itertools.count(1))
    return decide(facts, record, policy=RemediationPolicy(**policy), now=START, new_id=lambda: next(ids))


def sequence(facts: list[Facts], **policy: Any) -> tuple[list[str], RemediationLog]:
    """Return the actions due after each of these verdicts, and the record after the last verdict."""
    record, actions = None, []
    for number, one in enumerate(facts):
        now = START + timedelta(minutes=number)
        action, record = decide(one, record, policy=RemediationPolicy(**policy), now=now, new_id=lambda: "r")
        actions.append(action.value)
    assert record is not None
    return actions, record


SPENT = RemediationLog(
    remediation_id="r",
    validation_id="v",
    retry_count=2,
    started_at=START,
    actions_taken=({"action": "re_retrieve", "timestamp": "2026-02-01T08:00:00Z"},),
)
ROWS = [
    (PASSED, None, "accept_with_warnings", "resolved"),
    (CLEAN, None, "accept", "resolved"),
    (WARNED, None, "accept_with_warnings", "resolved"),
    (PASSED, SPENT, "accept_with_warnings", "resolved"),
    (CRITICAL, None, "escalate", "escalated"),
    (CRITICAL, SPENT, "escalate", "escalated"),
    (FAILED, None, "retry", "retrying"),
    (UNCITED, None, "retry", "retrying"),
    (FAILED, msgspec.structs.replace(SPENT, actions_taken=()), "re_retrieve", "re_retrieving"),
    (UNCITED, msgspec.structs.replace(SPENT, actions_taken=()), "re_retrieve", "re_retrieving"),
    (UNCITED, SPENT, "insufficient_evidence", "exhausted"),
    (FAILED, SPENT, "escalate", "escalated"),
]


@pytest.mark.parametrize(("facts", "record", "action", "state"), ROWS)
def test_the_table(facts: Facts, record: RemediationLog | None, action: str, state: str) -> None:
    found, after = decided(facts, record)
    assert (found, after.state) == (action, state)
    assert after.actions_taken[-1]["action"] == action
    assert after.actions_taken[-1]["timestamp"] == "2026-02-01T08:00:00Z"


def test_a_first_failure_begins_a_record() -> None:
    _, record = decided(FAILED, max_retries=3)
    assert record.to_dict() == {
        "remediation_id": "remediation-1",
        "validation_id": "v",
        "state": "retrying",
        "actions_taken": [{"action": "retry", "timestamp": "2026-02-01T08:00:00Z", "attempt": 1}],
        "retry_count": 1,
        "max_retries": 3,
        "started_at": "2026-02-01T08:00:00Z",
        "resolved_at": None,
        "resolution": None,
    }


def test_the_third_resubmission_is_told_what_the_third_is_due() -> None:
    actions, record = sequence([FAILED] * 8)
    again = ["retry", "retry"]
    assert actions == [*again, "re_retrieve", *again, "escalate", "escalate", "escalate"]
    assert [taken.get("attempt") for taken in record.actions_taken] == [1, 2, None, 1, 2, None, None, None]
    assert record.actions_taken[5]["reason"] == "remediation_exhausted"
    assert record.actions_taken[5]["timestamp"] == "2026-02-01T08:05:00Z"
    assert (record.started_at, record.resolved_at) == (START, None)


def test_evidence_that_is_never_found() -> None:
    actions, record = sequence([UNCITED] * 6)
    assert actions[-1] == "insufficient_evidence"
    assert (record.resolution, record.resolved_at) == ("insufficient_evidence", START + timedelta(minutes=5))


def test_a_pass_in_the_end_resolves() -> None:
    _, record = sequence([FAILED, FAILED, PASSED])
    assert (record.state, record.resolution, record.retry_count) == ("resolved", "passed", 2)
    assert record.resolved_at == START + timedelta(minutes=2)


def test_a_failure_after_the_end_opens_the_record_again() -> None:
    actions, record = sequence([FAILED, PASSED, FAILED])
    assert actions == ["retry", "accept_with_warnings", "retry"]
    assert (record.state, record.resolution, record.resolved_at) == ("retrying", None, None)


def test_a_critical_issue_goes_to_a_person_unless_the_policy_says_otherwise() -> None:
    _, record = decided(CRITICAL)
    assert record.actions_taken[-1]["reason"] == "critical_severity"
    assert decided(CRITICAL, auto_escalate_on_critical=False)[0] is Action.RETRY


@pytest.mark.parametrize(
    ("least", "severity", "passed", "expected"),
    [
        ("warning", "warning", True, "retry"),
        ("warning", "info", True, "accept_with_warnings"),
        ("critical", "error", False, "accept_with_warnings"),
        ("critical", "critical", False, "escalate"),
        ("info", "info", True, "retry"),
    ],
)
def test_the_least_severity(least: str, severity: str, passed: bool, expected: str) -> None:
    facts = Facts("v", passed=passed, severities=frozenset({Severity(severity)}))
    assert decided(facts, min_severity_to_remediate=least)[0] == expected


def test_a_rejected_handoff_is_never_accepted_in_the_end() -> None:
    rejected = facts_of("v", [make(CATALOGUE["chain.circular"], message="m")], accepted=False)
    actions, record = sequence([rejected] * 6, min_severity_to_remediate="critical")
    assert actions == ["retry", "retry", "re_retrieve", "retry", "retry", "escalate"]
    assert record.state == "escalated"


def test_a_failure_without_an_issue_has_not_passed() -> None:
    assert decided(Facts("v", passed=False))[0] is Action.RETRY
    assert decided(Facts("v", passed=False, severities=frozenset({Severity.WARNING})))[0] is Action.RETRY


def test_without_retries_and_re_retrievals_a_person_is_asked_at_once() -> None:
    assert sequence([FAILED], max_retries=0, max_re_retrievals=0)[0] == ["escalate"]
    assert sequence([FAILED] * 4, max_retries=1, max_re_retrievals=0)[0] == ["retry", *["escalate"] * 3]
    assert sequence([FAILED] * 3, max_retries=0, max_re_retrievals=2)[0] == ["re_retrieve", "re_retrieve", "escalate"]


def test_facts_of_a_verdicts_issues() -> None:
    uncited = make(CATALOGUE["evidence.uncited_threshold_exceeded"], message="m")
    warned = make(CATALOGUE["evidence.uncited_claim"], message="m")
    wrong = make(CATALOGUE["chain.circular"], message="m")
    number = make(CATALOGUE["grounding.number"], message="m", severity=Severity.ERROR)

    assert facts_of("v", [uncited], accepted=False) == msgspec.structs.replace(UNCITED, is_rejected=True)
    assert facts_of("v", [wrong], accepted=False) == msgspec.structs.replace(FAILED, is_rejected=True)
    assert facts_of("v", [number], accepted=False).has_evidence_error
    assert not facts_of("v", [wrong, warned], accepted=False).has_evidence_error
    assert facts_of("v", [wrong], accepted=True, enforced=False) == PASSED
    assert facts_of("v", [make(CATALOGUE["tokens.estimated"], message="m")], accepted=True).is_clean
    assert not facts_of("v", [warned], accepted=True).is_clean


def test_the_policy_of_a_type_is_asked() -> None:
    policy = TypePolicy("deal_data", max_retries=0, min_severity_to_remediate=Severity.WARNING)
    action, record = decide(WARNED, None, policy=policy, now=START, new_id=lambda: "r")
    assert (action, record.max_retries) == (Action.RE_RETRIEVE, 0)


def test_a_record_is_shown_as_its_lineage_is() -> None:
    assert RemediationRecord.of(SPENT).model_dump(mode="json") == SPENT.to_dict()


FACTS = st.builds(
    Facts,
    st.just("v"),
    st.booleans(),
    st.frozensets(st.sampled_from(Severity)),
    st.booleans(),
    is_rejected=st.booleans(),
)


@given(
    st.lists(FACTS, min_size=1, max_size=25),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(Severity),
)
def test_any_sequence(facts: list[Facts], retries: int, re_retrievals: int, escalates: bool, least: Severity) -> None:
    policy = RemediationPolicy(
        max_retries=retries,
        max_re_retrievals=re_retrievals,
        auto_escalate_on_critical=escalates,
        min_severity_to_remediate=least,
    )
    record: RemediationLog | None = None
    for number, one in enumerate(facts, 1):
        given_record = None if record is None else record.to_dict()
        action, after = decide(one, record, policy=policy, now=START, new_id=lambda: "r")

        # what was given is left alone, and what is stored as JSON comes back as it was
        assert record is None or record.to_dict() == given_record
        assert RemediationRecord.model_validate_json(RemediationRecord.of(after).model_dump_json()).log() == after
        assert len(after.actions_taken) == number
        assert after.actions_taken[-1]["action"] == action
        assert (after.resolved_at is None) == (after.state not in (RemediationState.RESOLVED, "exhausted"))
        record = after
    assert record is not None
    assert record.retry_count <= retries
    assert record.re_retrievals <= re_retrievals
    taken = [entry["action"] for entry in record.actions_taken]
    assert taken.count("retry") <= retries * (1 + re_retrievals)
