"""Tests of the sweep and of the task that the sweep wakes."""

import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import celery
import pytest
from django.db import OperationalError
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, judge_leases, late_results, notify, tasks
from handoffaudit.handoffs.llm import client, run
from handoffaudit.handoffs.models import Handoff, ModelCheck, State
from tests.handoffs.support import judged, let_leases_expire, payload, submit, take
from tests.messages_api.server import MessagesServer


@pytest.fixture
def started(monkeypatch) -> list[str]:
    """Return the list of tasks that a worker of the default queue starts in its own threads."""
    tasks_started: list[str] = []
    monkeypatch.setattr(notify, "_queues", ["structural"])
    monkeypatch.setattr(notify, "start_threads", tasks_started.append)
    monkeypatch.setattr(judge_leases, "_lost", {})
    return tasks_started


def ended() -> None:
    """Stop the periodic jobs as an ending worker does, and let this process go on."""
    tasks.stop()
    assert run.ending.is_set()
    run.ending.clear()


@pytest.mark.django_db
def test_an_idle_worker_judges_what_was_left_behind_and_nothing_else(tenant: Tenant, started: list[str]) -> None:
    judged(tenant, payload())
    tasks.look()
    assert started == []
    submit(tenant, payload())
    tasks.look()
    assert started == [notify.TASK]
    take(1)
    tasks.look()
    assert started == [notify.TASK]
    let_leases_expire()
    tasks.look()
    assert started == [notify.TASK] * 2


@pytest.mark.django_db
def test_looking_costs_one_query_and_none_while_the_worker_is_busy(
    tenant: Tenant, started: list[str], monkeypatch, django_assert_num_queries
) -> None:
    submit(tenant, payload())
    with django_assert_num_queries(1):
        tasks.look()
    monkeypatch.setattr(tasks.drains, "taken", 1)
    with django_assert_num_queries(0):
        tasks.look()
    assert started == [notify.TASK]


@pytest.mark.django_db(transaction=True)
def test_verdicts_come_without_any_message(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(notify, "send", lambda *_: False)
    monkeypatch.setattr(tasks, "LOOK_SECONDS", 0.02)
    worker = celery.Celery()
    worker.amqp.queues.select(["structural"])
    submit(tenant, payload())
    tasks.start(instance=SimpleNamespace(app=worker))
    try:
        end = time.monotonic() + 60
        while Handoff.objects.get().state != State.ACCEPTED:
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        ended()
        monkeypatch.setattr(notify, "_queues", [])
        for thread in threading.enumerate():
            if thread.name in ("sweep", "look", "judge_waiting"):
                thread.join(60)


@pytest.mark.django_db
def test_what_is_parked_wakes_nobody(tenant: Tenant, started: list[str]) -> None:
    submit(tenant, payload())
    take(1)
    let_leases_expire()
    take(1)
    Handoff.objects.update(tries=9, claim_expires_at=timezone.now() - timedelta(seconds=1))
    tasks.sweep()
    tasks.look()
    assert started == []
    assert Handoff.objects.get().parked


@pytest.mark.django_db
def test_what_waited_for_the_model_ends_unverified_where_the_key_is_gone(
    tenant: Tenant, model: MessagesServer, settings
) -> None:
    waits = judged(tenant, payload())
    given_up = judged(tenant, payload())
    ModelCheck.objects.filter(pk=given_up.pk).update(tries=9, claim_expires_at=timezone.now() - timedelta(seconds=1))
    tasks.sweep()
    assert ModelCheck.objects.count() == 2
    settings.ANTHROPIC_API_KEY = ""
    tasks.sweep()
    waits.refresh_from_db()
    given_up.refresh_from_db()
    assert (waits.state, waits.unverified, waits.codes) == (State.ACCEPTED, True, [])
    assert (given_up.state, given_up.parked) == (State.VALIDATING, True)
    assert (ModelCheck.objects.count(), model.requests) == (0, [])


@pytest.mark.parametrize("error", [OperationalError("gone"), KeyError("our own bug")], ids=["database", "bug"])
def test_a_pass_that_fails_ends_neither_the_sweep_nor_the_other_passes(error: Exception, monkeypatch, settings) -> None:
    settings.SWEEP_SECONDS = 0.01
    passes: list[int] = []
    third = threading.Event()

    def failing() -> None:
        passes.append(1)
        raise error

    monkeypatch.setattr(tasks, "sweep", failing)
    monkeypatch.setattr(
        tasks, "periodic_jobs", lambda: [tasks.sweep, lambda: third.set() if len(passes) == 3 else None]
    )
    tasks.start()
    try:
        assert third.wait(60)
    finally:
        ended()


@pytest.mark.parametrize(("queues", "swept"), [(["structural"], 0), (["semantic"], 1), (["structural", "semantic"], 1)])
def test_only_who_makes_checks_looks_for_them(monkeypatch, queues: list[str], swept: int) -> None:
    found = threading.Event()
    passes: list[str] = []
    monkeypatch.setattr(tasks, "sweep", lambda: passes.append("sweep"))
    monkeypatch.setattr(tasks, "sweep_checks", lambda: passes.append("checks"))
    prepared = threading.Event()
    monkeypatch.setattr(client, "prepare_client", prepared.set)
    monkeypatch.setattr(tasks, "look", lambda: None)
    monkeypatch.setattr(notify, "_queues", [])
    monkeypatch.setattr(tasks, "periodic_jobs", lambda: [tasks.sweep])

    def close() -> None:
        # After all its passes. The thread that looks for work closes, too, and may be sooner.
        if threading.current_thread().name == "sweep":
            found.set()

    monkeypatch.setattr(tasks, "close_old_connections", close)
    worker = celery.Celery()
    worker.amqp.queues.select(queues)
    tasks.start(instance=SimpleNamespace(app=worker))
    try:
        assert found.wait(60)
    finally:
        ended()
    assert passes == ["sweep", "checks"][: 1 + swept]
    # The SDK is loaded where the LLM is asked, before the first question.
    assert prepared.wait(60 if swept else 0) is bool(swept)


@pytest.mark.django_db
def test_the_task_judges_all_that_waits(tenant: Tenant) -> None:
    for _ in range(3):
        submit(tenant, payload())
    tasks.judge_waiting()
    assert set(Handoff.objects.values_list("state", flat=True)) == {State.ACCEPTED}


def test_no_more_drains_run_than_allowed_and_none_is_forgotten(monkeypatch) -> None:
    running, most, drained = 0, 0, 0
    guard, go_on = threading.Lock(), threading.Event()

    def drain() -> int:
        nonlocal running, most, drained
        with guard:
            running += 1
            most = max(most, running)
        go_on.wait(60)
        with guard:
            running -= 1
            drained += 1
        return 0

    monkeypatch.setattr(judge, "drain", drain)
    monkeypatch.setattr(late_results, "drain", lambda: 0)
    busy = [threading.Thread(target=tasks.judge_waiting) for _ in range(2)]
    for thread in busy:
        thread.start()
    while running < 2:
        pass
    for _ in range(5):
        # Returns at once, although nothing goes on.
        tasks.judge_waiting()
    go_on.set()
    for thread in busy:
        thread.join(60)
    assert most == 2
    assert drained > 2


def test_every_declared_job_exists() -> None:
    jobs = tasks.periodic_jobs()
    assert jobs[0] is tasks.sweep
    assert len({job.__name__ for job in jobs}) == len(jobs) == 16
