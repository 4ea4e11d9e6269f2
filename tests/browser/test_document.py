"""Browser tests of the document of a handoff: unfolding, search, links and copying, also without JavaScript."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import Product

pytestmark = pytest.mark.browser
DEEP = "/data/rows/700/deep/name"


@pytest.fixture(scope="module")
def large(product: Product) -> str:
    """Return the address of a handoff whose document is too large to be sent whole with the page."""
    sender = product.senders["doors"]
    rows = [{"id": number, "deep": {"name": f"row {number}", "words": "some words " * 3}} for number in range(900)]
    document = {
        "handoff_id": "a-large-document",
        "source_agent_id": "researcher",
        "target_agent_id": "writer",
        "tenant_id": "doors",
        "call_chain": ["researcher"],
        "handoff_type": "status_update",
        "confidence": 7,
        "data": {"rows": rows},
    }
    sent = sender.api.post("/handoffs", json={"document": document}, headers={"Prefer": "wait=20"})
    assert sent.status_code in (200, 202, 422), sent.text
    return f"{sender.pages}handoffs/{sent.json()['id']}/"


def wanted(page: Page):
    return page.locator(".entry--wanted > .value")


def test_parts_are_fetched_as_they_are_unfolded_and_their_paths_are_copied_by_keyboard(open_page, large):
    page = open_page("rui", permissions=["clipboard-read", "clipboard-write"])
    page.goto(large)
    expect(page.get_by_text("row 1", exact=True)).to_have_count(0)
    rows = page.locator('[id="at-/data/rows"] > details > summary')
    rows.focus()
    if not rows.evaluate("one => one.parentElement.open"):
        page.keyboard.press("Enter")
    page.locator('[id="at-/data/rows/1"] > details > summary').click()
    page.locator('[id="at-/data/rows/1/deep"] > details > summary').click()
    page.locator('[id="at-/data/rows/1/deep/name"] > a').focus()
    for button, copied in (("Copy path", "data.rows[1].deep.name"), ("Copy pointer", "/data/rows/1/deep/name")):
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name=button)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#told")).to_have_text(f"{button.removeprefix('Copy ').capitalize()} copied")
        assert page.evaluate("navigator.clipboard.readText()") == copied


def test_a_link_opens_the_way_to_a_place_that_was_not_sent(open_page, large):
    page = open_page("rui")
    for address in (f"{large}#at={DEEP}", f"{large}#at-{DEEP}", f"{large}?at={DEEP}#document"):
        page.goto("about:blank")
        page.goto(address)
        expect(wanted(page)).to_have_text("row 700")
        expect(wanted(page)).to_be_in_viewport()


def test_what_is_looked_up_is_gone_to(open_page, large):
    page = open_page("rui", width=390)
    page.goto(large)
    page.get_by_label("Find in this document").fill("ROW 700")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="data.rows[700].deep.name").click()
    expect(wanted(page)).to_have_text("row 700")
    page.get_by_role("link", name="Only findings").click()
    expect(page.locator('[id="at-/confidence"]')).to_be_visible()
    expect(page.locator('[id="at-/handoff_type"]')).to_have_count(0)


def test_all_of_it_is_reached_without_javascript(open_page, large):
    page = open_page("rui", javascript=False)
    page.goto(large)
    page.get_by_label("Find in this document").fill("row 700")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="data.rows[700].deep.name").click()
    expect(wanted(page)).to_have_text("row 700")
    page.get_by_role("link", name="Link to entry 700", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"#at-/data/rows/700$"))
    expect(page.locator('[id="at-/data/rows/700"]')).to_be_in_viewport()
    page.get_by_role("link", name="As it arrived").click()
    page.get_by_role("link", name="Next part").click()
    expect(page.locator("#raw")).to_contain_text("some words")
