"""Browser tests of an open page: the list announces new handoffs and shows them on request."""

import re
import uuid

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import expect

from tests.browser.product import ACCEPTED, CIRCLE, CIRCLE_WITH_REASON
from tests.browser.watching import overflow, shifts, violations
from tests.running.conftest import wait_for

pytestmark = pytest.mark.browser

ASKED_EVERY = 5000


def test_new_ones_are_counted_without_a_jump_and_shown_on_click(open_page, product):
    sender = product.senders["live"]
    sender.submit(ACCEPTED)
    page = open_page("rui")
    page.clock.install()
    page.goto(f"{sender.pages}handoffs/")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    before = rows.first.bounding_box()

    sent = [sender.submit(ACCEPTED)["id"] for _ in range(2)]
    page.clock.fast_forward(ASKED_EVERY)
    show = page.get_by_role("link", name="2 new, show")
    expect(show).to_be_visible()
    assert rows.count() == 1
    assert rows.first.bounding_box() == before

    show.click()
    expect(rows).to_have_count(3)
    for reference in sent:
        expect(page.locator(f'tbody a[href*="{reference}"]')).to_be_visible()
    expect(show).to_be_hidden()


def test_only_what_fits_the_filters_is_counted(open_page, product):
    sender = product.senders["live"]
    sender.submit(ACCEPTED)
    page = open_page("rui")
    page.clock.install()
    page.goto(f"{sender.pages}handoffs/")
    page.get_by_label("rejected").check()
    expect(page.get_by_role("list", name="Filters in force")).to_contain_text("rejected")
    sender.submit(ACCEPTED)
    rejected = sender.submit(CIRCLE)["id"]
    page.clock.fast_forward(ASKED_EVERY)
    page.get_by_role("link", name="1 new, show").click()
    expect(page.locator(f'tbody a[href*="{rejected}"]')).to_be_visible()
    expect(page.get_by_label("rejected")).to_be_checked()
    expect(page.locator("tbody .col-state").get_by_text("accepted")).to_have_count(0)


def test_a_row_that_changed_is_decided_as_it_is_shown(open_page, product):
    sender = product.senders["live"]
    rows = [sender.submit(CIRCLE) for _ in range(3)]
    page = open_page("rui")
    page.clock.install()
    page.goto(f"{sender.pages}handoffs/?state=rejected")
    newest, middle, oldest = (page.locator(f'.row-select[value^="{row["id"]}"]') for row in reversed(rows))
    oldest.check()
    for row in rows:
        assigned = sender.api.post(f"/handoffs/{row['id']}/assign", json={"to": "sana", "note": "Look at the chain."})
        assert assigned.status_code == 200, assigned.text
    page.clock.fast_forward(ASKED_EVERY)
    for row in rows:
        seen = re.compile(f"\\.{sender.get(row['id'])['version']}$")
        expect(page.locator(f"#state-{row['id'].replace('-', '')}")).to_have_attribute("data-live-row", seen)
    newest.check()
    middle.check()
    page.get_by_role("button", name="Decline…").click()
    page.get_by_role("button", name="Decline all 3").click()
    expect(page.locator("main")).to_contain_text("2 declined")
    expect(page.locator("main")).to_contain_text("1: The handoff changed since you selected it")


def test_that_no_worker_runs_comes_to_an_open_overview_and_moves_nothing(open_page, product):
    sender = product.senders["live"]
    sender.submit(ACCEPTED)
    page = open_page("rui")
    page.clock.install()
    page.goto(f"{sender.pages}?period=7d")
    figures = page.locator("#figures")
    before = figures.bounding_box()
    gone = render_to_string("dashboard/overview/page.html#no_worker", {"no_worker": "none seen yet"})
    page.route("**/?period=7d&*", lambda route: route.fulfill(body=gone, content_type="text/html"))
    page.clock.fast_forward(ASKED_EVERY)
    expect(page.locator("#no-worker .note")).to_be_in_viewport()
    expect(page.locator("#live-told")).to_have_text("No worker is running; handoffs are queued.")
    assert figures.bounding_box() == before
    assert shifts(page) == []
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) == 0

    back = render_to_string("dashboard/overview/page.html#no_worker", {})
    page.route("**/?period=7d&*", lambda route: route.fulfill(body=back, content_type="text/html"))
    page.clock.fast_forward(ASKED_EVERY)
    expect(page.locator("#no-worker .note")).to_have_count(0)
    expect(page.locator("#live-told")).to_be_empty()
    page.unroute("**/?period=7d&*")
    # The page asks at most once a minute.
    page.clock.fast_forward(60_000)
    expect(page.locator("#live-told")).to_have_text("Handoffs are judged again.")


