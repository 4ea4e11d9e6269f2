"""Tests of the API of traces."""

from urllib.parse import quote

import httpx

from handoffaudit.accounts.models import Tenant
from tests.api.support import client, make_key, problem
from tests.diagnostics.trace_support import handed, made_up


def test_a_trace_is_answered_in_order_with_what_came_from_where(api: httpx.Client, tenant: Tenant) -> None:
    handoffs = made_up(tenant)
    trace = api.get("/traces/work/1").json()
    assert [one["id"] for one in trace["handoffs"]] == [str(one.pk) for one in handoffs]
    assert [one["number"] for one in trace["handoffs"]] == [1, 2, 3, 4]
    assert trace["handoffs"][0]["seconds_since_previous"] is None
    (found,) = trace["handoffs"][2]["findings"]
    assert (found["value"], found["caused"], found["origin"], found["carried_by"]) == ("999", False, 2, [3])
    assert trace["handoffs"][2]["carries"] == ["999"]
    (origin,) = trace["origins"]
    assert (origin["value"], origin["number"], origin["agent"], origin["flagged"]) == ("999", 2, "solver", [2, 3])
    assert trace["tainted"] == [3]
    assert {"agent": "critic", "caused": 0, "passed_on": 1} in trace["shares"]
    assert {"source": "solver", "target": "critic", "handoffs": [2]} in trace["graph"]["edges"]
    assert {"agent": "critic", "handed_over": 1, "received": 1} in trace["graph"]["nodes"]
    assert (trace["graph"]["loops"], trace["has_more"]) == ([], False)
    assert [(one["number"], one["values"]) for one in trace["suspects"]] == [(2, ["999"])]


def test_ids_may_hold_slashes_and_any_letters(api: httpx.Client, tenant: Tenant) -> None:
    handed(tenant, "planner", "writer", "Done.", "a/b c?")
    address = f"/traces/{quote('a/b c?')}"
    assert api.get(address).json()["trace_id"] == "a/b c?"
    assert api.get(f"{address}/lanes.svg").status_code == 200


def test_the_lanes_are_an_image_that_runs_nothing(api: httpx.Client, tenant: Tenant) -> None:
    made_up(tenant)
    image = api.get("/traces/work/1/lanes.svg")
    assert image.headers["Content-Type"].startswith("image/svg+xml")
    assert "default-src 'none'" in image.headers["Content-Security-Policy"]
    assert image.text.startswith("<svg")
    assert "solver" in image.text
    assert "<a " not in image.text


def test_a_trace_of_another_tenant_is_not_found(tenant: Tenant, other_tenant: Tenant) -> None:
    made_up(tenant)
    with client(make_key(other_tenant, "read")) as theirs:
        problem(theirs.get("/traces/work/1"), 404)
        problem(theirs.get("/traces/work/1/lanes.svg"), 404)
