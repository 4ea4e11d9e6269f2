"""Tests of reading one handoff and lists with cursors, always within one tenant."""

import uuid
from datetime import timedelta

import orjson
import pytest
from django.db.models import Model
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import queries, stats, verdicts
from handoffaudit.handoffs.db import reader_of
from handoffaudit.handoffs.filters import Filters, first_id_at, parse_cursor
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Handoff, HandoffBody, Verdict, new_id
from tests.handoffs.review.support import colleague, decide, reopen
from tests.handoffs.support import (
    NOT_JSON,
    SENDER,
    circular,
    held,
    judged,
    let_leases_expire,
    payload,
    submit,
    switch_off,
    take,
)

pytestmark = pytest.mark.django_db


def batch(tenant: Tenant, *documents: dict[str, object]) -> list[str]:
    return [receipt.id for receipt in store.accept_batch(tenant, SENDER, [orjson.dumps(one) for one in documents])]


def ids(page: queries.Page) -> list[str]:
    return [str(handoff.pk) for handoff in page.items]


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11])
def test_pages_cover_everything_once_newest_first_while_rows_are_added(tenant: Tenant, limit: int) -> None:
    there = batch(tenant, *(payload() for _ in range(10)))
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = queries.list_handoffs(tenant, Filters(), cursor=cursor, limit=limit)
        assert len(page.items) == limit or page.next is None
        seen += ids(page)
        cursor = page.next
        batch(tenant, payload())
    assert seen == there[::-1]


def test_a_full_last_page_has_no_next(tenant: Tenant) -> None:
    batch(tenant, payload(), payload())
    assert queries.list_handoffs(tenant, Filters(), limit=2).next is None


@pytest.mark.parametrize("cursor", ["x", "0", "held:x", "00000000-0000-4000-8000-0000000000000"])
def test_a_cursor_that_is_none_is_told(tenant: Tenant, cursor: str) -> None:
    with pytest.raises(FilterError, match="next"):
        queries.list_handoffs(tenant, Filters(), cursor=cursor)


def test_each_filter_finds_its_own_and_nothing_else(tenant: Tenant) -> None:
    switch_off(tenant, "semantic")
    good = judged(tenant, payload(source_agent_id="s", call_chain=["s"], handoff_type="deal_data"), trace_id="t")
    loop = judged(tenant, circular(confidence=0.1))
    wait = judged(tenant, held())
    broken = queries.get(tenant, submit(tenant, NOT_JSON).id)
    new = queries.get(tenant, submit(tenant, payload(handoff_type="x")).id)
    Handoff.objects.filter(pk=wait.pk).update(review_due_at=timezone.now() - timedelta(hours=1))
    Handoff.objects.filter(pk=new.pk).update(parked=True)
    Handoff.objects.filter(pk=good.pk).update(would_decide="held")
    cases = [
        (Filters(), [good, loop, wait, broken, new]),
        (Filters(state=("held",)), [wait]),
        (Filters(state=("held", "received")), [wait, new]),
        (Filters(handoff_type="deal_data"), [good]),
        (Filters(source="s"), [good]),
        (Filters(target="planner"), [loop]),
        (Filters(trace="t"), [good]),
        (Filters(code="chain.circular"), [loop]),
        (Filters(code="structure.json_parse"), [broken]),
        (Filters(quality_min=0.9), [good, wait]),
        (Filters(quality_max=0.0), [broken]),
        (Filters(flag="warnings"), [loop, wait]),
        (Filters(flag="parked"), [new]),
        (Filters(flag="shadowed"), [good]),
        (Filters(flag="overdue"), [wait]),
        (Filters(state=("held",), code="chain.circular"), []),
    ]
    for filters, expected in cases:
        assert ids(queries.list_handoffs(tenant, filters)) == [str(one.pk) for one in expected[::-1]], filters


