"""Tests of concurrent reviewers, each with a database connection."""

from collections import Counter

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Comment, Event, Handoff, PassedOn, Proposal, State
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.base import NotReopenable, NotReviewable, Stale
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.review.support import colleague, decide, now, pass_on, reopen, undo
from tests.handoffs.review.test_bulk import decide_all, select
from tests.handoffs.support import (
    assert_counts_are_right,
    at_once,
    circular,
    held,
    interrupted,
    judged,
    payload,
    set_policy,
    submit,
)

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 5


def test_of_two_who_reopen_one_does_and_the_other_is_told(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    for _ in range(ROUNDS):
        handoff = decide(judged(tenant, held()), reviewer)
        answers = at_once(
            *(lambda who=who, seen=handoff: reopen(seen, who, seen=seen.version) for who in (reviewer, admin))
        )
        assert Counter(type(answer) for answer in answers) == {Handoff: 1, Stale: 1}
        assert now(handoff).state == State.HELD
        assert Event.objects.filter(handoff=handoff, from_state=State.APPROVED).count() == 1
    assert_counts_are_right()


def test_without_a_seen_version_the_second_is_told_as_well(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = decide(judged(tenant, circular()), reviewer)
    answers = at_once(*(lambda who=who: reopen(handoff, who) for who in (reviewer, admin, reviewer, admin)))
    assert sum(isinstance(answer, Handoff) for answer in answers) == 1
    assert all(isinstance(answer, Handoff | Stale | NotReopenable) for answer in answers)
    assert_counts_are_right()


def test_of_two_first_decisions_at_once_one_is_proposed(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    for _ in range(ROUNDS):
        handoff = judged(tenant, held())
        answers = at_once(
            *(lambda who=who, seen=handoff: decide(seen, who, seen=seen.version) for who in (reviewer, admin))
        )
        assert Counter(type(answer) for answer in answers) == {Handoff: 1, Stale: 1}
        assert now(handoff).state == State.HELD
        assert Proposal.objects.filter(handoff=handoff).count() == 1


def test_of_many_second_decisions_at_once_one_takes_effect(tenant: Tenant, reviewer: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    others = [colleague(tenant, name) for name in ("ada", "ben", "cid")]
    for _ in range(ROUNDS):
        handoff = judged(tenant, circular())
        decide(handoff, reviewer)
        answers = at_once(*(lambda who=who, seen=handoff: decide(seen, who) for who in others))
        assert sum(isinstance(answer, Handoff) for answer in answers) == 1
        assert all(isinstance(answer, Handoff | Stale | NotReviewable) for answer in answers)
        assert Event.objects.filter(handoff=handoff, to_state=State.APPROVED).count() == 1
    assert_counts_are_right()


def test_who_passes_on_and_who_decides_at_once_leave_nothing_behind(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    for _ in range(ROUNDS):
        handoff = judged(tenant, held())
        at_once(
            lambda seen=handoff: pass_on(seen, reviewer, seen=seen.version),
            lambda seen=handoff: decide(seen, admin, seen=seen.version),
        )
        decided, passed = now(handoff).state == State.APPROVED, PassedOn.objects.filter(handoff=handoff).exists()
        assert decided is not passed
        assert (activity.reassignment_of(now(handoff)) is not None) is passed


def test_who_undoes_and_who_reopens_at_once_open_it_once(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    for _ in range(ROUNDS):
        handoff = decide(judged(tenant, held()), reviewer)
        at_once(
            lambda seen=handoff: undo(reviewer, seen),
            lambda seen=handoff: reopen(seen, admin, seen=seen.version),
        )
        assert now(handoff).state == State.HELD
        assert Event.objects.filter(handoff=handoff, from_state=State.APPROVED).count() == 1
    assert_counts_are_right()


def test_two_who_decide_all_that_match_decide_each_once(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    for number in range(40):
        submit(tenant, (held if number % 2 else circular)())
    judge.drain()
    selection = select()
    told = at_once(
        *(lambda who=who: sum(one.effective for one in decide_all(tenant, who, selection)) for who in (reviewer, admin))
    )
    assert sum(told) == 40
    assert Event.objects.filter(to_state=State.DECLINED).count() == 40
    assert_counts_are_right()


def test_a_retry_and_a_reopening_at_once_do_not_lock_each_other_out(tenant: Tenant, reviewer: Person) -> None:
    for number in range(ROUNDS):
        handoff = decide(judged(tenant, held(handoff_id=f"{number}")), reviewer, "decline")
        answers = at_once(
            lambda seen=handoff: reopen(seen, reviewer),
            lambda number=number: submit(tenant, held(), retry_of=f"{number}"),
        )
        assert all(not isinstance(one, Exception) or isinstance(one, Stale | NotReopenable) for one in answers)
    judge.drain()
    assert_counts_are_right()


def test_a_reopening_and_a_retry_that_takes_the_approval_over_do_not_lock_each_other_out(
    tenant: Tenant, reviewer: Person
) -> None:
    handoff = decide(judged(tenant, held(handoff_id="approved")), reviewer)
    submit(tenant, held(), retry_of="approved")
    assert interrupted(lambda: reopen(handoff, reviewer), judge.drain, 'FROM "handoffs_approval"') == [handoff, 1]
    assert_counts_are_right()


def test_a_reopening_that_is_superseded_and_a_worker_do_not_lock_each_other_out(
    tenant: Tenant, reviewer: Person
) -> None:
    approved = decide(judged(tenant, held(handoff_id="approved")), reviewer)
    judged(tenant, circular(), retry_of="approved")
    submit(tenant, held(handoff_id="held"))
    submit(tenant, circular(), retry_of="held")
    deletes = 'DELETE FROM "handoffs_approval"'
    assert interrupted(lambda: reopen(approved, reviewer), judge.drain, deletes) == [approved, 2]
    assert now(approved).state == State.SUPERSEDED
    assert_counts_are_right()


def test_the_same_comment_sent_twice_at_once_is_stored_once(tenant: Tenant, reviewer: Person) -> None:
    handoff, actor = judged(tenant, held()), Actor.person(reviewer)
    about = {"tenant": tenant, "reference": str(handoff.pk), "text": "Seen.", "actor": actor}
    answers = at_once(*[lambda: activity.add_comment(**about)] * 4)
    assert len({answer.pk for answer in answers}) == 1
    assert Comment.objects.filter(handoff=handoff).count() == 1


def test_of_two_who_assign_at_once_one_is_told(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    for _ in range(ROUNDS):
        handoff = judged(tenant, payload())
        about = {"tenant": tenant, "reference": str(handoff.pk), "note": "", "seen_version": handoff.version}
        answers = at_once(
            *(
                lambda to=to, about=about: activity.assign(**about, actor=Actor.person(to), to=to)
                for to in (reviewer, admin)
            )
        )
        assert Counter(type(answer) for answer in answers) == {Handoff: 1, Stale: 1}
