"""Tests of the search of the queue: one field for rule codes, types, agents, handoffs and traces."""

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.review import queue
from tests.handoffs.support import circular, held, judged

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "found_by"),
    [
        ("chain.circular", "code"),
        ("research_result", "handoff_type"),
        (" researcher ", "source"),
        ("planner", "target"),
        ("loop", "handoff_id"),
        ("t-1", "trace"),
        ("nothing of the kind", "trace"),
        ("", ""),
    ],
)
def test_a_text_is_taken_for_what_the_tenant_knows(tenant: Tenant, text: str, found_by: str) -> None:
    judged(tenant, circular(handoff_id="loop"), trace_id="t-1")
    judged(tenant, held(target_agent_id="someone"))
    searched = queue.search(tenant, text)
    assert (searched.found_by, searched.value) == (found_by, text.strip())
    found = [one.handoff_id for one in queue.list_queue(tenant, None, filters=searched.filters).items]
    assert ("loop" in found) is (text != "nothing of the kind")
    assert (len(found) == 2) is (text in ("research_result", " researcher ", ""))


def test_the_products_own_id_is_found_too(tenant: Tenant) -> None:
    handoff = judged(tenant, held(handoff_id="mine"))
    searched = queue.search(tenant, str(handoff.pk))
    assert (searched.found_by, searched.value) == ("handoff_id", "mine")


@pytest.mark.parametrize("text", ["a\0b", "x" * 201])
def test_what_cannot_be_looked_for_is_told(tenant: Tenant, text: str) -> None:
    with pytest.raises(FilterError):
        queue.search(tenant, text)


def test_other_tenants_words_are_unknown(tenant: Tenant, other_tenant: Tenant, reviewer: Person) -> None:
    judged(other_tenant, held(handoff_id="theirs", tenant_id="globex"))
    for text in ("theirs", "chain.needs_approval", "research_result", "writer"):
        assert queue.search(tenant, text).found_by == "trace"