@pytest.mark.parametrize("rare", [1, queries.RARE])
def test_those_that_somebody_decided_are_found_unless_it_was_taken_back(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, rare: int
) -> None:
    monkeypatch.setattr(queries, "RARE", rare)
    ada, bo = colleague(tenant, "ada"), colleague(tenant, "bo")
    approved, declined, again, of_bo = (judged(tenant, held()) for _ in range(4))
    decide(approved, ada)
    decide(declined, ada, "decline")
    reopen(decide(again, ada), bo)
    decide(of_bo, bo)
    for name, expected in {"ada": [declined, approved], "bo": [of_bo], "nobody": []}.items():
        filters = Filters(decided_by=name)
        assert ids(queries.list_handoffs(tenant, filters)) == [str(one.pk) for one in expected]
        assert queries.count(tenant, filters, 10) == len(expected)
    assert ids(queries.list_handoffs(tenant, Filters(decided_by="ada", state=("declined",)))) == [str(declined.pk)]


def test_a_period_takes_its_start_and_leaves_its_end(tenant: Tenant) -> None:
    start = timezone.now().replace(microsecond=0) - timedelta(hours=3)
    for hours in range(4):
        pk = uuid.UUID(int=first_id_at(start + timedelta(hours=hours)).int + hours)
        row = queries.get(tenant, submit(tenant, payload(handoff_id=f"h{hours}")).id)
        Handoff.objects.filter(pk=row.pk).update(id=pk)
    filters = Filters(since=start + timedelta(hours=1), until=start + timedelta(hours=3))
    assert [one.handoff_id for one in queries.list_handoffs(tenant, filters).items] == ["h2", "h1"]


def test_ids_made_now_stand_between_the_moments_around_them() -> None:
    before, made, after = timezone.now(), new_id(), timezone.now() + timedelta(milliseconds=1)
    assert first_id_at(before) <= made < first_id_at(after)
    assert parse_cursor(str(made)) == made


def test_new_rows_are_counted_up_to_a_bound(tenant: Tenant) -> None:
    first, *_ = batch(tenant, *(payload() for _ in range(6)), payload(handoff_type="x"))
    after = uuid.UUID(first)
    assert queries.count_new(tenant, Filters(), after) == 6
    assert queries.count_new(tenant, Filters(), after, cap=4) == 4
    assert queries.count_new(tenant, Filters(handoff_type="x"), after) == 1


def test_one_is_found_by_its_id_or_by_the_senders(tenant: Tenant) -> None:
    pk = submit(tenant, payload(handoff_id="mine")).id
    assert str(queries.get(tenant, pk).pk) == str(queries.get(tenant, "mine").pk) == pk
    for reference in ("Mine", "", "a\0b", str(uuid.uuid4()), "x" * 5000):
        with pytest.raises(Handoff.DoesNotExist):
            queries.get(tenant, reference)


def test_a_senders_id_that_looks_like_one_of_ours_is_found(tenant: Tenant) -> None:
    name = str(uuid.uuid4())
    pk = submit(tenant, payload(handoff_id=name)).id
    assert str(queries.get(tenant, name).pk) == pk


def test_an_old_handoff_in_upper_case_belongs_to_its_trace(tenant: Tenant) -> None:
    name = "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"
    pk = submit(tenant, payload()).id
    Handoff.objects.filter(pk=pk).update(trace_id=name.upper())
    for asked in (name, name.upper(), name.title()):
        assert [str(handoff.pk) for handoff in queries.trace(tenant, asked)] == [pk]
        assert ids(queries.list_handoffs(tenant, Filters(trace=asked))) == [pk]
    assert queries.trace(tenant, f"{name[:-1]}2") == []


