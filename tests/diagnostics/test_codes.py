"""Tests of the frequency, the agents and the first appearance of a rule code."""

from typing import Any

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import codes
from tests.diagnostics.support import today
from tests.handoffs.support import circular, judged, payload

pytestmark = pytest.mark.django_db
DAY = today()
CIRCULAR = "chain.circular"


def by(source: str, **changes: Any) -> dict[str, Any]:
    return circular(source_agent_id=source, call_chain=["planner", source], **changes)


def test_a_code_is_counted_by_source_type_and_time(tenant: Tenant, other_tenant: Tenant):
    first = judged(tenant, circular())
    last = judged(tenant, by("writer", handoff_type="memo"))
    judged(tenant, circular(handoff_type="memo"))
    judged(tenant, payload())
    judged(other_tenant, circular(tenant_id=other_tenant.slug))
    found = codes.load_report(tenant, CIRCULAR, DAY)
    assert str(found.change.now) == "3/4 (75.0%)"
    assert found.sources == [("researcher", 2), ("writer", 1)]
    assert found.types == [("memo", 2), ("research_result", 1)]
    assert sum(one.value for one in found.over_time) == 3
    assert found.first is not None
    assert found.first.pk == first.pk
    assert len(found.newest) == 3
    assert found.newest[1].pk == last.pk


def test_a_code_that_nobody_has_is_told_as_such(tenant: Tenant, other_tenant: Tenant):
    judged(other_tenant, circular(tenant_id=other_tenant.slug))
    found = codes.load_report(tenant, CIRCULAR, DAY)
    assert (found.number, found.first, found.sources, list(found.newest)) == (0, None, [], [])
    assert not codes.is_known(tenant, CIRCULAR)
    assert codes.is_known(other_tenant, CIRCULAR)


def test_the_codes_that_most_have_come_with_their_agents(tenant: Tenant):
    for source in ("writer", "writer", "researcher"):
        judged(tenant, by(source))
    by_code = {one.code: one for one in codes.top_codes(tenant, DAY)}
    assert by_code[CIRCULAR].number == 3
    assert by_code[CIRCULAR].agents == [("writer", 2), ("researcher", 1)]
