"""Tests of the orders of the list of handoffs: rows, pages, neighbours, bounds and plans."""

import uuid

import pytest
from django.db import connection
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import LOWEST, NEWEST, OLDEST, ORDERS, Filters
from handoffaudit.handoffs.models import Handoff

pytestmark = pytest.mark.django_db

NONE = uuid.UUID(int=0)
SCORES = [0.5, 1.0, 0.0, None, 0.5, 0.25, 0.0, 0.5]


def filled(tenant: Tenant, scores: list[float | None], state: str = "rejected") -> list[Handoff]:
    made = [
        Handoff(
            id=uuid.UUID(int=(number + 1) << 64),
            tenant=tenant,
            handoff_id=f"{state}{number}",
            state=state if number % 2 else "accepted",
            score=score,
            received_at=timezone.now(),
            size_bytes=1,
        )
        for number, score in enumerate(scores)
    ]
    return Handoff.objects.bulk_create(made)


def numbers(found: list[Handoff]) -> list[int]:
    return [(one.pk.int >> 64) - 1 for one in found]


def walked(tenant: Tenant, filters: Filters, limit: int) -> list[int]:
    found: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = queries.list_handoffs(tenant, filters, cursor=cursor, limit=limit)
        found += numbers(page.items)
        cursor = page.next
    return found


EXPECTED = {NEWEST: [7, 6, 5, 4, 3, 2, 1, 0], OLDEST: [0, 1, 2, 3, 4, 5, 6, 7], LOWEST: [2, 6, 5, 0, 4, 7]}


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
@pytest.mark.parametrize("sort", ORDERS)
def test_each_order_has_each_row_once_page_after_page(tenant: Tenant, sort: str, limit: int) -> None:
    filled(tenant, SCORES)
    assert walked(tenant, Filters(sort=sort), limit) == EXPECTED[sort]
    rejected = [number for number in EXPECTED[sort] if number % 2]
    assert walked(tenant, Filters(sort=sort, state=("rejected",)), limit) == rejected


@pytest.mark.parametrize("sort", ORDERS)
def test_neighbours_follow_the_order(tenant: Tenant, sort: str) -> None:
    made, order = filled(tenant, SCORES), EXPECTED[sort]
    for at, number in enumerate(order):
        found = queries.find_neighbours(tenant, Filters(sort=sort), made[number].pk)
        before, after = (one and numbers([one])[0] for one in (found.newer, found.older))
        assert before == (order[at - 1] if at else None)
        assert after == (order[at + 1] if at + 1 < len(order) else None)
        assert found.fits


def test_nothing_of_another_tenant_is_listed_by_score(tenant: Tenant, other_tenant: Tenant) -> None:
    filled(other_tenant, SCORES)
    assert queries.list_handoffs(tenant, Filters(sort=LOWEST)).items == []


@pytest.mark.parametrize("cursor", ["x", "0.5", ":", f"nan:{NONE}", f"inf:{NONE}", "0.5:x", f"1e999:{NONE}"])
def test_a_wrong_cursor_is_refused_by_name(tenant: Tenant, cursor: str) -> None:
    with pytest.raises(FilterError, match="cursor"):
        queries.list_handoffs(tenant, Filters(sort=LOWEST), cursor=cursor)


def test_few_matches_among_many_end_a_page_early(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handoffaudit.handoffs.filters.MOST_STEPS", 6)
    monkeypatch.setattr("handoffaudit.handoffs.filters._AT_ONCE", 2)
    filled(tenant, [0.1] * 20)
    filters = Filters(sort=LOWEST, state=("held",))
    page = queries.list_handoffs(tenant, filters, limit=3)
    assert page.items == []
    assert page.next
    assert walked(tenant, filters, 3) == []
    assert walked(tenant, Filters(sort=LOWEST, state=("rejected",)), 3) == list(range(1, 20, 2))


def test_the_order_of_scores_reads_its_index_and_sorts_nothing(tenant: Tenant) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("a plan of few rows says nothing on PostgreSQL; benchmarks measure it with a million")
    rows = Handoff.objects.filter(tenant=tenant, score__lt=1)
    first = rows.order_by("score", "id").values_list("score", "id")
    later = rows.filter(score__gt=0.5).order_by("score", "id").values_list("score", "id")
    same = (
        rows.filter(score__gte=0.5, score__lte=0.5, id__gt=uuid.UUID(int=0)).order_by("score", "id").values_list("id")
    )
    for some in (first, later, same):
        plan = some[:51].explain()
        assert "handoff_by_score" in plan
        assert "TEMP B-TREE" not in plan
    ids = [uuid.UUID(int=number) for number in range(50)]
    picked = queries.filter_matching(tenant, Filters(state=("held",))).order_by().filter(pk__in=ids).explain()
    assert "id=?" in picked, picked