def test_nothing_of_another_tenant_is_seen(tenant: Tenant, other_tenant: Tenant) -> None:
    theirs = judged(other_tenant, held(handoff_id="h", tenant_id="globex"), trace_id="t")
    for reference in ("h", str(theirs.pk)):
        with pytest.raises(Handoff.DoesNotExist):
            queries.get(tenant, reference)
    assert queries.list_handoffs(tenant, Filters()).items == []
    assert queries.list_handoffs(tenant, Filters(code="chain.needs_approval")).items == []
    assert queries.trace(tenant, "t") == []
    assert queries.count_new(tenant, Filters(), uuid.UUID(int=0)) == 0
    assert stats.list_known_values(tenant).types == []
    assert stats.count_unjudged(tenant).number == 0
    assert stats.count_top_codes(tenant) == []
    assert stats.count_waiting(tenant).held == 0


def test_a_query_without_a_stored_tenant_raises() -> None:
    with pytest.raises(ValueError, match="must be saved"):
        queries.list_handoffs(Tenant(slug="new"), Filters())


def test_a_trace_is_in_the_order_in_which_it_came(tenant: Tenant) -> None:
    made = [submit(tenant, payload(), trace_id="t").id for _ in range(3)]
    submit(tenant, payload())
    assert [str(one.pk) for one in queries.trace(tenant, "t")] == made
    assert queries.trace(tenant, "") == []


def test_verdicts_and_events_of_one(tenant: Tenant) -> None:
    handoff = queries.get(tenant, submit(tenant, payload()).id)
    assert queries.current_verdict(handoff) is None
    assert queries.verdicts(handoff) == []
    take(1)
    assert [event.to_state for event in queries.events(handoff)] == ["received"]
    let_leases_expire()
    take(1)
    assert [event.to_state for event in queries.events(handoff)] == ["received", "validating"]
    record = verdicts.record_of(handoff, queries.body(handoff))
    assert record is not None
    assert record.data == payload()["data"]


@pytest.mark.parametrize(
    ("filters", "number"), [(Filters(state=("held",)), 1), (Filters(code="x", state=("held",)), 2)]
)
def test_lists_never_read_bodies_nor_count_everything(
    tenant: Tenant, django_assert_num_queries, filters: Filters, number: int
) -> None:
    batch(tenant, *(payload() for _ in range(20)))
    with django_assert_num_queries(number) as asked:
        queries.list_handoffs(tenant, filters)
    *counted, listed = (query["sql"] for query in asked.captured_queries)
    assert "handoffbody" not in listed
    assert "COUNT(" not in listed
    assert "OFFSET" not in listed
    # Only whether a code is rare is counted, and no further than that takes.
    assert all(f"LIMIT {queries.RARE + 1}" in sql for sql in counted)


@pytest.mark.parametrize("model", [Handoff, HandoffBody, Verdict])
def test_a_reader_returns_the_same_as_a_query(tenant: Tenant, other_tenant: Tenant, model: type[Model]) -> None:
    judged(tenant, payload())
    row = model._default_manager.get()
    found = reader_of(model, model._meta.pk.attname).first(row.pk)
    assert [getattr(found, one.attname) for one in model._meta.fields] == [
        getattr(row, one.attname) for one in model._meta.fields
    ]
    assert vars(found).keys() == vars(row).keys()
    assert (found._state.adding, found._state.db) == (row._state.adding, row._state.db)
    if model is not HandoffBody:
        assert reader_of(model, "id", "tenant_id").first(row.pk, other_tenant.pk) is None


def test_a_code_is_found_the_same_whether_few_have_it_or_many(tenant: Tenant, monkeypatch) -> None:
    wanted = [judged(tenant, circular()) for _ in range(3)]
    judged(tenant, held())
    for code, expected in (("chain.circular", wanted), ('chain.circular"', []), ("chain", [])):
        for rare in (2000, 0):
            monkeypatch.setattr(queries, "RARE", rare)
            filters = Filters(code=code, state=("rejected",))
            page = queries.list_handoffs(tenant, filters)
            assert [handoff.pk for handoff in page.items] == [handoff.pk for handoff in reversed(expected)]
