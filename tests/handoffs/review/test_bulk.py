"""Tests of deciding all matching handoffs: only the handoffs that the reviewer saw, in bounded parts."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import judge, queries
from handoffaudit.handoffs.filters import Filters, first_id_at
from handoffaudit.handoffs.models import Event, Finding, Handoff, State
from handoffaudit.handoffs.review import activity, bulk
from handoffaudit.handoffs.review.base import NoteTooLong, TooMany
from handoffaudit.handoffs.review.bulk import BulkDecision, Selection
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation.times import utc_text
from tests.handoffs.review.support import decide, now, pass_on
from tests.handoffs.review.test_queueing import send
from tests.handoffs.support import (
    NOT_JSON,
    assert_counts_are_right,
    circular,
    held,
    judged,
    payload,
    set_policy,
    submit,
    to_itself,
)

pytestmark = pytest.mark.django_db


def after_all() -> datetime:
    """Return a moment after every stored handoff: ids count whole milliseconds."""
    newest = Handoff.objects.order_by("-id").values_list("id", flat=True).first()
    moment = timezone.now()
    while newest is not None and first_id_at(moment) <= newest:
        moment = timezone.now()
    return moment


def select(view: str = "all", **more: Any) -> Selection:
    return Selection(view=view, seen_at=more.pop("seen_at", None) or after_all(), **more)


def decide_all(
    tenant: Tenant, person: Person, selection: Selection, decision: str = "decline", **more: Any
) -> list[BulkDecision]:
    """Send one request after another until all handoffs are decided."""
    told, cursor = [], ""
    while cursor is not None:
        one = bulk.decide_matching(
            tenant=tenant,
            selection=selection,
            decision=Decision(decision),
            note=more.get("note", "all of them"),
            actor=Actor.person(person),
            cursor=cursor,
            most=more.get("most", 500),
        )
        told.append(one)
        cursor = one.next
    return told


def states() -> dict[str, str]:
    return dict(Handoff.objects.values_list("handoff_id", "state"))


def test_all_that_match_are_counted_and_decided(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=held(), b=circular(), c=held(handoff_type="x"), d=payload(), e=circular())
    selection = select(filters=Filters(handoff_type="research_result"))
    found = bulk.count_matching(tenant, selection)
    assert (found.number, found.more) == (3, False)
    assert [queries.get(tenant, str(pk)).handoff_id for pk in found.ids] == ["a", "e", "b"]
    (told,) = decide_all(tenant, reviewer, selection)
    assert (told.effective, told.proposed, told.refused, told.visited) == (3, 0, [], 3)
    assert states() == {"a": "declined", "b": "declined", "c": "held", "d": "accepted", "e": "declined"}
    assert_counts_are_right()


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_it_goes_on_where_the_last_request_ended(tenant: Tenant, reviewer: Person, most: int) -> None:
    send(tenant, a=held(), b=circular(), c=held(), d=circular())
    told = decide_all(tenant, reviewer, select(), most=most)
    assert [one.visited for one in told] == [most] * (4 // most) + ([4 % most] if 4 % most else [])
    assert set(states().values()) == {"declined"}
    handoffs = [handoff.handoff_id for one in told for handoff in one.handoffs]
    assert handoffs == ["a", "c", "d", "b"]


def test_the_time_of_a_request_ends_it_after_a_part(
    tenant: Tenant, reviewer: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PART", 2)
    send(tenant, a=held(), b=held(), c=held())
    told = bulk.decide_matching(
        tenant=tenant,
        selection=select(),
        decision=Decision.DECLINE,
        note="",
        actor=Actor.person(reviewer),
        seconds=0.0,
    )
    assert told.effective == 2
    assert told.next is not None


def test_what_came_later_is_not_decided_unseen(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=held())
    selection = select()
    send(tenant, b=held())
    assert bulk.count_matching(tenant, selection).number == 1
    decide_all(tenant, reviewer, selection)
    assert states() == {"a": "declined", "b": "held"}


def test_what_was_judged_later_is_told_and_left_alone(tenant: Tenant, reviewer: Person) -> None:
    waiting = submit(tenant, held(handoff_id="a"))
    selection = select()
    send(tenant)
    assert queries.get(tenant, waiting.id).state == State.HELD
    (told,) = decide_all(tenant, reviewer, selection)
    assert [(one.number, one.references) for one in told.refused] == [(1, [waiting.id])]
    assert "changed since" in told.refused[0].reason
    assert states() == {"a": "held"}


def test_what_others_did_meanwhile_stands(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    send(tenant, a=held(), b=held(), c=held(), d=held())
    a, b, c, _ = (queries.get(tenant, name) for name in "abcd")
    selection = select()
    decide(a, admin, "approve")
    pass_on(b, admin)
    activity.return_to_queue(tenant=tenant, reference=str(b.pk), actor=Actor.person(admin), seen_version=None)
    pass_on(c, admin)
    (told,) = decide_all(tenant, reviewer, selection)
    assert told.effective == 1
    assert [(one.number, one.references) for one in told.refused] == [(1, [str(b.pk)])]
    assert states() == {"a": "approved", "b": "held", "c": "held", "d": "declined"}


def test_what_cannot_be_decided_is_told_by_reason_and_number(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=circular(), b=circular(), c=held(), d=to_itself())
    Handoff.objects.filter(handoff_id="d").update(escalated=True)
    (told,) = decide_all(tenant, reviewer, select(), "approve", note="")
    assert told.effective == 1
    assert sorted((one.number, one.reason[:28]) for one in told.refused) == [
        (1, "A self-handoff cannot be app"),
        (2, "Write in the note why you ap"),
    ]
    assert states() == {"a": "rejected", "b": "rejected", "c": "approved", "d": "rejected"}


def test_few_of_many_that_were_refused_are_named(tenant: Tenant, reviewer: Person) -> None:
    for _ in range(5):
        submit(tenant, NOT_JSON)
    send(tenant)
    (told,) = decide_all(tenant, reviewer, select(), "approve", note="")
    assert [(one.number, len(one.references)) for one in told.refused] == [(5, 3)]


def test_a_first_decision_of_two_is_told_as_a_proposal(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    send(tenant, a=held(), b=circular(), c=held(handoff_type="x"))
    (told,) = decide_all(tenant, reviewer, select())
    assert (told.effective, told.proposed) == (1, 2)
    (told,) = decide_all(tenant, admin, select("second", person=admin))
    assert (told.effective, told.proposed) == (2, 0)
    assert set(states().values()) == {"declined"}


def test_more_than_the_bound_are_refused_whole(
    tenant: Tenant, reviewer: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_AT_ONCE", 3)
    send(tenant, a=held(), b=circular(), c=held())
    assert not bulk.count_matching(tenant, select()).more
    send(tenant, d=held())
    found = bulk.count_matching(tenant, select())
    assert (found.number, found.more) == (3, True)
    with pytest.raises(TooMany, match="More than 3 handoffs match"):
        decide_all(tenant, reviewer, select())
    assert State.DECLINED not in states().values()


def test_what_a_group_no_longer_leaves_out_is_not_decided_unseen(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=held(), b=circular())
    shown_at = after_all()
    muted = Finding.objects.filter(code="chain.circular")
    shown = bulk.parse_shown(bulk.count_matching(tenant, select(seen_at=shown_at, left_out=muted)).shown)
    now_shown = select(seen_at=shown_at, left_out=muted.none(), shown=shown)
    (told,) = decide_all(tenant, reviewer, now_shown)
    assert [(one.number, one.reason[:20]) for one in told.refused] == [(1, "The handoff was not ")]
    assert states() == {"a": "declined", "b": "rejected"}


def test_one_that_went_makes_no_room_for_one_that_came(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    send(tenant, a=held(), b=circular(), c=held())
    shown_at = after_all()
    muted = Finding.objects.filter(code="chain.circular")
    shown = bulk.parse_shown(bulk.count_matching(tenant, select(seen_at=shown_at, left_out=muted)).shown)
    decide(queries.get(tenant, "a"), admin)
    for most in (1, 500):
        decide_all(tenant, reviewer, select(seen_at=shown_at, left_out=muted.none(), shown=shown), most=most)
    assert states() == {"a": "approved", "b": "rejected", "c": "declined"}


def test_few_statements_decide_many(tenant: Tenant, reviewer: Person, django_assert_max_num_queries: Any) -> None:
    for number in range(40):
        submit(tenant, (held if number % 2 else circular)())
    judge.drain()
    selection = select()
    with django_assert_max_num_queries(30):
        (told,) = decide_all(tenant, reviewer, selection)
    assert told.effective == 40
    assert Event.objects.filter(to_state=State.DECLINED).count() == 40
    assert_counts_are_right()


def test_a_note_that_is_too_long_is_told_for_all(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=held())
    with pytest.raises(NoteTooLong):
        decide_all(tenant, reviewer, select(), note="x" * 5001)


def test_what_is_left_out_of_the_view_is_left_alone(tenant: Tenant, reviewer: Person) -> None:
    send(tenant, a=held(), b=circular())
    noise = Finding.objects.filter(code="chain.circular")
    decide_all(tenant, reviewer, select(left_out=noise))
    assert states() == {"a": "declined", "b": "rejected"}
    decide_all(tenant, reviewer, select("muted", left_out=noise, within=noise))
    assert states() == {"a": "declined", "b": "declined"}


def test_tenants_decide_their_own(tenant: Tenant, other_tenant: Tenant, reviewer: Person) -> None:
    theirs = judged(other_tenant, held(tenant_id="globex"))
    assert bulk.count_matching(tenant, select()).number == 0
    decide_all(tenant, reviewer, select())
    assert now(theirs).state == State.HELD


def test_a_handoff_that_was_sent_before_but_arrived_after_is_not_decided(tenant: Tenant, reviewer: Person) -> None:
    seen = judged(tenant, held(handoff_id="seen"))
    selection = select()
    sent_at = utc_text(selection.seen_at - timedelta(hours=1))
    late = judged(tenant, held(handoff_id="late"), sent_at=sent_at)
    assert late.pk < seen.pk
    assert bulk.count_matching(tenant, selection).ids == [seen.pk]
    decide_all(tenant, reviewer, selection)
    states = [queries.get(tenant, name).state for name in ("seen", "late")]
    assert states == [State.DECLINED, State.HELD]
    assert bulk.count_matching(tenant, select()).ids == [late.pk]
