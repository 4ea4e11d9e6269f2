"""Tests of the background attribution of findings: once for every judged handoff, and kept right."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from structlog.testing import capture_logs

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.models import Attribution, TracedHandoff, Watermark
from handoffaudit.handoffs import db, judge, leases
from handoffaudit.handoffs.models import Handoff, Verdict, new_id
from handoffaudit.validation import provenance
from tests.handoffs.support import at_once, judged, payload, submit

pytestmark = pytest.mark.django_db

WRONG = "Revenue was 4,711 million."
RIGHT = {"prompt": "Revenue was 12 million. Costs were 3 million."}


def step(source: str, target: str, text: str, minute: int = 0, **changes: Any) -> dict[str, Any]:
    return payload(
        source_agent_id=source,
        target_agent_id=target,
        call_chain=[source],
        handoff_type="research_result",
        data={"summary": text},
        timestamp=f"2026-02-15T00:{minute:02}:00Z",
        **changes,
    )


def told(tenant: Tenant, code: str = "grounding.") -> list[tuple[str, str, bool, str]]:
    """Return the agent, the value, whether the agent introduced it, and the upstream agent."""
    sources = dict(Handoff.objects.values_list("id", "source_agent_id"))
    rows = Attribution.objects.filter(tenant=tenant, code__startswith=code).order_by("handoff", "id")
    return [(row.agent, row.value, row.caused, sources.get(row.origin, "")) for row in rows]


def test_who_repeats_a_wrong_value_passed_it_on(tenant: Tenant) -> None:
    judged(tenant, step("planner", "analyst", "Look at costs of 3 million."), trace_id="t", context=RIGHT)
    first = judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    judged(tenant, step("writer", "editor", WRONG), trace_id="t", context=RIGHT)
    assert attribution.run() == 3
    assert [(agent, caused, origin) for agent, _, caused, origin in told(tenant)] == [
        ("analyst", True, ""),
        ("writer", False, "analyst"),
    ]
    assert "4,711" in told(tenant)[0][1]
    counts = TracedHandoff.objects.order_by("handoff").values_list("source_agent_id", "caused", "passed_on")
    by_agent = {source: (caused > 0, passed > 0) for source, caused, passed in counts}
    assert by_agent["analyst"][0]
    assert by_agent["writer"][1]
    assert Attribution.objects.filter(handoff=first.pk).count() == TracedHandoff.objects.get(pk=first.pk).caused


def test_what_an_agent_said_before_stays_its_own(tenant: Tenant) -> None:
    judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    judged(tenant, step("analyst", "editor", WRONG), trace_id="t", context=RIGHT)
    attribution.run()
    assert [(agent, caused, origin) for agent, _, caused, origin in told(tenant)] == [
        ("analyst", True, ""),
        ("analyst", True, "analyst"),
    ]


def test_a_tenant_that_fails_keeps_no_other_waiting(
    tenant: Tenant, other_tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "MOST_VERDICTS", 2)
    for one in (tenant, tenant, tenant, other_tenant):
        judged(one, step("analyst", "writer", WRONG, tenant_id=one.slug), context=RIGHT)
    store = attribution._store

    def fail_for_the_first(tenant_id: int, *rest: Any) -> bool:
        if tenant_id == tenant.pk:
            raise KeyError(tenant_id)
        return store(tenant_id, *rest)

    with monkeypatch.context() as changed, capture_logs() as logs:
        changed.setattr(attribution, "_store", fail_for_the_first)
        attribution.run()
        assert (len(told(tenant)), len(told(other_tenant))) == (0, 1)
        with pytest.raises(RuntimeError, match="the log says why"):
            attribution.rebuild()
    assert {one["tenant"] for one in logs} == {tenant.pk}
    assert attribution.anything_due()
    attribution.run()
    assert (len(told(tenant)), len(told(other_tenant))) == (3, 1)


def test_a_late_handoff_in_the_middle_makes_others_right(tenant: Tenant) -> None:
    judged(tenant, step("writer", "editor", WRONG, step=2), trace_id="t", context=RIGHT, step=2)
    attribution.run()
    assert [row[2] for row in told(tenant)] == [True]
    judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT, step=1)
    assert attribution.run() == 1
    assert sorted((agent, caused) for agent, _, caused, _ in told(tenant)) == [("analyst", True), ("writer", False)]
    assert TracedHandoff.objects.count() == 2


def test_a_later_verdict_replaces_what_the_first_one_said(tenant: Tenant) -> None:
    handoff = judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    attribution.run()
    assert told(tenant)
    old = Verdict.objects.get(pk=handoff.verdict)
    later = Verdict.objects.create(
        id=new_id(),
        tenant=tenant,
        handoff=handoff,
        outcome="accepted",
        policy_version=0,
        validated_at=timezone.now(),
        content='{"issues": []}',
    )
    Handoff.objects.filter(pk=handoff.pk).update(verdict=later.pk)
    assert later.pk > old.pk
    assert attribution.run() == 1
    assert told(tenant) == []
    assert TracedHandoff.objects.get(pk=handoff.pk).verdict == later.pk
    assert attribution.rebuild() == 1


@pytest.mark.parametrize("in_force", [None, UUID(int=1)])
def test_a_verdict_that_is_not_in_force_is_gone_over_once_too(tenant: Tenant, in_force: UUID | None) -> None:
    handoff = judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    Handoff.objects.filter(pk=handoff.pk).update(verdict=in_force)
    assert attribution.run() == 1
    assert attribution.run() == 0


def test_each_is_gone_over_once(tenant: Tenant) -> None:
    judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    assert attribution.anything_due()
    assert attribution.run() == 1
    assert not attribution.anything_due()
    assert attribution.run() == 0


def test_one_that_is_committed_late_is_found(tenant: Tenant) -> None:
    """The watermark stays behind the newest verdict by the longest time of a transaction."""
    early = judged(tenant, step("analyst", "writer", WRONG), trace_id="a", context=RIGHT)
    late = judged(tenant, step("analyst", "writer", WRONG), trace_id="b", context=RIGHT)
    content = Verdict.objects.get(pk=early.verdict)
    Verdict.objects.filter(pk=early.verdict).delete()
    assert attribution.run() == 1
    assert TracedHandoff.objects.get().handoff == late.pk
    content.save(force_insert=True)
    assert attribution.run() == 1
    assert TracedHandoff.objects.count() == 2


def test_what_waits_to_be_judged_is_left_until_it_is(tenant: Tenant) -> None:
    submit(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    assert attribution.run() == 0
    judge.drain()
    assert attribution.run() == 1


def test_handoffs_without_a_trace_stand_alone(tenant: Tenant) -> None:
    for source in ("analyst", "writer"):
        judged(tenant, step(source, "editor", WRONG), context=RIGHT)
    Handoff.objects.update(trace_id="")
    attribution.run()
    assert all(caused for _, _, caused, _ in told(tenant))
    assert {row.took_seconds for row in TracedHandoff.objects.all()} == {None}


def test_of_a_long_trace_the_first_are_read_and_the_others_stand_alone(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "MOST_HANDOFFS", 2)
    for source in ("analyst", "writer", "editor"):
        judged(tenant, step(source, "anybody", WRONG), trace_id="t", context=RIGHT)
    attribution.run()
    assert {agent: caused for agent, _, caused, _ in told(tenant)} == {"analyst": True, "writer": False, "editor": True}


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [(0, 3, 180.0), (3, 0, None)],
    ids=["later", "clocks differ"],
)
def test_the_time_since_the_source_was_handed_the_work(
    tenant: Tenant, first: int, second: int, seconds: float | None
) -> None:
    judged(tenant, step("planner", "writer", "Write it.", first), trace_id="t")
    judged(tenant, step("planner", "critic", "Read it.", first), trace_id="t")
    judged(tenant, step("writer", "editor", "Written.", second), trace_id="t")
    attribution.run()
    took = dict(TracedHandoff.objects.values_list("target_agent_id", "took_seconds"))
    assert took == {"writer": None, "critic": None, "editor": seconds}


def test_without_the_senders_times_those_of_receipt_count(tenant: Tenant) -> None:
    judged(tenant, step("planner", "writer", "Write it."), trace_id="t")
    judged(tenant, step("writer", "editor", "Written."), trace_id="t")
    begun, _ = Handoff.objects.order_by("id")
    Handoff.objects.filter(pk=begun.pk).update(sender_timestamp=None, received_at=timezone.now() - timedelta(hours=1))
    attribution.run()
    assert TracedHandoff.objects.get(source_agent_id="writer").took_seconds == pytest.approx(3600, abs=60)


def test_tenants_do_not_share_a_trace(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    theirs = step("writer", "editor", WRONG, tenant_id=other_tenant.slug)
    judged(other_tenant, theirs, trace_id="t", context=RIGHT)
    attribution.run()
    assert [caused for _, _, caused, _ in told(other_tenant)] == [True]


def test_a_trace_that_breaks_it_keeps_no_other_waiting(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(tenant, step("analyst", "writer", WRONG), trace_id="bad", context=RIGHT)
    judged(tenant, step("analyst", "writer", WRONG), trace_id="good", context=RIGHT)
    whole = provenance.attribute

    def breaks(steps: Any) -> Any:
        if steps[0].key == str(Handoff.objects.get(trace_id="bad").pk):
            raise ValueError("no")
        return whole(steps)

    monkeypatch.setattr(attribution, "attribute", breaks)
    assert attribution.run() == 2
    assert [caused for _, _, caused, _ in told(tenant)] == [True, True]


def test_where_another_process_does_it_nothing_is_done(tenant: Tenant) -> None:
    judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    Watermark.objects.create(name=attribution.LEASE.name, at=timezone.now() + timedelta(minutes=1))
    assert attribution.run() == 0
    Watermark.objects.filter(name=attribution.LEASE.name).update(at=timezone.now() - timedelta(seconds=1))
    assert attribution.run() == 1


def test_a_clock_that_was_ahead_hides_nothing(tenant: Tenant) -> None:
    later = timezone.now() + timedelta(days=900)
    Watermark.objects.create(name=attribution.LEASE.name, at=later)
    Watermark.objects.create(name=attribution.MARK, at=later)
    judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    assert attribution.anything_due()
    assert attribution.run() == 1


def test_while_handoffs_wait_to_be_judged_it_does_a_part_and_pauses(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "MOST_VERDICTS", 1)
    for trace in ("a", "b", "c"):
        judged(tenant, step("analyst", "writer", WRONG), trace_id=trace, context=RIGHT)
    submit(tenant, step("analyst", "writer", WRONG), trace_id="d", context=RIGHT)
    assert attribution.run() == 1
    until = Watermark.objects.get(name=attribution.LEASE.name).at
    assert until > timezone.now() - timedelta(minutes=1)
    Watermark.objects.filter(name=attribution.LEASE.name).update(at=timezone.now() - timedelta(seconds=1))
    judge.drain()
    assert attribution.run() == 3


def test_transactions_are_short(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert attribution._most_rows() == (2_000 if db.is_postgresql() else 100)
    monkeypatch.setattr(attribution, "_most_rows", lambda: 2)
    store, sizes = attribution._store, []

    def count_rows(tenant_id: int, worked: Any, held_until: Any) -> bool:
        assert leases._one_part.locked() is not db.is_postgresql()
        sizes.append(len(worked.traced))
        return store(tenant_id, worked, held_until)

    monkeypatch.setattr(attribution, "_store", count_rows)
    for trace in ("a", "a", "a", "b", "c", "", "", ""):
        judged(tenant, step("analyst", "writer", WRONG), trace_id=trace, context=RIGHT)
    assert attribution.run() == 8
    # A trace is never divided, because the findings of its handoffs depend on each other.
    assert sizes == [3, 2, 2, 1]
    assert len(told(tenant)) == 8


def test_it_is_built_anew(tenant: Tenant) -> None:
    judged(tenant, step("analyst", "writer", WRONG), trace_id="t", context=RIGHT)
    attribution.run()
    right = told(tenant)
    Attribution.objects.update(caused=False)
    TracedHandoff.objects.update(caused=7)
    assert attribution.rebuild() == 1
    assert told(tenant) == right
    assert TracedHandoff.objects.get().caused == Attribution.objects.filter(caused=True).count()


@pytest.mark.django_db(transaction=True)
def test_two_at_once_store_each_row_once(tenant: Tenant) -> None:
    for number in range(5):
        judged(tenant, step("analyst", "writer", WRONG), trace_id=f"t{number}", context=RIGHT)
    assert sum(at_once(attribution.run, attribution.run)) >= 5
    attribution.run()
    assert TracedHandoff.objects.count() == 5
    assert Attribution.objects.filter(caused=True).count() == sum(
        TracedHandoff.objects.values_list("caused", flat=True)
    )


def test_a_rebuild_without_its_lease_removes_no_groups(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(failed: set[int]) -> int:
        attribution.LEASE.revoke()
        return 0

    monkeypatch.setattr(attribution, "_attribute_part", lose)
    monkeypatch.setattr(attribution.group_store, "drop_empty", lambda: pytest.fail("groups were removed"))
    with pytest.raises(RuntimeError, match="taken over"):
        attribution.rebuild()
