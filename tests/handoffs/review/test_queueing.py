"""Tests of the views of the queue: which reviewer sees which handoffs."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Event, Finding, Handoff
from handoffaudit.handoffs.review import queue
from handoffaudit.handoffs.review.queue import Waiting
from tests.handoffs.review.support import colleague, decide, pass_on, reopen
from tests.handoffs.support import circular, held, judged, payload, set_policy, submit, to_itself

pytestmark = pytest.mark.django_db


def send(tenant: Tenant, **documents: dict[str, object]) -> None:
    """Submit handoffs under the given names, in this order."""
    for name, document in documents.items():
        submit(tenant, document | {"handoff_id": name})
    judge.drain()


def seen(tenant: Tenant, person: Person | None = None, view: str = "all", **more: object) -> list[str]:
    """Return the names of all handoffs of a view, read in pages of two."""
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = queue.list_queue(tenant, person, view=view, cursor=cursor, limit=2, **more)
        names += [one.handoff_id for one in page.items]
        cursor = page.next
    return names


def test_escalated_come_first_then_held_oldest_first_then_rejected_newest_first(tenant: Tenant) -> None:
    send(tenant, a=held(), b=circular(), c=held(), d=payload(), e=circular(), f=to_itself(), g=circular())
    Handoff.objects.filter(handoff_id__in=("e", "f")).update(escalated=True)
    assert seen(tenant) == ["e", "f", "a", "c", "g", "b"]


@pytest.mark.parametrize("cursor", ["held:x", "rejected:x", "escalated:1"])
def test_a_cursor_that_is_none_is_told(tenant: Tenant, cursor: str) -> None:
    with pytest.raises(FilterError, match="next"):
        queue.list_queue(tenant, None, cursor=cursor)


def test_it_takes_filters(tenant: Tenant) -> None:
    send(tenant, a=held(), b=circular(), c=held(handoff_type="x"))
    assert seen(tenant, filters=Filters(handoff_type="x")) == ["c"]
    assert seen(tenant, filters=Filters(state=("rejected",))) == ["b"]
    assert seen(tenant, filters=Filters(code="chain.circular")) == ["b"]
    assert seen(tenant, filters=Filters(handoff_id="a")) == ["a"]


def marks(*codes: str) -> object:
    return Finding.objects.filter(code__in=codes)


def test_what_is_left_out_is_muted_unless_a_person_has_to_see_it(tenant: Tenant) -> None:
    send(tenant, a=held(), b=circular(), c=circular(), d=circular())
    Handoff.objects.filter(handoff_id="b").update(escalated=True)
    noise = marks("chain.circular", "chain.needs_approval")
    assert seen(tenant) == ["b", "a", "d", "c"]
    assert seen(tenant, left_out=noise) == ["b", "a"]
    assert seen(tenant, view="muted", left_out=noise) == ["d", "c"]
    assert seen(tenant, view="muted") == []
    assert seen(tenant, left_out=marks()) == ["b", "a", "d", "c"]


def test_what_is_left_out_may_be_ids_alone(tenant: Tenant) -> None:
    send(tenant, a=circular())
    ids = Finding.objects.order_by().values_list("handoff", flat=True)
    assert seen(tenant, left_out=ids) == []
    assert seen(tenant, view="muted", left_out=ids) == seen(tenant, within=ids) == ["a"]
    assert seen(tenant, left_out=ids.none()) == ["a"]


def test_it_is_narrowed_to_a_group_in_every_view(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=held(), b=circular(), c=held())
    pass_on(Handoff.objects.get(handoff_id="c"), reviewer, to=reviewer)
    holding = marks("chain.needs_approval")
    assert seen(tenant, within=holding) == ["a"]
    assert seen(tenant, reviewer, "mine", within=holding) == ["c"]
    assert seen(tenant, reviewer, "mine", within=marks("chain.circular")) == []


def test_what_is_muted_and_passed_on_to_somebody_is_theirs(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=circular())
    pass_on(Handoff.objects.get(), reviewer, to=reviewer)
    noise = marks("chain.circular")
    assert seen(tenant, reviewer, "mine", left_out=noise) == ["a"]
    assert seen(tenant, reviewer, "muted", left_out=noise) == []


def test_the_second_person_sees_what_others_proposed(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    send(tenant, a=held(), b=circular(), c=held(), d=circular())
    for name, person in (("a", reviewer), ("b", reviewer), ("c", admin)):
        decide(Handoff.objects.get(handoff_id=name), person)
    assert seen(tenant, reviewer, "second") == ["c"]
    assert seen(tenant, admin, "second") == ["a", "b"]
    assert seen(tenant, colleague(tenant, "ben"), "second") == ["a", "c", "b"]
    assert seen(tenant, admin) == ["a", "c", "d", "b"]
    decide(Handoff.objects.get(handoff_id="a"), admin)
    assert seen(tenant, admin, "second") == ["b"]


def test_nobody_in_particular_has_nothing_of_their_own(tenant: Tenant, reviewer: Person) -> None:
    pass_on(judged(tenant, held()), reviewer)
    assert seen(tenant, None, "mine") == []


def test_progress_counts_what_waits_and_what_was_decided(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    send(tenant, **{f"h{number}": held() for number in range(5)}, a=circular(), b=circular(), c=circular(), d=payload())
    Handoff.objects.filter(handoff_id="a").update(escalated=True)
    mine, undone, theirs, passed = (Handoff.objects.get(handoff_id=f"h{number}") for number in range(4))
    decide(mine, reviewer)
    decide(theirs, admin)
    reopen(decide(undone, reviewer), admin)
    pass_on(passed, reviewer)
    found = queue.load_progress(tenant, reviewer)
    assert found.waiting == queue.count_waiting(tenant) == queue.Waiting(len(seen(tenant, reviewer))) == Waiting(5)
    assert found.decided_today == queue.load_progress(tenant, admin).decided_today == 1
    assert queue.load_progress(tenant, reviewer, left_out=marks("chain.circular")).waiting == Waiting(3)


def test_a_decision_at_midnight_is_one_of_today(tenant: Tenant, reviewer: Person, monkeypatch) -> None:
    decide(judged(tenant, held()), reviewer)
    now = timezone.now().replace(microsecond=1)
    Event.objects.update(at=now.replace(hour=0, minute=0, second=0, microsecond=0))
    monkeypatch.setattr(queue.timezone, "now", lambda: now)
    assert queue.load_progress(tenant, reviewer).decided_today == 1


def test_the_day_of_a_decision_begins_at_midnight_where_the_person_is(
    tenant: Tenant, reviewer: Person, monkeypatch
) -> None:
    decide(judged(tenant, held()), reviewer)
    noon = timezone.now().replace(hour=12, minute=0)
    Event.objects.update(at=noon - timedelta(hours=13))
    monkeypatch.setattr(queue.timezone, "now", lambda: noon)
    assert queue.load_progress(tenant, reviewer).decided_today == 0
    assert queue.load_progress(tenant, reviewer, zone=ZoneInfo("Etc/GMT-2")).decided_today == 1


def test_of_much_that_is_left_out_the_newest_are_counted(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    send(tenant, one=held(), **{f"c{number}": circular() for number in range(3)})
    left_out = marks("chain.circular")
    assert queue.count_waiting(tenant, left_out=left_out) == Waiting(1)
    assert queue.count_waiting(tenant, left_out=left_out, most=1) == Waiting(1)
    monkeypatch.setattr("handoffaudit.handoffs.review.queue.MOST_LOOKED_AT", 3)
    assert queue.count_waiting(tenant, left_out=left_out) == Waiting(1, more=True)
    assert queue.count_waiting(tenant, left_out=marks("no.such"), most=2) == Waiting(2, more=True)


def test_what_waits_is_counted_up_to_a_bound(tenant: Tenant, reviewer: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handoffaudit.handoffs.review.queue.MOST_COUNTED", 2)
    for _ in range(3):
        judged(tenant, held())
    found = queue.load_progress(tenant, reviewer)
    assert found.waiting == Waiting(2, more=True)
