"""Tests of the leases of workers, and of leases that nobody ends."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db, judge, judge_leases, leases
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Event, Handoff, JudgeLease, State
from tests.handoffs.support import SENDER, judged, let_leases_expire, payload, submit, take

pytestmark = pytest.mark.django_db


@pytest.fixture
def five(tenant: Tenant) -> list[str]:
    receipts = store.accept_batch(tenant, SENDER, [orjson.dumps(payload()) for _ in range(5)])
    return [receipt.id for receipt in receipts]


def ids(lease: judge_leases.Lease | None) -> list[str]:
    return [str(handoff.pk) for handoff in lease.handoffs] if lease else []


def test_a_lease_takes_the_oldest_first_and_no_more_than_asked_for(five: list[str]) -> None:
    assert ids(take(3)) == five[:3]
    assert ids(take(3)) == five[3:]
    assert take(3) is None


def test_what_is_leased_is_being_validated_and_says_so_once(five: list[str]) -> None:
    lease = take(5)
    assert lease is not None
    assert {handoff.state for handoff in lease.handoffs} == {State.VALIDATING}
    row = JudgeLease.objects.get()
    assert (row.token, [str(pk) for pk in row.handoffs]) == (lease.token, five)
    let_leases_expire()
    alone = take(5)
    assert alone is not None
    assert set(Handoff.objects.values_list("pk", "state", "tries", "claim")) == {
        (UUID(pk), State.VALIDATING, 2, alone.token) if pk == five[0] else (UUID(pk), State.VALIDATING, 1, None)
        for pk in five
    }
    assert not JudgeLease.objects.exists()
    assert Event.objects.filter(from_state=State.RECEIVED, to_state=State.VALIDATING).count() == 5


def test_a_lease_lasts_as_long_as_the_setting_says(five: list[str], settings) -> None:
    settings.LEASE_SECONDS = 500
    before = timezone.now()
    take(1)
    expires = JudgeLease.objects.get().expires_at
    assert timedelta(seconds=500) <= expires - before < timedelta(seconds=560)


def test_what_ran_out_is_taken_one_at_a_time(five: list[str]) -> None:
    take(5)
    assert take(5) is None
    let_leases_expire()
    assert [ids(take(5)) for _ in range(3)] == [[five[0]], [five[1]], [five[2]]]


def test_what_is_fresh_goes_before_what_ran_out(tenant: Tenant, five: list[str]) -> None:
    take(5)
    let_leases_expire()
    fresh = store.accept_batch(tenant, SENDER, [orjson.dumps(payload())])[0].id
    assert ids(take(5)) == [fresh]


def test_a_lease_that_another_took_over_holds_nothing(five: list[str]) -> None:
    first = take(2)
    assert first is not None
    assert {str(pk) for pk in first.lock_held()} == set(five[:2])
    take(3)
    let_leases_expire()
    # An expired lease is valid until a worker takes it over.
    assert {str(pk) for pk in first.lock_held()} == set(five[:2])
    alone = take(1)
    assert ids(alone) == [five[0]]
    assert first.lock_held() == set()
    Handoff.objects.exclude(pk=five[0]).delete()
    let_leases_expire()
    again = take(1)
    assert alone is not None
    assert again is not None
    assert (ids(again), alone.lock_held(), len(again.lock_held())) == ([five[0]], set(), 1)


def test_a_lease_of_parts_is_held_until_its_last_part_ends(five: list[str]) -> None:
    lease = take(4)
    assert lease is not None
    assert lease.part(lease.handoffs[:2], is_last=False).hold([]) == []
    assert ids(take(5)) == [five[4]]
    assert lease.part(lease.handoffs[2:], is_last=True).hold([]) == []
    assert ids(take(5)) == five[:4]


def test_a_renewed_lease_is_not_taken_over(five: list[str]) -> None:
    lease = take(5)
    assert lease is not None
    let_leases_expire()
    lease.renew()
    assert take(5) is None
    let_leases_expire()
    alone = take(5)
    assert alone is not None
    let_leases_expire()
    alone.renew()
    assert ids(take(5)) == [five[1]]
    assert alone.lock_held() == {UUID(five[0])}


def test_a_lease_on_one_handoff_waits_for_earlier_ones_of_the_trace(tenant: Tenant) -> None:
    first, second = (UUID(submit(tenant, payload(), trace_id="t").id) for _ in range(2))
    assert judge_leases.take_one(second) is None
    lease = judge_leases.take_one(first)
    assert lease is not None
    # The first handoff is being judged, and has no verdict yet.
    assert (judge_leases.take_one(first), judge_leases.take_one(second)) == (None, None)


def test_a_revoked_lease_holds_nothing_and_its_handoffs_are_taken_again(tenant: Tenant, five: list[str]) -> None:
    first, second = take(2), take(3)
    assert first is not None
    assert second is not None
    judge_leases.revoke_leases(tenant, [UUID(five[1])])
    assert first.lock_held() == set()
    assert {str(pk) for pk in second.lock_held()} == set(five[2:])
    again = take(5)
    # Nobody failed, so these handoffs are judged together again.
    assert (ids(again), Event.objects.filter(to_state=State.VALIDATING).exists()) == (five[:2], False)
    judge_leases.revoke_leases(tenant)
    assert second.lock_held() == set()
    assert ids(take(5)) == five


def test_leases_of_another_tenant_are_not_revoked(other_tenant: Tenant, five: list[str]) -> None:
    lease = take(5)
    assert lease is not None
    judge_leases.revoke_leases(other_tenant)
    assert {str(pk) for pk in lease.lock_held()} == set(five)


def test_a_handoff_that_changed_after_it_was_leased_is_not_held(five: list[str]) -> None:
    """An erasure may not see a lease that is taken while the erasure runs, but it changes the version."""
    lease = take(2)
    assert lease is not None
    Handoff.objects.filter(pk=five[0]).update(version=F("version") + 1)
    assert lease.lock_held() == {UUID(five[1])}


def test_what_was_judged_is_never_leased(tenant: Tenant) -> None:
    judged(tenant, payload())
    assert take(5) is None
    assert not judge_leases.is_anything_waiting()


def test_what_is_given_back_waits_longer_with_each_try(five: list[str], settings) -> None:
    settings.LEASE_SECONDS = 3
    for least, most in ((1, 2.1), (2, 3.1)):
        lease = take(1) if least == 1 else take(5)
        assert lease is not None
        take(5)
        lease.release(lease.handoffs[0])
        row = Handoff.objects.get(pk=lease.handoffs[0].pk)
        assert row.claim is None
        assert timedelta(seconds=least) < row.claim_expires_at - timezone.now() < timedelta(seconds=most)
        Handoff.objects.filter(pk=row.pk).update(claim_expires_at=timezone.now() - timedelta(seconds=1))


def test_giving_back_what_another_holds_changes_nothing(five: list[str]) -> None:
    mine = take(1)
    assert mine is not None
    let_leases_expire()
    take(4)
    theirs = take(1)
    assert theirs is not None
    assert ids(theirs) == ids(mine)
    mine.release(mine.handoffs[0])
    assert Handoff.objects.get(pk=five[0]).claim == theirs.token


def test_after_so_many_tries_it_is_parked_with_an_event(five: list[str], settings) -> None:
    settings.LEASE_TRIES = 2
    Handoff.objects.exclude(pk=five[0]).delete()
    for _ in range(3):
        assert judge.park_exhausted() == 0
        assert ids(take(5)) == five[:1]
        let_leases_expire()
    assert take(5) is None
    assert judge.park_exhausted() == 1
    row = Handoff.objects.get()
    assert (row.parked, row.state, row.claim) == (True, State.VALIDATING, None)
    event = Event.objects.order_by("id").last()
    assert (event.actor_kind, event.reason) == ("system", "parked: 2 tries to judge it failed")
    assert judge.park_exhausted() == 0
    assert not judge_leases.is_anything_waiting()


def test_a_crash_of_others_parks_nothing(five: list[str], settings) -> None:
    """The worker dies with all five handoffs, and then each time that it judges the third."""
    settings.LEASE_TRIES = 1
    assert ids(take(5)) == five
    let_leases_expire()
    assert judge.park_exhausted() == 0
    judged_alone = []
    while lease := judge_leases.take_left_behind():
        [handoff] = lease.handoffs
        judged_alone.append(str(handoff.pk))
        if handoff.pk != UUID(five[2]):
            Handoff.objects.filter(pk=handoff.pk).update(state=State.ACCEPTED, claim=None, claim_expires_at=None)
        let_leases_expire()
        judge.park_exhausted()
    assert judged_alone == five
    assert [str(pk) for pk in Handoff.objects.filter(parked=True).values_list("pk", flat=True)] == [five[2]]


def test_failures_of_its_own_count_from_the_first(five: list[str], settings) -> None:
    settings.LEASE_TRIES = 2
    for taken in (lambda: take(5), judge_leases.take_left_behind):
        lease = taken()
        assert lease is not None
        lease.release(lease.handoffs[0])
        let_leases_expire()
        Handoff.objects.exclude(pk=five[0]).delete()
    assert judge.park_exhausted() == 1


def test_the_last_try_is_not_parked_while_it_runs(five: list[str], settings) -> None:
    settings.LEASE_TRIES = 1
    take(5)
    assert judge.park_exhausted() == 0


def test_something_waits_when_it_is_fresh_or_its_lease_expired(tenant: Tenant) -> None:
    assert not judge_leases.is_anything_waiting()
    store.accept_batch(tenant, SENDER, [orjson.dumps(payload())])
    assert judge_leases.is_anything_waiting()
    take(1)
    assert not judge_leases.is_anything_waiting()
    let_leases_expire()
    assert judge_leases.is_anything_waiting()


def steps_to_lease_one(tenant: Tenant) -> int:
    """Return how many hundred steps SQLite takes to lease a handoff that was just stored."""
    pk = UUID(submit(tenant, payload()).id)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.connection.set_progress_handler(count, 100)
    try:
        assert judge_leases.take_one(pk)
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL does not tell its steps")
def test_one_without_a_trace_is_leased_at_once_however_many_others_have_none(tenant: Tenant) -> None:
    few = steps_to_lease_one(tenant)
    assert store.accept_batch(tenant, SENDER, [orjson.dumps(payload()) for _ in range(300)])
    assert steps_to_lease_one(tenant) <= few + 3


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite names no index in its plans of updates")
def test_a_lease_reads_only_waiting_handoffs(tenant: Tenant, monkeypatch) -> None:
    submit(tenant, payload())
    plans = []

    def explain(sql: str, values: list[Any], **_: object) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            # The table of a test is so small that the planner would read all of it.
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
            cursor.execute(f"EXPLAIN {sql}", values)
            plans.append("\n".join(line for (line,) in cursor.fetchall()))
        return []

    monkeypatch.setattr(db, "fetch_rows", explain)
    assert judge_leases.take_fresh(20) is None
    assert "handoff_waiting" in plans[0]
    assert "Sort" not in plans[0]


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="only PostgreSQL has several writers at a time")
def test_a_worker_that_stops_while_it_takes_a_lease_does_not_keep_others_waiting(five: list[str]) -> None:
    assert take(1)
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("30s",)


@pytest.mark.parametrize(("work", "rest"), [(0.02, 0.02), (3.0, 0.05)])
def test_on_sqlite_one_thread_at_a_time_does_background_work_and_then_rests(
    monkeypatch: pytest.MonkeyPatch, work: float, rest: float
) -> None:
    now, rests = [100.0], []

    def sleep(seconds: float) -> None:
        rests.append(round(seconds, 6))
        now[0] += seconds

    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    begun = leases.work_clock()
    with leases.background_part():
        assert leases._one_part.locked() is not db.is_postgresql()
        now[0] += work
    assert rests == ([] if db.is_postgresql() else [rest])
    # The rest is no work, so a job does not pause for it again.
    assert leases.work_clock() - begun == pytest.approx(work)
    with pytest.raises(ZeroDivisionError), leases.background_part():
        1 / 0  # noqa: B018
    assert not leases._one_part.locked()


def test_a_wait_for_other_background_work_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]

    class Busy:
        """The lock while another thread works for half a second."""

        def __enter__(self) -> None:
            now[0] += 0.5

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(leases, "_one_part", Busy())
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None))
    begun = leases.work_clock()
    with leases.background_part():
        pass
    assert leases.work_clock() == pytest.approx(begun)
