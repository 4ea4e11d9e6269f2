"""Tests of later LLM checks of handoffs that passed during an outage: no decision changes."""

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import alerts, attempts, counts, judge, queries
from handoffaudit.handoffs.llm import run
from handoffaudit.handoffs.models import Alert, CheckKind, Event, Finding, Handoff, ModelCheck, State, Verdict
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.validation.config import FailMode, Mode
from handoffaudit.validation.prompts.question import Use
from tests.handoffs.support import (
    SENDER,
    assert_counts_are_right,
    doubts,
    due,
    judged,
    payload,
    set_policy,
    submit,
    switch_off,
)
from tests.handoffs.unverified import numbered, unverified
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, says
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db


def rechecked(handoff: Handoff) -> Handoff:
    run.enqueue_unverified()
    run.drain()
    assert not ModelCheck.objects.exists()
    return Handoff.objects.get(pk=handoff.pk)


def decide(handoff: Handoff, decision: Decision) -> None:
    seen = queries.get(handoff.tenant, str(handoff.pk))
    decisions.decide_handoff(
        tenant=handoff.tenant,
        reference=str(handoff.pk),
        decision=decision,
        note="seen",
        actor=SENDER,
        seen_version=seen.version,
    )


def test_what_passes_is_verified_and_nothing_else_changes(tenant: Tenant, model: MessagesServer) -> None:
    before = unverified(tenant, model, payload())
    after = rechecked(before)
    assert (after.state, after.unverified, after.flagged, after.codes, after.score) == (
        State.ACCEPTED,
        False,
        False,
        [],
        1,
    )
    assert after.version == before.version + 1
    assert queries.current_verdict(after)["validator_model"] == "claude-haiku-5-5"
    assert queries.events(after)[-1].reason == "checked later by the LLM: no objection"
    assert (Alert.objects.count(), Finding.objects.count(), Verdict.objects.count()) == (0, 0, 3)
    assert_counts_are_right()


def test_what_would_have_been_rejected_stays_accepted_with_a_flag_and_an_alert(
    tenant: Tenant, model: MessagesServer
) -> None:
    first, second, third = (unverified(tenant, model, numbered(number)) for number in range(3))
    model.respond = lambda request: None if "Number 1" in request.content else doubts()
    after = rechecked(first)
    assert (after.state, after.flagged, after.unverified) == (State.ACCEPTED, True, False)
    assert after.codes == ["semantic.fabricated"]
    event = queries.events(after)[-1]
    assert (event.from_state, event.to_state) == ("accepted", "accepted")
    assert event.reason == "checked later by the LLM: the LLM would have rejected the handoff (semantic.fabricated)"
    verdict = queries.current_verdict(after)
    assert (verdict["outcome"], verdict["recommended_action"]) == ("rejected", None)
    assert attempts.load_record(after) is None
    flagged = Handoff.objects.filter(flagged=True).order_by("id").values_list("pk", flat=True)
    assert list(flagged) == [first.pk, third.pk]
    assert not Handoff.objects.get(pk=second.pk).flagged
    alert = Alert.objects.get()
    assert (alert.tenant_id, alert.kind, alert.number) == (tenant.pk, "would_have_rejected", 2)
    assert set(Finding.objects.values_list("code", flat=True)) == {"semantic.fabricated"}
    assert_counts_are_right()


def test_a_flag_stands_or_falls_with_its_alert(tenant: Tenant, model: MessagesServer, monkeypatch) -> None:
    unverified(tenant, model, payload())
    model.respond = lambda _: doubts()
    run.enqueue_unverified()
    monkeypatch.setattr(alerts, "raise_alert", lambda *_: 1 / 0)
    run.drain()
    assert (Handoff.objects.get().flagged, ModelCheck.objects.count()) == (False, 1)
    assert_counts_are_right()


