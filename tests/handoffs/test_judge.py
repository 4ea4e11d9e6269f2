"""Tests of leased rows through the pipeline and back into the database."""

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.db import DatabaseError, OperationalError, connection
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, counts, judge, judge_leases, queries, stats, tasks, verdicts
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Event, Finding, Handoff, HandoffBody, JudgeLease, State, Verdict
from handoffaudit.policy.kinds import strictness
from handoffaudit.validation import pipeline
from handoffaudit.validation.config import Mode, TypePolicy
from handoffaudit.validation.tokenizers import estimate
from tests.handoffs.support import (
    SENDER,
    assert_counts_are_right,
    circular,
    find_disk_full,
    find_read_only,
    held,
    judged,
    let_leases_expire,
    payload,
    submit,
    take,
    to_itself,
)
from tests.validation.support import universal

pytestmark = pytest.mark.django_db


def batch(tenant: Tenant, *documents: dict[str, object]) -> list[str]:
    return [receipt.id for receipt in store.accept_batch(tenant, SENDER, [orjson.dumps(one) for one in documents])]


@pytest.mark.parametrize(
    ("document", "state", "codes", "approvable"),
    [
        (payload, State.ACCEPTED, [], True),
        (circular, State.REJECTED, ["chain.circular"], True),
        (held, State.HELD, ["chain.needs_approval"], True),
        (to_itself, State.REJECTED, ["chain.self_handoff"], False),
    ],
)
def test_the_verdict_becomes_the_state(
    tenant: Tenant, document, state: str, codes: list[str], approvable: bool
) -> None:
    handoff = judged(tenant, document())
    assert (handoff.state, handoff.codes, handoff.approvable) == (state, codes, approvable)
    assert (handoff.claim, handoff.claim_expires_at, handoff.version) == (None, None, 2)
    verdict = queries.current_verdict(handoff)
    assert verdict is not None
    assert (verdict["handoff_id"], verdict["outcome"]) == (handoff.handoff_id, state)
    assert (handoff.score, handoff.token_count) == (verdict["quality_score"], verdict["token_counts"]["total"])
    assert [(event.from_state, event.to_state) for event in queries.events(handoff)] == [
        ("", "received"),
        ("received", "validating"),
        ("validating", state),
    ]
    assert_counts_are_right()


def test_one_that_breaks_the_pipeline_takes_no_other_along(tenant: Tenant, monkeypatch) -> None:
    names = [f"h{number}" for number in range(6)]
    batch(tenant, *(payload(handoff_id=name) for name in names))
    run = pipeline.run

    def poisoned(subject, **given):
        if subject.record.handoff_id == "h3":
            raise ZeroDivisionError("our bug")
        return run(subject, **given)

    monkeypatch.setattr(pipeline, "run", poisoned)
    assert judge.drain() == 5
    assert dict(Handoff.objects.values_list("handoff_id", "state")) == {
        name: State.VALIDATING if name == "h3" else State.ACCEPTED for name in names
    }
    for _ in range(2):
        let_leases_expire()
        tasks.sweep()
        assert judge.drain() == 0
    let_leases_expire()
    tasks.sweep()
    parked = Handoff.objects.get(handoff_id="h3")
    assert (parked.parked, parked.state, parked.tries) == (True, State.VALIDATING, 4)
    assert stats.count_waiting(tenant).parked == 1


def test_a_poisoned_one_is_judged_once_the_bug_is_gone(tenant: Tenant, monkeypatch) -> None:
    batch(tenant, payload())
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "run", lambda *_, **__: 1 / 0)
        assert judge.drain() == 0
    let_leases_expire()
    assert judge.drain() == 1
    assert Handoff.objects.get().state == State.ACCEPTED


def test_a_claim_that_was_lost_in_the_middle_stores_nothing(tenant: Tenant) -> None:
    batch(tenant, payload(), circular())
    lost = take(5)
    assert lost is not None
    let_leases_expire()
    assert judge.drain() == 2
    assert judge.judge(lost) == 0
    assert Verdict.objects.count() == 2
    assert Event.objects.filter(from_state=State.VALIDATING).count() == 2
    assert Finding.objects.filter(code="chain.circular").count() == 1
    assert Finding.objects.count() == 1
    assert_counts_are_right()


