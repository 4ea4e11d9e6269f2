"""Tests of the queue of LLM checks: taken, returned and given up."""

from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.db import DatabaseError, OperationalError
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import counts, judge, leases, notify, queries, tasks
from handoffaudit.handoffs.llm import jobs
from handoffaudit.handoffs.llm import run as llm_run
from handoffaudit.handoffs.models import ActorKind, CheckKind, Handoff, ModelCheck, State, Verdict
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation import pipeline
from tests.handoffs.support import (
    assert_counts_are_right,
    checks_run_out,
    due,
    find_disk_full,
    find_read_only,
    judged,
    payload,
)
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db
ADA = Actor(ActorKind.PERSON, "ada")


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("our bug")


def test_the_oldest_is_taken_first_and_first_checks_before_those_made_again(
    tenant: Tenant, model: MessagesServer
) -> None:
    again, *firsts = (judged(tenant, payload()) for _ in range(3))
    ModelCheck.objects.filter(pk=again.pk).update(kind=CheckKind.RECHECK)
    taken = [jobs.take() for _ in range(4)]
    assert [one and (one.handoff.pk, one.kind) for one in taken] == [
        *((handoff.pk, CheckKind.FIRST) for handoff in firsts),
        (again.pk, CheckKind.RECHECK),
        None,
    ]


def test_a_claim_lasts_as_long_as_its_calls_may_take(tenant: Tenant, model: MessagesServer, settings) -> None:
    settings.MODEL_SECONDS, settings.LEASE_SECONDS = 100, 50
    due(judged(tenant, payload()))
    left = ModelCheck.objects.get().claim_expires_at - timezone.now()
    assert timedelta(seconds=505) < left <= timedelta(seconds=550)
    assert jobs.count_waiting(10) == 0


def test_claims_of_a_process_that_is_gone_can_be_ended(tenant: Tenant, model: MessagesServer) -> None:
    first, bad = judged(tenant, payload()), judged(tenant, payload(data={"summary": "bad"}))
    lost = due(first)
    jobs.release(due(bad))
    # it comes again after two seconds, and this may take longer
    later = timezone.now() + timedelta(minutes=5)
    assert ModelCheck.objects.filter(handoff=bad.pk, claim=None).update(claim_expires_at=later) == 1
    jobs.end_leases()
    assert due(first).token != lost.token
    assert not llm_run.check(lost)
    # What was given back for later waits on.
    assert jobs.take() is None


def test_one_that_breaks_takes_no_other_along_and_comes_again_later(
    tenant: Tenant, model: MessagesServer, monkeypatch
) -> None:
    first, bad, last = (judged(tenant, payload(data={"summary": name})) for name in ("first", "bad", "last"))
    run = pipeline.run

    def poisoned(subject, **given):
        return broken() if subject.record.data == {"summary": "bad"} else run(subject, **given)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "run", poisoned)
        assert llm_run.drain() == 2
    states = [queries.get(tenant, str(one.pk)).state for one in (first, bad, last)]
    assert states == [State.ACCEPTED, State.VALIDATING, State.ACCEPTED]
    row = ModelCheck.objects.get()
    assert (row.claim, row.tries, row.claim_expires_at > timezone.now()) == (None, 1, True)
    checks_run_out()
    assert llm_run.drain() == 1
    assert_counts_are_right()


@pytest.fixture
def parked(tenant: Tenant, model: MessagesServer, monkeypatch) -> Handoff:
    handoff = judged(tenant, payload(handoff_id="h"))
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "run", broken)
        for _ in range(3):
            checks_run_out()
            assert llm_run.drain() == 0
    checks_run_out()
    tasks.sweep_checks()
    return queries.get(tenant, str(handoff.pk))


def test_after_as_many_tries_as_allowed_it_is_parked(parked: Handoff, model: MessagesServer) -> None:
    assert (parked.parked, parked.state, ModelCheck.objects.count()) == (True, State.VALIDATING, 0)
    assert queries.events(parked)[-1].reason == "parked: 3 tries of its LLM check failed"
    assert (judge.drain(), llm_run.drain(), model.requests) == (0, 0, [])


def test_another_try_judges_it_anew_and_asks_the_model_again(
    tenant: Tenant, parked: Handoff, model: MessagesServer
) -> None:
    judge.retry_parked(tenant=tenant, reference="h", actor=ADA)
    assert judge.drain() == 1
    assert queries.current_verdict(queries.get(tenant, "h"))["pending"] == ["semantic"]
    assert llm_run.drain() == 1
    handoff = queries.get(tenant, "h")
    assert (handoff.state, handoff.parked, len(model.requests)) == (State.ACCEPTED, False, 1)
    assert Verdict.objects.filter(handoff=handoff.pk).count() == 3
    assert_counts_are_right()


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_full_disk_counts_no_try_of_a_check(
    tenant: Tenant, model: MessagesServer, monkeypatch, settings, is_alone: bool
) -> None:
    handoff = judged(tenant, payload())
    if is_alone:
        due(handoff)
    with monkeypatch.context() as patch:
        patch.setattr(counts, "apply", find_disk_full)
        for _ in range(2 * settings.LEASE_TRIES):
            checks_run_out()
            assert llm_run.drain() == 0
            tasks.sweep_checks()
            # Until the pause is over, no check asks the LLM.
            checks_run_out()
            assert jobs.take() is None
            monkeypatch.setattr(jobs.gate, "_until", 0.0)
    assert ModelCheck.objects.get().tries == 0
    assert llm_run.drain() == 1
    assert_counts_are_right()


