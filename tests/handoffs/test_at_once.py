"""Tests of concurrent senders, workers and reviewers, each with a database connection."""

from collections import Counter
from typing import Any

import orjson
import pytest

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import judge, judge_leases
from handoffaudit.handoffs.db import RowReader
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Event, Handoff, JudgeLease, State, Verdict
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.base import NotReviewable, Stale
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.support import (
    NOT_JSON,
    SENDER,
    assert_counts_are_right,
    at_once,
    circular,
    held,
    judged,
    let_leases_expire,
    payload,
    submit,
    take,
)

pytestmark = pytest.mark.django_db(transaction=True)


def batch(tenant: Tenant, items: list[bytes]) -> list[int]:
    return [receipt.status for receipt in store.accept_batch(tenant, SENDER, items)]


def send(tenant: Tenant, ids: list[str]) -> None:
    batch(tenant, [orjson.dumps(circular(handoff_id=name, handoff_type=f"t{at % 7}")) for at, name in enumerate(ids)])


def test_one_id_sent_by_many_at_once_is_stored_once(tenant: Tenant) -> None:
    receipts = at_once(*[lambda: submit(tenant, payload(handoff_id="h"))] * 8)
    assert Counter(receipt.status for receipt in receipts) == {202: 1, 200: 7}
    assert len({receipt.id for receipt in receipts}) == 1
    assert Event.objects.count() == Handoff.objects.count() == 1


def test_one_id_with_two_contents_at_once_is_a_conflict_for_all_but_one(tenant: Tenant) -> None:
    receipts = at_once(
        *[lambda number=number: submit(tenant, payload(handoff_id="h", data={"n": number})) for number in range(6)]
    )
    assert Counter(receipt.status for receipt in receipts) == {202: 1, 409: 5}


def test_what_could_not_be_read_gives_its_id_to_one_of_many(tenant: Tenant) -> None:
    broken = submit(tenant, payload(handoff_id="h"), contxt={})
    receipts = at_once(*[lambda: submit(tenant, payload(handoff_id="h"))] * 8)
    assert Counter(receipt.status for receipt in receipts) == {202: 1, 200: 7}
    assert {name: str(pk) for pk, name in Handoff.objects.values_list("pk", "handoff_id")} == {
        "h": receipts[0].id,
        broken.id: broken.id,
    }
    reached = Event.objects.filter(handoff=broken.id).order_by("pk").values_list("to_state", flat=True)
    assert list(reached) == ["rejected", "rejected", "superseded"]
    assert_counts_are_right()


def test_batches_with_the_same_ids_in_another_order_do_not_lock_each_other_out(tenant: Tenant) -> None:
    for part in range(5):
        items = [orjson.dumps(payload(handoff_id=f"{part}-{number}")) for number in range(200)]
        first, second = at_once(
            lambda items=items: batch(tenant, items), lambda items=items: batch(tenant, items[::-1])
        )
        assert Counter(first + second) == {202: 200, 200: 200}


def test_batches_that_reject_and_supersede_do_not_lock_workers_out(tenant: Tenant) -> None:
    """A batch updates the counts of rejected and superseded handoffs while workers update theirs."""
    for part in range(6):
        olds = [f"{part}-old-{number}" for number in range(60)]
        send(tenant, olds)
        judge.drain()
        send(tenant, [f"{part}-new-{number}" for number in range(60)])

        def retries(part: int, order: list[str]) -> list[int]:
            items = [{"document": payload(handoff_id=f"{old}-{part}"), "retry_of": old} for old in order]
            return batch(tenant, [NOT_JSON, *map(orjson.dumps, items)])

        outcomes = at_once(
            lambda part=part, olds=olds: retries(part, olds[::2]),
            lambda part=part, olds=olds: retries(part, olds[1::2][::-1]),
            judge.drain,
        )
        assert [one for one in outcomes if isinstance(one, Exception)] == []
    judge.drain()
    assert Handoff.objects.filter(state=State.SUPERSEDED).count() == 6 * 60
    assert_counts_are_right()


def test_two_workers_never_lease_the_same(tenant: Tenant) -> None:
    batch(tenant, [orjson.dumps(payload(handoff_id=f"h{number}")) for number in range(60)])
    taken = at_once(*[lambda: [take(20) for _ in range(2)]] * 3)
    ids = [handoff.pk for leased in taken for lease in leased if lease for handoff in lease.handoffs]
    assert len(ids) == len(set(ids)) == 60


def test_a_worker_and_the_web_process_never_lease_the_same(tenant: Tenant) -> None:
    batch(tenant, [orjson.dumps(payload(handoff_id=f"h{number}")) for number in range(20)])
    pks = list(Handoff.objects.order_by("pk").values_list("pk", flat=True))
    for pk in pks[:8]:
        several, one = at_once(lambda: judge_leases.take_fresh(2), lambda pk=pk: judge_leases.take_one(pk))
        leased = [handoff.pk for lease in (several, one) if lease for handoff in lease.handoffs]
        assert len(leased) == len(set(leased))
        JudgeLease.objects.all().delete()


