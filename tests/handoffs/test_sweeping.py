"""The sweep, and the task that it wakes."""

import threading
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judging, sweeping, tasks, waking
from handoffaudit.handoffs.models import Handoff, State
from tests.handoffs.support import judged, payload, submit, take


@pytest.fixture
def sent(monkeypatch) -> list[bool]:
    wake_ups: list[bool] = []
    monkeypatch.setattr(waking, "send", lambda: wake_ups.append(True) or True)
    return wake_ups


@pytest.mark.django_db
def test_it_wakes_for_what_was_left_behind_and_for_nothing_else(tenant: Tenant, sent: list[bool]) -> None:
    judged(tenant, payload())
    sweeping.sweep()
    assert sent == []
    submit(tenant, payload())
    sweeping.sweep()
    assert sent == [True]
    take(1)
    sweeping.sweep()
    assert sent == [True]
    Handoff.objects.filter(state=State.VALIDATING).update(claim_expires_at=timezone.now() - timedelta(seconds=1))
    sweeping.sweep()
    assert sent == [True, True]


@pytest.mark.django_db
def test_what_is_parked_wakes_nobody(tenant: Tenant, sent: list[bool]) -> None:
    submit(tenant, payload())
    take(1)
    Handoff.objects.update(tries=9, claim_expires_at=timezone.now() - timedelta(seconds=1))
    sweeping.sweep()
    assert sent == []
    assert Handoff.objects.get().parked


def test_a_database_that_is_away_does_not_end_it(monkeypatch, settings) -> None:
    settings.SWEEP_SECONDS = 0.01
    passes: list[int] = []
    third = threading.Event()

    def failing() -> None:
        passes.append(1)
        if len(passes) == 3:
            third.set()
        raise OperationalError("gone")

    monkeypatch.setattr(sweeping, "sweep", failing)
    sweeping.start()
    try:
        assert third.wait(5)
    finally:
        sweeping.stop()


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
        go_on.wait(5)
        with guard:
            running -= 1
            drained += 1
        return 0

    monkeypatch.setattr(judging, "drain", drain)
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
        thread.join(5)
    assert most == 2
    assert drained > 2
