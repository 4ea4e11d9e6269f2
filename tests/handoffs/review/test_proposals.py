"""Tests of the four-eyes rule: the first decision is a proposal, and another person decides."""

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import db, judge
from handoffaudit.handoffs.models import Handoff, Proposal, ReviewHold, State
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.review.base import NotApprovable, NoteRequired, NotReviewable, Stale
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.review.support import colleague, decide, now, pass_on, told, undo
from tests.handoffs.support import assert_counts_are_right, circular, held, judged, set_policy, submit, to_itself

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(tenant: Tenant) -> Person:
    set_policy(tenant, "research_result", four_eyes=True)
    return colleague(tenant, "ada")


@pytest.fixture
def ben(tenant: Tenant) -> Person:
    return colleague(tenant, "ben")


@pytest.mark.parametrize(("decision", "noun"), [("approve", "approval"), ("decline", "decline")])
def test_the_first_decision_is_a_proposal_and_changes_nothing(
    tenant: Tenant, ada: Person, decision: str, noun: str
) -> None:
    seen = judged(tenant, held())
    decided = decide(seen, ada, decision, "looks fine", seen=seen.version)
    assert (decided.state, decided.version, decided.user_approved) == (State.HELD, seen.version + 1, False)
    proposal = decisions.find_proposal(now(seen))
    assert proposal is not None
    assert (proposal.decision, proposal.note, proposal.actor) == (decision, "looks fine", "ada")
    assert told(seen) == [("ada", "held", "held", f"{noun} proposed: looks fine; a second person decides")]
    assert_counts_are_right()


@pytest.mark.parametrize(("decision", "state"), [("approve", State.APPROVED), ("decline", State.DECLINED)])
def test_the_same_decision_by_another_takes_effect_and_names_both(
    tenant: Tenant, ada: Person, ben: Person, decision: str, state: str
) -> None:
    seen = judged(tenant, circular())
    decide(seen, ada, decision, "one")
    decided = decide(seen, ben, decision, "two")
    assert decided.state == now(seen).state == state
    assert decided.user_approved is (decision == "approve")
    assert told(seen)[-1] == ("ben", "rejected", state, "proposed by ada: “one”; confirmed by ben: “two”")
    assert decisions.find_proposal(now(seen)) is None
    assert_counts_are_right()


