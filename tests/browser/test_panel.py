"""Browser tests of the panel beside a list: mouse, keys, history, links, narrow screens, and no JavaScript."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import Sender
from tests.browser.watching import overflow, settled, violations
from tests.scale import cases

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]
# The lists share the panel, and each opens another kind of item.
LISTS = cases(
    ("handoffs/?saved=all", "groups/?saved=all", "traces/?saved=all", "agents/?period=30d"),
    ("handoffs/?saved=all", "traces/?saved=all"),
)


def shown(page: Page) -> str:
    """Return the item that the address names as open."""
    return parse_qs(urlsplit(page.url).query).get("open", [""])[0]


def row(page: Page, number: int) -> str:
    item = page.locator("[data-row]").nth(number).get_attribute("data-item")
    assert item
    return item


@pytest.mark.parametrize("address", LISTS)
def test_a_row_opens_beside_the_list_and_keys_move_it(open_page: OpenPage, default: Sender, address: str) -> None:
    page = open_page("vik")
    page.goto(default.pages + address)
    rows = page.locator("[data-row]")
    # A press on the row beside the link.
    rows.nth(1).click(position={"x": 5, "y": 5})
    expect(page.locator(".panel-body")).to_be_visible()
    assert shown(page) == row(page, 1)
    columns = "all => all.map((each) => getComputedStyle(each).gridTemplateColumns.split(' ').length)"
    assert set(page.locator(".panel :is(.handoff, .group-page, .trace-board)").evaluate_all(columns)) <= {1}
    settled(page)
    assert violations(page) == []
    assert overflow(page) == 0
    page.keyboard.press("j")
    expect(rows.nth(2)).to_have_attribute("aria-current", "true")
    expect(page.locator(f".panel-head a[href='{rows.nth(2).get_attribute('href')}']")).to_be_visible()
    assert shown(page) == row(page, 2)
    link = page.url
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(rows.nth(2)).to_be_focused()
    assert shown(page) == ""
    page.keyboard.press("k")
    page.keyboard.press("Space")
    expect(page.locator(".panel-body")).to_be_visible()
    assert shown(page) == row(page, 1)
    page.go_back()
    expect(page.locator("#panel")).to_be_hidden()
    expect(page).to_have_url(re.compile(rf"{re.escape(address)}$"))
    page.goto(link)
    expect(page.locator(".panel-body")).to_be_visible()
    expect(rows.nth(2)).to_have_attribute("aria-current", "true")
    rows.nth(2).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert shown(page) == ""
    # The page of a trace has a panel of its own.
    expect(page.locator(".panel-body")).to_have_count(0)


def test_a_narrow_screen_and_a_page_without_javascript_open_the_item_itself(
    open_page: OpenPage, default: Sender
) -> None:
    page = open_page("vik")
    page.goto(default.pages + LISTS[0])
    item = row(page, 0)
    narrow = open_page("vik", width=390)
    narrow.goto(f"{default.pages}handoffs/?saved=all&open={item}")
    expect(narrow).to_have_url(re.compile(rf"/handoffs/{item}/"))
    narrow.goto(default.pages + LISTS[0])
    narrow.locator("[data-row]").first.click()
    expect(narrow).to_have_url(re.compile(rf"/handoffs/{item}/"))
    plain = open_page("vik", javascript=False)
    plain.goto(f"{default.pages}handoffs/?saved=all&open={item}")
    plain.get_by_role("link", name="Show the open item").click()
    expect(plain).to_have_url(re.compile(rf"/handoffs/{item}/"))


def test_a_filter_closes_the_panel_and_its_links_lead_to_the_page(open_page: OpenPage, default: Sender) -> None:
    page = open_page("vik", color_scheme="dark")
    page.goto(default.pages + LISTS[0])
    page.locator("[data-row]").first.click()
    item = row(page, 0)
    page.get_by_role("link", name="As it arrived").click()
    expect(page.locator("#panel #document [aria-current=true]")).to_have_text("As it arrived")
    assert shown(page) == item
    settled(page)
    assert violations(page) == []
    page.get_by_text("rejected", exact=True).first.click()
    expect(page.locator("#panel")).to_be_hidden()
    assert shown(page) == ""
