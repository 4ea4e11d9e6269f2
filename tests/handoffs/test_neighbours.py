"""Tests of the handoffs before and after a handoff in the order of a list."""

import uuid

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff
from tests.handoffs.support import circular, held, judged

pytestmark = pytest.mark.django_db


def test_the_nearest_that_fit_the_filters_whether_or_not_the_handoff_does(tenant: Tenant) -> None:
    rows = [judged(tenant, document()) for document in (held, circular, held, circular, held)]
    found = queries.find_neighbours(tenant, Filters(state=("held",)), rows[2].pk)
    assert (found.older, found.newer, found.fits) == (rows[0], rows[4], True)
    found = queries.find_neighbours(tenant, Filters(state=("held",)), rows[1].pk)
    assert (found.older, found.newer, found.fits) == (rows[0], rows[2], False)
    found = queries.find_neighbours(tenant, Filters(code="chain.circular"), rows[3].pk)
    assert (found.older, found.newer, found.fits) == (rows[1], None, True)


def test_nothing_of_another_tenant_stands_beside_it(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(other_tenant, held(tenant_id=other_tenant.slug))
    mine = judged(tenant, held())
    judged(other_tenant, held(tenant_id=other_tenant.slug))
    found = queries.find_neighbours(tenant, Filters(), mine.pk)
    assert (found.older, found.newer, found.fits) == (None, None, True)


def test_an_id_of_no_handoff_stands_between_others(tenant: Tenant) -> None:
    mine = judged(tenant, held())
    assert queries.find_neighbours(tenant, Filters(), uuid.UUID(int=0)).newer == mine


def test_a_handoff_costs_three_questions_of_one_row_each(tenant: Tenant, django_assert_num_queries) -> None:
    rows = [judged(tenant, held()) for _ in range(3)]
    with django_assert_num_queries(3) as asked:
        queries.find_neighbours(tenant, Filters(state=("held",)), rows[1].pk)
    assert all("LIMIT 1" in one["sql"] for one in asked)
    assert Handoff.objects.count() == 3
