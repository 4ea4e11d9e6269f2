"""Tests of the actions that a lineage of attempts gets."""

from typing import Any

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, judge, judge_leases, queries
from handoffaudit.handoffs.models import Remediation
from handoffaudit.validation.config import Mode, Strictness
from tests.handoffs.support import circular, judged, payload, set_policy, submit

pytestmark = pytest.mark.django_db


def asked(tenant: Tenant, number: int, retry_of: str) -> tuple[str | None, bool]:
    handoff = judged(tenant, circular(handoff_id=f"h-{number}"), **({"retry_of": retry_of} if retry_of else {}))
    verdict = queries.current_verdict(handoff)
    assert verdict is not None
    return verdict["recommended_action"], handoff.escalated


@pytest.mark.parametrize("names_the_first", [True, False])
def test_each_resubmission_is_told_what_it_is_due(tenant: Tenant, names_the_first: bool) -> None:
    told = []
    for number in range(7):
        before = "h-0" if names_the_first else f"h-{number - 1}"
        told.append(asked(tenant, number, before if number else ""))
    assert told == [
        ("retry", False),
        ("retry", False),
        ("re_retrieve", False),
        ("retry", False),
        ("retry", False),
        ("escalate", True),
        ("escalate", True),
    ]
    assert Remediation.objects.count() == 1


def test_a_lineage_that_passes_is_resolved(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="one"))
    second = judged(tenant, payload(handoff_id="two"), retry_of="one")
    record = attempts.load_record(second)
    assert record is not None
    assert (record.state, record.resolution) == ("resolved", "passed")
    assert [action["action"] for action in record.actions_taken] == ["retry", "accept"]


@pytest.mark.parametrize(
    ("handoff_type", "confidence", "action"),
    [("status_update", 0.9, "accept"), ("status_update", 0.3, "accept_with_warnings")],
)
def test_only_a_pass_without_findings_is_told_accept(
    tenant: Tenant, handoff_type: str, confidence: float, action: str
) -> None:
    document = payload(handoff_type=handoff_type, confidence=confidence)
    verdict = queries.current_verdict(judged(tenant, document))
    assert verdict is not None
    assert verdict["recommended_action"] == action
    assert verdict["remediation"]["actions_taken"][-1]["action"] == action


def test_in_shadow_a_finding_keeps_a_pass_from_being_clean(tenant: Tenant) -> None:
    set_policy(tenant, "status_update", mode=Mode.SHADOW, strictness=Strictness.LENIENT)
    verdict = queries.current_verdict(judged(tenant, circular(handoff_type="status_update")))
    assert verdict is not None
    assert (verdict["outcome"], verdict["recommended_action"]) == ("accepted", "accept_with_warnings")


def test_what_passes_at_once_needs_no_record(tenant: Tenant) -> None:
    judged(tenant, payload())
    assert Remediation.objects.count() == 0


def test_other_tenants_lineages_of_the_same_name_are_other_lineages(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="same"))
    theirs = judged(other_tenant, circular(handoff_id="same", tenant_id=other_tenant.slug))
    record = attempts.load_record(theirs)
    assert record is not None
    assert record.retry_count == 1
    assert Remediation.objects.count() == 2


def test_attempts_judged_at_once_by_two_workers_both_count(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(tenant, circular(handoff_id="h-0"))
    for number in (1, 2):
        submit(tenant, circular(handoff_id=f"h-{number}"), retry_of="h-0")
    both = [judge_leases.take_fresh(1), judge_leases.take_fresh(1)]
    waiting: list[tuple[Any, ...]] = []
    with monkeypatch.context() as patched:
        patched.setattr(judge, "finish", lambda *judged: waiting.append(judged) or 0)
        for lease in both:
            assert lease is not None
            judge.judge(lease)
    for one in waiting:
        assert judge.finish(*one) == 1
    told = [queries.current_verdict(queries.get(tenant, f"h-{number}")) for number in (1, 2)]
    assert [verdict["recommended_action"] for verdict in told if verdict] == ["retry", "re_retrieve"]


def test_a_first_attempt_that_is_judged_after_its_retry_counts_too(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="h-1"), retry_of="h-0")
    first = judged(tenant, circular(handoff_id="h-0"))
    third = judged(tenant, circular(handoff_id="h-2"), retry_of="h-1")
    told = [queries.current_verdict(one) for one in (first, third)]
    assert [verdict["recommended_action"] for verdict in told if verdict] == ["retry", "re_retrieve"]
    record = attempts.load_record(first)
    assert record is not None
    assert [taken["action"] for taken in record.actions_taken] == ["retry", "retry", "re_retrieve"]
