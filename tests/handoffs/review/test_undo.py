"""Tests of decisions that are taken back and made again; the history stays complete."""

from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.review import activity, decisions, queue
from handoffaudit.handoffs.review.base import NoteRequired, NoteTooLong, NothingToUndo, NotReopenable, Stale
from tests.handoffs.review.support import decide, now, pass_on, reopen, take_back, told, undo, undo_last
from tests.handoffs.support import (
    NOT_JSON,
    assert_counts_are_right,
    circular,
    held,
    judged,
    payload,
    set_policy,
    submit,
)

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("document", [circular, held])
@pytest.mark.parametrize("decision", ["approve", "decline"])
def test_a_decided_one_waits_again_as_it_did_before(
    tenant: Tenant, reviewer: Person, admin: Person, document, decision: str
) -> None:
    before = judged(tenant, document())
    decided = decide(before, reviewer, decision)
    again = reopen(decided, admin, "  another order was found ", seen=decided.version)
    assert (again.state, again.version, again.user_approved) == (before.state, decided.version + 1, False)
    assert now(before).review_due_at == before.review_due_at
    assert told(before) == [
        ("reviewer", before.state, decided.state, "seen"),
        ("admin", decided.state, before.state, "another order was found"),
    ]
    assert before.pk in [one.pk for one in queue.list_queue(tenant, admin).items]
    assert_counts_are_right()


