"""Tests of the pages of traces: the list, one trace, and a trace that still grows."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard import trace_page
from handoffaudit.dashboard import traces as dashboard_traces
from handoffaudit.dashboard.handoffs.document import place_of_value
from handoffaudit.dashboard.navigation import build_trace_url
from handoffaudit.dashboard.templatetags.formats import duration, latency, span
from handoffaudit.dashboard.traces import ROWS
from handoffaudit.diagnostics import traces
from handoffaudit.diagnostics.trace_list import list_traces
from handoffaudit.handoffs.models import Handoff, Verdict
from tests.dashboard.live_page import decline, polled
from tests.dashboard.log_lines import moment, take
from tests.dashboard.log_lines import trace as log_line
from tests.diagnostics.trace_support import handed, made_up
from tests.pages import attributes, links, only, select, text_of, texts

SignIn = Callable[[Person], Client]
LIST = "/t/acme/traces/"
HANDOFF = re.compile(r"/t/acme/handoffs/[0-9a-f-]{36}/")
FRESH = {"HX-Request": "true", "X-Live": "1"}


def blocked_in(tenant: Tenant) -> Handoff:
    """Return a rejected handoff at the end of the trace of `made_up`."""
    made_up(tenant)
    return handed(tenant, "planner", "writer", "Again.", document={"call_chain": ["writer", "planner"]})


def ids(page: Any) -> set[str]:
    return set(attributes(page, "[id]", "id"))


@pytest.fixture
def browser(sign_in: SignIn, viewer: Person) -> Client:
    return sign_in(viewer)


def test_without_a_trace_the_list_says_what_one_is(browser: Client, tenant: Tenant) -> None:
    page = browser.get(LIST)
    assert page.status_code == 200
    assert "No traces yet" in page.text
    assert "trace_id" in page.text


@pytest.mark.parametrize("trace", ["work/1", "a//b/", "émile & co?x#y%20", "new", "../x", ".", "a\nb", "a\rb"])
def test_the_list_leads_to_each_trace_whatever_its_id(trace: str, browser: Client, tenant: Tenant) -> None:
    handed(tenant, "planner", "writer", "It is done.", trace)
    address = build_trace_url("acme", trace)
    assert address.replace("&", "&amp;") in browser.get(LIST).text
    page = browser.get(address)
    assert page.status_code == 200
    assert "planner" in page.text


def test_filters_are_kept_in_the_address_and_bad_ones_told(browser: Client, tenant: Tenant) -> None:
    handed(tenant, "planner", "writer", "It is done.")
    assert "work/1" in browser.get(f"{LIST}?agent=planner").text
    assert "No trace fits these filters" in browser.get(f"{LIST}?agent=nobody").text
    tidied = browser.get(f"{LIST}?agent=&state=accepted&since=")
    assert (tidied.status_code, tidied["Location"]) == (302, f"{LIST}?state=accepted")
    assert browser.get(f"{LIST}?state=odd").status_code == 400
    assert browser.get(f"{LIST}?cursor=odd").status_code == 400
    part = browser.get(f"{LIST}?agent=planner", headers={"HX-Request": "true", "HX-Target": "results"})
    assert "<html" not in part.text
    assert part["HX-Push-Url"] == f"{LIST}?agent=planner"


def test_the_head_of_the_time_sorts_the_list_and_keeps_filters_and_cursor(
    browser: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for trace in ("a", "b", "c"):
        handed(tenant, "planner", "writer", "It is done.", trace)
    page = browser.get(f"{LIST}?agent=planner")
    by_start = f"{LIST}?agent=planner&sort=-started#sort-started"
    assert links(page, "thead a") == [f"{LIST}?agent=planner&sort=oldest#sort-newest", by_start]
    assert attributes(page, "thead a", "id") == ["sort-newest", "sort-started"]
    assert len(select(page, "[aria-sort=descending]")) == 1
    monkeypatch.setattr(dashboard_traces, "list_traces", partial(list_traces, limit=2))
    page = browser.get(f"{LIST}?agent=planner&sort=oldest")
    assert [one.strip() for one in texts(page, "tbody .row-link")] == ["a", "b"]
    assert links(page, "thead a") == [f"{LIST}?agent=planner#sort-newest", by_start]
    assert len(select(page, "[aria-sort=ascending]")) == 1
    assert attributes(page, "[data-live]", "data-live") == [f"{LIST}?agent=planner&sort=oldest"]
    assert only(page, ".trace-filters [name=sort] [selected]").attributes["value"] == "oldest"
    (following,) = links(page, ".pager a")
    assert following.startswith(f"{LIST}?agent=planner&sort=oldest&cursor=")
    assert [one.strip() for one in texts(browser.get(following), "tbody .row-link")] == ["c"]
    page = browser.get(by_start)
    assert [one.strip() for one in texts(page, "tbody .row-link")] == ["c", "b"]
    assert links(page, "thead a")[1] == f"{LIST}?agent=planner&sort=started#sort-started"
    page = browser.get(f"{LIST}?agent=planner&sort=started")
    assert [one.strip() for one in texts(page, "tbody .row-link")] == ["a", "b"]
    assert browser.get(f"{LIST}?sort=score").status_code == 400
    assert "No traces yet" not in browser.get(f"{LIST}?sort=oldest&state=held").text


def test_a_suspect_without_an_ungrounded_value_is_said_to_have_a_note(browser: Client, tenant: Tenant) -> None:
    handoff = handed(tenant, "planner", "writer", "The order 4711 costs 240 EUR at Linux.")
    stored = Verdict.objects.get(handoff_id=handoff.pk)
    stored.content = stored.content.replace('"severity":"warning"', '"severity":"info"')
    stored.save()
    page = browser.get(f"{LIST}work/1/")
    assert list(page.context["origins"]) == []
    assert [one.why for one in page.context["suspects"]] == ["a note names a value that is in no source"]


def test_a_page_tells_where_the_wrong_number_came_in_and_who_repeated_it(browser: Client, tenant: Tenant) -> None:
    handoffs = made_up(tenant)
    page = browser.get(f"{LIST}work/1/")
    assert "Look first at handoff 2, by solver: “999” is in no source; carried by 1 later handoff." in page.text
    assert [one.value for one in page.context["origins"]] == ["999"]
    (origin,) = page.context["origins"]
    assert (origin.first.handoff, [one.handoff for one in origin.repeated]) == (handoffs[1], [handoffs[2]])
    assert [(row.is_origin, row.carried) for row in page.context["rows"]] == [
        (False, ()),
        (True, ()),
        (False, ("999",)),
        (False, ()),
    ]
    assert [(one.traced.number, one.why) for one in page.context["suspects"]] == [(2, "introduced “999”")]
    for handoff in handoffs:
        assert f'href="/t/acme/handoffs/{handoff.pk}/?in=trace"' in page.text
    # By whatever link, a handoff is opened along its trace.
    opened = [one for one in links(page, '[href^="/t/acme/handoffs/"]') if HANDOFF.match(one)]
    assert {one.rpartition("/")[2] for one in opened} == {"?in=trace", "?in=trace&value=999#wanted"}
    assert 'class="lane-step is-origin"' in page.text


def test_a_suspect_says_in_words_why(browser: Client, tenant: Tenant) -> None:
    handed(tenant, "planner", "solver", "The search found nothing. I verify the price manually.")
    page = browser.get(f"{LIST}work/1/")
    assert "the first to say that something is done manually, so no tool confirms it" in text_of(
        only(page, "#suspects")
    )


def test_a_value_leads_to_its_place_in_each_document(browser: Client, tenant: Tenant) -> None:
    handoffs = made_up(tenant)
    page = browser.get(f"{LIST}work/1/")
    places = links(page, ".origin-way a")
    assert places == [f"/t/acme/handoffs/{one.pk}/?in=trace&value=999#wanted" for one in handoffs[1:3]]
    for place in places:
        (entry,) = select(browser.get(place.partition("#")[0]), ".entry--wanted")
        assert entry.css_first("#wanted")
        assert "999" in entry.text()
    item = attributes(page, ".origin-way a", "data-item")[1]
    assert item == f"{handoffs[2].pk}.0"
    opened = browser.get(f"{LIST}work/1/?open={item}")
    assert attributes(opened, "#panel", "data-href") == [places[1]]
    for wrong in ("x.0", f"{handoffs[2].pk}.9", f"{handoffs[2].pk}.-1", f"{handoffs[2].pk}."):
        assert attributes(browser.get(f"{LIST}work/1/?open={wrong}"), "#panel", "data-href") == [""]
    missing = browser.get(f"/t/acme/handoffs/{handoffs[0].pk}/?in=trace&value=999")
    assert "does not contain “999”" in only(missing, "#wanted").text()


def test_in_the_panel_of_the_list_the_places_are_plain_links(browser: Client, tenant: Tenant) -> None:
    made_up(tenant)
    page = browser.get(f"{LIST}work/1/", headers={"HX-Request": "true", "HX-Target": "panel"})
    assert len(links(page, ".origin-way a")) == 2
    assert not select(page, "[data-row], #panel")


@pytest.mark.parametrize(
    ("document", "value", "place"),
    [
        ({"a": {"b": "in all 1,200 EUR"}, "c": 1200}, "1200", "/a/b"),
        ({"n": 3, "list": [True, 1200.0]}, "1,200", "/list/1"),
        ({"a/b": {"on": "2023-05-07"}}, "7 May 2023", "/a~1b/on"),
        ({"names": ["Petra", "Petrova Ltd"]}, "Petrova", "/names/1"),
        ({"total": 12000}, "1200", ""),
        ([], "", ""),
    ],
)
def test_a_value_is_found_however_the_document_writes_it(document: object, value: str, place: str) -> None:
    assert place_of_value(document, value) == place


def test_one_value_is_marked_at_a_time_or_all(browser: Client, tenant: Tenant) -> None:
    made_up(tenant)
    handed(tenant, "reader", "writer", "By Petrova, on the 7 May 2023.")
    marked = browser.get(f"{LIST}work/1/?value=0").context["drawings"]["wide"].svg
    assert marked.count("is-origin") == 1
    both = browser.get(f"{LIST}work/1/?value=all").context["drawings"]["wide"].svg
    assert both.count("is-origin") == 2
    dates = browser.get(f"{LIST}work/1/?kind=grounding.date")
    assert [one.codes for one in dates.context["origins"]] == [("grounding.date",)]
    assert browser.get(f"{LIST}work/1/?value=99999&kind=odd&lanes=odd").status_code == 200


def test_a_sound_trace_says_so(browser: Client, tenant: Tenant) -> None:
    handed(tenant, "planner", "writer", "The order 4711 costs 240 EUR.")
    assert "Nothing was found wrong in this trace." in browser.get(f"{LIST}work/1/").text


def test_a_sender_cannot_write_into_the_page(browser: Client, tenant: Tenant) -> None:
    nasty = '<script>alert(1)</script>"\u202e'
    handed(tenant, nasty, "writer", "It costs 999 EUR.", nasty)
    page = browser.get(reverse("dashboard:trace", args=["acme", nasty]))
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text


def test_a_trace_that_is_not_there_is_not_found(browser: Client, tenant: Tenant) -> None:
    assert browser.get(f"{LIST}nowhere/").status_code == 404


def test_a_new_handoff_of_an_agent_to_itself_is_counted_once(browser: Client, tenant: Tenant) -> None:
    handed(tenant, "planner", "solver", "Start.")
    (address,) = attributes(browser.get(f"{LIST}?agent=planner"), "[data-live]", "data-live")
    handed(tenant, "planner", "planner", "Again.")
    handed(tenant, "solver", "planner", "Done.")
    assert "2 new, show" in browser.get(address, headers=FRESH).text


def test_while_a_trace_goes_on_its_new_handoffs_are_counted(browser: Client, tenant: Tenant) -> None:
    made_up(tenant)
    page = browser.get(f"{LIST}work/1/")
    address = page.context["live"]
    assert f'data-live="{address}"' in page.text
    assert browser.get(address, headers=FRESH).status_code == 204
    handed(tenant, "reader", "planner", "Thanks.")
    handed(tenant, "reader", "planner", "Thanks.", "work/2")
    assert "1 new, show" in browser.get(address, headers=FRESH).text
    assert browser.get(f"{LIST}work/1/?after=odd", headers=FRESH).status_code == 404


def test_what_a_long_trace_leaves_out_is_not_counted_as_new(
    browser: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(tenant)
    monkeypatch.setattr(trace_page, "MOST_ON_A_PAGE", 2)
    monkeypatch.setattr(traces, "MOST_HANDOFFS", 2)
    page = browser.get(f"{LIST}work/1/")
    assert page.context["trace"].has_more
    assert polled(browser, page.context["live"], page).status_code == 204


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true", "HX-Target": "panel"}])
def test_a_decision_comes_to_the_drawing_of_a_trace_and_to_nothing_else(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, headers: dict[str, str]
) -> None:
    client = sign_in(reviewer)
    blocked = blocked_in(tenant)
    page = client.get(f"{LIST}work/1/?value=all", headers=headers)
    (address,) = attributes(page, "[data-live]", "data-live")
    assert polled(client, address, page).status_code == 204
    handed(tenant, "reader", "planner", "Thanks.")
    boxes = [one.attributes["viewBox"] for one in select(page, "#drawn-wide svg, #drawn-time svg")]
    assert "drawn-wide" not in polled(client, address, page).text
    decline(client, blocked)
    newer = polled(client, address, page)
    assert {"drawn-wide", "drawn-narrow", "drawn-time", "drawn-narrow_time", "drawn-words"} <= ids(newer)
    assert "#lanes-wide-declined" in newer.text
    assert "5. planner \u2192 writer: declined" in texts(newer, "#drawn-words li")[4]
    assert len(texts(newer, "#drawn-words li")) == 5
    assert [one.attributes["viewBox"] for one in select(newer, "#drawn-wide svg, #drawn-time svg")] == boxes
    assert polled(client, address, newer).status_code == 204
    for wrong in ("x", "5", "-1.2", "9" * 30, "\u0665.4"):
        assert client.get(f"{address}&drawn={wrong}", headers=FRESH).status_code in (200, 204)


def test_a_handoff_sent_late_changes_no_numbers_in_the_drawing(
    sign_in: SignIn, reviewer: Person, tenant: Tenant
) -> None:
    client, blocked = sign_in(reviewer), blocked_in(tenant)
    page = client.get(f"{LIST}work/1/")
    (address,) = attributes(page, "[data-live]", "data-live")
    late = handed(tenant, "reader", "planner", "Thanks.")
    Handoff.objects.filter(pk=late.pk).update(id=UUID(int=blocked.pk.int - 1), version=9)
    decline(client, blocked)
    assert "drawn-wide" not in polled(client, address, page).text


def test_a_decision_comes_to_the_list_of_traces_in_any_order(
    sign_in: SignIn, reviewer: Person, tenant: Tenant, other_tenant: Tenant
) -> None:
    client = sign_in(reviewer)
    blocked = blocked_in(tenant)
    handed(tenant, "planner", "writer", "It is done.", "b")
    foreign = handed(other_tenant, "planner", "writer", "Done.", "c", document={"tenant_id": "globex"})
    for query in ("?sort=oldest", ""):
        page = client.get(f"{LIST}{query}")
        (address,) = attributes(page, "[data-live]", "data-live")
        with CaptureQueriesContext(connection) as queries:
            assert polled(client, address, page).status_code == 204
        # Session, person, membership, the marks of the traces, new handoffs, the number of the menu.
        assert len(queries) <= 7
    decline(client, blocked)
    newer = f"<table><tr>{polled(client, address, page).text}</tr></table>"
    assert text_of(newer, "#trace-2-worst").split()[-1] == "declined"
    assert "1 declined" in text_of(newer, "#trace-2-states")
    assert len(select(newer, "td")) == len(select(page, "td[data-live-of='2']")) == 7
    assert polled(client, address, newer).status_code == 204
    forged = {"rows": f"1.{foreign.pk.hex}.0~1.x.0~{'9' * 5}.{foreign.pk.hex}.1"}
    assert client.get(address, forged, headers=FRESH).status_code == 204


def test_the_middle_of_a_long_trace_is_opened_on_request(browser: Client, tenant: Tenant) -> None:
    for number in range(32):
        handed(tenant, "planner", f"agent-{number % 3}", f"Part {number}.")
    folded = browser.get(f"{LIST}work/1/")
    assert "lanes=full" in folded.text
    assert folded.context["drawings"].keys() == {"wide", "narrow", "time", "narrow_time"}
    whole = browser.get(f"{LIST}work/1/?lanes=full")
    assert whole.context["drawings"]["wide"].svg.count('class="lane-step') == 32
    assert "Fold the middle" in whole.text


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "\u2013"),
        (0.21, "0.2 s"),
        (-3, "0.0 s"),
        (-0.04, "0.0 s"),
        (250, "4 min 10 s"),
        (11_100, "3 h 5 min"),
        (187_200, "2 d 4 h"),
        (59.94, "59.9 s"),
        (59.97, "1 min"),
        (3_599.97, "1 h"),
    ],
)
def test_times_between_are_told_in_two_units(seconds: float | None, told: str) -> None:
    assert span(seconds) == told


@pytest.mark.parametrize(
    ("milliseconds", "exact", "short"),
    [
        (0.124, "0.12 ms", "0 ms"),
        (999.4, "999.40 ms", "999 ms"),
        (999.6, "999.60 ms", "1.0 s"),
        (999.999, "1.0 s", "1.0 s"),
        (9_940, "9.9 s", "9.9 s"),
        (9_960, "10.0 s", "10 s"),
    ],
)
def test_a_time_that_is_rounded_up_has_the_next_unit(milliseconds: float, exact: str, short: str) -> None:
    assert (duration(milliseconds), latency(milliseconds)) == (exact, short)


def test_what_logs_say_of_a_trace_is_asked_for_later(browser: Client, tenant: Tenant) -> None:
    handed(tenant, "planner", "writer", "Done.", "trace-9")
    assert "trace-logs" not in browser.get(f"{LIST}trace-9/").text
    take(tenant, log_line(moment()), log_line(moment(), "another"))
    page = browser.get(f"{LIST}trace-9/")
    assert 'href="/t/acme/diagnostics/logs/?trace=trace-9"' in page.text
    part = browser.get(f"{LIST}trace-9/", headers={"HX-Request": "true", "HX-Target": "trace-logs"})
    assert "<html" not in part.text
    assert [row.number for row in part.context["rows"]] == [1]


def test_the_table_of_a_long_trace_is_read_in_parts(browser: Client, tenant: Tenant) -> None:
    for number in range(ROWS + 3):
        handed(tenant, "planner", f"agent-{number % 3}", f"Part {number}.")
    first, later = browser.get(f"{LIST}work/1/"), browser.get(f"{LIST}work/1/?first={ROWS}")
    assert (len(first.context["rows"]), len(later.context["rows"])) == (ROWS, 3)
    assert f'href="?first={ROWS}#handoffs"' in first.text
    assert [one.split(".")[0] for one in texts(later, ".lanes-words li")] == ["26", "27", "28"]
    for wrong in ("-1", "x", "99999", "9" * 40, "\u0662"):
        assert browser.get(f"{LIST}work/1/", {"first": wrong}).context["rows"][0].traced.number == 1


def test_a_trace_of_57_handoffs_is_a_small_page(browser: Client, tenant: Tenant) -> None:
    for number in range(57):
        handed(tenant, f"agent-{number % 7}", f"agent-{(number + 1) % 7}", f"Part {number}.")
    page = browser.get(f"{LIST}work/1/")
    assert len(page.content) < 100_000
    assert "57 handoffs from " in text_of(page, "#lanes")


def test_a_page_reads_a_long_trace_as_far_as_its_documents_are_small(
    browser: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        handed(tenant, "planner", "writer", f"Part {number}.")
    monkeypatch.setattr(traces, "MOST_HANDOFFS", 2)
    assert browser.get(f"{LIST}work/1/").context["number"] == 6
    Handoff.objects.update(size_bytes=traces.MOST_BYTES // 4)
    page = browser.get(f"{LIST}work/1/")
    assert (page.context["number"], page.context["trace"].has_more) == (4, True)
    Handoff.objects.update(size_bytes=traces.MOST_BYTES)
    assert browser.get(f"{LIST}work/1/").context["number"] == 2
