"""Tests of the list of finding groups: filters, order, pages, and fast counts."""

import hashlib
from collections.abc import Callable
from datetime import timedelta

import orjson
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import group_members, group_queries
from handoffaudit.diagnostics.group_members import Route, days_of, handoffs_of, is_growing, routes_of
from handoffaudit.diagnostics.group_queries import SORTS, GroupFilters, GroupPage, count_regressed, list_groups
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, FindingGroupRoute
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.export import Form
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.review import queue as review_queue
from handoffaudit.handoffs.review.decisions import Decision
from tests.diagnostics.groups.support import found, group
from tests.diagnostics.support import RUI

pytestmark = pytest.mark.django_db


def made(
    tenant: Tenant, name: str, number: int = 1, *, ago: timedelta = timedelta(days=9), **columns: object
) -> FindingGroup:
    at = timezone.now() - ago
    defaults = {"path_shape": "data", "first_seen": at, "last_seen": at}
    key = hashlib.sha256(name.encode()).hexdigest()
    return FindingGroup.objects.create(tenant=tenant, code=name, key=key, number=number, **{**defaults, **columns})


def on_routes(group: FindingGroup, **numbers: int) -> None:
    """Store that many handoffs on each route, which is named by its agents: `a_b`."""
    for route, number in numbers.items():
        source, target = route.split("_")
        FindingGroupRoute.objects.create(group=group, source_agent_id=source, target_agent_id=target, number=number)


def on_days(group: FindingGroup, *numbers: int) -> None:
    """Store that many handoffs on each of the last days, with today last."""
    today = timezone.now().date()
    for ago, number in enumerate(reversed(numbers)):
        FindingGroupDay.objects.create(group=group, day=today - timedelta(days=ago), number=number)


def codes(page: GroupPage) -> list[str]:
    return [one.group.code for one in page.items]


def listed(tenant: Tenant, **asked: str) -> list[str]:
    return codes(list_groups(tenant, GroupFilters.from_query(asked)))


