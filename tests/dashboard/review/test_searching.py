"""Tests of the search of the queue: one field for rule codes, types, agents, handoffs and traces."""

from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Person, Role, Tenant
from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.review.queue import QueueFilters, search_filters
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.review import queue
from handoffaudit.validation.times import utc_text
from tests.handoffs.support import circular, held, judged

pytestmark = pytest.mark.django_db


def search(tenant: Tenant, text: str) -> tuple[Filters, str, str]:
    """Return the filters of a search, the field that it matched, and the value of this field."""
    filters, found_by = search_filters(TenantMembership(Person(), tenant, Role.VIEWER), QueueFilters(q=text))
    return filters, found_by, getattr(filters, found_by) if found_by else ""


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
    filters, *found_as = search(tenant, text)
    assert found_as == [found_by, text.strip()]
    found = [one.handoff_id for one in queue.list_queue(tenant, None, filters=filters).items]
    assert ("loop" in found) is (text != "nothing of the kind")
    assert (len(found) == 2) is (text in ("research_result", " researcher ", ""))


def test_the_products_own_id_is_found_too(tenant: Tenant) -> None:
    handoff = judged(tenant, held(handoff_id="mine"))
    assert search(tenant, str(handoff.pk))[1:] == ("handoff_id", "mine")


@pytest.mark.parametrize("text", ["a\0b", "x" * 201])
def test_what_cannot_be_looked_for_is_told(tenant: Tenant, text: str) -> None:
    with pytest.raises(FilterError):
        search(tenant, text)


def test_a_handoff_that_was_sent_late_waits_since_its_receipt(tenant: Tenant) -> None:
    now = timezone.now()
    late = judged(tenant, held(), sent_at=utc_text(now - timedelta(hours=2)))
    for shown, ids in ((now, []), (now + timedelta(hours=2), [late.pk])):
        filters = QueueFilters(age="1h").filters(shown)
        assert [one.pk for one in queue.list_queue(tenant, None, filters=filters).items] == ids


def test_other_tenants_words_are_unknown(tenant: Tenant, other_tenant: Tenant, reviewer: Person) -> None:
    judged(other_tenant, held(handoff_id="theirs", tenant_id="globex"))
    for text in ("theirs", "chain.needs_approval", "research_result", "writer"):
        assert search(tenant, text)[1] == "trace"
