"""Tests of unreadable handoffs: declined, requested again or marked as handled, and never approved."""

from uuid import uuid4

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Event, Handoff
from handoffaudit.handoffs.review import activity, bulk, decisions, queue, undo
from handoffaudit.handoffs.review.base import Readable, ReviewError, Unreadable
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.verdicts import RESEND
from tests.diagnostics.support import RUI
from tests.handoffs.support import NOT_JSON, assert_counts_are_right, circular, judged, payload, set_policy, to_itself

pytestmark = pytest.mark.django_db
ADA = Actor.key("ada")
REPORT = {
    "run_id": "r",
    "agent": "planner",
    "phase": "plan",
    "expected_path": "a.json",
    "file": {"exists": True, "content": "{"},
}


def decide(tenant: Tenant, handoff: Handoff, decision: Decision, note: str = "", actor=RUI) -> Handoff:
    return decisions.decide_handoff(
        tenant=tenant, reference=str(handoff.pk), decision=decision, note=note, actor=actor, seen_version=None
    )


def action(tenant: Tenant, handoff: Handoff) -> str | None:
    verdict = queries.current_verdict(queries.get(tenant, str(handoff.pk)))
    assert verdict is not None
    said: str | None = verdict["recommended_action"]
    return said


@pytest.mark.parametrize(
    ("sent", "is_unreadable"),
    [
        (NOT_JSON, True),
        (b"\xff\xfe", True),
        (b'"hello"', True),
        (b'{"foo": 1}', True),
        (b'{"document": {"foo": 1}, "evidnce": []}', True),
        (orjson.dumps({"document": payload(), "evidnce": []}), False),
        (orjson.dumps({"source_agent_id": "a"}), False),
        (orjson.dumps(REPORT), False),
        (orjson.dumps(circular()), False),
        (orjson.dumps(payload()), False),
    ],
)
def test_only_what_no_format_could_read_is_unreadable(tenant: Tenant, sent: bytes, is_unreadable: bool) -> None:
    assert judged(tenant, sent).is_unreadable == is_unreadable


def test_it_cannot_be_approved_and_says_what_can_be_done(tenant: Tenant) -> None:
    handoff = judged(tenant, NOT_JSON)
    with pytest.raises(Unreadable, match="Decline the handoff, ask for a resend, or mark the handoff as handled"):
        decide(tenant, handoff, Decision.APPROVE, "fine")
    assert queries.get(tenant, str(handoff.pk)).state == "rejected"
    assert decide(tenant, handoff, Decision.DECLINE).state == "declined"
    assert action(tenant, handoff) is None


def test_a_resend_is_asked_for_by_a_decline_that_says_so(tenant: Tenant) -> None:
    handoff = judged(tenant, NOT_JSON)
    assert decide(tenant, handoff, Decision.RESEND, "It ends too soon.").state == "declined"
    event = Event.objects.filter(handoff=handoff.pk).latest("id")
    assert (event.to_state, event.reason) == ("declined", f"{RESEND} It ends too soon.")
    assert action(tenant, handoff) == "retry"
    undo.reopen(tenant=tenant, reference=str(handoff.pk), note="again", actor=RUI, seen_version=None)
    assert action(tenant, handoff) is None
    assert_counts_are_right()


def test_what_is_sent_again_under_its_id_takes_its_place(tenant: Tenant) -> None:
    name = str(uuid4())
    handoff = judged(tenant, NOT_JSON)
    Handoff.objects.filter(pk=handoff.pk).update(handoff_id=name)
    decide(tenant, handoff, Decision.RESEND)
    later = judged(tenant, payload(handoff_id=name))
    assert (later.handoff_id, later.state, later.attempt) == (name, "accepted", 2)
    assert queries.get(tenant, str(handoff.pk)).state == "superseded"
    assert_counts_are_right()


