"""Tests of the deletion of old data: by the tenant's own rules, and continued after an interruption."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from structlog.testing import capture_logs

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.diagnostics import retention_run
from handoffaudit.diagnostics.models import FileReport, RetentionRun, Watermark
from handoffaudit.diagnostics.retention_targets import DueRows
from handoffaudit.handoffs import legal_holds, tool_results
from handoffaudit.handoffs.models import (
    Delivery,
    HandedOut,
    Handoff,
    HookEvent,
    ModelCall,
    Subscriber,
    ToolResult,
    ValidationState,
)
from handoffaudit.handoffs.tool_results import ToolResultIn
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.policy.retention import Data, Retention
from handoffaudit.validation.tool_results import Grade
from tests.diagnostics.files.support import received as report_received
from tests.diagnostics.files.support import report
from tests.diagnostics.logs.support import health
from tests.diagnostics.retention.support import age, aged, days_ago, keep, newest_run, old_id, run_all
from tests.handoffs.support import judged, payload, submit

pytestmark = pytest.mark.django_db


def calls(tenant: Tenant, *days: float) -> None:
    """Store LLM calls that were made that many days ago."""
    for one in days:
        ModelCall.objects.create(
            id=old_id(one), tenant=tenant, at=days_ago(one), use="check", model="m", prompt="p", outcome="ok"
        )


def left(tenant: Tenant) -> int:
    return ModelCall.objects.filter(tenant=tenant).count()


def test_as_shipped_everything_is_kept_but_deliveries_and_tool_results(tenant: Tenant) -> None:
    calls(tenant, 4000)
    kept = {row.name: row.days for row in retention.current(tenant).rows}
    assert kept == dict.fromkeys(Data) | {Data.DELIVERIES: 14, Data.TOOL_RESULTS: 30}
    run_all()
    assert left(tenant) == 1


def test_tool_results_go_after_30_days(tenant: Tenant, other_tenant: Tenant) -> None:
    for one in (tenant, other_tenant):
        for days in (29, 31):
            sent = ToolResultIn(tool="get_order", call_id=f"c{days}", at=days_ago(days), result="x")
            now = timezone.now()
            tool_results.store(tool_results.make_rows(one.pk, "t-1", [sent], now), "collector", Grade.OUTSIDE, now)
    for row in ToolResult.objects.all():
        aged(row, (timezone.now() - row.at).days)
    keep(other_tenant, tool_results=None)
    run_all()
    assert list(ToolResult.objects.filter(tenant=tenant).values_list("call_id", flat=True)) == ["c29"]
    assert ToolResult.objects.filter(tenant=other_tenant).count() == 2
    assert newest_run(tenant, Data.TOOL_RESULTS).removed == 1


def test_only_what_is_older_goes_and_only_in_the_tenant_whose_rule_it_is(tenant: Tenant, other_tenant: Tenant) -> None:
    for one in (tenant, other_tenant):
        calls(one, 8.5, 30.5, 31, 400)
    keep(tenant, model_calls=30)
    run_all()
    assert (left(tenant), left(other_tenant)) == (1, 4)
    newest = newest_run(tenant, Data.MODEL_CALLS)
    assert (newest.number, newest.removed, newest.removed_days, bool(newest.finished_at)) == (3, 3, 30, True)


def test_one_entry_of_the_audit_log_tells_of_each_run_that_removed_something(tenant: Tenant) -> None:
    calls(tenant, 40, 41)
    keep(tenant, model_calls=30, hook_events=5)
    run_all()
    [entry] = AuditEntry.objects.filter(tenant=tenant, action=retention_run.REMOVED)
    assert (entry.actor, entry.target, entry.detail["removed"], entry.detail["kept_days"]) == (
        "handoffaudit",
        "model_calls",
        2,
        30,
    )


def test_a_report_counts_as_held_only_what_a_hold_keeps(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(retention_run, "BATCH", 1)
    kept = aged(judged(tenant, payload()), 50)
    legal_holds.place(tenant=tenant, scope="handoff", key=str(kept.pk), reason="a case", actor="ada")
    calls(tenant, 40, 41, 42)
    ModelCall.objects.create(id=old_id(43), tenant=tenant, handoff=kept.pk, at=days_ago(43))
    keep(tenant, model_calls=30)
    assert retention_run.remove_due(0) is False
    keep(tenant, model_calls=None)
    run_all()
    [entry] = AuditEntry.objects.filter(tenant=tenant, action=retention_run.REMOVED)
    assert (entry.detail["removed"], entry.detail["held"], left(tenant)) == (1, 1, 3)


def test_a_rule_is_carried_out_an_hour_after_it_was_saved(tenant: Tenant) -> None:
    calls(tenant, 40)
    keep(tenant, model_calls=30)
    PolicyVersion.objects.update(changed_at=timezone.now() - timedelta(minutes=59))
    run_all()
    assert left(tenant) == 1
    PolicyVersion.objects.update(changed_at=timezone.now() - timedelta(minutes=61))
    run_all()
    assert left(tenant) == 0


def test_the_next_run_is_a_day_later_or_when_the_rule_is_another(tenant: Tenant) -> None:
    keep(tenant, model_calls=30)
    run_all()
    calls(tenant, 40, 20)
    run_all()
    assert left(tenant) == 2
    RetentionRun.objects.update(started_at=timezone.now() - timedelta(hours=25))
    run_all()
    assert left(tenant) == 1
    keep(tenant, model_calls=10)
    run_all()
    assert left(tenant) == 0


def test_a_run_that_was_left_behind_goes_on_and_counts_each_once(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(retention_run, "BATCH", 3)
    calls(tenant, *range(40, 50))
    keep(tenant, model_calls=30)
    assert retention_run.remove_due(0) is False
    assert left(tenant) == 7
    assert retention_run.anything_due()
    run_all()
    assert (left(tenant), newest_run(tenant, Data.MODEL_CALLS).number) == (0, 10)
    assert AuditEntry.objects.filter(action=retention_run.REMOVED).count() == 1


def test_who_keeps_it_longer_stops_the_run(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(retention_run, "BATCH", 3)
    calls(tenant, *range(40, 50))
    keep(tenant, model_calls=30)
    retention_run.remove_due(0)
    keep(tenant, model_calls=None)
    run_all()
    assert (left(tenant), newest_run(tenant, Data.MODEL_CALLS).number) == (7, 3)
    assert AuditEntry.objects.get(action=retention_run.REMOVED).detail["removed"] == 3


@pytest.mark.parametrize("data", ["documents", "handoffs"])
def test_long_texts_make_small_batches(tenant: Tenant, monkeypatch: pytest.MonkeyPatch, data: str) -> None:
    for step in range(5):
        age(judged(tenant, payload(data={"text": "x" * 1_000}, step=step + 1)))
    sizes = list(Handoff.objects.order_by("id").values_list("size_bytes", flat=True))
    monkeypatch.setattr(retention_run, "BATCH_BYTES", sum(sizes[:2]))
    batches: list[int] = []
    target = retention_run.KINDS[Data(data)]

    def remove(due: DueRows) -> int:
        batches.append(len(due.pks))
        return target.remove(due)

    monkeypatch.setitem(retention_run.KINDS, Data(data), replace(target, remove=remove))
    monkeypatch.setattr(retention_run, "remove_next_handoffs", lambda *_: None)
    keep(tenant, **{data: 30})
    run_all()
    assert batches == [2, 2, 1]


def test_one_process_at_a_time(tenant: Tenant) -> None:
    calls(tenant, 40)
    keep(tenant, model_calls=30)
    held_until = retention_run.LEASE.acquire()
    assert not retention_run.anything_due()
    assert retention_run.remove_due(60) is True
    assert left(tenant) == 1
    retention_run.LEASE.release(held_until)
    assert retention_run.anything_due()
    retention_run.remove_due(60)
    assert left(tenant) == 0


def test_a_process_that_was_overtaken_takes_nothing_and_counts_nothing(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(retention_run, "BATCH", 3)
    calls(tenant, *range(40, 50))
    keep(tenant, model_calls=30)
    retention_run.remove_due(0)
    old = newest_run(tenant, Data.MODEL_CALLS)
    retention_run.remove_due(0)
    with pytest.raises(retention_run._Overtaken):
        retention_run._remove_batch(tenant, old)
    assert (left(tenant), newest_run(tenant, Data.MODEL_CALLS).number) == (4, 6)


def test_while_handoffs_wait_a_batch_is_followed_by_a_pause(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setattr(retention_run, "BATCH", 3)
    # A batch takes a few milliseconds here, and the pause has to outlast the assertions.
    monkeypatch.setattr(retention_run, "_SHARE", 0.0001)
    submit(tenant, payload())
    calls(tenant, *range(40, 50))
    keep(tenant, model_calls=30)
    assert retention_run.remove_due(60) is True
    assert left(tenant) == 7
    assert Watermark.objects.get(name=retention_run.LEASE.name).at > timezone.now()


def test_what_has_nothing_to_do_is_looked_at_every_ten_minutes(tenant: Tenant) -> None:
    assert retention_run.anything_due()
    retention_run.remove_due(60)
    assert not retention_run.anything_due()
    Watermark.objects.filter(name=retention_run.MARK).update(at=timezone.now() - timedelta(minutes=11))
    assert retention_run.anything_due()


def test_events_of_hooks_go_with_what_they_came_to(tenant: Tenant) -> None:
    for days in (5, 50):
        event = HookEvent.objects.create(id=old_id(days), tenant=tenant, key=f"{days}", name="x", at=days_ago(days))
        ValidationState.objects.create(
            tenant=tenant, event=event.pk, workflow_id="w", phase_id="p", status="PASSED", content="{}"
        )
    keep(tenant, hook_events=30)
    run_all()
    assert HookEvent.objects.get().key == "5"
    assert ValidationState.objects.get().event == HookEvent.objects.get().pk
    assert newest_run(tenant, Data.HOOK_EVENTS).number == 1


def test_the_tasks_of_hooks_go_with_their_events(tenant: Tenant, other_tenant: Tenant) -> None:
    def task(target: str, **columns: Any) -> None:
        given = {"tenant": tenant, "session": "s", "target": target, "over": True}
        HandedOut.objects.create(**given | columns)

    for number in range(retention_run.BATCH + 1):
        task(f"old {number}", handoff=old_id(50), returned=old_id(40))
    task("without a handoff")
    task("ended lately", handoff=old_id(50), returned=old_id(5))
    task("lately", handoff=old_id(5))
    task("running", over=False)
    task("of another tenant", handoff=old_id(50), tenant=other_tenant)
    opened, held = (aged(judged(tenant, payload()), 50) for _ in range(2))
    Handoff.objects.filter(pk=opened.pk).update(open=True)
    task("open", over=False, handoff=opened.pk)
    task("held", handoff=held.pk)
    legal_holds.place(tenant=tenant, scope="handoff", key=str(held.pk), reason="a case", actor="ada")
    keep(tenant, hook_events=30)
    run_all()
    kept = set(HandedOut.objects.values_list("target", flat=True))
    assert kept == {"ended lately", "lately", "running", "of another tenant", "open", "held"}


def test_deliveries_go_after_two_weeks_and_what_waits_does_not(tenant: Tenant) -> None:
    to = Subscriber.objects.create(tenant=tenant, kind="webhook", name="CI", address="https://127.0.0.1/", events=[])
    ends = [{"due_at": timezone.now()}, {"delivered_at": timezone.now()}, {"gave_up_at": timezone.now()}]
    for number, end in enumerate(ends):
        Delivery.objects.create(
            id=old_id(15), tenant=tenant, subscriber=to, about=f"{number}", payload="", created_at=days_ago(15), **end
        )
    run_all()
    assert Delivery.objects.get().about == "0"


def test_reports_go_and_their_counts_stay(tenant: Tenant) -> None:
    found = report_received(tenant, report({})).report
    assert found is not None
    before = health(tenant)
    assert sum(before.values()) == 1
    aged(found, 40)
    keep(tenant, file_reports=30)
    run_all()
    assert not FileReport.objects.exists()
    assert health(tenant) == before


def test_figures_say_what_there_is_and_what_would_go(tenant: Tenant) -> None:
    calls(tenant, 9, 40, 41)
    now = timezone.now()
    table = retention.current(tenant)
    [one] = [one for one in retention_run.list_standings(tenant, table) if one.rule.name is Data.MODEL_CALLS]
    assert (one.there.number, one.goes, one.next_at) == (3, None, None)
    assert one.oldest is not None
    assert (now - one.oldest).days == 41
    assert retention_run.count_going(tenant, Retention(Data.MODEL_CALLS, 30), now).number == 2
    assert retention_run.count_going(tenant, Retention(Data.MODEL_CALLS, None), now).number == 0
    keep(tenant, model_calls=30)
    [one] = [one for one in retention_run.list_standings(tenant) if one.rule.name is Data.MODEL_CALLS]
    assert one.goes
    assert one.goes.number == 2


def test_counting_stops_somewhere_and_says_so(tenant: Tenant, monkeypatch) -> None:
    calls(tenant, 9, 40, 41)
    rule, now = Retention(Data.MODEL_CALLS, 8), timezone.now()
    assert retention_run.count_going(tenant, rule, now, 2) == retention_run.Count(2, more=True)
    assert retention_run.count_going(tenant, rule, now, 3) == retention_run.count_going(tenant, rule, now)
    keep(tenant, model_calls=8)
    monkeypatch.setattr(retention_run, "LISTED_AT_MOST", 2)
    [one] = [one for one in retention_run.list_standings(tenant) if one.rule.name is Data.MODEL_CALLS]
    assert one.there == one.goes == retention_run.Count(2, more=True)


def test_a_clock_that_was_set_back_leaves_the_audit_log_whole(tenant: Tenant) -> None:
    """A run of -0.0 seconds would be recorded, and PostgreSQL returns 0.0."""
    calls(tenant, 40)
    keep(tenant, model_calls=30)
    run_all()
    one = newest_run(tenant, Data.MODEL_CALLS)
    one.started_at = timezone.now() + timedelta(seconds=0.04)
    one.finished_at = None
    one.save()
    retention_run._finish(tenant, one)
    newest = AuditEntry.objects.filter(tenant=tenant).order_by("number").last()
    assert newest
    assert (newest.action, str(newest.detail["seconds"]), audit.verify(tenant)) == ("retention.remove", "0.0", None)


def test_a_run_that_fails_stops_no_other_run(tenant: Tenant, other_tenant: Tenant, monkeypatch) -> None:
    for one in (tenant, other_tenant):
        calls(one, 40)
        keep(one, model_calls=30)
    remove = retention_run._remove_batch

    def fail_for_the_first(one: Tenant, run: RetentionRun) -> bool:
        if one == tenant:
            raise KeyError(one.pk)
        return remove(one, run)

    with monkeypatch.context() as changed, capture_logs() as logs:
        changed.setattr(retention_run, "_remove_batch", fail_for_the_first)
        assert retention_run.remove_due(60)
    failed = [(one["tenant"], one["kind"]) for one in logs if one["event"] == "a retention run failed"]
    assert (left(tenant), left(other_tenant)) == (1, 0)
    assert ("acme", "model_calls") in failed
    assert not retention_run.anything_due()
    retention_run.LEASE.revoke()
    run_all()
    assert left(tenant) == 0


def test_a_tenant_whose_runs_cannot_be_listed_stops_no_other(tenant: Tenant, other_tenant: Tenant, monkeypatch) -> None:
    for one in (tenant, other_tenant):
        calls(one, 40)
        keep(one, model_calls=30)
    begin = retention_run._begin

    def fail_for_the_first(one: Tenant, *rest: Any) -> RetentionRun:
        if one == tenant:
            raise KeyError(one.pk)
        return begin(one, *rest)

    with monkeypatch.context() as changed, capture_logs() as logs:
        changed.setattr(retention_run, "_begin", fail_for_the_first)
        assert retention_run.remove_due(60)
    assert [one["tenant"] for one in logs if one["log_level"] == "error"] == [tenant.slug]
    assert (left(tenant), left(other_tenant)) == (1, 0)
    assert not retention_run.anything_due()
    retention_run.LEASE.revoke()
    Watermark.objects.filter(name=retention_run.MARK).delete()
    run_all()
    assert left(tenant) == 0
