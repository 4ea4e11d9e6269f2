"""Tests of the handoffs of a finding group as a list, alone and with other filters."""

from collections.abc import Callable

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff
from tests.diagnostics.groups.support import found, group
from tests.handoffs.support import held, judged, payload

pytestmark = pytest.mark.django_db


def listed(tenant: Tenant, filters: Filters) -> list[Handoff]:
    """Return the handoffs page by page."""
    handoffs, cursor = [], ""
    while True:
        page = queries.list_handoffs(tenant, filters, cursor=cursor, limit=2)
        handoffs += page.items
        if page.next is None:
            return handoffs
        cursor = page.next


@pytest.mark.parametrize("rare", [2000, 0])
def test_a_list_is_narrowed_to_a_group(tenant: Tenant, monkeypatch: pytest.MonkeyPatch, rare: int) -> None:
    monkeypatch.setattr(queries, "RARE", rare)
    judged(tenant, payload())
    judged(tenant, held())
    wanted = found(tenant, 5)[::-1]
    one = str(group(tenant).pk)
    for filters in (
        Filters(group=one),
        Filters(group=one, state=("rejected",)),
        Filters(group=one, source="researcher"),
    ):
        assert listed(tenant, filters) == wanted
        assert queries.count(tenant, filters, 100) == 5
        assert queries.count(tenant, filters, 3) == 3
    assert listed(tenant, Filters(group=one, code="chain.circular", until=wanted[2].received_at)) == wanted[3:]
    assert listed(tenant, Filters(group=one, state=("held",))) == []


def test_another_tenants_group_has_no_handoffs(tenant: Tenant, other_tenant: Tenant) -> None:
    found(tenant)
    assert listed(other_tenant, Filters(group=str(group(tenant).pk))) == []


def test_a_page_of_a_group_is_read_off_its_index(
    tenant: Tenant, django_assert_num_queries: Callable[[int], object]
) -> None:
    found(tenant, 3)
    one = str(group(tenant).pk)
    with django_assert_num_queries(2) as asked:  # type: ignore[attr-defined]
        queries.list_handoffs(tenant, Filters(group=one))
    assert "JOIN" not in asked.captured_queries[0]["sql"]


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "1" * 13, "²", "٣"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        Filters.from_query({"group": text})
    assert Filters.from_query({"group": "12"}).to_query() == "group=12"