def test_four_eyes_hold_for_a_resend_as_for_a_decline(tenant: Tenant) -> None:
    set_policy(tenant, "*", four_eyes=True)
    handoff = judged(tenant, NOT_JSON)
    assert decide(tenant, handoff, Decision.RESEND).state == "rejected"
    assert decide(tenant, handoff, Decision.RESEND, actor=ADA).state == "declined"
    assert action(tenant, handoff) == "retry"


def test_one_marked_as_handled_leaves_the_queue_unjudged_and_can_be_put_back(tenant: Tenant) -> None:
    handoff = judged(tenant, NOT_JSON)
    assert decide(tenant, handoff, Decision.HANDLED, "asked by phone").state == "rejected"
    assert not queue.list_queue(tenant, None).items
    passed = activity.reassignment_of(queries.get(tenant, str(handoff.pk)))
    assert passed is not None
    assert activity.is_handled(passed)
    event = Event.objects.filter(handoff=handoff.pk).latest("id")
    assert (event.from_state, event.to_state, event.actor) == ("rejected", "rejected", RUI.name)
    assert event.reason == "Marked as handled: asked by phone"
    activity.return_to_queue(tenant=tenant, reference=str(handoff.pk), actor=RUI, seen_version=None)
    assert [one.pk for one in queue.list_queue(tenant, None).items] == [handoff.pk]


def test_marking_it_as_handled_again_adds_no_event(tenant: Tenant) -> None:
    handoff = judged(tenant, NOT_JSON)
    first = decide(tenant, handoff, Decision.HANDLED, "asked by phone")
    events = Event.objects.filter(handoff=handoff.pk).count()
    for note, actor in (("asked by phone", RUI), ("", ADA)):
        assert decide(tenant, handoff, Decision.HANDLED, note, actor).version == first.version
    assert Event.objects.filter(handoff=handoff.pk).count() == events
    assert activity.list_reassignments([first])[handoff.pk].by == RUI.name


def test_a_new_note_on_a_handled_one_is_kept(tenant: Tenant) -> None:
    handoff = judged(tenant, NOT_JSON)
    decide(tenant, handoff, Decision.HANDLED)
    decide(tenant, handoff, Decision.HANDLED, "asked by phone")
    assert Event.objects.filter(handoff=handoff.pk).latest("id").reason == "Marked as handled: asked by phone"


@pytest.mark.parametrize("decision", [Decision.RESEND, Decision.HANDLED])
def test_what_can_be_read_is_approved_or_declined(tenant: Tenant, decision: Decision) -> None:
    for document in (circular(), to_itself()):
        with pytest.raises(Readable):
            decide(tenant, judged(tenant, document), decision)
    with pytest.raises(ReviewError, match="only held and rejected"):
        decide(tenant, judged(tenant, payload()), decision)


@pytest.mark.parametrize(
    ("decision", "states"),
    [(Decision.APPROVE, ("approved", "rejected")), (Decision.RESEND, ("rejected", "declined"))],
)
def test_of_several_each_is_decided_by_what_it_is(tenant: Tenant, decision: Decision, states: tuple[str, str]) -> None:
    handoffs = [judged(tenant, circular()), judged(tenant, NOT_JSON)]
    seen = [(str(one.pk), one.version) for one in handoffs]
    results = decisions.decide_many(tenant=tenant, references=seen, decision=decision, note="so it is", actor=RUI)
    assert tuple(queries.get(tenant, reference).state for reference, _ in seen) == states
    assert [bool(one.error) for one in results] == [state == "rejected" for state in states]


def test_several_are_marked_as_handled(tenant: Tenant) -> None:
    handoffs = [judged(tenant, NOT_JSON), judged(tenant, circular()), judged(tenant, b"{")]
    seen = [(str(one.pk), one.version) for one in handoffs]
    results = decisions.decide_many(tenant=tenant, references=seen, decision=Decision.HANDLED, note="", actor=RUI)
    done = bulk.summarize(results, decision=Decision.HANDLED)
    assert (done.effective, done.proposed, [one.number for one in done.refused]) == (2, 0, [1])
    assert [one.pk for one in queue.list_queue(tenant, None).items] == [handoffs[1].pk]
