"""Tests of decisions by a person."""

import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import judge, queries
from handoffaudit.handoffs.models import Event, Handoff, ReviewHold, State
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.review.base import MAX_NOTE, NotApprovable, NoteRequired, NoteTooLong, NotReviewable, Stale
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.support import NOT_JSON, assert_counts_are_right, circular, held, judged, payload, submit, to_itself

pytestmark = pytest.mark.django_db


@pytest.fixture
def decide(tenant: Tenant, reviewer: Person):
    def run(handoff: Handoff | str, decision: str, note: str = "", seen: int | None = None) -> Handoff:
        return decisions.decide_handoff(
            tenant=tenant,
            reference=str(getattr(handoff, "pk", handoff)),
            decision=Decision(decision),
            note=note,
            actor=Actor.person(reviewer),
            seen_version=seen,
        )

    return run


@pytest.mark.parametrize("document", [circular, held])
@pytest.mark.parametrize(("decision", "state"), [("approve", State.APPROVED), ("decline", State.DECLINED)])
def test_held_and_rejected_ones_are_decided(tenant: Tenant, decide, document, decision: str, state: str) -> None:
    handoff = judged(tenant, document())
    before = handoff.state
    decided = decide(handoff, decision, "  seen and checked \n", handoff.version)
    assert (decided.state, decided.version) == (state, handoff.version + 1)
    event = queries.events(handoff)[-1]
    assert (event.from_state, event.to_state, event.reason) == (before, state, "seen and checked")
    assert (event.actor_kind, event.actor) == ("person", "reviewer")
    assert Handoff.objects.get().user_approved is (decision == "approve")
    assert_counts_are_right()


@pytest.mark.parametrize("note", ["", "  \n\t ", "\0", "\0 \0"])
def test_approving_what_was_rejected_needs_a_note(tenant: Tenant, decide, note: str) -> None:
    handoff = judged(tenant, circular())
    with pytest.raises(NoteRequired):
        decide(handoff, "approve", note)
    assert Handoff.objects.get().state == State.REJECTED


@pytest.mark.parametrize(("document", "decision"), [(held, "approve"), (held, "decline"), (circular, "decline")])
def test_nothing_else_needs_one(tenant: Tenant, decide, document, decision: str) -> None:
    assert decide(judged(tenant, document()), decision).state in (State.APPROVED, State.DECLINED)


def test_a_note_has_a_length_that_is_told(tenant: Tenant, decide) -> None:
    handoff = judged(tenant, held())
    with pytest.raises(NoteTooLong, match="5,001"):
        decide(handoff, "approve", "x" * (MAX_NOTE + 1))
    assert decide(handoff, "approve", "x" * MAX_NOTE).state == State.APPROVED


def test_a_line_break_of_a_form_counts_as_one_character(tenant: Tenant, decide) -> None:
    # A form sends CR LF for each line break. The `maxlength` of its field counts one character.
    handoff = judged(tenant, held())
    decide(handoff, "approve", "x\r\n" * (MAX_NOTE // 2 - 1) + "xx")
    assert queries.events(handoff)[-1].reason == "x\n" * (MAX_NOTE // 2 - 1) + "xx"


def test_a_handoff_to_itself_can_be_declined_and_never_approved(tenant: Tenant, decide) -> None:
    handoff = judged(tenant, to_itself())
    with pytest.raises(NotApprovable, match="self-handoff"):
        decide(handoff, "approve", "please")
    assert decide(handoff, "decline").state == State.DECLINED


def test_what_waits_or_was_accepted_cannot_be_decided(tenant: Tenant, decide) -> None:
    waiting = submit(tenant, payload(handoff_id="w"))
    with pytest.raises(NotReviewable, match="received"):
        decide(waiting.id, "decline")
    judge.drain()
    with pytest.raises(NotReviewable, match="accepted"):
        decide(waiting.id, "decline")


def test_a_decision_stands(tenant: Tenant, decide) -> None:
    handoff = decide(judged(tenant, held()), "approve")
    for decision in ("approve", "decline"):
        with pytest.raises(NotReviewable, match="approved"):
            decide(handoff, decision, "again")
    assert Event.objects.filter(from_state=State.HELD).count() == 1


def test_a_decision_on_an_old_view_is_told_who_did_what(tenant: Tenant, decide) -> None:
    seen = judged(tenant, held())
    decide(seen, "approve", "fine with me", seen.version)
    with pytest.raises(Stale, match=r"reviewer changed the state to approved.*fine with me") as told:
        decide(seen, "decline", "no", seen.version)
    assert told.value.handoff.state == State.APPROVED
    assert told.value.last_event.reason == "fine with me"
    assert Handoff.objects.get().state == State.APPROVED


def test_it_is_found_by_the_senders_id(tenant: Tenant, decide) -> None:
    judged(tenant, held(handoff_id="mine"))
    assert decide("mine", "approve").state == State.APPROVED


@pytest.mark.parametrize("reference", ["nothing", "00000000-0000-4000-8000-000000000000", "", "a\0b"])
def test_what_does_not_exist_raises(decide, reference: str) -> None:
    with pytest.raises(Handoff.DoesNotExist):
        decide(reference, "approve")


def test_another_tenants_handoff_does_not_exist(tenant: Tenant, other_tenant: Tenant, decide) -> None:
    theirs = judged(other_tenant, held(handoff_id="h", tenant_id="globex"))
    for reference in (theirs, "h"):
        with pytest.raises(Handoff.DoesNotExist):
            decide(reference, "approve")
    assert Handoff.objects.get().state == State.HELD


def test_what_cannot_be_read_can_be_decided(tenant: Tenant, decide) -> None:
    handoff = queries.get(tenant, submit(tenant, NOT_JSON).id)
    decided = decide(handoff, "decline", "sender told")
    assert decided.state == State.DECLINED
    assert_counts_are_right()


def test_a_decision_ends_the_hold(tenant: Tenant, reviewer: Person, decide) -> None:
    handoff = judged(tenant, held())
    activity.hold(handoff, reviewer)
    decide(handoff, "approve")
    assert not ReviewHold.objects.exists()


def test_several_are_decided_each_by_itself(tenant: Tenant, reviewer: Person) -> None:
    good, stale, own, done = (judged(tenant, make()) for make in (held, held, to_itself, payload))
    references = [(str(stale.pk), 99), (str(good.pk), 2), (str(own.pk), 2), ("nothing", 1), (str(done.pk), 2)]
    results = decisions.decide_many(
        tenant=tenant, references=references, decision=Decision.APPROVE, note="ok", actor=Actor.person(reviewer)
    )
    assert [result.reference for result in results] == [reference for reference, _ in references]
    assert [type(result.error).__name__ for result in results] == [
        *("Stale", "NoneType", "NotApprovable", "ReviewError", "NotReviewable")
    ]
    assert all(result.error is None or result.error.message for result in results)
    assert results[1].handoff is not None
    assert results[1].handoff.state == State.APPROVED
    assert Handoff.objects.filter(state=State.APPROVED).count() == 1
