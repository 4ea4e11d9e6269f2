"""Tests of the counted routes, compared with the declared routes and the known agents."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import agents as edges_module
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.agents import (
    AgentRoute,
    Agents,
    Source,
    busiest_agents,
    fold_routes,
    load_agents,
    load_routes,
)
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.rates import OutcomeCounts
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import parse_routes_text
from tests.handoffs.support import NOT_JSON, circular, judged, payload, to_itself

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nobody_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handoffaudit.diagnostics.agents.known_agents", lambda: None)


def pair(source: str, target: str) -> dict[str, object]:
    return payload(source_agent_id=source, target_agent_id=target, call_chain=[source])


def span() -> tuple[datetime, datetime]:
    now = timezone.now()
    return now - timedelta(hours=24), now + timedelta(hours=1)


def seen(tenant: Tenant) -> Agents:
    return load_agents(tenant, *span())


def declare(tenant: Tenant, text: str) -> None:
    version = kinds.agents.current(tenant).version
    kinds.agents.save(tenant=tenant, base_version=version, rows=parse_routes_text(text), actor="ada")


def test_edges_have_their_volume_and_the_share_accepted(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(tenant, payload())
    judged(tenant, payload())
    judged(tenant, circular())
    judged(tenant, NOT_JSON)
    judged(other_tenant, payload(tenant_id=other_tenant.slug))
    found = load_routes(tenant, *span())
    assert [(edge.source, edge.target, edge.number, str(edge.share)) for edge in found.listed] == [
        ("researcher", "writer", 2, "2/2 (100.0%)"),
        ("researcher", "planner", 1, "0/1 (0.0%)"),
    ]
    assert found.nameless == 1
    assert busiest_agents(tenant, *span(), most=5) == [Source("researcher", 3, OutcomeCounts(2, 0, 1))]


def test_only_the_period_counts(tenant: Tenant) -> None:
    judged(tenant, payload())
    now = timezone.now()
    assert load_routes(tenant, now - timedelta(days=3), now - timedelta(days=2)).listed == ()


def test_times_and_findings_come_from_traces(tenant: Tenant) -> None:
    for minute, (source, target) in enumerate([("planner", "writer"), ("writer", "editor"), ("writer", "editor")]):
        judged(tenant, pair(source, target) | {"timestamp": f"2026-02-15T00:0{2 * minute}:00Z"}, trace_id="t")
    attribution.run()
    by_pair = {(edge.source, edge.target): edge for edge in load_routes(tenant, *span()).listed}
    assert by_pair["planner", "writer"].median_seconds is None
    assert by_pair["writer", "editor"].median_seconds == 180.0


def test_of_many_the_newest_are_read(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(tenant, pair("planner", "writer"))
    judged(tenant, pair("writer", "editor"))
    attribution.run()
    assert load_routes(tenant, *span()).sampled is False
    for most, agent, is_sampled in ((1, "", True), (2, "", False), (1, "writer", True), (2, "writer", False)):
        monkeypatch.setattr(edges_module, "MOST_TRACED", most)
        assert load_routes(tenant, *span(), agent).sampled is is_sampled


def test_declared_against_seen(tenant: Tenant) -> None:
    for source, target in [("planner", "writer"), ("writer", "editor"), ("critic", "archive")]:
        judged(tenant, pair(source, target))
    judged(tenant, to_itself())
    declare(tenant, "planner -> writer, critic\n* -> archive\nresearcher -> *\nboss -> *")
    found = seen(tenant)
    assert found.never_seen == (("boss", "*"), ("planner", "critic"))
    assert [(edge.source, edge.target) for edge in found.never_declared] == [("writer", "editor")]
    assert [(edge.source, edge.target) for edge in found.to_self] == [("researcher", "researcher")]
    assert (found.is_declared("planner", "writer"), found.is_declared("writer", "editor")) == (True, False)


def test_where_nothing_is_declared_nothing_is_undeclared(tenant: Tenant) -> None:
    judged(tenant, pair("planner", "writer"))
    found = seen(tenant)
    assert (found.never_declared, found.unknown, found.knows) == ((), (), False)
    assert found.is_declared("planner", "writer") is None


def test_an_unknown_agent_comes_with_the_name_it_may_be_meant_for(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handoffaudit.diagnostics.agents.known_agents", lambda: frozenset({"archive"}))
    for source, target in [("planner", "writter"), ("planner", "archive"), ("planner", "zzz")]:
        judged(tenant, pair(source, target))
    declare(tenant, "planner -> writer")
    assert {one.agent.name: one.nearest for one in seen(tenant).unknown} == {"writter": "writer", "zzz": ""}


def test_ends_of_the_work(tenant: Tenant) -> None:
    for source, target in [("planner", "writer"), ("writer", "editor"), ("writer", "editor")]:
        judged(tenant, pair(source, target))
    found = seen(tenant)
    assert [agent.name for agent in found.nobody_hands_to] == ["planner"]
    assert [agent.name for agent in found.never_hand_on] == ["editor"]
    assert [(agent.name, agent.handed_on, agent.received) for agent in found.agents] == [
        ("writer", 2, 1),
        ("editor", 0, 2),
        ("planner", 1, 0),
    ]


def test_what_a_later_attempt_overtook_was_still_handed_over(tenant: Tenant) -> None:
    first = judged(tenant, circular(handoff_id="first"))
    judged(tenant, circular(handoff_id="second"), retry_of="first")
    assert Handoff.objects.get(pk=first.pk).state == "superseded"
    [edge] = load_routes(tenant, *span()).listed
    assert (edge.number, edge.judged.total) == (2, 1)


def test_agents_that_are_not_kept_are_one() -> None:
    listed = [
        AgentRoute("a", "b", 5, OutcomeCounts(5)),
        AgentRoute("a", "c", 2, OutcomeCounts(1, 0, 1)),
        AgentRoute("a", "d", 1, OutcomeCounts(0, 0, 1)),
        AgentRoute("c", "d", 1, OutcomeCounts(1)),
    ]
    found = fold_routes(listed, frozenset("ab"), "others")
    assert [(edge.source, edge.target, edge.number, str(edge.share)) for edge in found] == [
        ("a", "b", 5, "5/5 (100.0%)"),
        ("a", "others", 3, "1/3 (33.3%)"),
        ("others", "others", 1, "1/1 (100.0%)"),
    ]