def test_of_a_claim_that_was_lost_in_part_the_rest_is_stored(tenant: Tenant) -> None:
    first, second = batch(tenant, payload(), payload())
    lease = take(5)
    assert lease is not None
    Handoff.objects.filter(pk=first).update(claim=None, parked=True)
    assert judge.judge(lease) == 1
    assert Verdict.objects.get().handoff_id == Handoff.objects.get(pk=second).pk


def test_if_a_part_of_a_lease_fails_the_rest_is_tried_alone(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(verdicts, "CHUNK_BYTES", 1)
    batch(tenant, payload(), circular(), payload())
    seen: list[int] = []

    def fail_second(handoffs: Any, load: Callable[..., Any] = attempts.lock) -> Any:
        seen.append(len(handoffs))
        if len(seen) == 2:
            raise OperationalError("gone")
        return load(handoffs)

    with monkeypatch.context() as patch:
        patch.setattr(attempts, "lock", fail_second)
        with pytest.raises(OperationalError):
            judge.drain()
    assert [Verdict.objects.count(), judge.drain()] == [1, 0]
    tasks.look()
    assert sorted(Handoff.objects.filter(verdict=None).values_list("state", "tries")) == [(State.VALIDATING, 1)] * 2
    assert judge.drain() == 2
    assert seen == [1, 1]
    assert Counter(Event.objects.values_list("to_state", flat=True))["validating"] == 3
    assert not JudgeLease.objects.exists()


def test_a_lease_ends_with_its_verdicts_and_dates_their_first_events(tenant: Tenant) -> None:
    before = timezone.now()
    handoff = judged(tenant, payload())
    assert not JudgeLease.objects.exists()
    received, began, ended = queries.events(handoff)
    assert max(received.at, before) <= began.at <= ended.at


def test_leases_are_longer_while_the_queue_is_long(tenant: Tenant, settings, monkeypatch) -> None:
    settings.LEASE_SIZE = 2
    batch(tenant, *(payload() for _ in range(11)))
    sizes: list[int] = []

    def work(lease: judge_leases.Lease, work_on: Callable[[judge_leases.Lease], int] = judge.judge) -> int:
        sizes.append(len(lease.handoffs))
        return work_on(lease)

    monkeypatch.setattr(judge, "judge", work)
    assert judge.drain() == 11
    batch(tenant, payload(), payload(), payload())
    assert judge.drain() == 3
    assert sizes == [2, 4, 4, 1, 2, 1]


def test_a_failed_store_leaves_nothing_half_done(tenant: Tenant, monkeypatch) -> None:
    batch(tenant, payload(), circular())
    with monkeypatch.context() as patch:
        patch.setattr(counts, "apply", lambda _: (_ for _ in ()).throw(DatabaseError("gone")))
        with pytest.raises(DatabaseError):
            judge.drain()
    assert not Verdict.objects.exists()
    assert not Finding.objects.exists()
    let_leases_expire()
    assert judge.drain() == 2
    assert_counts_are_right()


def test_leases_that_were_lost_with_the_database_are_given_back_when_it_answers(tenant: Tenant, monkeypatch) -> None:
    batch(tenant, payload(), circular())
    with monkeypatch.context() as patch:
        patch.setattr(counts, "apply", lambda _: (_ for _ in ()).throw(OperationalError("gone")))
        with pytest.raises(OperationalError):
            judge.drain()
        assert judge.drain() == 0
        tasks.look()
        # A handoff that fails again, alone, waits for the end of its lease.
        with pytest.raises(OperationalError):
            judge.drain()
    tasks.look()
    assert judge.drain() == 1
    let_leases_expire()
    assert judge.drain() == 1
    assert_counts_are_right()


@pytest.mark.parametrize("fail", [find_disk_full, find_read_only])
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_full_disk_counts_no_try_of_a_handoff(tenant: Tenant, monkeypatch, settings, is_alone: bool, fail) -> None:
    batch(tenant, payload(), circular())
    if is_alone:
        take(2)
        let_leases_expire()
    with monkeypatch.context() as patch:
        patch.setattr(counts, "apply", fail)
        for _ in range(2 * settings.LEASE_TRIES):
            with pytest.raises(DatabaseError):
                judge.drain()
            tasks.look()
            let_leases_expire()
    assert judge.park_exhausted() == 0
    assert set(Handoff.objects.values_list("tries", flat=True)) == {int(is_alone)}
    assert judge.drain() == 2
    assert_counts_are_right()


def test_one_claim_holds_handoffs_of_several_tenants_each_by_its_own_policy(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    table = strictness.current(other_tenant)
    shadow = TypePolicy("research_result", mode=Mode.SHADOW)
    rows = [row for row in table.rows if row.handoff_type != "research_result"]
    strictness.save(tenant=other_tenant, base_version=0, rows=[*rows, shadow], actor="ada")
    submit(tenant, circular(handoff_id="h"))
    submit(other_tenant, circular(handoff_id="h", tenant_id="globex"))
    assert judge.drain() == 2
    ours, theirs = queries.get(tenant, "h"), queries.get(other_tenant, "h")
    assert (ours.state, ours.would_decide) == (State.REJECTED, "")
    assert (theirs.state, theirs.would_decide) == (State.ACCEPTED, "rejected")
    assert theirs.codes == ["chain.circular"]
    assert queries.events(theirs)[-1].reason == "would be rejected (shadow)"
    assert [queries.current_verdict(one)["policy_version"] for one in (ours, theirs)] == [0, 1]
    assert_counts_are_right()


def test_a_verdict_names_the_hash_that_the_row_keeps(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    assert queries.current_verdict(handoff)["output_hash"] == handoff.data_hash
    data = orjson.dumps(payload()["data"], option=orjson.OPT_SORT_KEYS)
    assert handoff.data_hash == hashlib.sha256(data).hexdigest()


def test_a_sender_that_says_it_was_approved_passes_the_length(tenant: Tenant) -> None:
    handoff = judged(tenant, held(user_approved=True))
    assert "chain.needs_approval" not in handoff.codes
    assert handoff.user_approved is True


def test_hostile_signs_survive_judging(tenant: Tenant) -> None:
    hostile = {"k\0": "\0", "e": "\u202e\ud7ff😀"}
    handoff = judged(tenant, circular(handoff_id="a\0b", source_agent_id="x\0", handoff_type="\0", data=hostile))
    assert handoff.state == State.REJECTED
    assert "\0" not in handoff.handoff_id + handoff.source_agent_id + handoff.handoff_type


def test_the_bytes_are_the_same_after_judging(tenant: Tenant) -> None:
    sent = orjson.dumps(payload(), option=orjson.OPT_INDENT_2)
    handoff = judged(tenant, sent)
    assert bytes(HandoffBody.objects.get(pk=handoff.pk).original) == sent


def test_a_held_one_is_due_after_the_limit_of_its_type(tenant: Tenant) -> None:
    handoff = judged(tenant, held())
    assert handoff.review_due_at - handoff.judged_at == timedelta(hours=24)
    assert judged(tenant, circular()).review_due_at is None


def test_the_declared_count_may_be_that_of_the_bytes_as_sent(tenant: Tenant) -> None:
    document = universal()
    document["handoff"]["meta"]["token_count"] = round(
        estimate(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    )
    indented = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    assert "tokens.count_drift" not in judged(tenant, indented).codes
    assert "tokens.count_drift" in judged(tenant, orjson.dumps(document)).codes


@pytest.mark.parametrize(
    "ask", [judge_leases.is_anything_waiting, judge_leases.is_any_left_behind, judge.park_exhausted]
)
def test_what_a_worker_asks_every_second_reads_the_waiting_handoffs_alone(
    ask: Callable[[], object],
) -> None:
    """Otherwise an idle worker would read the whole table once a second."""
    if connection.vendor == "postgresql":
        # PostgreSQL plans with the values of parameters, and reads small tables whole.
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    asked: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        ask()
    found = [(sql, params) for sql, params in asked if "claim_expires_at" in sql]
    assert found
    with connection.cursor() as cursor:
        explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
        for sql, params in found:
            cursor.execute(explain + sql, params)
            assert "handoff_waiting" in str(cursor.fetchall())