def test_a_check_left_behind_gets_its_turn_after_a_full_disk(
    tenant: Tenant, model: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    due(judged(tenant, payload()))
    checks_run_out()
    monkeypatch.setattr(jobs.gate, "_is_failing", True)
    monkeypatch.setattr(jobs.gate, "_until", 0.0)
    assert llm_run.drain() == 1


def lose_database(*_: object, **__: object) -> None:
    raise OperationalError("gone")


@pytest.mark.parametrize("fail", [lose_database, find_read_only])
@pytest.mark.parametrize("place", ["check", "take"])
def test_a_check_that_was_lost_with_the_database_is_given_back_when_it_answers(
    tenant: Tenant, model: MessagesServer, monkeypatch, place: str, fail
) -> None:
    judged(tenant, payload())
    with monkeypatch.context() as patch:
        patch.setattr(leases, "end", fail)
        patch.setattr(*((counts, "apply", fail) if place == "check" else (Handoff.objects, "select_related", fail)))
        with nullcontext() if place == "check" else pytest.raises(DatabaseError):
            llm_run.drain()
        assert ModelCheck.objects.exclude(claim=None).exists()
        with pytest.raises(DatabaseError):
            tasks.look()
    monkeypatch.setattr(notify, "consumes", lambda _: False)
    tasks.look()
    row = ModelCheck.objects.get()
    assert (row.claim, row.claim_expires_at < timezone.now() + timedelta(seconds=15)) == (None, True)
    checks_run_out()
    monkeypatch.setattr(jobs.gate, "_until", 0.0)
    assert llm_run.drain() == 1
    assert_counts_are_right()


def test_a_crash_with_several_checks_in_hand_counts_against_none(
    tenant: Tenant, model: MessagesServer, settings
) -> None:
    settings.LEASE_TRIES = 1
    handoffs = [judged(tenant, payload()) for _ in range(3)]
    assert all(jobs.take() for _ in handoffs)
    checks_run_out()
    assert jobs.park_exhausted() == 0
    assert jobs.take() is None
    poison = jobs.take_left_behind()
    assert poison is not None
    checks_run_out()
    assert jobs.park_exhausted() == 1
    assert llm_run.drain() == 2
    assert [one.pk for one in Handoff.objects.filter(parked=True)] == [poison.handoff.pk]


def test_one_that_ends_after_all_is_not_parked(tenant: Tenant, model: MessagesServer) -> None:
    """A sweep finds the check out of tries, but its slow worker stores the verdict before the sweep parks it."""
    handoff = judged(tenant, payload())
    slow = due(handoff)
    ModelCheck.objects.update(tries=3)
    checks_run_out()
    spent = ModelCheck.objects.get()
    assert llm_run.check(slow)
    assert jobs._park(spent) is False
    found = queries.get(tenant, str(handoff.pk))
    assert (found.state, found.parked) == (State.ACCEPTED, False)


def test_a_recheck_that_can_not_be_made_parks_nothing(tenant: Tenant, model: MessagesServer) -> None:
    model.outage = 529
    handoff = judged(tenant, payload())
    llm_run.drain()
    ModelCheck.objects.create(
        handoff=handoff,
        tenant=tenant,
        kind=CheckKind.RECHECK,
        since=timezone.now(),
        tries=3,
        claim_expires_at=timezone.now() - timedelta(seconds=1),
    )
    assert jobs.park_exhausted() == 0
    assert not ModelCheck.objects.exists()
    found = queries.get(tenant, str(handoff.pk))
    assert (found.state, found.parked) == (State.ACCEPTED, False)


@pytest.mark.parametrize(
    ("waited", "again"),
    [
        (timedelta(0), timedelta(minutes=1)),
        (timedelta(hours=3), timedelta(hours=3)),
        (timedelta(days=3), timedelta(days=1)),
    ],
)
def test_what_is_put_off_comes_again_ever_later(
    tenant: Tenant, model: MessagesServer, waited: timedelta, again: timedelta
) -> None:
    handoff = judged(tenant, payload())
    ModelCheck.objects.update(since=timezone.now() - waited)
    taken = due(handoff)
    jobs.postpone(taken)
    row = ModelCheck.objects.get()
    assert (row.claim, row.tries) == (None, 0)
    assert abs(row.claim_expires_at - timezone.now() - again) < timedelta(seconds=5)
    assert (jobs.take(), jobs.count_waiting(9), jobs.count_under_way(CheckKind.FIRST)) == (None, 0, 0)
