"""Tests of the overturn rate of rule codes."""

from datetime import timedelta

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import codes as module
from handoffaudit.diagnostics.codes import CodeDecisions, add_examples, code_decisions, overturn_rates
from handoffaudit.handoffs.models import Finding, Handoff
from handoffaudit.handoffs.rates import Share
from handoffaudit.handoffs.review.decisions import Decision
from tests.diagnostics.support import decided, today
from tests.handoffs.review.support import reopen
from tests.handoffs.support import circular, held, judged

pytestmark = pytest.mark.django_db
DAY = today()
CIRCULAR = "chain.circular"


def circles(tenant: Tenant, *decisions: Decision, **changes: str) -> list[Handoff]:
    return [decided(tenant, judged(tenant, circular(**changes)), one, f"note {n}") for n, one in enumerate(decisions)]


def found(tenant: Tenant) -> dict[str, CodeDecisions]:
    return {one.code: one for one in overturn_rates(tenant, DAY.since, DAY.until).codes}


APPROVE, DECLINE = Decision.APPROVE, Decision.DECLINE


@pytest.mark.parametrize(
    ("decisions", "noisy"),
    [
        ([APPROVE, APPROVE], False),
        ([APPROVE, APPROVE, APPROVE], True),
        ([APPROVE, APPROVE, DECLINE], True),
        ([APPROVE, DECLINE, DECLINE], False),
        ([APPROVE, APPROVE, DECLINE, DECLINE], False),
    ],
)
def test_a_code_is_noisy_when_it_is_overturned_more_often_than_not(
    tenant: Tenant, decisions: list[Decision], noisy: bool
):
    circles(tenant, *decisions)
    one = found(tenant)[CIRCULAR]
    assert (one.overturned, one.confirmed) == (decisions.count(APPROVE), decisions.count(DECLINE))
    assert one.noisy is noisy


def test_what_only_warned_stopped_nothing(tenant: Tenant):
    handoff = decided(tenant, judged(tenant, held(confidence=0.1)), APPROVE)
    assert "confidence.low" in handoff.codes
    assert set(found(tenant)) == {"chain.needs_approval"}


def test_a_declined_handoff_that_a_later_attempt_replaced_still_counts(tenant: Tenant):
    [first] = circles(tenant, DECLINE, handoff_id="first")
    judged(tenant, circular(handoff_id="second"), retry_of="first")
    first.refresh_from_db()
    assert first.state == "superseded"
    assert found(tenant)[CIRCULAR].confirmed == 1


def test_decisions_count_when_they_were_taken_and_in_their_tenant(tenant: Tenant, other_tenant: Tenant):
    circles(tenant, APPROVE)
    circles(other_tenant, DECLINE, tenant_id=other_tenant.slug)
    assert overturn_rates(tenant, DAY.since, DAY.until).decisions.total == 1
    assert overturn_rates(tenant, DAY.before_since, DAY.before_until).decisions.total == 0
    assert found(other_tenant)[CIRCULAR].confirmed == 1


def test_of_too_many_decisions_the_newest_count_and_that_is_said(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    circles(tenant, DECLINE, DECLINE, APPROVE, APPROVE)
    assert overturn_rates(tenant, DAY.since, DAY.until).sampled is False
    monkeypatch.setattr(module, "MOST_DECISIONS", 2)
    told = overturn_rates(tenant, DAY.since, DAY.until)
    assert told.sampled
    assert told.decisions == Share(2, 2)


def test_types_and_examples_are_told(tenant: Tenant):
    circles(tenant, APPROVE, APPROVE, handoff_type="report")
    last = circles(tenant, DECLINE, APPROVE, handoff_type="memo")[-1]
    one = found(tenant)[CIRCULAR]
    assert {name: str(share) for name, share in one.types.items()} == {
        "report": "2/2 (100.0%)",
        "memo": "1/2 (50.0%)",
    }
    assert one.main_type == "report"
    [told] = add_examples(tenant, [one], DAY.since, DAY.until)
    assert len(told.examples) == 3
    assert (told.examples[0].handoff.pk, told.examples[0].note, told.examples[0].actor) == (last.pk, "note 1", "rui")


def test_a_handoff_with_many_findings_of_a_code_hides_no_other_example(tenant: Tenant):
    circles(tenant, APPROVE)
    [last] = circles(tenant, APPROVE)
    [finding] = Finding.objects.filter(handoff=last, code=CIRCULAR)
    again = (Finding(tenant=tenant, handoff=last, code=CIRCULAR, severity=finding.severity) for _ in range(20))
    Finding.objects.bulk_create(again)
    assert len(code_decisions(tenant, CIRCULAR, DAY.since, DAY.until).examples) == 2


def test_one_code_alone_is_counted_as_among_all(tenant: Tenant):
    circles(tenant, APPROVE, DECLINE)
    one = code_decisions(tenant, CIRCULAR, DAY.since, DAY.until)
    assert (one.overturned, one.confirmed, len(one.examples)) == (1, 1, 1)
    assert code_decisions(tenant, "tokens.over_budget", DAY.since, DAY.until).decisions == 0
    assert code_decisions(tenant, CIRCULAR, DAY.since - timedelta(days=9), DAY.since).decisions == 0


def test_a_decision_that_was_taken_back_counts_as_the_next_one(tenant: Tenant, reviewer: Person):
    [handoff] = circles(tenant, APPROVE)
    reopen(handoff, reviewer)
    assert found(tenant) == {}
    decided(tenant, handoff, DECLINE)
    assert (found(tenant)[CIRCULAR].overturned, found(tenant)[CIRCULAR].confirmed) == (0, 1)
