"""Tests of the API of agents and routes."""

import httpx

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import parse_routes_text
from tests.api.support import problem
from tests.diagnostics.test_attribution import RIGHT, WRONG, step
from tests.handoffs.support import judged


def test_edges_and_agents_of_a_period(api: httpx.Client, tenant: Tenant) -> None:
    judged(tenant, step("analyst", "writer", WRONG, 0), trace_id="t", context=RIGHT)
    judged(tenant, step("writer", "editor", WRONG, 2), trace_id="t", context=RIGHT)
    attribution.run()
    kinds.agents.save(
        tenant=tenant, base_version=0, rows=parse_routes_text("analyst -> writter, writer\n* -> archive"), actor="ada"
    )
    found = api.get("/agents", params={"period": "24h"}).json()
    by_pair = {(edge["source"], edge["target"]): edge for edge in found["edges"]}
    assert {pair: edge["declared"] for pair, edge in by_pair.items()} == {
        ("analyst", "writer"): True,
        ("writer", "editor"): False,
    }
    repeated = by_pair["writer", "editor"]
    assert (repeated["handoffs"], repeated["judged"], repeated["median_seconds"]) == (1, 1, 120.0)
    assert repeated["passed_on"] > 0
    agents = {agent["name"]: agent for agent in found["agents"]}
    assert (agents["writer"]["handed_on"], agents["writer"]["received"]) == (1, 1)
    assert (agents["editor"]["known"], agents["writer"]["known"]) == (False, True)
    assert agents["analyst"]["caused"] > 0
    assert found["never_seen"] == [{"source": "*", "target": "archive"}, {"source": "analyst", "target": "writter"}]
    assert (found["period"], found["declared_version"], found["more"]) == ("24h", 1, False)


def test_nothing_was_seen_and_nothing_is_declared(api: httpx.Client) -> None:
    found = api.get("/agents").json()
    assert (found["edges"], found["agents"], found["never_seen"], found["period"]) == ([], [], [], "7d")


def test_a_period_that_cannot_be_read_is_named(api: httpx.Client) -> None:
    assert problem(api.get("/agents", params={"period": "soon"}), 400)["detail"].startswith("period is 'soon'")
