"""Browser tests of selected rows and sorted columns: by keys, and without JavaScript."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import Sender
from tests.browser.watching import overflow, select_two, settled, violations

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]


def test_rows_are_selected_by_keys_and_assigned(open_page: OpenPage, default: Sender) -> None:
    page = open_page("rui")
    page.goto(f"{default.pages}handoffs/?state=rejected")
    select_two(page, "Selected handoffs")
    assert violations(page) == []
    # Typing in the list moves on from the row of the checkbox, too.
    page.locator(".row-select").nth(1).focus()
    page.keyboard.press("j")
    expect(page.locator("[data-row]").nth(2)).to_be_focused()
    page.get_by_role("button", name="Assign…").click()
    expect(page.get_by_role("heading", name="2 selected")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("link", name="Back, change nothing").click()
    expect(page).to_have_url(re.compile(r"\?state=rejected$"))


@pytest.mark.parametrize(
    ("address", "bar", "action"),
    [
        ("traces/?state=rejected", "Selected traces", "Assign…"),
        ("agents/?period=30d", "Selected agents", "Declare role…"),
    ],
)
def test_traces_and_agents_are_selected_by_keys(
    open_page: OpenPage, default: Sender, address: str, bar: str, action: str
) -> None:
    page = open_page("mara")
    page.goto(default.pages + address)
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_role("form", name=bar)).to_be_visible()
    expect(page.locator("#live-told")).to_have_text("2 selected")
    settled(page)
    assert violations(page) == []
    page.get_by_role("button", name=action).click()
    expect(page.locator("form.confirm h2")).to_contain_text(
        re.compile(r"^\d+ (selected|handoffs? of the selected traces)$")
    )
    assert violations(page) == []
    page.get_by_role("link", name="Back, change nothing").click()
    expect(page).to_have_url(re.compile(rf"{re.escape(address)}$"))


def test_rows_are_sorted_and_selected_without_javascript(open_page: OpenPage, default: Sender) -> None:
    page = open_page("rui", javascript=False, width=390)
    page.goto(f"{default.pages}groups/?saved=all")
    page.locator(".row-select").first.check()
    expect(page.get_by_role("form", name="Selected findings")).to_be_visible()
    assert overflow(page) == 0
    page.get_by_role("button", name="Mute…").click()
    expect(page.get_by_role("heading", name="1 selected")).to_be_visible()
    assert overflow(page) == 0
    page = open_page("vik", javascript=False)
    page.goto(f"{default.pages}handoffs/?saved=all")
    page.get_by_role("link", name="Score").click()
    expect(page).to_have_url(re.compile(r"sort=score"))
    expect(page.get_by_role("columnheader", name="Score")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("link", name="Time UTC").click()
    page.get_by_role("link", name="Time UTC").click()
    expect(page).to_have_url(re.compile(r"sort=oldest"))
