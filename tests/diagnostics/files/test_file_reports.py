"""Tests that a report is stored as a handoff, a row and a count: all of them or none."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import file_reports, file_stats
from handoffaudit.diagnostics.models import FileReport, HealthCount
from handoffaudit.handoffs import judge
from handoffaudit.handoffs import queries as handoffs
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.policy.kinds import file_policy
from handoffaudit.validation.logs.lines import HealthLine
from handoffaudit.validation.logs.reader import read_line
from tests.diagnostics.files.support import AT, BLOCK, GOOD, received, report
from tests.handoffs.support import at_once

pytestmark = pytest.mark.django_db


def answer(tenant: Tenant, document: dict[str, Any]) -> dict[str, Any]:
    found = received(tenant, document).report
    assert found is not None
    return file_reports.answer_of(found)


def demand_strictness(tenant: Tenant, *, strict: bool) -> None:
    base = file_policy.current(tenant).version
    rows = file_policy.parse([{"strict_handoff_files": strict}])
    file_policy.save(tenant=tenant, base_version=base, rows=rows, actor="ada")


@pytest.mark.parametrize(
    ("document", "source", "reasons", "failed"),
    [
        (report(GOOD), "handoff_json", [], False),
        (report(GOOD, response_text=BLOCK), "handoff_json", [], False),
        (report(None), "text_fallback", ["file_missing"], True),
        (report(None, response_text=BLOCK), "text_fallback", ["file_missing", "text_fallback_ok"], False),
        (report("{", response_text="no"), "text_fallback", ["json_parse_error", "text_fallback_fail"], True),
        (report({"status": "x"}, response_text=BLOCK), "text_fallback", ["schema_invalid", "text_fallback_ok"], False),
    ],
)
def test_what_a_report_amounts_to(
    document: dict[str, Any], source: str, reasons: list[str], failed: bool, tenant: Tenant
) -> None:
    said = answer(tenant, document)
    assert (said["source"], said["reasons"], said["failed"]) == (source, reasons, failed)
    assert (said["reason"], said["fallback"]) == tuple([*reasons, None, None][:2])
    assert bool(said["issues"]) == bool(reasons)
    row = FileReport.objects.get()
    kept = (row.source, row.reason or None, row.fallback or None, row.failed)
    assert kept == (source, said["reason"], said["fallback"], failed)


def test_the_log_line_is_to_the_letter(tenant: Tenant) -> None:
    said = answer(tenant, report({}, response_text=BLOCK, runtime="claude code", iteration=2, timestamp=AT))
    assert said["line"] == (
        "agent=planner phase=plan source=text_fallback reason=schema_invalid timestamp=2026-02-15T00:15:00Z"
        ' fallback=text_fallback_ok runtime="claude code" iter=2 run=run-17'
    )
    assert isinstance(read_line(said["line"]), HealthLine)


def test_a_report_is_a_handoff_a_row_and_a_count(tenant: Tenant) -> None:
    found = received(tenant, report(None, response_text=BLOCK, timestamp=AT))
    assert (found.receipt.status, found.is_new) == (202, True)
    handoff = Handoff.objects.get()
    assert found.report is not None
    assert (found.report.handoff, found.report.at) == (handoff.pk, datetime(2026, 2, 15, 0, 15, tzinfo=UTC))
    count = HealthCount.objects.get()
    assert (count.agent, count.phase, count.reason, count.number) == ("planner", "plan", "file_missing", 1)
    assert count.hour == datetime(2026, 2, 15, tzinfo=UTC)
    judge.drain()
    handoff.refresh_from_db()
    assert (handoff.state, handoff.trace_id, handoff.source_agent_id) == (State.ACCEPTED, "run-17", "planner")
    assert "files.text_fallback" in handoff.codes


def test_a_failed_report_is_a_rejected_handoff(tenant: Tenant) -> None:
    received(tenant, report(None, elsewhere=["run-17/handoff.json"]))
    judge.drain()
    handoff = Handoff.objects.get()
    assert (handoff.state, handoff.codes) == (State.REJECTED, ["files.handoff_file_missing"])


def test_the_same_report_is_known_by_its_time(tenant: Tenant, other_tenant: Tenant) -> None:
    first = received(tenant, report(GOOD, timestamp=AT))
    again = received(tenant, report(GOOD, timestamp="2026-02-15T01:15:00+01:00", iteration=2, runtime="codex"))
    assert first.report is not None
    assert (again.is_new, again.report) == (False, first.report)
    assert received(other_tenant, report(GOOD, timestamp=AT)).is_new
    assert HealthCount.objects.get(tenant=tenant).number == 1
    for other in (report(GOOD, timestamp=AT, phase="review"), report("{", timestamp=AT), report(GOOD)):
        assert received(tenant, other).is_new
    assert FileReport.objects.filter(tenant=tenant).count() == 4


def test_without_a_time_each_report_is_its_own(tenant: Tenant) -> None:
    assert [received(tenant, report(GOOD)).is_new for _ in range(2)] == [True, True]
    assert HealthCount.objects.get().number == 2


def test_a_handoff_id_names_a_report_too(tenant: Tenant) -> None:
    first, again = (received(tenant, report(GOOD), "mine") for _ in range(2))
    assert (first.is_new, again.is_new, first.report) == (True, False, again.report)
    other = received(tenant, report("{"), "mine")
    assert (other.receipt.status, other.report) == (409, None)
    assert Handoff.objects.get().handoff_id == "mine"


@pytest.mark.parametrize(
    "document", [b"{", b"[]", GOOD, report(GOOD, agent=3), report(GOOD, timestamp="yesterday"), report(GOOD, file=[])]
)
def test_a_malformed_report_is_kept_as_rejected_and_counts_nowhere(document: Any, tenant: Tenant) -> None:
    found = received(tenant, document)
    assert (found.receipt.status, found.report, bool(found.receipt.issues)) == (422, None, True)
    assert Handoff.objects.get().state == State.REJECTED
    assert not FileReport.objects.exists()
    assert not HealthCount.objects.exists()
    assert handoffs.current_verdict(Handoff.objects.get()) is not None


def test_a_time_ahead_of_ours_is_now(tenant: Tenant) -> None:
    ahead = (timezone.now() + timedelta(days=400)).isoformat()
    found = received(tenant, report(GOOD, timestamp=ahead)).report
    assert found is not None
    assert found.at <= timezone.now()
    assert received(tenant, report(GOOD, timestamp="1969-01-01T00:00:00Z")).is_new


def test_only_the_file_counts_where_the_policy_says_so(tenant: Tenant, other_tenant: Tenant) -> None:
    demand_strictness(tenant, strict=True)
    fallback = report(None, response_text=BLOCK)
    assert answer(tenant, fallback)["failed"]
    assert answer(tenant, fallback)["policy"] == {"strict_handoff_files": True, "version": 1}
    assert not answer(tenant, report(GOOD))["failed"]
    assert not answer(other_tenant, fallback)["failed"]
    demand_strictness(tenant, strict=False)
    assert not answer(tenant, fallback)["failed"]


@pytest.mark.django_db(transaction=True)
def test_nothing_is_kept_where_counting_fails(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(file_stats, "count_health", fails)
    with pytest.raises(RuntimeError):
        received(tenant, report(GOOD))
    assert not Handoff.objects.exists()
    assert not FileReport.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_at_once_are_one(tenant: Tenant) -> None:
    found = at_once(*[partial(received, tenant, report(GOOD, timestamp=AT))] * 8)
    assert sorted(one.is_new for one in found) == [False] * 7 + [True]
    assert len({one.report.pk for one in found if one.report}) == 1
    assert all(one.report for one in found)
    assert HealthCount.objects.get().number == 1


@pytest.mark.django_db(transaction=True)
def test_many_at_once_are_all_counted(tenant: Tenant) -> None:
    # More threads would wait for connections of the pool, and fail on a slow machine.
    agents = [f"agent-{number % 3}" for number in range(12)]
    at_once(*(partial(received, tenant, report(GOOD, agent=agent)) for agent in agents))
    assert sorted(HealthCount.objects.values_list("agent", "number")) == [(f"agent-{n}", 4) for n in range(3)]
    with transaction.atomic():
        assert FileReport.objects.count() == Handoff.objects.count() == 12


def test_texts_of_any_kind_are_kept(tenant: Tenant) -> None:
    found = received(tenant, report("{", phase="a\x00b c", run_id='r "1"', expected_path="x\x00" * 2000, iteration=3))
    assert found.receipt.status == 422
    found = received(tenant, report("{", phase='a b="c"', expected_path="x/" * 2000, iteration=10**15))
    assert found.report is not None
    line = read_line(file_reports.answer_of(found.report)["line"])
    assert isinstance(line, HealthLine)
    assert (line.phase, line.iteration) == ('a b="c"', str(10**15))
    assert len(found.report.expected_path) == 1000
