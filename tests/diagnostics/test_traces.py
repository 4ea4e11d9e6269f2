"""Tests of the list of traces, read from the newest handoff."""

from datetime import timedelta

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import traces
from handoffaudit.diagnostics.traces import TracePage, list_traces, load_trace
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Finding, Handoff
from tests.handoffs.support import circular, judged, payload

pytestmark = pytest.mark.django_db
ALL = Filters()


def ids(page: TracePage) -> list[str]:
    return [line.trace_id for line in page.items]


@pytest.fixture
def three(tenant: Tenant) -> None:
    judged(tenant, payload(), trace_id="a")
    judged(tenant, payload(source_agent_id="planner", target_agent_id="critic", call_chain=["planner"]), trace_id="b")
    judged(tenant, payload(), trace_id="c/1 é")
    judged(tenant, payload())
    judged(tenant, circular(), trace_id="a")


@pytest.mark.usefixtures("three")
def test_the_trace_with_the_newest_handoff_comes_first_and_each_once(tenant: Tenant, other_tenant: Tenant) -> None:
    page = list_traces(tenant, ALL)
    assert (ids(page), page.next) == (["a", "c/1 é", "b"], None)
    assert ids(list_traces(other_tenant, ALL)) == []


@pytest.mark.usefixtures("three")
def test_a_line_tells_of_the_whole_trace(tenant: Tenant) -> None:
    line = list_traces(tenant, ALL).items[0]
    assert (line.handoffs, line.worst, line.is_longer) == (2, "rejected", False)
    assert line.agents == ("researcher", "writer", "planner")
    assert line.findings >= 1
    assert line.started_at < line.newest_at


def test_a_line_counts_the_findings_that_the_trace_s_page_counts(tenant: Tenant) -> None:
    for document in (payload(), circular(), payload(confidence=7)):
        judged(tenant, document, trace_id="a")
    trace = load_trace(tenant, "a")
    assert trace is not None
    first = Handoff.objects.order_by("id")[0]
    Finding.objects.create(tenant=tenant, handoff=first, code=UNVERIFIED, severity="warning", layer="semantic")
    assert list_traces(tenant, ALL).items[0].findings == len(trace.attributed) > 0


def test_an_attempt_whose_place_another_took_says_nothing_of_the_worst_state(tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="first"), trace_id="a")
    judged(tenant, payload(handoff_id="second"), trace_id="a", retry_of="first")
    assert set(Handoff.objects.values_list("state", flat=True)) == {"superseded", "accepted"}
    assert list_traces(tenant, ALL).items[0].worst == "accepted"
    Handoff.objects.filter(handoff_id="second").update(trace_id="b")
    assert {line.trace_id: line.worst for line in list_traces(tenant, ALL).items} == {
        "a": "superseded",
        "b": "accepted",
    }


@pytest.mark.usefixtures("three")
def test_pages_show_each_trace_once(tenant: Tenant) -> None:
    found, cursor = [], ""
    for _ in range(5):
        page = list_traces(tenant, ALL, cursor=cursor, limit=1)
        found += ids(page)
        cursor = page.next or ""
        if not cursor:
            break
    assert found == ["a", "c/1 é", "b"]


@pytest.mark.usefixtures("three")
def test_filters_take_traces_with_a_handoff_that_fits(tenant: Tenant) -> None:
    assert ids(list_traces(tenant, Filters(state=("rejected",)))) == ["a"]
    assert ids(list_traces(tenant, ALL, agent="critic")) == ["b"]
    assert ids(list_traces(tenant, ALL, agent="researcher")) == ["a", "c/1 é"]
    assert ids(list_traces(tenant, Filters(state=("accepted",)), agent="planner")) == ["b"]
    assert ids(list_traces(tenant, ALL, agent="nobody")) == []


@pytest.mark.usefixtures("three")
def test_a_page_walks_so_far_and_the_next_goes_on(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST_WALKED", 1)
    first = list_traces(tenant, ALL)
    assert ids(first) == ["a"]
    assert first.next
    assert ids(list_traces(tenant, ALL, cursor=first.next)) == ["c/1 é"]


@pytest.mark.usefixtures("three")
def test_a_long_trace_is_counted_up_to_a_bound(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST_COUNTED", 1)
    line = list_traces(tenant, ALL).items[0]
    assert (line.handoffs, line.is_longer) == (1, True)


def test_a_cursor_that_is_none_is_told(tenant: Tenant) -> None:
    with pytest.raises(FilterError):
        list_traces(tenant, ALL, cursor="x")


def test_the_list_has_duration_tokens_and_states_in_order(tenant: Tenant) -> None:
    for _ in range(3):
        judged(tenant, payload(), trace_id="a")
    rows = list(Handoff.objects.order_by("id"))
    for number, row in enumerate(rows):
        moment = rows[0].received_at + timedelta(seconds=30 * number)
        state = ["accepted", "rejected", "held"][number]
        Handoff.objects.filter(pk=row.pk).update(
            received_at=moment, sent_at=None, token_count=number or None, state=state
        )
    (line,) = list_traces(tenant, ALL).items
    assert (line.seconds, line.tokens, line.states) == (60.0, 3, ("accepted", "rejected", "held"))
