"""Tests of the blocked handoffs of each row of the strictness table, and of its shadow blocks."""

import dataclasses
from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import shadow
from handoffaudit.policy.kinds import strictness
from handoffaudit.validation.config import Mode
from tests.handoffs.support import circular, held, judged, payload, to_itself

pytestmark = pytest.mark.django_db
ROWS = ("research_result", "*")


def put(tenant: Tenant, handoff_type: str, mode: Mode) -> None:
    now = strictness.current(tenant)
    row = now.row(handoff_type)
    assert row is not None
    row = dataclasses.replace(row, mode=mode)
    strictness.upsert_row(tenant=tenant, base_version=now.version, row=row, actor="ada")


def test_a_row_in_shadow_counts_what_it_would_stop_and_one_in_force_what_it_stopped(tenant: Tenant) -> None:
    judged(tenant, circular())
    put(tenant, "research_result", Mode.SHADOW)
    for document in (payload(), circular(), to_itself(), held()):
        judged(tenant, document)
    found = shadow.count_by_row(tenant, ROWS, shadow.find_start(tenant))["research_result"]
    assert (found.total, found.stopped) == (5, 1)
    assert (found.would_reject, found.would_hold, found.would_stop) == (2, 1, 3)


@pytest.mark.parametrize("bound", [1, shadow.MOST_READ])
def test_a_row_s_share_can_be_of_those_alone_that_came_in_shadow(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    monkeypatch.setattr(shadow, "MOST_READ", bound)
    for document in (payload(), circular(), circular(handoff_type="note")):
        judged(tenant, document)
    start = timezone.now() + timedelta(milliseconds=2)
    while timezone.now() < start:
        pass
    put(tenant, "research_result", Mode.SHADOW)
    put(tenant, "*", Mode.SHADOW)
    for document in (payload(), circular(), held(), circular(handoff_type="note")):
        judged(tenant, document)
    found = shadow.count_in_shadow(tenant, {"research_result": start}, ROWS)
    assert list(found) == ["research_result"]
    result = found["research_result"]
    assert (result.total, result.stopped, result.would_reject, result.would_hold) == (3, 0, 1, 1)
    earlier = start - timedelta(hours=2)
    found = shadow.count_in_shadow(tenant, {"research_result": earlier, "*": start}, ROWS)
    assert (found["research_result"].total, found["research_result"].stopped) == (5, 1)
    assert (found["*"].total, found["*"].would_stop) == (1, 1)
    assert [one.since for one in found.values()] == [earlier, start]


def test_types_without_a_row_count_to_the_last_one(tenant: Tenant) -> None:
    put(tenant, "*", Mode.SHADOW)
    judged(tenant, circular(handoff_type="note"))
    judged(tenant, circular(handoff_type="memo"))
    judged(tenant, circular())
    since = shadow.find_start(tenant)
    found = shadow.count_by_row(tenant, ROWS, since)
    assert (found["*"].total, found["*"].would_stop) == (2, 2)
    assert (found["research_result"].total, found["research_result"].would_stop) == (1, 0)
    assert set(shadow.list_reasons(tenant, "*", ROWS, since).types) == {("note", 1), ("memo", 1)}


def test_what_would_be_stopped_is_told_by_the_codes_that_decide_and_by_sender(tenant: Tenant) -> None:
    put(tenant, "research_result", Mode.SHADOW)
    for document in (circular(), circular(confidence=0.1), held(), circular(handoff_type="note")):
        judged(tenant, document)
    found = shadow.list_reasons(tenant, "research_result", ROWS, shadow.find_start(tenant))
    assert found.explained == 3
    assert dict(found.codes) == {"chain.circular": 2, "chain.needs_approval": 1}
    assert found.sources == [("researcher", 3)]


def test_nothing_of_another_tenant_is_counted(tenant: Tenant, other_tenant: Tenant) -> None:
    put(other_tenant, "research_result", Mode.SHADOW)
    judged(other_tenant, circular(tenant_id=other_tenant.slug))
    since = shadow.find_start(tenant)
    assert shadow.count_by_row(tenant, ROWS, since)["research_result"] == shadow.BlockStats(since)
    assert shadow.list_reasons(tenant, "research_result", ROWS, since).explained == 0
    assert shadow.count_by_row(other_tenant, ROWS, since)["research_result"].would_stop == 1


def test_a_week_is_counted_in_whole_hours(tenant: Tenant) -> None:
    since = shadow.find_start(tenant, timezone.now())
    assert (since.minute, since.second, since.microsecond) == (0, 0, 0)
    assert timedelta(days=6, hours=23) <= timezone.now() - since < timedelta(days=7, hours=1)


@pytest.mark.parametrize("bound", ["MOST_READ", "MOST_COUNTED"])
def test_where_more_came_than_is_read_a_shorter_time_is_counted(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    put(tenant, "research_result", Mode.SHADOW)
    for _ in range(3):
        judged(tenant, circular())
    now = timezone.now() + timedelta(hours=3)
    assert shadow.find_start(tenant, now) < now - timedelta(days=6)
    monkeypatch.setattr(shadow, bound, 2)
    since = shadow.find_start(tenant, now)
    assert timedelta(hours=1) < now - since <= timedelta(hours=3)
