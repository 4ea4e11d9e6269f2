"""Tests of strict handoffs: the structural verdict at once, the final verdict after the LLM's answer."""

import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, judge, judge_leases, notify, queries, tasks
from handoffaudit.handoffs.llm import jobs, run
from handoffaudit.handoffs.llm.run import check
from handoffaudit.handoffs.models import CheckKind, Finding, Handoff, ModelCall, ModelCheck, State, Verdict
from handoffaudit.validation.config import FailMode, Mode
from handoffaudit.validation.prompts.question import Use
from tests.handoffs.support import (
    NOT_ASKED,
    NOT_JSON,
    assert_counts_are_right,
    checked,
    checks_run_out,
    circular,
    doubts,
    due,
    judged,
    payload,
    set_policy,
    submit,
    to_itself,
)
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, says
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db
PENDING = ["semantic"]


def way(handoff: Handoff) -> list[tuple[str, str, str]]:
    return [(event.from_state, event.to_state, event.reason) for event in queries.events(handoff)]


def test_the_structural_verdict_is_there_before_the_model_is_asked(tenant: Tenant, model: MessagesServer) -> None:
    handoff = judged(tenant, payload())
    assert (handoff.state, handoff.score, handoff.unverified) == (State.VALIDATING, None, False)
    assert handoff.token_count > 0
    verdict = queries.current_verdict(handoff)
    assert (verdict["pending"], verdict["outcome"], verdict["issues"]) == (PENDING, "accepted", [])
    waiting = ModelCheck.objects.get()
    assert (waiting.handoff_id, waiting.kind, waiting.tenant_id) == (handoff.pk, CheckKind.FIRST, tenant.pk)
    assert way(handoff)[-1] == ("validating", "validating", "the LLM is asked")
    assert (model.requests, Finding.objects.count()) == ([], 0)
    assert_counts_are_right()


@pytest.mark.parametrize(
    ("document", "answer", "state", "codes"),
    [
        (payload, None, State.ACCEPTED, []),
        (payload, doubts(), State.REJECTED, ["semantic.fabricated"]),
        (circular, None, State.REJECTED, ["chain.circular"]),
        (circular, doubts(), State.REJECTED, ["chain.circular", "semantic.fabricated"]),
    ],
)
def test_the_final_verdict_comes_with_the_answer(
    tenant: Tenant, model: MessagesServer, document, answer, state: str, codes: list[str]
) -> None:
    pending = judged(tenant, document())
    model.respond = lambda _: answer
    assert run.drain() == 1
    handoff = queries.get(tenant, str(pending.pk))
    assert (handoff.state, handoff.codes, handoff.unverified, handoff.version) == (state, codes, False, 3)
    verdict = queries.current_verdict(handoff)
    assert (verdict["pending"], verdict["validator_model"]) == ([], "claude-haiku-5-5")
    assert Verdict.objects.filter(handoff=handoff.pk).count() == 2
    assert [to for _, to, _ in way(handoff)] == ["received", "validating", "validating", state]
    assert (ModelCheck.objects.count(), len(model.requests)) == (0, 1)
    assert_counts_are_right()


def test_while_it_waits_nobody_judges_it_again(tenant: Tenant, model: MessagesServer, monkeypatch, settings) -> None:
    woken: list[str] = []
    monkeypatch.setattr(notify, "send", lambda task=notify.TASK: woken.append(task) or True)
    settings.MODEL_CONCURRENCY = 2
    for _ in range(3):
        submit(tenant, payload())
    assert judge.drain() == 3
    # As many as may be asked about at a time, and no more: each goes on until nothing waits.
    assert woken == [notify.CHECKS] * 2
    assert judge.drain() == 0
    assert not judge_leases.is_anything_waiting()
    tasks.sweep()
    tasks.sweep_checks()
    started: list[int] = []
    monkeypatch.setattr(notify, "start_threads", lambda task, number, at_once: started.append(number))
    monkeypatch.setattr(notify, "consumes", lambda task: task == notify.CHECKS)
    tasks.look()
    assert started == [2]
    jobs.take()
    jobs.take()
    tasks.look()
    assert started == [2, 1]
    # All that may be asked about are asked about: it costs no query.
    monkeypatch.setattr(tasks.checkers, "taken", 2)
    tasks.look()
    assert (started, woken) == ([2, 1], [notify.CHECKS] * 2)
    assert Handoff.objects.filter(state=State.VALIDATING, parked=False, claim=None).count() == 3
    assert ModelCheck.objects.count() == 3


