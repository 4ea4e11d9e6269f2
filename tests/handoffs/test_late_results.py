"""Late tool results judge again what rested on nothing, and nothing else."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, judge, judge_leases, late_results, queries, tool_results
from handoffaudit.handoffs.llm import jobs, run
from handoffaudit.handoffs.models import Alert, Event, Finding, Handoff, LateResults, State, ToolResult, Verdict
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.tool_results import ToolResultIn, load_evidence
from handoffaudit.validation.tool_results import Grade
from tests.handoffs.support import (
    SENDER,
    assert_counts_are_right,
    checked,
    doubts,
    find_disk_full,
    judged,
    payload,
    set_policy,
    submit,
)
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db
QUESTION = {"question": "What does the order cost?"}


def handoff(tenant: Tenant, text: str = "The order costs 54.20.", trace: str = "t-1", **changes: Any) -> Handoff:
    return judged(tenant, payload(data={"text": text}, **changes), trace_id=trace, context=QUESTION)


def captured(
    tenant: Tenant, *, grade: Grade = Grade.OUTSIDE, trace: str = "t-1", total: float = 54.2, hours: float = 1
) -> None:
    """Store a result that the tool gave this number of hours ago."""
    now = timezone.now()
    sent = ToolResultIn(tool="get_order", call_id=f"c{total}", at=now - timedelta(hours=hours), result={"total": total})
    tool_results.store(tool_results.make_rows(tenant.pk, trace, [sent], now), "collector", grade, now)


def judge_again() -> int:
    LateResults.objects.update(claim_expires_at=timezone.now() - timedelta(seconds=1))
    return late_results.drain()


def statuses(handoff: Handoff) -> list[str]:
    content = queries.current_verdict(Handoff.objects.get(pk=handoff.pk)) or {}
    return [value["status"] for claim in content["claims"] for value in claim["values"]]


def test_a_late_result_grounds_the_value_and_removes_the_finding(tenant: Tenant) -> None:
    late = handoff(tenant)
    assert statuses(late) == ["ungrounded"]
    captured(tenant)
    assert not late_results.is_anything_waiting()
    assert judge_again() == 1
    assert statuses(late) == ["grounded"]
    late.refresh_from_db()
    assert late.state == State.ACCEPTED
    assert not Finding.objects.filter(code__startswith="grounding.").exists()
    last = Event.objects.filter(handoff=late).latest("id")
    assert last.reason == "judged again with tool results that arrived later: no objection"
    assert not LateResults.objects.exists()
    assert_counts_are_right()


def test_only_late_evidence_of_the_trace_judges_again(tenant: Tenant, other_tenant: Tenant) -> None:
    handoff(tenant)
    captured(tenant, grade=Grade.SAID)
    captured(tenant, trace="t-2")
    captured(other_tenant)
    captured(tenant, hours=-1)
    assert judge_again() == 0
    assert Verdict.objects.count() == 1


def test_a_verdict_that_stays_the_same_is_not_stored_again(tenant: Tenant) -> None:
    handoff(tenant)
    grounded = handoff(tenant, "The order is about the question.")
    captured(tenant, total=99)
    assert judge_again() == 0
    assert Verdict.objects.count() == 2
    assert Event.objects.filter(handoff=grounded).count() == Event.objects.exclude(handoff=grounded).count()
    assert not LateResults.objects.exists()


def test_a_rejected_handoff_becomes_accepted(tenant: Tenant) -> None:
    set_policy(tenant, "research_result", grounding="reject")
    late, wrong = handoff(tenant), handoff(tenant, "The order costs 99.90 and 54.20.")
    assert late.state == wrong.state == State.REJECTED
    captured(tenant)
    assert judge_again() == 2
    late.refresh_from_db()
    wrong.refresh_from_db()
    assert (late.state, wrong.state) == (State.ACCEPTED, State.REJECTED)
    assert sorted(statuses(wrong)) == ["grounded", "ungrounded"]
    assert not wrong.flagged
    assert_counts_are_right()


def test_a_handoff_whose_repair_failed_stays_escalated(tenant: Tenant) -> None:
    set_policy(tenant, "research_result", grounding="reject", repair=True)
    one = handoff(tenant, "The order costs 99.90 and 54.20.")
    assert (one.state, one.escalated) == (State.REJECTED, True)
    captured(tenant)
    assert judge_again() == 1
    one.refresh_from_db()
    assert (one.state, one.escalated) == (State.REJECTED, True)
    assert (queries.current_verdict(one) or {})["recommended_action"] == "escalate"


def test_a_held_handoff_that_becomes_rejected_has_an_action(tenant: Tenant) -> None:
    chain = ["a", "b", "c", "d", "e", "researcher"]
    one = handoff(tenant, "The order costs 99.90 and 54.20.", call_chain=chain, handoff_id="h")
    assert one.state == State.HELD
    set_policy(tenant, "research_result", grounding="reject")
    captured(tenant)
    assert judge_again() == 1
    one.refresh_from_db()
    assert one.state == State.REJECTED
    assert (queries.current_verdict(one) or {})["recommended_action"] == "retry"
    record = attempts.load_record(one)
    assert record is not None
    assert record.retry_count == 1


def test_only_a_rejected_handoff_keeps_its_action(tenant: Tenant) -> None:
    set_policy(tenant, "research_result", grounding="reject")
    wrong = handoff(tenant, "The order costs 99.90 and 54.20.")
    unchecked = judged(tenant, payload(data={"text": "The order costs 99.90."}), trace_id="t-1")
    assert [(queries.current_verdict(one) or {})["recommended_action"] for one in (wrong, unchecked)] == [
        "retry",
        "accept",
    ]
    captured(tenant)
    assert judge_again() == 2
    found = [queries.current_verdict(Handoff.objects.get(pk=one.pk)) or {} for one in (wrong, unchecked)]
    assert [(one["outcome"], one["recommended_action"]) for one in found] == [("rejected", "retry"), ("rejected", None)]


def test_a_decision_of_a_person_stands(tenant: Tenant) -> None:
    set_policy(tenant, "research_result", grounding="reject")
    approved, declined = handoff(tenant), handoff(tenant)
    for one, decision in ((approved, decisions.Decision.APPROVE), (declined, decisions.Decision.DECLINE)):
        seen = {"note": "seen", "actor": SENDER, "seen_version": one.version}
        decisions.decide_handoff(tenant=tenant, reference=str(one.pk), decision=decision, **seen)
    captured(tenant)
    judge_again()
    assert Handoff.objects.get(pk=approved.pk).state == State.APPROVED
    assert Handoff.objects.get(pk=declined.pk).state == State.DECLINED
    assert statuses(approved) == ["grounded"]
    assert statuses(declined) == ["ungrounded"]


def test_a_decision_while_it_is_judged_again_stands(tenant: Tenant) -> None:
    late = handoff(tenant)
    captured(tenant)
    LateResults.objects.update(claim_expires_at=None)
    [lease] = [late_results._take()]
    assert lease is not None
    stale = Handoff.objects.get(pk=late.pk)
    Handoff.objects.filter(pk=late.pk).update(version=stale.version + 1)
    one = late_results.JudgedHandoff(stale, stale.state, None, None, has_late_results=True)  # type: ignore[arg-type]
    assert lease.hold([one]) == []
    lease.finish()
    assert LateResults.objects.get().claim_expires_at is not None


def test_the_findings_of_the_llm_stay_and_nobody_pays_again(tenant: Tenant, model: MessagesServer) -> None:
    model.script(doubts("54.20"))
    document = payload(data={"text": "The order costs 54.20."})
    late = checked(tenant, document, trace_id="t-1", context=QUESTION)
    before = queries.current_verdict(late) or {}
    asked = len(model.requests)
    captured(tenant)
    assert judge_again() == 1
    after = queries.current_verdict(Handoff.objects.get(pk=late.pk)) or {}
    assert len(model.requests) == asked
    assert statuses(late) == ["grounded"]
    for name in ("validator_model", "prompts", "unverified"):
        assert after[name] == before[name]
    found = [[one for one in content["issues"] if one["layer"] == "semantic"] for content in (before, after)]
    assert [one["message"] for one in found[0]] == [one["message"] for one in found[1]] != []


def test_findings_of_the_llm_that_a_person_approved_flag_nothing(tenant: Tenant, model: MessagesServer) -> None:
    model.script(doubts("54.20"))
    late = checked(tenant, payload(data={"text": "The order costs 54.20."}), trace_id="t-1", context=QUESTION)
    assert late.state == State.REJECTED
    seen = {"note": "seen", "actor": SENDER, "seen_version": late.version}
    decisions.decide_handoff(tenant=tenant, reference=str(late.pk), decision=decisions.Decision.APPROVE, **seen)
    captured(tenant)
    assert judge_again() == 1
    late.refresh_from_db()
    assert (late.state, late.flagged) == (State.APPROVED, False)
    assert not Alert.objects.exists()


def test_more_results_during_the_judging_judge_again(tenant: Tenant) -> None:
    handoff(tenant)
    captured(tenant, total=1)
    LateResults.objects.update(claim_expires_at=None)
    lease = late_results._take()
    assert lease is not None
    captured(tenant)
    late_results._judge_trace(lease)
    assert late_results.is_anything_waiting()


def test_a_trace_that_fails_again_and_again_is_given_up(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    handoff(tenant)
    captured(tenant)
    monkeypatch.setattr(late_results, "_load_open_verdicts", None)
    for _ in range(10):
        judge_again()
    assert not LateResults.objects.exists()


def test_a_full_disk_counts_no_try(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    handoff(tenant)
    captured(tenant)
    with monkeypatch.context() as patch:
        patch.setattr(late_results, "_load_open_verdicts", find_disk_full)
        for _ in range(10):
            with pytest.raises(OperationalError):
                judge_again()
    assert judge_again() == 1


def test_only_the_newest_handoffs_are_judged_again(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_results, "MOST_HANDOFFS", 2)
    oldest = handoff(tenant)
    newer = [handoff(tenant, f"The order costs 54.20, as said in {number} mails.") for number in (3, 4)]
    captured(tenant)
    assert judge_again() == 2
    assert statuses(oldest) == ["ungrounded"]
    assert all("grounded" in statuses(one) for one in newer)


def test_evidence_costs_one_query_for_all_traces_without_results(
    tenant: Tenant, django_assert_num_queries: Any
) -> None:
    handoffs = [handoff(tenant, trace=f"t-{number}") for number in range(3)]
    with django_assert_num_queries(1):
        evidence = load_evidence(handoffs)
        assert [evidence.of(one) for one in handoffs] == [(), (), ()]
    with django_assert_num_queries(0):
        assert load_evidence([handoff_without_trace(handoffs[0])]).of(handoffs[0]) == ()


def handoff_without_trace(handoff: Handoff) -> Handoff:
    return Handoff(tenant_id=handoff.tenant_id, trace_id="")


def test_waiting_handoffs_need_no_second_judging(tenant: Tenant) -> None:
    submit(tenant, payload(data={"text": "The order costs 54.20."}), trace_id="t-1", context=QUESTION)
    captured(tenant)
    assert not LateResults.objects.exists()
    judge.drain()
    assert statuses(Handoff.objects.get()) == ["grounded"]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
def test_of_two_results_of_one_call_at_once_the_better_one_is_stored(tenant: Tenant) -> None:
    now, answers = timezone.now(), []

    def send(grade: Grade, total: int) -> None:
        sent = ToolResultIn(tool="get_order", call_id="c", at=now, result={"total": total})
        with transaction.atomic():
            rows = tool_results.make_rows(tenant.pk, "t-1", [sent], now)
            answers.extend(tool_results.store(rows, grade, grade, now))

    def collect() -> None:
        try:
            send(Grade.OUTSIDE, 2)
        finally:
            connection.close()

    collector = threading.Thread(target=collect)
    with transaction.atomic():
        send(Grade.SAID, 1)
        collector.start()
        collector.join(0.3)
    collector.join(60)
    assert answers == ["stored", "replaced"]
    assert ToolResult.objects.values_list("grade", "content").get() == ("outside", '{"total":2}')


def test_results_that_arrive_while_a_handoff_is_judged_for_the_first_time_are_late_too(tenant: Tenant) -> None:
    submit(tenant, payload(data={"text": "The order costs 54.20."}), trace_id="t-1", context=QUESTION)
    captured(tenant, total=1.5, hours=-1)
    # Nobody has begun to judge the handoff, so the worker will read the results.
    assert not LateResults.objects.exists()
    lease = judge_leases.take_fresh(1)
    assert lease is not None
    captured(tenant, total=2.5, hours=-1)
    assert LateResults.objects.exists()
    # The worker may have read the evidence before, so the trace waits for its verdict.
    assert judge_again() == 0
    assert LateResults.objects.get().claim_expires_at is not None
    assert judge.judge(lease) == 1
    judge_again()
    assert not LateResults.objects.exists()


def test_a_trace_stays_in_the_queue_for_as_long_as_the_llm_checks_one_of_its_handoffs(
    tenant: Tenant, model: MessagesServer
) -> None:
    handoff(tenant)
    job = jobs.take()
    assert job is not None
    captured(tenant)
    for _ in range(10):
        judge_again()
    # The thread that checks the handoff may have read the evidence before.
    assert LateResults.objects.exists()
    assert run.check(job)
    judge_again()
    assert not LateResults.objects.exists()


def test_a_handoff_that_waits_for_the_llm_reads_the_evidence_later(tenant: Tenant, model: MessagesServer) -> None:
    late = handoff(tenant)
    captured(tenant)
    assert judge_again() == 0
    assert not LateResults.objects.exists()
    run.drain()
    assert statuses(late) == ["grounded"]


def test_a_handoff_that_had_no_source_is_judged_by_late_results(tenant: Tenant) -> None:
    document = payload(data={"text": "The order costs 54.20."})
    late, order = (judged(tenant, document, trace_id=trace) for trace in ("t-1", "t-2"))
    assert statuses(late) == []
    captured(tenant)
    assert judge_again() == 1
    assert statuses(late) == ["grounded"]
    captured(tenant, trace="t-2", total=99)
    assert judge_again() == 1
    assert (statuses(order), Handoff.objects.get(pk=order.pk).state) == (["ungrounded"], State.ACCEPTED)
    assert_counts_are_right()