def test_it_can_be_decided_otherwise_and_opened_once_more(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    decide(handoff, reviewer, "approve")
    reopen(handoff, reviewer)
    assert decide(handoff, reviewer, "decline").state == State.DECLINED
    assert reopen(handoff, reviewer).state == State.HELD
    assert [to for _, _, to, _ in told(handoff)] == ["approved", "held", "declined", "held"]
    assert_counts_are_right()


def test_what_the_sender_says_of_approval_stays(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, circular(user_approved=True))
    assert handoff.user_approved
    decide(handoff, reviewer, "approve")
    reopen(handoff, reviewer)
    assert now(handoff).user_approved


def test_what_cannot_be_read_is_opened_again(tenant: Tenant, reviewer: Person) -> None:
    handoff = queries.get(tenant, submit(tenant, NOT_JSON).id)
    decide(handoff, reviewer, "decline")
    assert reopen(handoff, reviewer).state == State.REJECTED
    assert_counts_are_right()


def test_a_held_one_whose_time_was_taken_has_its_types_again(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    decide(handoff, reviewer)
    # The LLM's later check of an approved handoff leaves this state.
    Handoff.objects.filter(pk=handoff.pk).update(review_due_at=None)
    reopen(handoff, reviewer)
    due = now(handoff).review_due_at
    assert due is not None
    assert due > timezone.now()


@pytest.mark.parametrize("note", ["", " \n", "\0"])
def test_reopening_needs_a_note(tenant: Tenant, reviewer: Person, note: str) -> None:
    handoff = decide(judged(tenant, held()), reviewer)
    with pytest.raises(NoteRequired, match="decided again"):
        reopen(handoff, reviewer, note)
    with pytest.raises(NoteTooLong):
        reopen(handoff, reviewer, "x" * 5001)
    assert now(handoff).state == State.APPROVED


def test_only_decided_ones_can_be_opened(tenant: Tenant, reviewer: Person) -> None:
    first = judged(tenant, held(handoff_id="first"))
    done = judged(tenant, payload())
    for handoff in (first, done):
        with pytest.raises(NotReopenable, match=str(handoff.state)):
            reopen(handoff, reviewer)
    decide(first, reviewer, "decline")
    judged(tenant, held(), retry_of="first")
    with pytest.raises(NotReopenable, match="superseded"):
        reopen(first, reviewer)


def test_an_old_view_is_told(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    decided = decide(judged(tenant, held()), reviewer)
    reopen(decided, admin, "no")
    with pytest.raises(Stale, match=r"admin changed the state to held.*no"):
        reopen(decided, reviewer, seen=decided.version)


def test_another_tenants_is_not_there(other_tenant: Tenant, tenant: Tenant, reviewer: Person, stranger: Person) -> None:
    theirs = decide(judged(other_tenant, held(tenant_id="globex")), stranger)
    theirs.tenant = tenant
    with pytest.raises(Handoff.DoesNotExist):
        reopen(theirs, reviewer)
    (result,) = undo(reviewer, theirs)
    assert result.handoff is None
    assert Handoff.objects.get().state == State.APPROVED


@pytest.mark.parametrize("document", [circular, held])
@pytest.mark.parametrize("decision", ["approve", "decline"])
def test_ones_own_decision_is_undone_without_a_note(tenant: Tenant, reviewer: Person, document, decision: str) -> None:
    before = judged(tenant, document())
    (result,) = undo(reviewer, decide(before, reviewer, decision))
    assert result.error is None
    assert (now(before).state, now(before).user_approved) == (before.state, False)
    assert told(before)[-1][-1] == "undone"
    assert_counts_are_right()


def test_nobody_undoes_what_another_did(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    decided = decide(judged(tenant, held()), reviewer)
    (result,) = undo(admin, decided)
    assert isinstance(result.error, NothingToUndo)
    assert "is not yours" in result.error.message
    assert now(decided).state == State.APPROVED


def test_what_is_long_ago_is_opened_with_a_note_instead(tenant: Tenant, reviewer: Person) -> None:
    decided = decide(judged(tenant, held()), reviewer)
    Event.objects.filter(to_state=State.APPROVED).update(at=timezone.now() - timedelta(minutes=11))
    (result,) = undo(reviewer, decided)
    assert "more than 10 minutes old. Reopen the handoff with a note." in str(result.error)
    assert now(decided).state == State.APPROVED


def test_an_old_assignment_is_not_to_be_reopened(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    passed = pass_on(judged(tenant, held()), reviewer, to=admin)
    Event.objects.filter(handoff=passed.pk).update(at=timezone.now() - timedelta(minutes=11))
    (result,) = undo(reviewer, passed)
    assert str(result.error).endswith("minutes old.")


def test_what_changed_since_is_not_undone(tenant: Tenant, reviewer: Person) -> None:
    decided = decide(judged(tenant, held()), reviewer)
    reopen(decided, reviewer)
    decide(decided, reviewer, "decline")
    (result,) = undo(reviewer, decided)
    assert isinstance(result.error, Stale)
    assert now(decided).state == State.DECLINED


def test_several_are_undone_each_by_itself(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    mine, theirs = decide(judged(tenant, held()), reviewer), decide(judged(tenant, held()), admin)
    results = undo(reviewer, mine, theirs)
    assert [result.error is None for result in results] == [True, False]
    assert (now(mine).state, now(theirs).state) == (State.HELD, State.APPROVED)


def test_an_own_proposal_is_taken_back(tenant: Tenant, reviewer: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    proposed = decide(judged(tenant, held()), reviewer)
    (result,) = undo(reviewer, proposed)
    assert result.error is None
    assert decisions.find_proposal(now(proposed)) is None
    assert told(proposed)[-1] == ("reviewer", "held", "held", "approval no longer proposed")
    (result,) = undo(reviewer, now(proposed))
    assert isinstance(result.error, NothingToUndo)


def test_undoing_the_second_decision_leaves_the_proposal(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    handoff = judged(tenant, held())
    decide(handoff, reviewer, "approve", "one")
    undo(admin, decide(handoff, admin, "approve", "two"))
    proposal = decisions.find_proposal(now(handoff))
    assert proposal is not None
    assert (proposal.actor, proposal.note) == ("reviewer", "one")
    assert decide(handoff, admin, "approve").state == State.APPROVED


def test_reopening_asks_for_two_people_again(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    handoff = judged(tenant, held())
    decide(handoff, reviewer)
    decide(handoff, admin)
    reopen(handoff, admin)
    assert decisions.find_proposal(now(handoff)) is None
    assert decide(handoff, admin).state == State.HELD


def test_an_own_passing_on_is_undone(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    passed = pass_on(judged(tenant, held()), reviewer, to=admin)
    (refused,) = undo(admin, passed)
    assert isinstance(refused.error, NothingToUndo)
    (result,) = undo(reviewer, passed)
    assert result.error is None
    assert activity.reassignment_of(now(passed)) is None


def test_undoing_a_decision_on_one_that_was_passed_on_passes_it_on_again(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin)
    undo(admin, decide(handoff, admin))
    assert [one.pk for one in queue.list_queue(tenant, admin, view="mine").items] == [handoff.pk]
    take_back(handoff, admin)
    (result,) = undo(admin, now(handoff))
    assert isinstance(result.error, NothingToUndo)


def test_undoing_a_proposal_restores_the_assignment_that_it_ended(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin, note="yours")
    proposed = decide(handoff, admin)
    assert activity.reassignment_of(proposed) is None
    # The second decision and its undo concern the proposal only.
    undo(reviewer, decide(handoff, reviewer))
    assert activity.reassignment_of(now(handoff)) is None
    decide(handoff, reviewer, "decline")
    assert undo_last(tenant, reviewer).pk == handoff.pk
    assert activity.reassignment_of(now(handoff)) is None


def test_a_proposal_that_is_undone_at_once_leaves_the_assignment(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin, note="yours")
    undo(admin, decide(handoff, admin))
    restored = activity.reassignment_of(now(handoff))
    assert restored is not None
    assert (restored.to, restored.by, restored.note) == (admin, "reviewer", "yours")


def test_undoing_an_assignment_restores_the_one_before(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held())
    first = activity.reassignment_of(pass_on(handoff, reviewer, to=admin, note="yours"))
    undo(admin, pass_on(handoff, admin, to=reviewer, note="no, yours"))
    restored = activity.reassignment_of(now(handoff))
    assert first is not None
    assert restored is not None
    assert (restored.to, restored.by, restored.note, restored.at) == (admin, "reviewer", "yours", first.at)
    assert told(handoff)[-1] == ("admin", "held", "held", "undone: assigned to admin again")
    (again,) = undo(admin, now(handoff))
    assert isinstance(again.error, NothingToUndo)


def test_what_one_did_is_taken_back_step_by_step(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    first, second, third, others = (judged(tenant, held()) for _ in range(4))
    decide(first, reviewer, "decline")
    pass_on(second, reviewer, to=admin)
    decide(others, admin)
    decide(third, reviewer)
    assert [undo_last(tenant, reviewer).pk for _ in range(3)] == [third.pk, second.pk, first.pk]
    with pytest.raises(NothingToUndo):
        undo_last(tenant, reviewer)
    assert [now(one).state for one in (first, second, third, others)] == ["held", "held", "held", "approved"]
    assert activity.reassignment_of(now(second)) is None
    assert_counts_are_right()


def test_step_by_step_nothing_is_taken_back_that_is_old_or_that_another_changed(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    old, changed, mine = (judged(tenant, held()) for _ in range(3))
    decide(mine, reviewer)
    decide(old, reviewer)
    Event.objects.filter(handoff=old.pk).update(at=timezone.now() - timedelta(minutes=11))
    reopen(decide(changed, reviewer), admin)
    set_policy(tenant, "message", four_eyes=True)
    decide(changed, reviewer, "decline")
    assert [undo_last(tenant, reviewer).pk for _ in range(2)] == [changed.pk, mine.pk]
    assert now(old).state == State.APPROVED
    with pytest.raises(NothingToUndo):
        undo_last(tenant, reviewer)


def test_the_changes_before_an_undone_change_can_be_undone_too(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin)
    decide(handoff, reviewer)
    pass_on(handoff, reviewer, to=admin, note="look")
    assert [undo_last(tenant, reviewer).state for _ in range(2)] == [State.APPROVED, State.HELD]
    with pytest.raises(NothingToUndo):
        undo_last(tenant, admin)
    decide(handoff, reviewer)
    undo_last(tenant, reviewer)
    assert [reason for *_, reason in told(handoff)[3:5]] == ["undone: assigned to nobody", "undone"]


def test_an_assignment_is_undone_after_the_decision_that_ended_it(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin)
    decide(handoff, reviewer)
    undo_last(tenant, reviewer)
    assert activity.reassignment_of(now(handoff)) is not None
    undo_last(tenant, reviewer)
    assert activity.reassignment_of(now(handoff)) is None
    assert told(handoff)[-1][-1] == "undone: put back into the queue"
    with pytest.raises(NothingToUndo):
        undo_last(tenant, reviewer)


def test_two_proposals_and_the_assignment_before_them_are_undone_one_by_one(
    tenant: Tenant, reviewer: Person, admin: Person
) -> None:
    set_policy(tenant, "research_result", four_eyes=True)
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin)
    decide(handoff, reviewer)
    decide(handoff, reviewer, "decline")
    for _ in range(2):
        undo_last(tenant, reviewer)
    restored = activity.reassignment_of(now(handoff))
    assert restored is not None
    assert (restored.to, decisions.find_proposal(now(handoff))) == (admin, None)
    undo_last(tenant, reviewer)
    assert activity.reassignment_of(now(handoff)) is None


def test_what_was_reopened_or_returned_is_not_undone(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    handoff = judged(tenant, held())
    pass_on(handoff, reviewer, to=admin)
    take_back(handoff, reviewer)
    reopen(decide(handoff, reviewer), reviewer, "undone too early")
    with pytest.raises(NothingToUndo):
        undo_last(tenant, reviewer)


@pytest.mark.parametrize("way", ["reopen", "undo"])
def test_a_later_attempt_takes_the_place_of_a_reopened_handoff(tenant: Tenant, reviewer: Person, way: str) -> None:
    first = decide(judged(tenant, held(handoff_id="first")), reviewer)
    second = judged(tenant, held(handoff_id="second", data={"text": "another text"}), retry_of="first")
    assert (now(first).state, second.state) == (State.APPROVED, State.HELD)
    back = undo_last(tenant, reviewer) if way == "undo" else reopen(first, reviewer)
    assert (back.state, back.version) == (State.SUPERSEDED, now(first).version)
    assert (now(first).state, now(first).user_approved) == (State.SUPERSEDED, False)
    assert [one.handoff_id for one in queue.list_queue(tenant, reviewer).items] == ["second"]
    assert_counts_are_right()
