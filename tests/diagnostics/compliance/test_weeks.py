"""Tests of rates by agent and week: sums, order, limits, what is unusual, and other tenants."""

from collections import Counter
from datetime import UTC, date, datetime

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import compliance_report, file_stats
from handoffaudit.diagnostics.compliance_report import WEEKS, acceptance_by_week, file_compliance_by_week
from handoffaudit.diagnostics.file_stats import USED_SOURCE, HealthKey
from handoffaudit.handoffs.models import DailyCount
from handoffaudit.handoffs.rates import Share

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 15, 40, tzinfo=UTC)


def count(tenant: Tenant, day: date, agent: str, accepted: int, stopped: int = 0, code: str = "") -> None:
    kind = f"type {accepted} {stopped}"
    numbers = {"accepted": accepted, "decided": 0, "stopped": stopped, "superseded": 5}
    DailyCount.objects.create(tenant=tenant, day=day, source_agent_id=agent, handoff_type=kind, code=code, **numbers)


def test_days_are_summed_by_week_and_agent(tenant: Tenant, other_tenant: Tenant) -> None:
    for of in (tenant, other_tenant):
        count(of, date(2026, 3, 16), "writer", 8, 2)
        count(of, date(2026, 3, 20), "writer", 1, 1)
        count(of, date(2026, 3, 15), "writer", 3)
    count(tenant, date(2026, 3, 20), "writer", 0, 3, code="chain.circular")
    count(tenant, date(2026, 3, 20), "planner", 40)
    count(tenant, date(2025, 12, 28), "writer", 100)
    table = acceptance_by_week(tenant, NOW)
    assert (len(table.weeks), table.weeks[0], table.weeks[-1]) == (WEEKS, date(2025, 12, 29), date(2026, 3, 16))
    assert [one.agent for one in table.agents] == ["planner", "writer"]
    writer = table.agents[1]
    assert (writer.weeks[-2:], writer.whole) == ([Share(3, 3), Share(9, 12)], Share(12, 15))
    assert (writer.weeks[0], table.more) == (Share(0, 0), False)


def test_only_a_week_beyond_chance_is_marked(tenant: Tenant) -> None:
    for day in (date(2026, 3, 2), date(2026, 3, 9)):
        count(tenant, day, "writer", 95, 5)
    count(tenant, date(2026, 3, 16), "writer", 40, 60)
    (writer,) = acceptance_by_week(tenant, NOW).agents
    assert writer.tones == [""] * (WEEKS - 3) + ["rose", "rose", "fell"]


def test_the_agents_are_bounded(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compliance_report, "MOST_AGENTS_OF_WEEKS", 2)
    for number in range(4):
        count(tenant, date(2026, 3, 20), f"agent-{number}", number + 1)
        report(tenant, f"agent-{number}", used=number + 1)
    for table in (acceptance_by_week(tenant, NOW), file_compliance_by_week(tenant, NOW)):
        assert ([one.agent for one in table.agents], table.more) == (["agent-3", "agent-2"], True)


def report(tenant: Tenant, agent: str, *, used: int, missing: int = 0, day: int = 18) -> None:
    hour = datetime(2026, 3, day, 10, tzinfo=UTC)
    place = (hour, agent, "build", "")
    file_stats.count_health(tenant.pk, Counter({HealthKey(*place, USED_SOURCE, "", ""): used}))
    if missing:
        file_stats.count_health(tenant.pk, Counter({HealthKey(*place, "", "file_missing", ""): missing}))


def test_handoff_files_are_summed_by_week_and_agent(tenant: Tenant, other_tenant: Tenant) -> None:
    report(tenant, "writer", used=8, missing=2)
    report(tenant, "writer", used=3, day=10)
    report(other_tenant, "planner", used=9)
    (writer,) = file_compliance_by_week(tenant, NOW).agents
    assert (writer.agent, writer.weeks[-2:]) == ("writer", [Share(3, 3), Share(8, 10)])


def test_agents_without_unused_files_are_listed_first_if_they_have_the_most(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stats, "MOST_STEPS", 3)
    report(tenant, "writer", used=9)
    report(tenant, "writer", used=5, missing=1, day=10)
    for number in range(4):
        report(tenant, f"agent-{number}", used=0, missing=1)
    writer = file_compliance_by_week(tenant, NOW).agents[0]
    assert (writer.agent, writer.weeks[-2:]) == ("writer", [Share(5, 6), Share(9, 9)])


def test_handoffs_after_the_weeks_list_no_agent(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compliance_report, "MOST_AGENTS_OF_WEEKS", 1)
    count(tenant, date(2026, 3, 15), "writer", 3)
    count(tenant, date(2026, 3, 16), "planner", 40)
    table = acceptance_by_week(tenant, datetime(2026, 3, 15, 23, 59, tzinfo=UTC))
    assert ([one.agent for one in table.agents], table.more) == (["writer"], False)
