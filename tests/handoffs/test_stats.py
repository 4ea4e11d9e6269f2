"""Tests of the numbers that pages read from the stored counts."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import orjson
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, stats
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Handoff, HourlyTotal
from handoffaudit.validation.times import utc_text
from tests.handoffs.support import NOT_JSON, SENDER, circular, held, judged, payload, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_all_hours_kept")]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def total(tenant: Tenant, hour: datetime, state: str, number: int, code: str = "") -> None:
    HourlyTotal.objects.create(tenant=tenant, hour=hour, state=state, code=code, number=number)


def test_totals_by_state_count_what_waits_live(tenant: Tenant) -> None:
    for document in (payload(), payload(), circular(), held()):
        judged(tenant, document)
    submit(tenant, NOT_JSON)
    submit(tenant, payload())
    now = timezone.now()
    judged_in_hours = stats.count_over_time(tenant, now - timedelta(hours=1), now)
    totals = stats.sum_states([*(bucket.value for bucket in judged_in_hours), stats.count_unjudged(tenant).by_state])
    assert {state: number for state, number in totals.items() if number} == {
        "accepted": 2,
        "rejected": 2,
        "held": 1,
        "received": 1,
    }


@pytest.mark.parametrize(
    ("hours", "buckets", "expected"), [(24, 30, 24), (24, 12, 12), (25, 12, 9), (720, 30, 30), (0, 30, 1)]
)
def test_time_is_cut_into_equal_parts_that_lose_nothing(
    tenant: Tenant, hours: int, buckets: int, expected: int
) -> None:
    for hour in range(hours):
        total(tenant, NOON + timedelta(hours=hour), "accepted", 1)
    cut = stats.count_over_time(tenant, NOON, NOON + timedelta(hours=hours), buckets)
    assert len(cut) == expected
    assert cut[0].since == NOON
    assert sum(bucket.value.get("accepted", 0) for bucket in cut) == hours
    assert len({second.since - first.since for first, second in pairwise(cut)}) <= 1


def test_the_codes_that_most_have_come_first(tenant: Tenant) -> None:
    for state, code, number in (
        ("rejected", "b", 2),
        ("held", "b", 3),
        ("rejected", "a", 5),
        ("rejected", "c", 9),
        ("held", "d", 0),
    ):
        total(tenant, NOON, state, number, code)
    assert stats.count_top_codes(tenant, limit=2) == [("c", 9), ("a", 5)]
    assert stats.count_top_codes(tenant) == [("c", 9), ("a", 5), ("b", 5)]


def test_what_waits(tenant: Tenant) -> None:
    first = judged(tenant, held())
    judged(tenant, held())
    judged(tenant, circular())
    Handoff.objects.filter(pk=first.pk).update(review_due_at=timezone.now() - timedelta(minutes=1))
    late = submit(tenant, payload())
    parked = submit(tenant, payload())
    Handoff.objects.filter(pk=parked.id).update(parked=True)
    found = stats.count_waiting(tenant)
    assert (found.held, found.overdue, found.rejected_undecided, found.unjudged, found.parked) == (2, 1, 1, 1, 1)
    assert found.oldest_held_at == first.received_at
    assert found.oldest_unjudged_at == Handoff.objects.get(pk=late.id).received_at


def test_a_handoff_that_was_sent_late_has_waited_since_its_receipt(tenant: Tenant) -> None:
    sent_at = utc_text(timezone.now() - timedelta(hours=1))
    first = judged(tenant, held())
    judged(tenant, held(), sent_at=sent_at)
    unjudged = submit(tenant, payload())
    submit(tenant, payload(), sent_at=sent_at)
    received = Handoff.objects.get(pk=unjudged.id).received_at
    assert stats.count_waiting(tenant).oldest_held_at == first.received_at
    assert stats.find_oldest_unjudged(tenant.pk) == stats.Oldest(received, for_model=False)
    assert stats.find_oldest_for_worker(tenant.pk) == received


def test_an_empty_tenant_waits_for_nothing(tenant: Tenant) -> None:
    assert stats.count_waiting(tenant) == stats.Waiting(0, None, 0, 0, 0, None, 0)
    assert stats.list_known_values(tenant) == stats.KnownValues([], [], [], [])


def test_known_values_are_distinct_sorted_and_bounded(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(stats, "MENU_LENGTH", 3)
    items = [orjson.dumps(payload(handoff_type=name, confidence=0.1)) for name in "dbacb"]
    store.accept_batch(tenant, SENDER, items)
    judge.drain()
    known = stats.list_known_values(tenant)
    assert (known.types, known.sources, known.targets, known.codes) == (
        ["a", "b", "c"],
        ["researcher"],
        ["writer"],
        ["confidence.low"],
    )