@pytest.mark.parametrize("sort", ["urgent", "newest", "most", "waiting"])
def test_an_export_has_each_group_once_while_the_ranks_change(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    monkeypatch.setattr(group_queries, "EXPORTED_AT_ONCE", 1)
    a, b, c = (
        made(tenant, name, number, ago=timedelta(days=9 - number))
        for name, number in zip("abc", (3, 2, 1), strict=True)
    )
    ranks = iter([{a.pk: 3, b.pk: 2, c.pk: 1}, {a.pk: 1, b.pk: 5, c.pk: 9}, {a.pk: 1}])
    monkeypatch.setattr(group_queries, "count_waiting", lambda tenant: group_members.Waiting(next(ranks)))
    parts = group_queries.export_groups(tenant, GroupFilters(sort=sort), Form.NDJSON)
    lines = [next(parts)]
    FindingGroup.objects.filter(pk=c.pk).update(number=9, last_seen=timezone.now())
    lines += parts
    assert [orjson.loads(line)["code"] for line in lines] == ["a", "b", "c"]


def test_what_was_seen_last_stands_first_and_what_came_back_before_it(tenant: Tenant) -> None:
    made(tenant, "old", ago=timedelta(days=3))
    made(tenant, "last", ago=timedelta(hours=1))
    made(tenant, "back", ago=timedelta(days=5), regressed_at=timezone.now())
    assert listed(tenant) == ["back", "last", "old"]


def test_the_largest_stand_first_where_asked(tenant: Tenant) -> None:
    for name, number in (("two", 2), ("nine", 9), ("five", 5)):
        made(tenant, name, number)
    assert listed(tenant, sort="most") == ["nine", "five", "two"]


def test_what_is_muted_or_empty_is_not_open(tenant: Tenant, other_tenant: Tenant) -> None:
    made(tenant, "open")
    made(tenant, "quiet", muted_at=timezone.now(), regressed_at=timezone.now())
    made(tenant, "empty", 0)
    made(tenant, "back", regressed_at=timezone.now())
    made(other_tenant, "theirs")
    assert listed(tenant) == ["back", "open"]
    assert listed(tenant, status="muted") == ["quiet"]
    assert listed(tenant, status="regressed") == ["back"]
    assert sorted(listed(tenant, status="all")) == ["back", "open", "quiet"]
    assert count_regressed(tenant) == 1


def test_it_is_narrowed_to_a_code_and_to_agents_of_one_route(tenant: Tenant) -> None:
    on_routes(made(tenant, "one"), critic_b=1, a_writer=2)
    on_routes(made(tenant, "two"), a_critic=1, b_b=0)
    on_routes(made(tenant, "three"), b_a=1)
    assert sorted(listed(tenant, agent="critic")) == ["one", "two"]
    assert listed(tenant, code="three") == ["three"]
    assert listed(tenant, code="three", agent="critic") == []
    assert sorted(listed(tenant, source="a")) == ["one", "two"]
    assert listed(tenant, source="a", target="writer") == ["one"]
    assert listed(tenant, source="critic", target="writer") == []
    assert sorted(listed(tenant, source="b")) == ["three"]


def test_the_routes_with_the_most_handoffs_are_listed(
    tenant: Tenant, django_assert_num_queries: Callable[[int], object]
) -> None:
    many, one, none = (made(tenant, name) for name in ("many", "one", "none"))
    on_routes(many, **{f"a{number}_b": number for number in range(1, 15)})
    on_routes(one, a_b=3, b_a=0)
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        found = routes_of([many, one, none])
    assert [route.handoffs for route in found[many.pk].items] == list(range(14, 4, -1))
    assert (found[many.pk].more, found[one.pk].more) == (True, False)
    assert (found[one.pk].items, found[none.pk].items) == ((Route("a", "b", 3),), ())


@pytest.mark.parametrize("sort", SORTS)
def test_page_after_page_has_each_once(tenant: Tenant, sort: str) -> None:
    found(tenant, 1)
    at = timezone.now()
    for number in range(7):
        same = {"first_seen": at, "last_seen": at, "regressed_at": at if number < 3 else None}
        on_days(made(tenant, f"code{number}", 5, **same), 1, 2)
    filters, cursor, seen = GroupFilters(sort=sort), "", []
    while True:
        page = list_groups(tenant, filters, cursor=cursor, limit=2)
        seen += codes(page)
        if page.next is None:
            break
        cursor = page.next
    assert len(seen) == len(set(seen)) == {"urgent": 8, "newest": 8, "most": 8, "growing": 8, "waiting": 1}[sort]
    assert seen == codes(list_groups(tenant, filters, limit=50))


@pytest.mark.parametrize("sort", SORTS)
def test_a_cursor_is_refused_in_every_other_order(tenant: Tenant, sort: str) -> None:
    found(tenant, 1)
    FindingGroup.objects.update(regressed_at=None)
    for number in range(4):
        on_days(made(tenant, f"code{number}", 5, regressed_at=timezone.now()), 5, 30)
    pages = {one: list_groups(tenant, GroupFilters(sort=one), limit=2) for one in SORTS}
    cursors = {one: page.next for one, page in pages.items() if page.next}
    assert len(cursors) == len(SORTS) - 1
    for one, cursor in cursors.items():
        if one != sort:
            with pytest.raises(FilterError, match="cursor"):
                list_groups(tenant, GroupFilters(sort=sort), cursor=cursor)


def test_only_what_grew_is_listed_by_growth(tenant: Tenant) -> None:
    today = timezone.now()
    much, little, less = (
        made(tenant, name, first_seen=today - timedelta(days=20)) for name in ("much", "little", "less")
    )
    on_days(much, *[1] * 7, *[5] * 7)
    on_days(little, *[1] * 7, *[2] * 7)
    on_days(less, *[5] * 7, *[1] * 7)
    page = list_groups(tenant, GroupFilters(sort="growing"))
    assert [(one.group.code, one.signs) for one in page.items] == [("much", ("growing",)), ("little", ("growing",))]


@pytest.mark.parametrize(
    ("before", "last", "grows"), [(0, 9, False), (0, 10, True), (10, 14, False), (10, 15, True), (20, 10, False)]
)
def test_a_few_more_are_no_growth(before: int, last: int, grows: bool) -> None:
    assert is_growing([before, *[0] * 6, last, *[0] * 6]) is grows


def test_what_waits_is_counted_until_it_is_decided(tenant: Tenant) -> None:
    first, _ = found(tenant, 2)
    assert [one.waiting for one in list_groups(tenant, GroupFilters(sort="waiting")).items] == [2]
    about = {"tenant": tenant, "actor": RUI, "seen_version": None}
    decisions.decide_handoff(reference=str(first.pk), decision=Decision.DECLINE, note="no", **about)
    assert [one.waiting for one in list_groups(tenant, GroupFilters()).items] == [1]


def test_a_group_is_new_for_a_day(tenant: Tenant) -> None:
    made(tenant, "new", ago=timedelta(hours=23))
    made(tenant, "old", ago=timedelta(hours=25))
    assert [one.signs for one in list_groups(tenant, GroupFilters()).items] == [("new",), ()]


def test_days_of_a_clock_that_is_ahead_count_as_today(tenant: Tenant) -> None:
    one = made(tenant, "one")
    FindingGroupDay.objects.create(group=one, day=timezone.now().date() + timedelta(days=3), number=4)
    on_days(one, 2, 1)
    assert days_of([one])[one.pk][-2:] == (2, 5)


@pytest.mark.parametrize(
    "place", ["x", "others:1", "others:a:1", "open:1:1", "others:-1:1", f"others:{'9' * 17}:1", "others:²:1"]
)
def test_a_cursor_that_is_none_is_told(tenant: Tenant, place: str) -> None:
    with pytest.raises(FilterError):
        list_groups(tenant, GroupFilters(), cursor=f"urgent:{place}")


def test_the_greatest_cursor_is_read(tenant: Tenant) -> None:
    made(tenant, "one")
    for sort in ("newest", "most"):
        cursor = f"{sort}:others:{'9' * 16}:{'9' * 16}"
        assert codes(list_groups(tenant, GroupFilters(sort=sort), cursor=cursor)) == ["one"]


def test_filters_are_written_as_they_are_read() -> None:
    asked = {"status": "muted", "sort": "most", "code": "chain.circular", "agent": "a b"}
    assert GroupFilters.from_query(asked).to_query() == "status=muted&sort=most&code=chain.circular&agent=a+b"
    assert GroupFilters.from_query({}).to_query() == ""
    assert GroupFilters.from_query(asked).to_query(status="open") == "sort=most&code=chain.circular&agent=a+b"


def test_one_that_is_gone_over_is_listed_with_its_group(tenant: Tenant) -> None:
    found(tenant, 3)
    (one,) = list_groups(tenant, GroupFilters()).items
    assert (one.group, one.days[-1] + one.days[-2], one.signs) == (group(tenant), 3, ("new",))


def test_what_waits_is_counted_as_the_queue_has_it(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third, fourth = found(tenant, 4)
    one = group(tenant)

    def waits() -> tuple[int, bool]:
        (listed,) = list_groups(tenant, GroupFilters()).items
        queue = review_queue.list_queue(tenant, None, within=handoffs_of(tenant, one.pk))
        assert listed.waiting == len(queue.items) or listed.more_wait
        return listed.waiting, listed.more_wait

    assert waits() == (4, False)
    activity.reassign(tenant=tenant, reference=str(first.pk), note="you", actor=RUI, to=None, seen_version=None)
    Handoff.objects.filter(pk=second.pk).update(approvable=False)
    assert waits() == (3, False)
    Handoff.objects.filter(pk=second.pk).update(escalated=True)
    Handoff.objects.filter(pk=third.pk).update(state="held")
    assert waits() == (3, False)
    monkeypatch.setattr(group_members, "MOST_WAITING", 1)
    assert waits() == (2, True)
    Handoff.objects.filter(pk__in=[second.pk, third.pk, fourth.pk]).update(state="accepted")
    monkeypatch.setattr(group_members, "MOST_WAITING", 10)
    assert waits() == (0, False)


def test_an_assigned_handoff_that_does_not_wait_is_not_subtracted(tenant: Tenant, reviewer: Person) -> None:
    first, *_ = found(tenant, 3)
    Handoff.objects.filter(pk=first.pk).update(state="accepted")
    activity.reassign(tenant=tenant, reference=str(first.pk), note="you", actor=RUI, to=reviewer, seen_version=None)
    for sort in ("newest", "waiting"):
        assert [one.waiting for one in list_groups(tenant, GroupFilters(sort=sort)).items] == [2]


def test_an_older_reassigned_handoff_is_not_subtracted_from_the_newest(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = found(tenant, 3)
    activity.reassign(tenant=tenant, reference=str(first.pk), note="you", actor=RUI, to=None, seen_version=None)
    monkeypatch.setattr(group_members, "MOST_WAITING", 1)
    for sort in ("urgent", "waiting"):
        (one,) = list_groups(tenant, GroupFilters(sort=sort)).items
        assert (one.waiting, one.more_wait) == (1, True)


def test_of_groups_with_few_handoffs_all_that_wait_are_counted_however_many_wait_besides(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(tenant, 4)
    monkeypatch.setattr(group_members, "MOST_WAITING", 2)
    (one,) = list_groups(tenant, GroupFilters()).items
    assert (one.waiting, one.more_wait) == (4, False)
    (one,) = list_groups(tenant, GroupFilters(sort="waiting")).items
    assert (one.waiting, one.more_wait) == (2, True)


def test_the_groups_with_the_most_waiting_handoffs_come_first_and_returned_groups_before_them(tenant: Tenant) -> None:
    now = timezone.now()
    found(tenant, 1)
    made(tenant, "older", last_seen=now - timedelta(days=2))
    made(tenant, "newer", last_seen=now)
    made(tenant, "returned", last_seen=now - timedelta(days=9), regressed_at=now)
    expected = ["returned", "chain.circular", "newer", "older"]
    assert codes(list_groups(tenant, GroupFilters())) == expected
    cursor, seen = "", []
    while page := list_groups(tenant, GroupFilters(), cursor=cursor, limit=1):
        seen += codes(page)
        if page.next is None:
            break
        cursor = page.next
    assert seen == expected


@pytest.mark.parametrize("sort", ["newest", "most"])
def test_a_part_of_the_default_order_is_refused_by_others(tenant: Tenant, sort: str) -> None:
    with pytest.raises(FilterError, match="cursor"):
        list_groups(tenant, GroupFilters(sort=sort), cursor=f"{sort}:quiet-others:1:1")