def test_only_a_repeated_decision_waits_for_a_standby(
    tenant: Tenant, ada: Person, ben: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[str] = []
    seen = judged(tenant, held())
    monkeypatch.setattr(db, "await_standby", lambda: waits.append(now(seen).state))
    decide(seen, ada, "decline", "one")
    assert waits == []
    decide(seen, ada, "decline", "one")
    decide(seen, ben, "decline", "two")
    assert waits == [State.HELD]
    with pytest.raises(NotReviewable):
        decide(seen, ben, "decline", "two")
    assert waits == [State.HELD, State.DECLINED]


def test_the_second_needs_no_note_where_the_first_gave_one(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, circular())
    with pytest.raises(NoteRequired):
        decide(seen, ada, "approve", "")
    decide(seen, ada, "approve", "one")
    assert decide(seen, ben, "approve", "").state == State.APPROVED
    assert told(seen)[-1][-1] == "proposed by ada: “one”; confirmed by ben"


def test_another_decision_by_another_is_a_new_proposal_for_a_third(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve")
    assert decide(seen, ben, "decline", "no").state == State.HELD
    proposal = decisions.find_proposal(now(seen))
    assert proposal is not None
    assert (proposal.decision, proposal.actor) == ("decline", "ben")
    assert decide(seen, ada, "decline", "you are right").state == State.DECLINED
    assert told(seen)[-1][-1] == "proposed by ben: “no”; confirmed by ada: “you are right”"


def test_a_proposal_taken_back_makes_room_for_the_one_it_replaced(tenant: Tenant, ada: Person, ben: Person) -> None:
    handoff = judged(tenant, held())
    decide(handoff, ada, "decline", "wrong")
    first = decisions.find_proposal(now(handoff))
    (result,) = undo(ben, decide(handoff, ben, "approve", "right"))
    assert result.error is None
    again = decisions.find_proposal(now(handoff))
    assert first is not None
    assert again is not None
    assert (again.actor, again.decision, again.note, again.at) == ("ada", "decline", "wrong", first.at)
    assert told(handoff)[-1][-1] == "approval no longer proposed; the decline that ada proposed counts again"
    assert decide(handoff, ben, "decline", "").state == State.DECLINED


def test_nobody_confirms_themselves(tenant: Tenant, ada: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve", "one")
    for decision, note in (("approve", "better said"), ("decline", "or rather not")):
        assert decide(seen, ada, decision, note).state == State.HELD
        proposal = decisions.find_proposal(now(seen))
        assert proposal is not None
        assert (proposal.decision, proposal.note) == (decision, note)
    assert Proposal.objects.count() == 1


def test_the_same_words_again_are_told_once(tenant: Tenant, ada: Person) -> None:
    seen = judged(tenant, held())
    first = decide(seen, ada, "approve", "one")
    assert decide(seen, ada, "approve", "one").version == first.version
    assert len(told(seen)) == 1


def test_who_looks_at_it_is_told_of_the_proposal(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve", "one")
    with pytest.raises(Stale, match="ada: “approval proposed: one"):
        decide(seen, ben, "decline", seen=seen.version)


def test_what_cannot_be_approved_cannot_be_proposed(tenant: Tenant, ada: Person) -> None:
    seen = judged(tenant, to_itself())
    with pytest.raises(NotApprovable):
        decide(seen, ada, "approve")
    assert told(seen) == []


def test_other_types_need_one_person(tenant: Tenant, ada: Person) -> None:
    assert decide(judged(tenant, held(handoff_type="other")), ada).state == State.APPROVED


def test_where_the_policy_asks_for_one_again_the_next_decision_counts(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve", "one")
    set_policy(tenant, "research_result", four_eyes=False)
    assert decide(seen, ben, "decline", "two").state == State.DECLINED
    assert told(seen)[-1][-1] == "two"


def test_where_the_policy_asks_for_one_again_the_same_person_can_decide(tenant: Tenant, ada: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve", "one")
    set_policy(tenant, "research_result", four_eyes=False)
    assert decide(seen, ada, "approve", "one").state == State.APPROVED


def test_a_proposal_dies_when_a_retry_takes_the_place(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, held(handoff_id="first"))
    decide(seen, ada, "approve")
    submit(tenant, held(handoff_id="second"), retry_of="first")
    judge.drain()
    assert now(seen).state == State.SUPERSEDED
    assert decisions.find_proposal(now(seen)) is None
    with pytest.raises(NotReviewable):
        decide(seen, ben, "approve")


def test_a_proposal_dies_with_a_new_verdict(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve")
    # Every new verdict changes the version, even where the state stays.
    Handoff.objects.filter(pk=seen.pk).update(version=now(seen).version + 1)
    assert decisions.find_proposal(now(seen)) is None
    assert decide(seen, ben, "approve").state == State.HELD
    proposal = decisions.find_proposal(now(seen))
    assert proposal is not None
    assert proposal.actor == "ben"


def test_a_proposal_ends_the_hold_and_passing_on(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, held())
    pass_on(seen, ben, to=ada)
    activity.hold(seen, ada)
    decide(seen, ada)
    assert not ReviewHold.objects.exists()
    assert activity.reassignment_of(now(seen)) is None


def test_a_proposal_stays_while_it_is_passed_on(tenant: Tenant, ada: Person, ben: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve")
    pass_on(seen, ada, to=ben)
    proposal = decisions.find_proposal(now(seen))
    assert proposal is not None
    assert proposal.actor == "ada"
    assert decide(seen, ben, "approve").state == State.APPROVED


def test_a_key_of_the_same_name_is_somebody_else(tenant: Tenant, ada: Person) -> None:
    seen = judged(tenant, held())
    decide(seen, ada, "approve")
    decided = decisions.decide_handoff(
        tenant=tenant,
        reference=str(seen.pk),
        decision=Decision.APPROVE,
        note="",
        actor=Actor.key("ada"),
        seen_version=None,
    )
    assert decided.state == State.APPROVED