@pytest.mark.parametrize(("answer", "state"), [(None, State.ACCEPTED), (doubts(), State.REJECTED)])
def test_what_was_held_for_the_model_is_decided_by_it(
    tenant: Tenant, model: MessagesServer, answer: Scripted | None, state: str
) -> None:
    set_policy(tenant, "research_result", fail_mode=FailMode.CLOSED)
    before = unverified(tenant, model, payload(handoff_id="h"))
    assert before.state == State.HELD
    model.respond = lambda _: answer
    after = rechecked(before)
    assert (after.state, after.unverified, after.flagged, after.review_due_at) == (state, False, False, None)
    assert [(event.from_state, event.to_state) for event in queries.events(after)][-1] == ("held", state)
    assert Alert.objects.count() == 0
    record = attempts.load_record(after)
    assert (len(record.actions_taken) if record else 0) == (1 if answer else 0)
    assert_counts_are_right()


def test_what_was_held_for_another_reason_too_stays_held(tenant: Tenant, model: MessagesServer) -> None:
    set_policy(tenant, "research_result", fail_mode=FailMode.CLOSED)
    long = ["a", "b", "c", "d", "e", "researcher"]
    before = unverified(tenant, model, payload(call_chain=long))
    after = rechecked(before)
    assert (after.state, after.codes, after.unverified) == (State.HELD, ["chain.needs_approval"], False)
    assert after.review_due_at == before.review_due_at
    assert_counts_are_right()


def test_what_is_rejected_after_it_was_held_is_repaired_where_that_was_asked_for(
    tenant: Tenant, model: MessagesServer
) -> None:
    set_policy(tenant, "research_result", fail_mode=FailMode.CLOSED)
    document = payload(handoff_id="h")

    def respond(request: Request) -> Scripted | None:
        if request.use is Use.REPAIR:
            return says({**document, "data": {"summary": "Three suppliers deliver."}})
        return doubts() if "within a week" in request.content else None

    model.respond = respond
    first = unverified(tenant, model, document, repair=True)
    assert Handoff.objects.count() == 1
    assert rechecked(first).state == State.SUPERSEDED
    assert Handoff.objects.get(lineage="h").state == State.ACCEPTED
    assert_counts_are_right()


def test_what_was_let_through_is_not_repaired_afterwards(tenant: Tenant, model: MessagesServer) -> None:
    model.respond = lambda _: doubts()
    first = unverified(tenant, model, payload(), repair=True)
    assert rechecked(first).flagged
    assert {request.use for request in model.requests} == {Use.GROUNDING}
    assert Handoff.objects.count() == 1


@pytest.mark.parametrize(("answer", "flagged"), [(None, False), (doubts(), True)])
def test_what_a_person_approved_meanwhile_stays_approved(
    tenant: Tenant, model: MessagesServer, answer: Scripted | None, flagged: bool
) -> None:
    set_policy(tenant, "research_result", fail_mode=FailMode.CLOSED)
    before = unverified(tenant, model, payload())
    run.enqueue_unverified()
    decide(before, Decision.APPROVE)
    model.respond = lambda _: answer
    after = rechecked(before)
    assert (after.state, after.user_approved, after.flagged) == (State.APPROVED, True, flagged)
    assert Alert.objects.count() == int(flagged)
    assert_counts_are_right()


def test_a_decision_taken_while_the_model_is_asked_stands(tenant: Tenant, model: MessagesServer, monkeypatch) -> None:
    set_policy(tenant, "research_result", fail_mode=FailMode.CLOSED)
    before = unverified(tenant, model, payload())
    run.enqueue_unverified()
    store = judge.finish

    def late(*given: object) -> int:
        decide(before, Decision.DECLINE)
        return store(*given)

    monkeypatch.setattr(judge, "finish", late)
    model.respond = lambda _: doubts()
    after = rechecked(before)
    assert (after.state, after.unverified, after.flagged) == (State.DECLINED, True, False)
    assert queries.current_verdict(after)["outcome"] == "held"
    assert_counts_are_right()


