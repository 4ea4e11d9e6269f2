"""Tests of concurrent senders, workers of both queues, sweeps and reviewers, each with a database connection."""

import random
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, tasks
from handoffaudit.handoffs.llm import jobs, run
from handoffaudit.handoffs.models import Event, Handoff, ModelBreaker, ModelCall, ModelCheck, State, Verdict
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.base import ReviewError
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.validation.config import FailMode
from tests.handoffs.support import (
    SENDER,
    assert_counts_are_right,
    at_once,
    checks_run_out,
    doubts,
    judged,
    payload,
    set_policy,
    submit,
)
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, says
from tests.messages_api.server import MessagesServer
from tests.scale import cases

pytestmark = pytest.mark.django_db(transaction=True)


def about(number: int, **changes: object) -> dict[str, object]:
    return payload(data={"summary": f"Number {number}."}, **changes)


def errors(results: list[object]) -> list[object]:
    return [one for one in results if isinstance(one, Exception)]


def some_doubted(request: Request) -> Scripted:
    """Answer slowly enough for others to overtake, and report every third handoff as fabricated."""
    doubted = any(f"Number {number}." in request.content for number in range(0, 1000, 3))
    wait = random.random() / 50  # noqa: S311 -- no secret
    return doubts() if doubted else says({"valid": True, "issues": []}, delay=wait)


def test_two_workers_never_make_the_same_check(tenant: Tenant, model: MessagesServer) -> None:
    for number in range(12):
        judged(tenant, about(number))
    model.respond = some_doubted
    drained = at_once(*[run.drain] * 4)
    assert sum(drained) == 12
    assert (Verdict.objects.count(), len(model.requests), ModelCheck.objects.count()) == (24, 12, 0)
    assert_counts_are_right()


def test_of_two_workers_with_one_check_one_stores_and_one_pays(tenant: Tenant, model: MessagesServer) -> None:
    handoff = judged(tenant, about(1))
    model.respond = lambda _: says({"valid": True, "issues": []}, delay=0.3)
    first = jobs.take()
    assert first is not None
    checks_run_out()
    second = jobs.take_left_behind()
    assert second is not None
    stored = at_once(lambda: run.check(first), lambda: run.check(second))
    assert stored == [False, True]
    assert Verdict.objects.filter(handoff=handoff.pk).count() == 2
    assert ModelCall.objects.filter(cached=False).count() == len(model.requests) == 1
    assert_counts_are_right()


def test_sweeps_at_once_queue_each_once(tenant: Tenant, model: MessagesServer) -> None:
    model.outage = 529
    for number in range(10):
        judged(tenant, about(number))
    run.drain()
    model.outage = 0
    ModelBreaker.objects.all().delete()
    assert errors(at_once(*[tasks.sweep_checks] * 4)) == []
    assert ModelCheck.objects.count() == 10
    assert errors(at_once(*[run.drain] * 4, tasks.sweep_checks)) == []
    while run.drain() or run.enqueue_unverified():
        pass
    assert Event.objects.filter(reason__startswith="checked later").count() == 10
    assert not Handoff.objects.filter(unverified=True).exists()
    assert_counts_are_right()


def retries_of(tenant: Tenant, lineages: list[int], attempt: int) -> Callable[[], None]:
    def send() -> None:
        for lineage in lineages:
            submit(tenant, about(attempt * 100 + lineage, handoff_id=f"{lineage}-{attempt}"), retry_of=f"{lineage}-1")
            time.sleep(0.002)

    return send


def again_and_again(drain: Callable[[], int]) -> int:
    """Repeat the call while others send."""
    end, stored = time.monotonic() + 0.5, 0
    while time.monotonic() < end:
        done = drain()
        stored += done
        if not done:
            # What nobody has sent yet is not asked for without a pause: that would only take the senders' time.
            time.sleep(0.005)
    return stored


@pytest.mark.parametrize("seed", cases(range(4), [0]))
def test_attempts_of_one_lineage_in_both_queues_do_not_lock_each_other_out(
    tenant: Tenant, model: MessagesServer, settings, seed: int
) -> None:
    """Later attempts get structural verdicts while earlier attempts get final verdicts, retries and repairs."""
    settings.LEASE_SIZE = 5
    model.respond = some_doubted
    chance = random.Random(seed)  # noqa: S311 -- repeatable on purpose
    lineages = list(range(12))
    for lineage in lineages:
        submit(tenant, about(100 + lineage, handoff_id=f"{lineage}-1"))
    judge.drain()
    for attempt in (2, 3, 4):
        chance.shuffle(lineages)
        results = at_once(
            retries_of(tenant, list(lineages), attempt),
            retries_of(tenant, lineages[::-1], attempt + 5),
            *[lambda: again_and_again(judge.drain)] * 2,
            *[lambda: again_and_again(run.drain)] * 3,
        )
        assert errors(results) == []
    while judge.drain() or run.drain():
        pass
    assert not ModelCheck.objects.exists()
    assert not Handoff.objects.filter(state__in=("received", "validating")).exists()
    for lineage in range(12):
        standing = Handoff.objects.filter(handoff_id__startswith=f"{lineage}-").exclude(state=State.SUPERSEDED)
        assert standing.count() == 1
    assert_counts_are_right()


@pytest.mark.parametrize("seed", cases(range(3), [0]))
def test_a_catch_up_among_reviewers_and_retries_overwrites_no_decision(
    tenant: Tenant, model: MessagesServer, seed: int
) -> None:
    set_policy(tenant, "research_result", fail_mode=FailMode.CLOSED)
    model.outage = 529
    chance = random.Random(seed)  # noqa: S311 -- repeatable on purpose
    for number in range(24):
        submit(tenant, about(number, handoff_id=f"{number}-1", handoff_type=chance.choice(["research_result", "x"])))
    judge.drain()
    run.drain()
    model.outage = 0
    ModelBreaker.objects.all().delete()
    model.respond = some_doubted

    def review() -> list[str]:
        decided = []
        for handoff in Handoff.objects.filter(state=State.HELD).order_by("-id"):
            decision = Decision.APPROVE if handoff.handoff_id[0] in "13579" else Decision.DECLINE
            try:
                decisions.decide_handoff(
                    tenant=tenant,
                    reference=str(handoff.pk),
                    decision=decision,
                    note="seen",
                    actor=SENDER,
                    seen_version=handoff.version,
                )
            except ReviewError:
                continue
            decided.append(handoff.handoff_id)
        return decided

    retried = chance.sample(range(24), 6)
    tasks.sweep_checks()
    results = at_once(
        review,
        retries_of(tenant, retried, 2),
        run.drain,
        run.drain,
        tasks.sweep_checks,
        lambda: again_and_again(judge.drain),
    )
    assert errors(results) == []
    while judge.drain() or run.drain() or run.enqueue_unverified():
        pass
    decided = Handoff.objects.filter(handoff_id__in=results[0]).exclude(state=State.SUPERSEDED)
    assert set(decided.values_list("state", flat=True)) <= {State.APPROVED, State.DECLINED}
    assert not Handoff.objects.filter(unverified=True, state__in=("accepted", "held", "approved")).exists()
    for way in {event.handoff_id for event in Event.objects.all()}:
        steps = list(Event.objects.filter(handoff=way).order_by("id").values_list("from_state", "to_state"))
        assert all(before[1] == after[0] for before, after in pairwise(steps)), steps
    assert_counts_are_right()