def test_a_worker_that_freezes_while_it_reads_handoffs_keeps_no_other_waiting(tenant: Tenant, monkeypatch) -> None:
    batch(tenant, [orjson.dumps(payload(handoff_id=f"h{number}")) for number in range(4)])
    run, others = RowReader.run, []

    def run_late(*given: Any) -> list[Any]:
        if not others:
            others.extend(at_once(lambda: others.append(None) or take(2)))
        return run(*given)

    monkeypatch.setattr(RowReader, "run", run_late)
    lease = take(2)
    names = [[one.handoff_id for one in found.handoffs] for found in (lease, others[1]) if found]
    assert names == [["h0", "h1"], ["h2", "h3"]]


def test_two_workers_dissolve_an_expired_lease_once(tenant: Tenant) -> None:
    batch(tenant, [orjson.dumps(payload(handoff_id=f"h{number}")) for number in range(20)])
    for part in range(1, 4):
        take(5)
        let_leases_expire()
        taken = at_once(judge_leases.take_left_behind, judge_leases.take_left_behind)
        # A worker finds nothing while the other worker has locked all five.
        found = [handoff.pk for lease in taken if lease for handoff in lease.handoffs]
        assert 1 <= len(found) == len(set(found))
        assert not JudgeLease.objects.exists()
        tried = Handoff.objects.filter(parked=False).exclude(tries=0)
        assert sorted(tried.values_list("tries", flat=True)) == [1] * (5 - len(found)) + [2] * len(found)
        assert Event.objects.filter(to_state=State.VALIDATING).count() == 5 * part
        tried.update(parked=True)


def test_a_lease_is_dissolved_or_its_verdicts_are_stored(tenant: Tenant) -> None:
    """The worker comes back when its lease has expired and another worker takes over."""
    for part in range(4):
        batch(tenant, [orjson.dumps(payload(handoff_id=f"{part}-{number}")) for number in range(5)])
        lease = take(5)
        assert lease is not None
        let_leases_expire()
        outcomes = at_once(lambda lease=lease: judge.judge(lease), judge.drain)
        # A worker finds nothing while the other worker has locked all five.
        assert sum(outcomes) + judge.drain() == 5
    assert Verdict.objects.count() == Event.objects.filter(from_state=State.VALIDATING).count() == 20
    assert Event.objects.filter(from_state=State.RECEIVED, to_state=State.VALIDATING).count() == 20
    assert not JudgeLease.objects.exists()


def test_workers_at_once_judge_each_exactly_once(tenant: Tenant, settings) -> None:
    settings.LEASE_SIZE = 7
    documents = [circular, held, payload]
    batch(
        tenant,
        [
            orjson.dumps(documents[number % 3](handoff_id=f"h{number}", handoff_type=f"t{number % 5}"))
            for number in range(150)
        ],
    )
    drained = at_once(*[judge.drain] * 3)
    assert sum(drained) == Verdict.objects.count() == 150
    assert Counter(Event.objects.values_list("to_state", flat=True)) == {
        "received": 150,
        "validating": 150,
        "rejected": 50,
        "held": 50,
        "accepted": 50,
    }
    assert_counts_are_right()


def test_of_two_reviewers_at_once_exactly_one_decides(tenant: Tenant, reviewer: Person, admin: Person) -> None:
    for number in range(5):
        handoff = judged(tenant, held(handoff_id=f"h{number}"))
        answers = at_once(
            *(
                lambda person=person, decision=decision, handoff=handoff: decisions.decide_handoff(
                    tenant=tenant,
                    reference=str(handoff.pk),
                    decision=decision,
                    note="",
                    actor=Actor.person(person),
                    seen_version=handoff.version,
                )
                for person, decision in ((reviewer, Decision.APPROVE), (admin, Decision.DECLINE))
            )
        )
        (won,) = [answer for answer in answers if isinstance(answer, Handoff)]
        (lost,) = [answer for answer in answers if isinstance(answer, Exception)]
        assert isinstance(lost, Stale)
        assert str(lost.last_event.actor) in str(lost)
        assert Handoff.objects.get(pk=handoff.pk).state == won.state
        assert Event.objects.filter(handoff=handoff, to_state__in=(State.APPROVED, State.DECLINED)).count() == 1
    assert_counts_are_right()


def test_without_a_seen_version_the_second_is_told_as_well(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())

    def approve() -> Handoff:
        return decisions.decide_handoff(
            tenant=tenant,
            reference=str(handoff.pk),
            decision=Decision.APPROVE,
            note="",
            actor=Actor.person(reviewer),
            seen_version=None,
        )

    answers = at_once(*[approve] * 4)
    assert sum(isinstance(answer, Handoff) for answer in answers) == 1
    assert all(isinstance(answer, Handoff | Stale | NotReviewable) for answer in answers)
    assert_counts_are_right()


def test_of_retries_sent_at_once_each_has_its_number_and_one_stands(tenant: Tenant) -> None:
    for lineage in range(10):
        judged(tenant, circular(handoff_id=f"{lineage}"))
        names = [f"{lineage}-{number}" for number in range(4)]
        retries = [
            lambda name=name, lineage=lineage: submit(tenant, circular(handoff_id=name), retry_of=f"{lineage}")
            for name in names
        ]
        at_once(*retries, judge.drain)
        judge.drain()
        attempts = Handoff.objects.filter(lineage=f"{lineage}")
        assert sorted(attempts.values_list("attempt", flat=True)) == [2, 3, 4, 5]
        assert Handoff.objects.filter(handoff_id__startswith=f"{lineage}").exclude(state=State.SUPERSEDED).count() == 1
    assert_counts_are_right()