def test_lenient_ones_and_broken_ones_never_wait_for_the_model(tenant: Tenant, model: MessagesServer) -> None:
    lenient = judged(tenant, payload(handoff_type="status_update"))
    broken = judged(tenant, payload(call_chain=[1]))
    unread = submit(tenant, NOT_JSON)
    assert (lenient.state, broken.state) == (State.ACCEPTED, State.REJECTED)
    assert queries.get(tenant, unread.id).state == State.REJECTED
    assert (lenient.unverified, broken.unverified) == (False, False)
    assert (ModelCheck.objects.count(), model.requests) == (0, [])


def test_without_a_key_a_handoff_is_unverified_and_has_no_finding(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    assert (handoff.state, handoff.codes, handoff.unverified) == (State.ACCEPTED, [], True)
    assert not handoff.is_llm_check_missed
    verdict = queries.current_verdict(handoff)
    [layer] = [one for one in verdict["layers"] if one["name"] == "semantic"]
    assert (verdict["issues"], verdict["recommended_action"], layer["status"]) == ([], "accept", "skipped")
    assert layer["why"] == "No LLM key is configured (ANTHROPIC_API_KEY)."
    # Clients that read only this list must not take the handoff for checked.
    assert verdict["semantic_issues"] == ["semantic_validation_unavailable"]
    assert not ModelCheck.objects.exists()
    assert not ModelCall.objects.exists()
    # What is rejected for something else is not one that was let through.
    assert not judged(tenant, circular()).unverified


def test_an_outage_stops_nothing_where_the_type_fails_open(tenant: Tenant, model: MessagesServer) -> None:
    model.outage = 529
    handoff = checked(tenant, payload())
    assert (handoff.state, handoff.codes, handoff.unverified) == (State.ACCEPTED, [NOT_ASKED], True)
    (issue,) = queries.current_verdict(handoff)["issues"]
    assert (issue["metadata"]["reason"], issue["metadata"]["http_status"]) == ("overloaded", 529)
    assert handoff.is_llm_check_missed
    assert not ModelCheck.objects.exists()
    assert_counts_are_right()


def test_an_outage_holds_what_fails_closed(tenant: Tenant, model: MessagesServer) -> None:
    set_policy(tenant, "research_result", fail_mode=FailMode.CLOSED)
    model.outage = 500
    handoff = checked(tenant, payload())
    assert (handoff.state, handoff.unverified) == (State.HELD, True)
    assert handoff.codes == ["semantic.awaiting_check", NOT_ASKED]
    assert handoff.review_due_at > handoff.judged_at
    assert way(handoff)[-1][2] == "semantic.awaiting_check"
    assert_counts_are_right()


def test_in_shadow_the_model_says_what_it_would_have_rejected(tenant: Tenant, model: MessagesServer) -> None:
    set_policy(tenant, "research_result", mode=Mode.SHADOW)
    model.script(doubts())
    handoff = checked(tenant, payload())
    assert (handoff.state, handoff.would_decide) == (State.ACCEPTED, "rejected")
    assert way(handoff)[-1][2] == "would be rejected (shadow)"
    assert_counts_are_right()


@pytest.mark.parametrize("answer_of_the_first", [None, doubts()])
def test_of_a_retry_sent_while_the_first_is_pending_both_are_checked_and_the_later_stands(
    tenant: Tenant, model: MessagesServer, answer_of_the_first
) -> None:
    first = judged(tenant, payload(handoff_id="h"))
    retry = judged(tenant, payload(handoff_id="h2", data={"summary": "New."}), retry_of="h")
    assert [one.state for one in Handoff.objects.order_by("id")] == [State.VALIDATING] * 2
    model.script(lambda _: answer_of_the_first)
    assert run.drain() == 2
    assert [queries.get(tenant, str(one.pk)).state for one in (first, retry)] == [State.SUPERSEDED, State.ACCEPTED]
    assert way(first)[-1][2] == "h2 took its place"
    assert_counts_are_right()


def test_a_retry_that_is_decided_first_supersedes_the_first_at_its_end(tenant: Tenant, model: MessagesServer) -> None:
    first = judged(tenant, payload(handoff_id="h"))
    held_up = due(first)
    retry = checked(tenant, payload(handoff_id="h2"), retry_of="h")
    assert (retry.state, Handoff.objects.get(pk=first.pk).state) == (State.ACCEPTED, State.VALIDATING)
    assert check(held_up)
    assert Handoff.objects.get(pk=first.pk).state == State.SUPERSEDED
    assert queries.get(tenant, "h2").state == State.ACCEPTED
    assert_counts_are_right()


def test_what_is_due_is_decided_once_at_the_final_verdict(tenant: Tenant, model: MessagesServer) -> None:
    model.respond = lambda _: doubts()
    first = judged(tenant, payload(handoff_id="h"))
    assert attempts.load_record(first) is None
    assert queries.current_verdict(first)["recommended_action"] is None
    run.drain()
    record = attempts.load_record(first)
    assert len(record.actions_taken) == 1
    retry = checked(tenant, payload(handoff_id="h2", data={"summary": "New."}), retry_of="h")
    assert len(attempts.load_record(retry).actions_taken) == 2
    assert (
        queries.current_verdict(retry)["recommended_action"] == attempts.load_record(retry).actions_taken[-1]["action"]
    )


def test_repair_waits_for_the_final_verdict(tenant: Tenant, model: MessagesServer) -> None:
    document = payload(handoff_id="h")
    sound = {**document, "data": {"summary": "Three suppliers deliver.", "suppliers": 3}}

    def respond(request: Request) -> Scripted | None:
        if request.use is Use.REPAIR:
            return says(sound)
        return doubts() if "within a week" in request.content else None

    model.respond = respond
    first = judged(tenant, document, repair=True)
    assert (first.state, Handoff.objects.count()) == (State.VALIDATING, 1)
    run.drain()
    again = Handoff.objects.get(lineage="h")
    assert (again.repaired, queries.body(again).original) == (True, orjson.dumps(sound))
    states = [Handoff.objects.get(pk=one.pk).state for one in (first, again)]
    assert states == [State.SUPERSEDED, State.ACCEPTED]
    assert_counts_are_right()


def test_a_claim_that_ran_out_stores_nothing_and_pays_for_nothing(tenant: Tenant, model: MessagesServer) -> None:
    handoff = judged(tenant, payload())
    lost = due(handoff)
    checks_run_out()
    assert run.drain() == 1
    assert check(lost) is False
    assert Verdict.objects.filter(handoff=handoff.pk).count() == 2
    assert len(model.requests) == 1
    assert list(ModelCall.objects.order_by("id").values_list("cached", flat=True)) == [False, True]
    assert_counts_are_right()


def test_a_worker_that_dies_with_the_answer_in_hand_pays_once(
    tenant: Tenant, model: MessagesServer, monkeypatch
) -> None:
    handoff = judged(tenant, payload())
    with monkeypatch.context() as patch:
        patch.setattr(judge, "finish", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            run.drain()
    assert Handoff.objects.get().state == State.VALIDATING
    assert run.drain() == 0
    checks_run_out()
    assert run.drain() == 1
    assert queries.get(tenant, str(handoff.pk)).state == State.ACCEPTED
    assert len(model.requests) == 1


def test_equal_questions_of_two_handoffs_are_asked_once(tenant: Tenant, model: MessagesServer) -> None:
    for _ in range(3):
        judged(tenant, payload())
    assert run.drain() == 3
    assert len(model.requests) == 1
    assert set(Handoff.objects.values_list("state", flat=True)) == {State.ACCEPTED}


def test_one_that_can_never_be_approved_is_still_so_after_the_check(tenant: Tenant, model: MessagesServer) -> None:
    handoff = checked(tenant, to_itself())
    assert (handoff.state, handoff.approvable) == (State.REJECTED, False)
