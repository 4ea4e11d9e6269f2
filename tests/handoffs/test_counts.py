"""Counts are kept as changes happen, and are what a recount finds."""

import random
from collections import Counter
from datetime import UTC, datetime

import orjson
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import counts, ingest, judging, parking, reviewing
from handoffaudit.handoffs.models import Handoff, HourlyCount, HourlyTotal, State
from handoffaudit.handoffs.reviewing import Decision, ReviewError
from handoffaudit.validation import pipeline
from tests.handoffs.support import (
    NOT_JSON,
    SENDER,
    assert_counts_are_right,
    circular,
    held,
    judged,
    payload,
    submit,
    to_itself,
)

pytestmark = pytest.mark.django_db
DOCUMENTS = (payload, circular, held, to_itself)


class World:
    """Anything that can happen to handoffs, in any order."""

    def __init__(self, tenants: list[Tenant], chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tenants, self.chance, self.monkeypatch = tenants, chance, monkeypatch
        self.names: list[str] = []

    def step(self) -> None:
        actions = (self.submit, self.batch, self.batch, self.judge, self.judge, self.decide, self.fail, self.park)
        self.chance.choice(actions)()

    def document(self, tenant: Tenant) -> bytes:
        if self.chance.random() < 0.2:
            return NOT_JSON
        self.names.append(f"h{len(self.names)}")
        name = self.names[-1] if self.chance.random() < 0.9 else self.chance.choice(self.names)
        make = self.chance.choice(DOCUMENTS)
        document = make(handoff_id=name, tenant_id=tenant.slug, handoff_type=self.chance.choice("xy"))
        retry_of = self.chance.choice(self.names) if self.chance.random() < 0.4 else None
        return orjson.dumps({"document": document, "retry_of": retry_of, "trace_id": self.chance.choice("tu")})

    def submit(self) -> None:
        tenant = self.chance.choice(self.tenants)
        submit(tenant, self.document(tenant))

    def batch(self) -> None:
        tenant = self.chance.choice(self.tenants)
        ingest.accept_batch(tenant, SENDER, [self.document(tenant) for _ in range(5)])

    def judge(self) -> None:
        judging.drain()

    def decide(self) -> None:
        decidable = list(Handoff.objects.filter(state__in=("held", "rejected")).order_by("id"))
        if decidable:
            handoff = self.chance.choice(decidable)
            decision = self.chance.choice(list(Decision))
            try:
                reviewing.decide(
                    tenant=handoff.tenant,
                    reference=str(handoff.pk),
                    decision=decision,
                    note="seen",
                    actor=SENDER,
                    seen_version=handoff.version,
                )
            except ReviewError:
                assert not handoff.approvable

    def fail(self) -> None:
        with self.monkeypatch.context() as patch:
            patch.setattr(pipeline, "run", lambda *_, **__: 1 / 0)
            judging.drain()
        Handoff.objects.exclude(claim_expires_at=None).update(claim_expires_at=timezone.now())

    def park(self) -> None:
        judging.claims.park_exhausted()
        for handoff in Handoff.objects.filter(parked=True)[:2]:
            parking.retry_parked(tenant=handoff.tenant, reference=str(handoff.pk), actor=SENDER)


@pytest.mark.parametrize("seed", range(6))
def test_after_anything_the_kept_counts_are_those_of_a_recount(
    tenant: Tenant, other_tenant: Tenant, monkeypatch, seed: int
) -> None:
    world = World([tenant, other_tenant], random.Random(seed), monkeypatch)  # noqa: S311 -- repeatable on purpose
    for _ in range(30):
        world.step()
        assert_counts_are_right()
    states = Counter(Handoff.objects.values_list("state", flat=True))
    kept = HourlyTotal.objects.filter(code="", number__gt=0).values_list("state", "number")
    found: Counter[str] = Counter()
    for state, number in kept:
        found[state] += number
    assert found == {state: number for state, number in states.items() if state not in ("received", "validating")}
    assert sum(found.values()) > 10


def test_the_sequences_above_reach_every_state(tenant: Tenant, monkeypatch) -> None:
    reached: set[str] = set()
    for seed in range(20):
        world = World([tenant], random.Random(seed), monkeypatch)  # noqa: S311 -- repeatable on purpose
        for _ in range(20):
            world.step()
            reached |= set(Handoff.objects.values_list("state", flat=True))
        if reached == set(State.values):
            return
        Handoff.objects.all().delete()
    raise AssertionError(set(State.values) - reached)


def test_a_handoff_is_counted_once_for_all_and_once_for_each_of_its_codes(tenant: Tenant) -> None:
    judged(tenant, circular(confidence=0.1))
    rows = HourlyCount.objects.values_list(
        "handoff_type", "source_agent_id", "target_agent_id", "state", "code", "number"
    )
    assert set(rows) == {
        ("research_result", "researcher", "planner", "rejected", code, 1)
        for code in ("", "chain.circular", "confidence.low")
    }
    totals = HourlyTotal.objects.values_list("state", "code", "number")
    assert set(totals) == {("rejected", code, 1) for code in ("", "chain.circular", "confidence.low")}


def test_what_waits_is_not_counted(tenant: Tenant) -> None:
    submit(tenant, payload())
    assert not HourlyCount.objects.exists()


def test_it_is_counted_in_the_hour_it_came(tenant: Tenant) -> None:
    receipt = submit(tenant, payload())
    moment = datetime(2026, 3, 3, 4, 59, 59, 999_999, tzinfo=UTC)
    Handoff.objects.filter(pk=receipt.id).update(received_at=moment)
    judging.drain()
    assert HourlyTotal.objects.get().hour == moment.replace(minute=0, second=0, microsecond=0)


def spoil() -> None:
    HourlyCount.objects.filter(code="").update(number=7)
    HourlyTotal.objects.all().delete()


def test_a_recount_finds_and_mends_what_is_wrong(tenant: Tenant) -> None:
    judged(tenant, circular())
    judged(tenant, payload())
    before = set(HourlyCount.objects.values_list("state", "code", "number"))
    spoil()
    found = counts.recount()
    # two of the counts, and all three totals
    assert (found.wrong, found.rows) == (5, 6)
    assert set(HourlyCount.objects.values_list("state", "code", "number")) == before
    assert_counts_are_right()


def test_a_recount_that_only_looks_changes_nothing(tenant: Tenant) -> None:
    judged(tenant, circular())
    spoil()
    assert counts.recount(repair=False).wrong == 3
    assert not HourlyTotal.objects.exists()


def test_a_row_too_many_is_found(tenant: Tenant) -> None:
    judged(tenant, payload())
    row = HourlyTotal.objects.get()
    HourlyTotal.objects.create(tenant=tenant, hour=row.hour, state="declined", code="", number=1)
    assert counts.recount().wrong == 1
    assert HourlyTotal.objects.get() != row
    assert HourlyTotal.objects.get().state == "accepted"