def test_whose_place_was_taken_meanwhile_is_left_alone(tenant: Tenant, model: MessagesServer) -> None:
    before = unverified(tenant, model, payload(handoff_id="h"))
    run.enqueue_unverified()
    submit(tenant, numbered(1, handoff_id="h2"), retry_of="h")
    model.respond = lambda _: doubts()
    after = rechecked(before)
    assert (after.state, after.flagged, Alert.objects.count()) == (State.SUPERSEDED, False, 0)
    assert run.enqueue_unverified() == 0
    assert_counts_are_right()


def test_in_shadow_nothing_is_flagged_and_what_would_have_been_is_said(tenant: Tenant, model: MessagesServer) -> None:
    set_policy(tenant, "research_result", mode=Mode.SHADOW)
    before = unverified(tenant, model, payload())
    model.respond = lambda _: doubts()
    after = rechecked(before)
    assert (after.state, after.would_decide, after.flagged) == (State.ACCEPTED, "rejected", False)
    assert queries.events(after)[-1].reason == "checked later by the LLM: would be rejected (shadow)"
    assert_counts_are_right()


def test_a_policy_that_came_later_raises_no_flag_in_the_name_of_the_model(
    tenant: Tenant, model: MessagesServer
) -> None:
    before = unverified(tenant, model, payload())
    set_policy(tenant, "research_result", token_budget=1)
    after = rechecked(before)
    assert (after.state, after.flagged, after.unverified) == (State.ACCEPTED, False, False)
    reason = queries.events(after)[-1].reason
    assert (
        reason
        == "checked later by the LLM: no objection; the current policy would reject the handoff (tokens.over_budget)"
    )
    assert Alert.objects.count() == 0
    assert_counts_are_right()


@pytest.mark.parametrize("fail_mode", FailMode)
def test_where_the_model_is_no_longer_asked_nobody_says_that_it_was(
    tenant: Tenant, model: MessagesServer, fail_mode: FailMode
) -> None:
    set_policy(tenant, "research_result", fail_mode=fail_mode)
    before = unverified(tenant, model, payload())
    asked = len(model.requests)
    switch_off(tenant, "semantic")
    after = rechecked(before)
    assert (after.state, after.codes, after.unverified) == (State.ACCEPTED, [], False)
    assert queries.events(after)[-1].reason == "judged again: the LLM check no longer applies"
    assert len(model.requests) == asked
    assert_counts_are_right()


def test_what_passed_without_a_key_is_gone_over_once_there_is_one(
    tenant: Tenant, model: MessagesServer, settings
) -> None:
    key, settings.ANTHROPIC_API_KEY = settings.ANTHROPIC_API_KEY, ""
    handoff = judged(tenant, payload())
    assert (handoff.codes, handoff.unverified, run.enqueue_unverified()) == ([], True, 0)
    settings.ANTHROPIC_API_KEY = key
    assert rechecked(handoff).unverified is False


def test_the_counts_are_right_after_each_step_of_an_outage(tenant: Tenant, model: MessagesServer) -> None:
    set_policy(tenant, "deal_data", fail_mode=FailMode.CLOSED)
    model.respond = lambda request: doubts() if "Number 3" in request.content or "Number 4" in request.content else None
    for number in range(6):
        handoff_type = "deal_data" if number % 2 else "research_result"
        unverified(tenant, model, numbered(number, handoff_type=handoff_type, confidence=0.1))
        assert_counts_are_right()
    while run.enqueue_unverified() or ModelCheck.objects.exists():
        assert run.check(due(ModelCheck.objects.order_by("handoff_id").first().handoff))
        assert_counts_are_right()
    states = dict(counts.HourlyTotal.objects.filter(code="", number__gt=0).values_list("state", "number"))
    assert states == {"accepted": 5, "rejected": 1}
    assert Event.objects.filter(reason__startswith="checked later").count() == 6
    assert ModelCheck.objects.filter(kind=CheckKind.FIRST).count() == 0
