"""Tests that the counts kept with each change equal a recount."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from django.db import connection, transaction

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import counts, judge, recount
from handoffaudit.handoffs.counts import CountKey
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.llm import jobs, run
from handoffaudit.handoffs.models import (
    DailyPair,
    Event,
    Handoff,
    HourlyCount,
    HourlySource,
    HourlyTotal,
    ModelBreaker,
    ModelCheck,
    State,
)
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.base import Readable, ReviewError, Unreadable
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.validation import pipeline
from handoffaudit.validation.config import FailMode
from tests.handoffs.support import (
    NOT_ASKED,
    NOT_JSON,
    SENDER,
    assert_counts_are_right,
    checked,
    checks_run_out,
    circular,
    doubts,
    held,
    judged,
    let_leases_expire,
    payload,
    set_policy,
    submit,
    to_itself,
)
from tests.messages_api.server import MessagesServer
from tests.scale import cases

pytestmark = pytest.mark.django_db
DOCUMENTS = (payload, circular, held, to_itself)


class World:
    """A state machine of all changes to handoffs, in any order."""

    def __init__(self, tenants: list[Tenant], chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tenants, self.chance, self.monkeypatch = tenants, chance, monkeypatch
        self.names: list[str] = []

    def actions(self) -> tuple[Callable[[], None], ...]:
        return (self.submit, self.batch, self.batch, self.judge, self.judge, self.decide, self.fail, self.park)

    def step(self) -> None:
        self.chance.choice(self.actions())()

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
        store.accept_batch(tenant, SENDER, [self.document(tenant) for _ in range(5)])

    def judge(self) -> None:
        judge.drain()

    def decide(self) -> None:
        decidable = list(Handoff.objects.filter(state__in=("held", "rejected")).order_by("id"))
        if decidable:
            handoff = self.chance.choice(decidable)
            decision = self.chance.choice(list(Decision))
            try:
                decisions.decide_handoff(
                    tenant=handoff.tenant,
                    reference=str(handoff.pk),
                    decision=decision,
                    note="seen",
                    actor=SENDER,
                    seen_version=handoff.version,
                )
            except Unreadable:
                assert decision is Decision.APPROVE
                assert handoff.is_unreadable
            except Readable:
                assert decision in (Decision.RESEND, Decision.HANDLED)
                assert not handoff.is_unreadable
            except ReviewError:
                assert not handoff.approvable

    def fail(self) -> None:
        with self.monkeypatch.context() as patch:
            patch.setattr(pipeline, "run", lambda *_, **__: 1 / 0)
            judge.drain()
        let_leases_expire()

    def park(self) -> None:
        judge.park_exhausted()
        for handoff in Handoff.objects.filter(parked=True)[:2]:
            judge.retry_parked(tenant=handoff.tenant, reference=str(handoff.pk), actor=SENDER)


class AskingWorld(World):
    """The same state machine with an LLM that reports findings, fails and recovers."""

    def __init__(
        self, tenants: list[Tenant], chance: random.Random, monkeypatch: pytest.MonkeyPatch, model: MessagesServer
    ) -> None:
        super().__init__(tenants, chance, monkeypatch)
        self.model = model
        model.respond = lambda request: chance.choice([None, doubts()])
        for tenant in tenants:
            set_policy(tenant, "x", fail_mode=FailMode.CLOSED)

    def actions(self) -> tuple[Callable[[], None], ...]:
        return (*super().actions(), self.check, self.check, self.outage, self.recover, self.recheck, self.break_check)

    def document(self, tenant: Tenant) -> bytes:
        made = super().document(tenant)
        # Of each kind another one: equal questions are asked once.
        return made.replace(b"Three suppliers", b"%d suppliers" % len(self.names))

    def check(self) -> None:
        for _ in range(3):
            taken = jobs.take()
            if taken:
                run.check(taken)

    def outage(self) -> None:
        self.model.outage = 529

    def recover(self) -> None:
        self.model.outage = 0
        ModelBreaker.objects.all().delete()

    def recheck(self) -> None:
        run.enqueue_unverified()
        self.check()

    def break_check(self) -> None:
        with self.monkeypatch.context() as patch:
            patch.setattr(pipeline, "run", lambda *_, **__: 1 / 0)
            for _ in range(3):
                checks_run_out()
                run.drain()
        checks_run_out()
        jobs.park_exhausted()


@pytest.mark.parametrize("seed", cases(range(4), [0]))
def test_with_a_model_that_comes_and_goes_they_are_too(
    tenant: Tenant, other_tenant: Tenant, monkeypatch, model: MessagesServer, seed: int
) -> None:
    world = AskingWorld([tenant, other_tenant], random.Random(seed), monkeypatch, model)  # noqa: S311 -- repeatable
    for _ in range(40):
        world.step()
        assert_counts_are_right()
    for step in (world.outage, world.batch, world.batch, world.judge, run.drain, world.recover):
        step()
    let_leases_expire()
    for _ in range(5):
        while Handoff.objects.filter(parked=True).exists():
            world.park()
        judge.drain()
        checks_run_out()
        world.recheck()
        run.drain()
    assert_counts_are_right()
    assert Event.objects.filter(reason__startswith="checked later").exists()
    assert not ModelCheck.objects.exists()
    assert not Handoff.objects.filter(unverified=True, state__in=("accepted", "held", "approved")).exists()
    assert not Handoff.objects.filter(state__in=("received", "validating")).exists()


@pytest.mark.parametrize("seed", cases(range(6), [0, 1]))
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


@pytest.mark.nightly
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


def test_a_handoff_is_counted_once_for_all_and_once_for_each_of_its_codes(
    tenant: Tenant, model: MessagesServer
) -> None:
    model.outage = 529
    handoff = checked(tenant, circular(confidence=0.1))
    # That the LLM could not be asked is a flag, and no count.
    assert NOT_ASKED in handoff.codes
    codes = ("", "chain.circular", "confidence.low")
    rows = HourlyCount.objects.values_list(
        "handoff_type", "source_agent_id", "target_agent_id", "state", "code", "number"
    )
    assert set(rows) == {("research_result", "researcher", "planner", "rejected", code, 1) for code in codes}
    totals = HourlyTotal.objects.values_list("state", "code", "number")
    assert set(totals) == {("rejected", code, 1) for code in codes}


def test_what_waits_is_not_counted(tenant: Tenant) -> None:
    submit(tenant, payload())
    assert not HourlyCount.objects.exists()


def test_it_is_counted_in_the_hour_it_came(tenant: Tenant) -> None:
    receipt = submit(tenant, payload())
    moment = datetime(2026, 3, 3, 4, 59, 59, 999_999, tzinfo=UTC)
    Handoff.objects.filter(pk=receipt.id).update(received_at=moment)
    judge.drain()
    hours = HourlyTotal.objects.values_list("code", "hour")
    assert list(hours) == [("", moment.replace(minute=0, second=0, microsecond=0))]


def spoil() -> None:
    HourlyCount.objects.filter(code="").update(number=7)
    HourlyTotal.objects.all().delete()
    DailyPair.objects.update(stopped=9)


def test_a_recount_finds_and_mends_what_is_wrong(tenant: Tenant) -> None:
    judged(tenant, circular())
    judged(tenant, payload())
    before = set(HourlyCount.objects.values_list("state", "code", "number"))
    spoil()
    found = recount.recount()
    # two of the counts, all three totals, and both pairs of the day
    assert (found.wrong, found.rows) == (7, 11)
    assert set(HourlyCount.objects.values_list("state", "code", "number")) == before
    assert_counts_are_right()


def test_a_recount_that_only_looks_changes_nothing(tenant: Tenant) -> None:
    judged(tenant, circular())
    spoil()
    assert recount.recount(repair=False).wrong == 4
    assert not HourlyTotal.objects.exists()


def test_a_row_too_many_is_found(tenant: Tenant) -> None:
    judged(tenant, payload())
    row = HourlyTotal.objects.get(code="")
    HourlyTotal.objects.create(tenant=tenant, hour=row.hour, state="declined", code="", number=1)
    assert recount.recount().wrong == 1
    assert HourlyTotal.objects.get(code="", number__gt=0) == row


def test_the_hours_of_a_day_are_added_up_however_many_counts_its_first_hour_has(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "ROLLED_UP_AT_ONCE", 1)
    day = datetime(2024, 1, 1, tzinfo=UTC)
    for hour in (0, 1, 2):
        place = CountKey(tenant.pk, day + timedelta(hours=hour), "type", "source", "target")
        counts.apply(counts.count_transition(place, (), "", "accepted"))
    with transaction.atomic():
        assert [counts.roll_up(tenant, day) for _ in range(3)] == [1, 1, 0]
    assert list(HourlyCount.objects.values_list("hour", "number")) == [(day, 3)]
    assert list(HourlySource.objects.values_list("hour", *counts.OUTCOMES)) == [(day, 3, 0, 0, 0)]


@pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="SQLite has no collations of a language and locks no rows"
)
def test_the_hours_of_a_day_are_locked_in_the_order_of_the_counts(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            'ALTER TABLE "handoffs_hourlycount" ALTER COLUMN "source_agent_id" TYPE varchar(200) COLLATE "und-x-icu"'
        )
    monkeypatch.setattr(counts, "ROLLED_UP_AT_ONCE", 1)
    day = datetime(2024, 1, 1, tzinfo=UTC)
    for source in ("a", "B"):
        place = CountKey(tenant.pk, day + timedelta(hours=1), "type", source, "target")
        counts.apply(counts.count_transition(place, (), "", "accepted"))
    with transaction.atomic():
        counts.roll_up(tenant, day)
    assert list(HourlyCount.objects.filter(hour__gt=day).values_list("source_agent_id", flat=True)) == ["a"]
