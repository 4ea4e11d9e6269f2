"""Tests of the lists of imports and bad lines, and of the number of new lines."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.filters import IMPORT_ORDERS, LogQuery
from handoffaudit.diagnostics.logs.store import count_new, list_bad_lines, list_imports
from handoffaudit.diagnostics.models import LogImport
from handoffaudit.filter_fields import FilterError
from tests.dashboard.log_lines import gate, health, moment, take
from tests.diagnostics.logs.support import gate_lines, send


@pytest.mark.parametrize("most", [100, 2])
def test_new_lines_that_fit_are_counted_up_to_the_most(tenant: Tenant, most: int) -> None:
    after, since = timezone.now(), moment(2) - timedelta(seconds=1)
    take(tenant, *(gate(moment(number), details="one of these") for number in range(1, 6)), health(moment()))
    assert count_new(tenant, LogQuery(), after, most) == min(6, most)
    assert count_new(tenant, LogQuery(text="ONE OF"), after, most) == min(5, most)
    assert count_new(tenant, LogQuery(kind="health"), after, most) == 1
    assert count_new(tenant, LogQuery(since=since), after, 100) == 2


def test_where_nothing_came_it_is_one_question(tenant: Tenant, django_assert_num_queries) -> None:
    take(tenant, gate(moment()))
    with django_assert_num_queries(1):
        assert count_new(tenant, LogQuery(), timezone.now(), 100) == 0


def test_what_is_not_read_yet_and_what_is_anothers_is_no_news(tenant: Tenant, other_tenant: Tenant) -> None:
    after = timezone.now()
    take(other_tenant, gate(moment()))
    take(tenant, gate(moment()), read=False)
    assert count_new(tenant, LogQuery(), after, 100) == 0


def test_bad_lines_belong_to_the_import_that_had_them_first(tenant: Tenant) -> None:
    send(tenant, b"one\n" + gate_lines(1, 1))
    made = send(tenant, b"one\n" + gate_lines(1, 1) + b"two\n")
    assert [line.number for line in list_bad_lines(made).items] == [3]


def test_imports_are_paged(tenant: Tenant) -> None:
    made = [send(tenant, gate_lines(n, n), f"{n}.log").pk for n in range(1, 6)]
    first, following = list_imports(tenant, limit=3)
    assert following
    second, end = list_imports(tenant, cursor=following, limit=3)
    assert [one.pk for one in (*first, *second)] == made[::-1]
    assert end is None


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("newest", "3214"),
        ("oldest", "4123"),
        ("log", "1243"),
        ("-log", "3421"),
        ("-size", "3124"),
        ("size", "4213"),
        ("-bad", "2431"),
        ("bad", "1342"),
    ],
)
def test_each_order_of_imports_is_paged_and_read_from_its_index(
    tenant: Tenant, sort: str, expected: str, django_assert_num_queries
) -> None:
    # The name of the log, its size and its bad lines; two orders have equal values.
    values = {"4": ("d", 7, 1), "1": ("a", 9, 0), "2": ("b", 7, 1), "3": ("e", 9, 0)}
    for number, (source, size, bad) in values.items():
        LogImport.objects.create(
            tenant=tenant, source=source, sent_by=number, started_at=timezone.now(), size=size, bad=bad
        )
    order, found, cursor = IMPORT_ORDERS[sort], "", None
    for _ in values:
        with django_assert_num_queries(1):
            (one,), cursor = list_imports(tenant, order, cursor or "", 1)
        found += one.sent_by
    assert (found, cursor) == (expected, None)
    indexes = [index.fields for index in LogImport._meta.indexes]
    assert ["tenant", *(column.removeprefix("-") for column in order.columns)] in indexes


@pytest.mark.parametrize("sort", ["newest", "size", "log"])
def test_an_unknown_cursor_of_imports_is_refused(tenant: Tenant, sort: str) -> None:
    of_another_order = f"{uuid4()}.x" if sort == "newest" else str(uuid4())
    for cursor in ("x", "00000000-0000-0000-0000-00000000000x.1", of_another_order):
        with pytest.raises(FilterError):
            list_imports(tenant, IMPORT_ORDERS[sort], cursor)
