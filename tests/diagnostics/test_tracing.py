"""Tests of one whole trace: its order, its findings, and where each finding was introduced."""

import tracemalloc

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.traces import load_trace
from handoffaudit.handoffs.models import Verdict
from tests.diagnostics.trace_support import handed, made_up
from tests.handoffs.support import circular, judged, submit

pytestmark = pytest.mark.django_db


def test_a_wrong_number_goes_back_to_who_made_it_up(tenant: Tenant) -> None:
    made_up(tenant)
    trace = load_trace(tenant, "work/1")
    assert trace is not None
    assert [one.number for one in trace.handoffs] == [1, 2, 3, 4]
    assert trace.agents == ("planner", "solver", "critic", "writer", "reader")
    (origin,) = trace.origins
    assert (origin.value, origin.step, origin.flagged, origin.carriers) == ("999", 1, (1, 2), (2,))
    assert trace.tainted == {2: ("999",)}
    assert [(one.agent, one.caused, one.passed_on) for one in trace.shares if one.total] == [
        ("solver", 1, 0),
        ("critic", 0, 1),
    ]
    assert trace.first is not None
    assert (trace.first.origin, [one.step for one in trace.suspects]) == (1, [1])


def test_steps_go_before_the_order_of_arrival(tenant: Tenant) -> None:
    for step in (3, 1, None, 2):
        handed(tenant, f"agent-{step}", "writer", "It is done.", step=step)
    trace = load_trace(tenant, "work/1")
    assert trace is not None
    assert [one.handoff.source_agent_id for one in trace.handoffs] == ["agent-1", "agent-None", "agent-2", "agent-3"]


def test_a_trace_of_another_tenant_is_none(tenant: Tenant, other_tenant: Tenant) -> None:
    made_up(tenant)
    assert load_trace(other_tenant, "work/1") is None
    assert load_trace(tenant, "work") is None
    assert load_trace(tenant, "") is None
    assert load_trace(tenant, "work/1\x00") is None


def test_chains_that_come_back_are_marked(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="back"), trace_id="t")
    trace = load_trace(tenant, "t")
    assert trace is not None
    assert [(one.loops, one.over) for one in trace.handoffs] == [(True, False)]


def test_the_claims_of_verdicts_take_no_memory(tenant: Tenant) -> None:
    for _ in range(4):
        judged(tenant, circular(), trace_id="t")
    # As objects, the claims of one verdict take 4 MB.
    content = orjson.dumps({"issues": [], "claims": [{"claim_text": f"{at}"} for at in range(15_000)]}).decode()
    Verdict.objects.update(content=content)
    tracemalloc.start()
    try:
        assert load_trace(tenant, "t") is not None
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


def test_what_cannot_be_read_or_is_not_judged_is_there_without_findings(tenant: Tenant) -> None:
    submit(tenant, circular(), trace_id="t")
    trace = load_trace(tenant, "t")
    assert trace is not None
    assert [(one.handoff.state, one.flaws) for one in trace.handoffs] == [("received", ())]
    assert trace.first is None


def test_of_a_long_trace_the_first_part_is_read(tenant: Tenant) -> None:
    made_up(tenant)
    trace = load_trace(tenant, "work/1", 3)
    assert trace is not None
    assert (len(trace.handoffs), trace.has_more) == (3, True)


def test_a_trace_is_read_with_as_many_queries_however_long_it_is(tenant: Tenant) -> None:
    made_up(tenant)
    with CaptureQueriesContext(
        connection,
    ) as few:
        load_trace(tenant, "work/1")
    made_up_again = [
        handed(tenant, "writer", "reader", f"Part {number}.", handoff_id=f"p-{number}") for number in range(6)
    ]
    assert len(made_up_again) == 6
    with CaptureQueriesContext(connection) as more:
        load_trace(tenant, "work/1")
    assert len(more) == len(few)
