"""Tests of the report on one agent: introduced and inherited findings, and their upstream agents."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import agent_report as agent_module
from handoffaudit.diagnostics import attribution, file_stats
from handoffaudit.diagnostics.agent_report import AgentReport, Findings, is_known, load_report, near_names
from handoffaudit.diagnostics.file_stats import HealthKey
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.counts import HOURLY_SOURCES
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.periods import window_of
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import parse_routes_text
from tests.diagnostics.test_attribution import RIGHT, WRONG, step
from tests.handoffs.support import judged, submit

pytestmark = pytest.mark.django_db


def told(tenant: Tenant, name: str, **asked: str) -> AgentReport:
    return load_report(tenant, name, window_of(asked, timezone.now()))


@pytest.fixture
def crew(tenant: Tenant) -> Tenant:
    """Submit handoffs in which the analyst makes a number up, and the writer and the editor repeat it."""
    for source, target in [("analyst", "writer"), ("writer", "editor"), ("editor", "archive"), ("writer", "editor")]:
        judged(tenant, step(source, target, WRONG), trace_id="t", context=RIGHT)
    attribution.run()
    return tenant


def grounding(found: AgentReport) -> dict[str, Any]:
    return {one.code: one.findings for one in found.codes if one.code.startswith("grounding.")}


def test_who_made_it_up_caused_it_and_who_repeats_it_passed_it_on(crew: Tenant) -> None:
    analyst, writer = told(crew, "analyst"), told(crew, "writer")
    assert {one.passed_on for one in grounding(analyst).values()} == {0}
    assert {one.caused for one in grounding(writer).values()} == {0}
    assert sum(one.passed_on for one in grounding(writer).values()) == 2
    assert analyst.origins == ()
    assert writer.origins[0][0] == "analyst"
    assert sum(number for _, number in writer.origins) == writer.findings.passed_on
    assert writer.findings == Findings(writer.agent.stats.caused, writer.agent.stats.passed_on)


def test_it_stands_in_its_stretch_of_the_period(crew: Tenant) -> None:
    received = list(Handoff.objects.filter(tenant=crew).values_list("received_at", flat=True))
    for period in ("24h", "7d", "30d"):
        found = told(crew, "writer", period=period)
        assert sum(one.value.total for one in found.over_time) == found.findings.total > 0
        filled = [one for one in found.over_time if one.value.total]
        assert all(any(one.since <= at < one.until for at in received) for one in filled)


def test_with_whom_it_works_and_when(crew: Tenant) -> None:
    found = told(crew, "writer")
    assert [(edge.target, edge.number) for edge in found.hands_to] == [("editor", 2)]
    assert [(edge.source, edge.number) for edge in found.gets_from] == [("analyst", 1)]
    assert (found.agent.handed_on, found.agent.received) == (2, 1)
    assert sum(found.hours) == 2
    assert [row.source_agent_id for row in found.newest] == ["writer", "writer", "analyst"]


def test_the_hours_of_the_day_are_those_in_which_it_sent(tenant: Tenant) -> None:
    midnight = timezone.now().replace(hour=0, minute=30) - timedelta(days=3)
    moments = [midnight + timedelta(hours=hours) for hours in (5, 5, 29, 13)]
    for moment in moments:
        handoff = submit(tenant, step("writer", "editor", "Look."))
        Handoff.objects.filter(pk=handoff.id).update(received_at=moment)
    judge.drain()
    for period, expected in (("7d", {5: 3, 13: 1}), ("30d", {5: 3, 13: 1}), ("1h", {})):
        hours = told(tenant, "writer", period=period).hours
        assert {hour: number for hour, number in enumerate(hours) if number} == expected
    assert sum(told(tenant, "editor").hours) == 0
    until = {"since": f"{moments[0]:%Y-%m-%d}", "until": f"{moments[0] + timedelta(hours=1):%Y-%m-%dT%H:00:00Z}"}
    assert sum(told(tenant, "writer", **until).hours) == 2


def test_days_whose_hours_were_added_up_have_no_busiest_hour(tenant: Tenant) -> None:
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    since, sent_at = midnight - timedelta(days=90), (midnight - timedelta(days=80), midnight - timedelta(hours=19))
    HOURLY_SOURCES.add({(tenant.pk, hour, "writer"): (0, 1, 0, 0) for hour in sent_at})
    asked = {"since": f"{since:%Y-%m-%d}"}
    assert (told(tenant, "writer", **asked).hours[0], told(tenant, "writer", **asked).hours[5]) == (1, 1)
    RetentionRun.objects.create(
        tenant=tenant,
        kind="hourly_counts",
        before=since,
        started_at=midnight,
        removed_before=midnight - timedelta(days=70, hours=-9),
    )
    assert (told(tenant, "writer", **asked).hours[0], told(tenant, "writer", **asked).hours[5]) == (0, 1)


def test_its_handoff_files_by_phase(tenant: Tenant) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    for agent, phase, reason, number in [
        ("writer", "plan", "", 3),
        ("writer", "plan", "file_missing", 1),
        ("x", "", "", 9),
    ]:
        source = "text_fallback" if reason else "handoff_json"
        file_stats.count_health(tenant.pk, Counter({HealthKey(hour, agent, phase, "", source, reason, ""): number}))
    found = told(tenant, "writer")
    assert [(pair.phase, str(pair.tally.share)) for pair in found.files] == [("plan", "3/4 (75.0%)")]
    assert found.files_overall.file_missing == 1
    assert is_known(tenant, "writer")


def test_of_many_findings_the_newest_are_read(crew: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(crew, "writer").sampled is False
    number = told(crew, "writer").findings.total
    assert number > 1
    for most, is_sampled in ((1, True), (number, False)):
        monkeypatch.setattr(agent_module, "MOST_FINDINGS", most)
        found = told(crew, "writer")
        assert (found.sampled, found.findings.total) == (is_sampled, most)


def test_another_tenants_agents_are_not_known(crew: Tenant, other_tenant: Tenant) -> None:
    assert is_known(crew, "archive")
    assert not is_known(other_tenant, "archive")
    assert told(other_tenant, "writer").findings.total == 0


def test_an_agent_is_known_by_its_declaration_too(tenant: Tenant) -> None:
    assert not is_known(tenant, "critic")
    kinds.agents.save(tenant=tenant, base_version=0, rows=parse_routes_text("planner -> critic"), actor="ada")
    assert is_known(tenant, "critic")
    assert not is_known(tenant, "")
    assert not is_known(tenant, "a\x00b")


def test_names_that_look_like_it() -> None:
    assert near_names("writter", ["editor", "writer"]) == ["writer"]
