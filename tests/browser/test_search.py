"""Browser tests of the command menu: from any page to a handoff, a page or a command with the keyboard alone."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.product import CIRCLE, Product, Sender
from tests.browser.watching import overflow, violations
from tests.scale import cases

pytestmark = pytest.mark.browser


@pytest.fixture
def page(open_page, product: Product, default: Sender) -> Page:
    page = open_page("mara")
    page.goto(f"{default.pages}agents/")
    return page


def chosen(page: Page):
    return page.locator('#command-results [aria-selected="true"]')


def test_a_pasted_prefix_leads_to_the_reason_with_three_keys(page: Page, default: Sender) -> None:
    handoff = default.get(CIRCLE)
    page.keyboard.press("Control+k")
    page.keyboard.insert_text(CIRCLE[:12])
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/handoffs/{handoff['id']}/$"))
    expect(page.locator("#verdict-title")).to_be_in_viewport()


def test_enter_does_not_wait_for_results_that_are_on_their_way(page: Page, default: Sender) -> None:
    handoff = default.get(CIRCLE)
    page.keyboard.press("Control+k")
    expect(chosen(page)).to_contain_text("Review")
    held: list[Route] = []
    page.route(
        re.compile(r"/search/\?q="),
        lambda route: held.append(route) if route.request.headers.get("hx-request") else route.continue_(),
    )
    page.keyboard.insert_text(CIRCLE[:12])
    page.wait_for_timeout(300)
    assert held
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/handoffs/{handoff['id']}/$"))


def test_arrows_choose_enter_opens_and_escape_gives_the_focus_back(page: Page) -> None:
    link = page.locator("nav[aria-label=Pages] a", has_text="Traces")
    link.focus()
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name=re.compile("^Search"))
    expect(field).to_be_focused()
    expect(chosen(page)).to_contain_text("Review")
    page.keyboard.type("web")
    expect(chosen(page)).to_contain_text("Webhooks")
    expect(field).to_have_attribute("aria-expanded", "true")
    expect(field).to_have_attribute("aria-activedescendant", chosen(page).get_attribute("id"))
    page.keyboard.press("ArrowUp")
    expect(chosen(page)).to_be_in_viewport()
    last = chosen(page).get_attribute("id")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(chosen(page)).to_contain_text("Add webhook")
    assert last != chosen(page).get_attribute("id")
    expect(page.locator("#command-count")).to_have_text(re.compile(r"^\d+ results$"))
    page.keyboard.press("Escape")
    expect(page.locator("#command-menu")).to_be_hidden()
    expect(link).to_be_focused()
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.keyboard.type("audit log")
    expect(chosen(page)).to_contain_text("Audit log")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")


def test_a_command_is_carried_out_from_any_page(page: Page) -> None:
    address = page.url
    for theme in ("dark", "light"):
        page.keyboard.press("Control+k")
        page.keyboard.type(f"{theme} theme")
        expect(chosen(page)).to_contain_text(theme.capitalize())
        page.keyboard.press("Enter")
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        expect(page).to_have_url(address)


MENUS = [(1440, "light"), (390, "dark"), (1440, "dark"), (390, "light")]


@pytest.mark.parametrize("menu", cases(MENUS, MENUS[:2]))
def test_the_menu_is_accessible_and_fits(open_page, default: Sender, menu: tuple[int, str]) -> None:
    width, scheme = menu
    page = open_page("mara", width=width, color_scheme=scheme)
    page.goto(f"{default.pages}traces/")
    page.keyboard.press("Control+k")
    page.keyboard.type("web")
    expect(chosen(page)).to_contain_text("Webhooks")
    assert violations(page) == []
    assert overflow(page) <= 0
    box = page.locator("#command-menu").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width


def test_the_search_works_without_a_script(open_page, default: Sender) -> None:
    handoff = default.get(CIRCLE)
    page = open_page("vik", javascript=False)
    page.goto(default.pages)
    page.get_by_role("link", name="Search").click()
    page.locator("#search-text").fill("circular")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".search-kind").first).to_be_visible()
    page.locator("#search-text").fill(CIRCLE[:12])
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/handoffs/{handoff['id']}/$"))
