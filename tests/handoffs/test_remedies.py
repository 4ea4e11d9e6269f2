"""What is asked of a lineage of attempts."""

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries, remedies
from handoffaudit.handoffs.models import Remediation
from tests.handoffs.support import circular, judged, payload

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
    record = remedies.of(second)
    assert record is not None
    assert (record.state, record.resolution) == ("resolved", "passed")
    assert [action["action"] for action in record.actions_taken] == ["retry", "accept_with_warnings"]


def test_what_passes_at_once_needs_no_record(tenant: Tenant) -> None:
    judged(tenant, payload())
    assert Remediation.objects.count() == 0


def test_other_tenants_lineages_of_the_same_name_are_other_lineages(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="same"))
    theirs = judged(other_tenant, circular(handoff_id="same", tenant_id=other_tenant.slug))
    record = remedies.of(theirs)
    assert record is not None
    assert record.retry_count == 1
    assert Remediation.objects.count() == 2