def test_a_decision_comes_to_findings_and_to_the_overview_and_moves_nothing(open_page, product):
    sender = product.senders["live"]
    reference = sender.submit(CIRCLE_WITH_REASON)["id"]
    waiting = {"status": "open", "sort": "waiting", "code": "chain.circular_with_reason"}
    wait_for(lambda: sender.api.get("/groups", params=waiting).json()["items"])
    found = sender.api.get("/groups", params=waiting).json()["items"][0]["id"]
    findings, overview, panel = open_page("rui"), open_page("rui"), open_page("rui")
    for page, path in ((findings, "groups/"), (overview, "?period=7d"), (panel, f"groups/?open={found}")):
        page.clock.install()
        page.goto(f"{sender.pages}{path}")
    findings.locator("details.group-fold summary").first.click()
    findings.locator(".group-handoffs").first.wait_for()
    overview.get_by_text("As a table").click()
    number = findings.locator(".group:has([title^='chain.circular_with_reason']) dd[data-live-row]")
    before = int(number.inner_text().split()[0])
    boxes = [one.bounding_box() for one in (number, overview.locator("#top-agents"), overview.locator("#top-codes"))]
    approved = overview.locator("#chart-numbers").inner_text().count("approved")
    note, decided = panel.locator("#f-note"), panel.locator("#group-decided")
    note.fill("A draft")
    expect(decided).not_to_contain_text("By the API.")
    steady = (note, panel.locator("#panel .group-handoffs a").first, panel.locator("#decided"))
    panel_boxes = [one.bounding_box() for one in steady]

    sender.decide(reference, "approve")
    for page in (findings, overview, panel):
        page.clock.fast_forward(ASKED_EVERY)
    fewer = re.compile(rf"^\s*{before - 1}\b" if before > 1 else "\u2013")
    expect(number).to_have_text(fewer)
    expect(overview.locator("#chart-wide")).to_contain_text("approved")
    expect(overview.locator("#chart-numbers")).to_contain_text("approved")
    assert approved == 0
    assert findings.locator("details.group-fold").first.get_attribute("open") is not None
    assert overview.locator("details.numbers").first.get_attribute("open") is not None
    after = [one.bounding_box() for one in (number, overview.locator("#top-agents"), overview.locator("#top-codes"))]
    assert after == boxes
    expect(decided).to_contain_text("By the API.")
    expect(panel.locator("#panel .group-handoffs .live-state").first).to_have_text(re.compile("approved"))
    expect(panel.locator("#group-waits")).to_have_text(fewer)
    expect(note).to_be_focused()
    expect(note).to_have_value("A draft")
    assert [one.bounding_box() for one in steady] == panel_boxes
    # A table that is folded by default does not have columns of fixed widths.
    overview.get_by_text("As a table").click()
    for page in (findings, overview, panel):
        assert shifts(page) == []
        assert violations(page) == []


