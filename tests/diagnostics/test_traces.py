"""Tests of the list of traces, read from the newest handoff."""

from datetime import timedelta

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution, trace_list
from handoffaudit.diagnostics.trace_list import TracePage, list_traces
from handoffaudit.diagnostics.traces import load_trace
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.filters import NEWEST, OLDEST, Filters
from handoffaudit.handoffs.models import Finding, Handoff
from handoffaudit.validation.config import Strictness
from tests.diagnostics.trace_support import TYPE, handed
from tests.handoffs.support import circular, judged, payload, set_policy

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


def test_a_line_counts_each_value_of_a_finding_and_no_agent_without_a_name_as_the_page_does(tenant: Tenant) -> None:
    set_policy(tenant, TYPE, strictness=Strictness.STRICT)
    handed(tenant, "solver", "critic", "The order costs 999 EUR, with 888 desks and 777 lamps.", "a")
    judged(tenant, payload(source_agent_id="", target_agent_id="critic"), trace_id="a")
    trace = load_trace(tenant, "a")
    assert trace is not None
    assert attribution.run() == 2
    [line] = list_traces(tenant, ALL).items
    assert line.findings == len(trace.attributed) > Finding.objects.exclude(code=UNVERIFIED).count()
    assert line.agents == trace.agents == ("solver", "critic")


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
def test_the_oldest_first_is_the_reverse_on_one_page_and_on_several(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest = Filters(sort=OLDEST)
    assert ids(list_traces(tenant, oldest)) == ["b", "c/1 é", "a"]
    assert ids(list_traces(tenant, Filters(sort=OLDEST, state=("accepted",)))) == ["a", "b", "c/1 é"]
    assert ids(list_traces(tenant, oldest, agent="researcher")) == ["c/1 é", "a"]
    for most_walked, at_once in ((20_000, 500), (1, 500), (3, 2)):
        monkeypatch.setattr(trace_list, "MOST_WALKED", most_walked)
        monkeypatch.setattr(trace_list, "_AT_ONCE", at_once)
        found, cursor, pages = [], "", 0
        while pages == 0 or cursor:
            page = list_traces(tenant, oldest, cursor=cursor, limit=1)
            found, cursor, pages = found + ids(page), page.next or "", pages + 1
        assert found == ["b", "c/1 é", "a"]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("sort", [OLDEST, NEWEST])
def test_traces_are_sorted_by_their_start_on_one_page_and_on_several(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    listed = list_traces(tenant, ALL).items
    expected = [one.trace_id for one in sorted(listed, key=lambda one: one.started_at, reverse=sort == NEWEST)]
    page = list_traces(tenant, Filters(sort=sort), by_start=True)
    assert ids(page) == expected
    assert {one.trace_id: one.newest_at for one in page.items} == {one.trace_id: one.newest_at for one in listed}
    assert ids(list_traces(tenant, Filters(state=("rejected",)), by_start=True)) == ["a"]
    assert set(ids(list_traces(tenant, ALL, agent="researcher", by_start=True))) == {"a", "c/1 é"}
    for most_walked, at_once in ((20_000, 500), (1, 500), (3, 2)):
        monkeypatch.setattr(trace_list, "MOST_WALKED", most_walked)
        monkeypatch.setattr(trace_list, "_AT_ONCE", at_once)
        found, cursor, pages = [], "", 0
        while pages == 0 or cursor:
            page = list_traces(tenant, Filters(sort=sort), cursor=cursor, limit=1, by_start=True)
            found, cursor, pages = found + ids(page), page.next or "", pages + 1
        assert found == expected


@pytest.mark.usefixtures("three")
def test_filters_take_traces_with_a_handoff_that_fits(tenant: Tenant) -> None:
    assert ids(list_traces(tenant, Filters(state=("rejected",)))) == ["a"]
    assert ids(list_traces(tenant, ALL, agent="critic")) == ["b"]
    assert ids(list_traces(tenant, ALL, agent="researcher")) == ["a", "c/1 é"]
    assert ids(list_traces(tenant, Filters(state=("accepted",)), agent="planner")) == ["b"]
    assert ids(list_traces(tenant, ALL, agent="nobody")) == []


@pytest.mark.usefixtures("three")
def test_a_page_walks_so_far_and_the_next_goes_on(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_list, "MOST_WALKED", 1)
    first = list_traces(tenant, ALL)
    assert ids(first) == ["a"]
    assert first.next
    assert ids(list_traces(tenant, ALL, cursor=first.next)) == ["c/1 é"]


@pytest.mark.usefixtures("three")
def test_a_long_trace_is_counted_up_to_a_bound(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_list, "MOST_COUNTED", 1)
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


def test_a_trace_that_is_removed_meanwhile_is_not_listed(tenant: Tenant) -> None:
    kept = judged(tenant, payload(), trace_id="kept")
    lines = trace_list._list_lines(tenant, {"removed": kept.at, "kept": kept.at})
    assert [line.trace_id for line in lines] == ["kept"]
