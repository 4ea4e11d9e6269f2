"""Tests of the removal of whole handoffs: what goes with them, what stays, and terms by type."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db import transaction
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import AuditEntry, Person, Tenant
from handoffaudit.diagnostics import attribution, removal, retention_run, text_index
from handoffaudit.diagnostics.models import BlockedText, FindingGroup, RetentionRun, TracedHandoff
from handoffaudit.handoffs import counts, judge, legal_holds, rates, recount
from handoffaudit.handoffs.counts import CountKey
from handoffaudit.handoffs.models import (
    DailyCount,
    DailyPair,
    Handoff,
    HandoffBody,
    HourlyCount,
    HourlySource,
    HourlyTotal,
)
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.policy.kinds import retention
from handoffaudit.policy.models import PolicyVersion
from handoffaudit.policy.retention import HOURS_KEPT, Data, Retention, parse_row
from handoffaudit.policy.values import InvalidPolicy
from tests.diagnostics.files.support import received
from tests.diagnostics.files.support import report as file_report
from tests.diagnostics.retention.support import age, days_ago, keep, newest_run, rows_of, run_all
from tests.handoffs.support import circular, held, judged, payload, submit

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _static(settings) -> None:
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)


def keep_types(tenant: Tenant, data: Data, days: int | None, **types: int | None) -> None:
    table = retention.current(tenant)
    rows = [Retention(data, days, types) if row.name is data else row for row in table.rows]
    retention.save(tenant=tenant, base_version=table.version, rows=rows, actor="ada")
    PolicyVersion.objects.filter(tenant=tenant).update(changed_at=timezone.now() - timedelta(hours=2))


def test_everything_of_an_old_handoff_goes_and_its_counts_stay(tenant: Tenant, other_tenant: Tenant) -> None:
    # The handoffs are grouped and attributed under their new ids, as if they had come that long ago.
    gone = [age(judged(tenant, circular())), age(judged(tenant, payload()))]
    attribution.run()
    text_index.run()
    activity.add_comment(tenant=tenant, reference=str(gone[0].pk), text="why?", actor=Actor.key("ada"))
    stays, theirs = judged(tenant, circular()), age(judged(other_tenant, payload(tenant_id="globex")))
    recount.recount()
    before = {key: list(key.objects.order_by("pk").values()) for key in (HourlyCount, DailyCount)}
    assert {"HandoffBody", "Verdict", "Finding", "Event", "Comment", "Handoff"} <= set(rows_of(gone[0]))
    keep(tenant, handoffs=30)
    run_all()
    assert [rows_of(one) for one in gone] == [{}, {}]
    assert set(Handoff.objects.values_list("pk", flat=True)) == {stays.pk, theirs.pk}
    assert {key: list(key.objects.order_by("pk").values()) for key in before} == before
    assert recount.recount(repair=False).wrong == 0
    assert newest_run(tenant, Data.HANDOFFS).number == 2
    [entry] = AuditEntry.objects.filter(action=retention_run.REMOVED, target="handoffs")
    assert (entry.detail["removed"], entry.detail["kept_days"], "held" in entry.detail) == (2, 30, False)


def test_every_model_that_names_a_handoff_is_removed_or_listed_as_kept() -> None:
    """A new model cannot be forgotten: its rows would stay behind for ever."""
    naming = {
        model.__name__
        for app in ("handoffs", "diagnostics")
        for model in apps.get_app_config(app).get_models()
        if any(field.name == "handoff" for field in model._meta.concrete_fields)
    }
    removed = {model.__name__ for model in removal.removed_models()} - {"Handoff"}
    assert naming == removed | set(removal.KEPT_MODELS)


def test_handoffs_that_somebody_needs_stay(tenant: Tenant) -> None:
    kept = [age(judged(tenant, held())), age(judged(tenant, payload()), 29)]
    handed_out = age(judged(tenant, payload()))
    kept.append(age(Handoff.objects.get(pk=submit(tenant, payload()).id)))
    Handoff.objects.filter(pk=handed_out.pk).update(open=True)
    keep(tenant, handoffs=30)
    run_all()
    assert set(Handoff.objects.values_list("pk", flat=True)) == {one.pk for one in (*kept, handed_out)}


def test_a_type_can_have_a_term_of_its_own(tenant: Tenant) -> None:
    short = age(judged(tenant, payload(handoff_type="status_update")), 13)
    long = age(judged(tenant, payload(handoff_type="research_result")), 400)
    usual = age(judged(tenant, payload(handoff_type="deal_data")), 40)
    keep_types(tenant, Data.HANDOFFS, 30, status_update=5, research_result=None)
    goes = retention_run.count_going(tenant, retention.current(tenant).row("handoffs"), timezone.now())
    assert goes.number == 2
    run_all()
    assert set(Handoff.objects.values_list("pk", flat=True)) == {long.pk}
    assert RetentionRun.objects.get(kind="handoffs").types == {"research_result": None, "status_update": 5}
    assert {short.pk, usual.pk}.isdisjoint(HandoffBody.objects.values_list("pk", flat=True))


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("logs", {"a": 30}),
        ("handoffs", {"a": 0}),
        ("handoffs", {"": 30}),
        ("handoffs", ["a"]),
        ("handoffs", {"a" * 201: 30}),
        ("handoffs", {f"type {number}": 30 for number in range(101)}),
        ("documents", {"a": "soon"}),
    ],
)
def test_bad_terms_by_type_are_refused(name: str, types: object) -> None:
    with pytest.raises(InvalidPolicy):
        parse_row({"name": name, "days": 30, "types": types})


def test_a_hold_on_a_handoff_a_trace_or_the_tenant_keeps_it(tenant: Tenant) -> None:
    held_one, traced = age(judged(tenant, payload())), age(judged(tenant, payload(), trace_id="run-42"))
    free = age(judged(tenant, payload()))
    for scope, key in (("handoff", str(held_one.pk)), ("trace", "run-42")):
        legal_holds.place(tenant=tenant, scope=scope, key=key, reason="a case", actor="ada")
    keep(tenant, handoffs=30, documents=30)
    run_all()
    assert set(Handoff.objects.values_list("pk", flat=True)) == {held_one.pk, traced.pk}
    assert set(HandoffBody.objects.values_list("pk", flat=True)) == {held_one.pk, traced.pk}
    report = AuditEntry.objects.get(action=retention_run.REMOVED, target="handoffs").detail
    assert (report["removed"], report["held"]) == (1, 2)
    assert free.pk not in Handoff.objects.values_list("pk", flat=True)

    everything = legal_holds.place(tenant=tenant, scope="tenant", key="", reason="a case", actor="ada")
    for hold in legal_holds.list_holds(tenant):
        if hold.pk != everything.pk:
            legal_holds.lift(tenant=tenant, hold=hold.pk, reason="over", actor="ada")
    RetentionRun.objects.all().delete()
    run_all()
    assert Handoff.objects.count() == 2
    legal_holds.lift(tenant=tenant, hold=everything.pk, reason="over", actor="ada")
    RetentionRun.objects.all().delete()
    run_all()
    assert not Handoff.objects.exists()


def test_hours_of_old_days_are_added_up_and_charts_and_recounts_agree(tenant: Tenant) -> None:
    start = counts.midnight_of(days_ago(HOURS_KEPT.days + 30))
    moments = [start + timedelta(days=day, hours=hour) for day in (0, 1) for hour in (0, 3, 3, 23)]
    for moment in moments:
        age(judged(tenant, circular()), (timezone.now() - moment) / timedelta(days=1))
    for model in (HourlyCount, HourlySource, HourlyTotal, DailyCount, DailyPair):
        model.objects.all().delete()
    for one in Handoff.objects.all():
        counts.apply(counts.count_transition(CountKey.of(one), one.codes, "", one.state))
    until = start + timedelta(days=2)
    sums = rates.sum_outcomes(tenant, start, until, "source_agent_id")
    before, rows = _numbers(tenant), HourlyCount.objects.count()
    keep(tenant, hourly_counts=HOURS_KEPT.days)
    run_all()
    assert HourlyCount.objects.count() < rows
    assert {row.hour.hour for row in HourlyCount.objects.all()} == {0}
    assert _numbers(tenant) == before
    assert rates.sum_outcomes(tenant, start, until, "source_agent_id") == sums
    # A period that begins within an old day is read as whole days.
    assert rates.sum_outcomes(tenant, start + timedelta(hours=5), until, "source_agent_id") == sums
    assert recount.recount(repair=False).wrong == 0
    HourlyCount.objects.first().delete()
    assert recount.recount().wrong == 1
    assert _numbers(tenant) == before


def _numbers(tenant: Tenant) -> list[tuple[object, ...]]:
    day = [(row.hour.date(), row.state, row.code, row.number) for row in HourlyCount.objects.filter(tenant=tenant)]
    return sorted((key, sum(one[3] for one in day if one[:3] == key)) for key in {one[:3] for one in day})


def test_the_page_reports_the_last_runs(client: Client, admin: Person, tenant: Tenant) -> None:
    gone = age(judged(tenant, payload()))
    keep(tenant, handoffs=30)
    run_all()
    client.force_login(admin)
    assert client.get(f"/t/acme/handoffs/{gone.pk}/").status_code == 404
    page = client.get("/t/acme/settings/retention/")
    assert "Last deletions" in page.text
    assert "1 handoff in" in page.text


def test_the_form_takes_terms_by_type(client: Client, admin: Person, tenant: Tenant) -> None:
    client.force_login(admin)
    age(judged(tenant, payload(handoff_type="status_update")), 40)
    types = "status_update = 30\r\nresearch_result ="
    page = client.get("/t/acme/settings/retention/", {"kind": "handoffs", "days": "", "types": types})
    assert "<b>1 handoff</b> would be deleted" in page.text
    sent = {"kind": "handoffs", "days": "", "types": types, "base_version": "0"}
    assert client.post("/t/acme/settings/retention/save/", sent).status_code == 302
    assert retention.current(tenant).row("handoffs").types == {"research_result": None, "status_update": 30}
    assert "status_update" in client.get("/t/acme/policies/history/?kind=retention").text
    for bad in ("status_update = soon", "= 3", "x = 99999", "\n".join(f"t{number} = 1" for number in range(101))):
        page = client.get("/t/acme/settings/retention/", {"kind": "handoffs", "types": bad})
        assert page.status_code == 400, bad


def test_traced_handoffs_of_a_removed_handoff_go(tenant: Tenant) -> None:
    gone = age(judged(tenant, circular()))
    attribution.run()
    text_index.run()
    assert TracedHandoff.objects.filter(handoff=gone.pk).exists()
    assert BlockedText.objects.filter(handoff=gone.pk).exists()
    keep(tenant, handoffs=30)
    run_all()
    assert not TracedHandoff.objects.exists()
    assert not BlockedText.objects.exists()


def test_what_names_a_removed_handoff_can_still_be_read(client: Client, admin: Person, tenant: Tenant) -> None:
    """A report, a retry, a child, a trace and a finding group outlive the handoff that they name."""
    report = received(tenant, file_report({})).report
    assert report is not None
    judge.drain()
    first = judged(tenant, circular(), handoff_id="first", trace_id="run-42")
    retry = judged(tenant, circular(), handoff_id="second", retry_of="first", trace_id="run-42")
    child = judged(tenant, payload(), handoff_id="child", parent_handoff_id="first", trace_id="run-42")
    attribution.run()
    text_index.run()
    group = FindingGroup.objects.filter(tenant=tenant)[0]
    with transaction.atomic():
        removal.remove_handoffs(tenant, [first.pk, report.handoff], timezone.now())
    client.force_login(admin)
    pages = [
        "",
        "handoffs/",
        f"handoffs/{retry.pk}/",
        f"handoffs/{child.pk}/",
        "traces/",
        "traces/run-42/",
        f"diagnostics/files/{report.pk}/",
        "diagnostics/files/",
        f"groups/{group.pk}/",
        "review/",
        "agents/",
    ]
    for page in pages:
        answer = client.get(f"/t/acme/{page}", follow=True)
        assert answer.status_code == 200, (page, answer.status_code)