def test_a_decision_comes_to_a_trace_and_to_the_list_of_traces_and_moves_nothing(open_page, product):
    sender = product.senders["live"]
    document = {
        "source_agent_id": "planner",
        "target_agent_id": "writer",
        "tenant_id": "live",
        "handoff_type": "message",
        "call_chain": ["writer", "planner"],
        "data": {"text": "The order 4711 costs 98731 EUR."},
    }
    sent = {"document": document, "trace_id": uuid.uuid4().hex, "context": {"order": "The order 4711 costs 240 EUR."}}
    answer = sender.api.post("/handoffs", json=sent, headers={"Prefer": "wait=30"}).json()
    address = f"{sender.pages}traces/{sent['trace_id']}/"
    places = {"listed": f"{sender.pages}traces/", "whole": address, "small": address}
    places["panel"] = f"{sender.pages}traces/?open={sent['trace_id']}"
    pages = {name: open_page("rui", width=390 if name == "small" else 1440) for name in places}
    for name, page in pages.items():
        page.clock.install()
        page.goto(places[name])
    box = pages["listed"].get_by_role("checkbox", name=f"Select {sent['trace_id']}")
    box.check()
    pages["whole"].locator(".lanes-scroll--wide").first.focus()
    pages["whole"].locator(".lanes-words summary").click()
    pages["panel"].locator("#panel #drawn-words").wait_for(state="attached")
    shown = {name: page.locator("#handoffs, .trace-list tbody tr").last.bounding_box() for name, page in pages.items()}
    sender.decide(answer["id"], "approve")
    for page in pages.values():
        page.clock.fast_forward(ASKED_EVERY)
    expect(box.locator("xpath=ancestor::tr")).to_contain_text("approved")
    expect(box).to_be_checked()
    for name in ("whole", "small", "panel"):
        expect(pages[name].locator("#drawn-words")).to_contain_text(": approved")
        expect(pages[name].locator("#drawn-wide use[href$='-approved']").first).to_be_attached()
        expect(pages[name].locator("#handoffs .live-state").first).to_contain_text("approved")
    expect(pages["whole"].locator("#drawn-words")).to_be_visible()
    after = {name: page.locator("#handoffs, .trace-list tbody tr").last.bounding_box() for name, page in pages.items()}
    assert after == shown
    for page in pages.values():
        assert shifts(page) == []
        assert violations(page) == []
    assert overflow(pages["small"]) == 0


@pytest.mark.nightly
def test_two_people_see_each_others_comments_and_keep_what_they_type(open_page, product):
    sender = product.senders["live"]
    address = f"{sender.pages}handoffs/{sender.submit(ACCEPTED)['id']}/"
    reader, writer = open_page("rui"), open_page("sana", javascript=False)
    reader.goto(address)
    reader.get_by_label("Comment").first.fill("A draft")
    steady = [reader.locator(selector) for selector in ("#why", "#activity-list", "#layers")]
    before = [one.bounding_box() for one in steady]
    writer.goto(address)
    writer.get_by_label("Comment").first.fill("Is the total right?")
    writer.get_by_role("button", name="Comment").click()
    show = reader.get_by_role("button", name="1 new entry, show")
    expect(show).to_be_visible(timeout=5000)
    expect(reader.get_by_text("Is the total right?")).to_be_hidden()
    assert [one.bounding_box() for one in steady] == before
    assert shifts(reader) == []
    show.click()
    expect(reader.get_by_text("Is the total right?")).to_be_visible()
    expect(reader.locator("#activity-list")).to_be_focused()
    expect(reader.get_by_label("Comment").first).to_have_value("A draft")
    verdict = reader.locator("#why").bounding_box()
    writer.get_by_label("Assign to").select_option("rui")
    writer.get_by_role("button", name="Assign").click()
    expect(reader.locator("#changed")).to_contain_text("assigned to rui", timeout=5000)
    assert reader.locator("#why").bounding_box() == verdict
    assert overflow(reader) == 0


@pytest.mark.nightly
def test_an_open_edit_form_stays_although_its_entry_no_longer_fits(open_page, product):
    sender = product.senders["live"]
    handoff = sender.submit(CIRCLE)["id"]
    reader, writer = open_page("rui"), open_page("sana", javascript=False)

    def comment(page, text: str) -> None:
        page.goto(f"{sender.pages}handoffs/{handoff}/")
        page.get_by_label("Comment").first.fill(text)
        page.get_by_role("button", name="Comment").click()

    comment(reader, "Mine")
    # With these, Review has no room for an older entry.
    for number in range(5):
        comment(writer, f"Theirs {number}")
    reader.goto(f"{sender.pages}review/{handoff}/")
    reader.locator("details.comment-edit summary").click()
    form = reader.locator("details.comment-edit textarea")
    form.fill("A draft")
    comment(writer, "One more")
    reader.get_by_role("button", name="1 new entry, show").click()
    expect(reader.get_by_text("One more")).to_be_visible()
    expect(form).to_have_value("A draft")
