"""Browser tests of the frame of every page: sign-in and sign-out, skip link, visible focus, light and dark."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import scripting
from tests.browser.product import CIRCLE_WITH_REASON, PASSWORD
from tests.browser.watching import overflow
from tests.scale import cases

pytestmark = pytest.mark.browser

BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"

# The ring of what has the focus; a box that its label draws shows it there, a link that covers a row around the row.
RING = """
() => {
  const focused = document.activeElement;
  if (focused === document.body) return null;
  const drawn = [[focused], [focused, "::after"], [focused.parentElement]];
  const rings = drawn.map(([element, part]) => getComputedStyle(element, part));
  const width = Math.max(...rings.map((style) => style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth)));
  const box = focused.getBoundingClientRect();
  // The calendar button inside a date field is the browser's own, ring and all.
  const inside = focused.type === "date" && !focused.matches(":focus-visible");
  return {
    what: focused.outerHTML.slice(0, 160),
    width: inside ? 2 : width,
    visible: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight,
  };
}
"""


def test_the_first_administrator_comes_in_by_the_printed_link_and_out_again(open_page, product):
    page = open_page()
    page.goto(product.first_link)
    page.get_by_label("Name").fill("greta")
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password again").fill(PASSWORD)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    expect(page.get_by_role("link", name="Settings")).to_be_visible()
    overview = page.url

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1, name="Sign in")).to_be_visible()
    page.goto(overview)
    expect(page.get_by_role("heading", level=1, name="Sign in")).to_be_visible()
    page.get_by_label("Name").fill("greta")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(overview)


def test_a_wrong_password_is_told_and_what_was_typed_stays(open_page, product):
    page = open_page()
    page.goto(f"{product.address}/sign-in/")
    page.get_by_label("Name").fill("mara")
    page.get_by_label("Password").fill("not this one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("mara")


def test_the_skip_link_leads_past_the_menu(open_page, default):
    page = open_page("mara")
    page.goto(default.pages)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")


@pytest.mark.parametrize("scheme", cases(["light", "dark"], ["light"]))
def test_what_has_the_focus_shows_it(open_page, default, scheme):
    page = open_page("mara", color_scheme=scheme)
    reference = default.get(CIRCLE_WITH_REASON)["id"]
    for path in ("", "handoffs/", f"handoffs/{reference}/", f"review/{reference}/", "strictness/", "settings/keys/"):
        page.goto(default.pages + path)
        assert_rings(page, 45)
    page.goto(f"{default.pages.partition('/t/')[0]}/password/")
    assert_rings(page, 5)


def assert_rings(page: Page, most: int) -> None:
    """Press Tab until the end of the page, and check the focus ring of each element."""
    seen = 0
    for _ in range(most):
        page.keyboard.press("Tab")
        ring = page.evaluate(RING)
        if ring is None:
            break
        assert ring["visible"], ring
        assert ring["width"] >= 2, ring
        seen += 1
    assert seen >= 3


@scripting
def test_the_theme_is_kept_from_page_to_page(open_page, default, javascript):
    page = open_page("vik", javascript=javascript, color_scheme="light")
    page.goto(f"{default.pages}handoffs/?state=held")
    page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_url(re.compile(r"handoffs/\?state=held$"))
    page.goto(default.pages)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Dark theme")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="System theme").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_the_theme_chosen_looks_as_the_systems(open_page, default):
    colours = {}
    for scheme, chosen in (("light", "Light"), ("dark", "Dark")):
        as_system = open_page("vik", color_scheme=scheme)
        as_system.goto(default.pages)
        other = open_page("vik", color_scheme="dark" if scheme == "light" else "light")
        other.goto(default.pages)
        other.get_by_role("button", name=f"{chosen} theme").click()
        expect(other.locator("html")).to_have_attribute("data-theme", scheme)
        colours[scheme] = as_system.evaluate(BACKGROUND)
        assert other.evaluate(BACKGROUND) == colours[scheme]
    assert colours["light"] != colours["dark"]


def test_the_menu_of_tenants_leads_from_one_to_the_other(open_page, default):
    page = open_page("mara", width=390)
    page.goto(default.pages)
    menu = page.locator("details.tenant")
    menu.locator("summary").click()
    expect(menu.get_by_role("link", name="Empty")).to_be_visible()
    assert overflow(page) == 0
    page.keyboard.press("Escape")
    expect(menu.get_by_role("link", name="Empty")).to_be_hidden()
    menu.locator("summary").click()
    menu.get_by_role("link", name="Empty").click()
    expect(page).to_have_url(re.compile("/t/empty/$"))
    expect(page.get_by_role("heading", name="First steps")).to_be_visible()


@scripting
def test_the_menu_of_a_narrow_screen_opens_and_leads_on(open_page, default, javascript):
    page = open_page("vik", width=390, javascript=javascript)
    page.goto(default.pages)
    traces = page.get_by_role("link", name="Traces", exact=True)
    expect(traces).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(traces).to_be_visible()
    assert overflow(page) == 0
    page.keyboard.press("Escape")
    expect(traces).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    traces.click()
    expect(page.get_by_role("heading", level=1, name="Traces")).to_be_visible()


def test_keys_lead_from_page_to_page_and_are_silent_while_typing(open_page, default):
    page = open_page("vik")
    page.goto(default.pages)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog.get_by_text("Handoffs", exact=True)).to_be_visible()
    # Typed without a pause: too long after `g` a key stands for itself.
    page.keyboard.type("gh")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.url.partition("?")[0] == default.pages
    page.keyboard.type("gh")
    expect(page.get_by_role("heading", level=1, name="Handoffs")).to_be_visible()
    page.wait_for_load_state()
    field = page.locator("#f-type")
    field.fill("")
    field.press_sequentially("gr?")
    expect(field).to_have_value("gr?")
    expect(page.get_by_role("heading", level=1, name="Handoffs")).to_be_visible()


@scripting
def test_compact_shows_more_rows_and_stays(open_page, default, javascript):
    page = open_page("vik", javascript=javascript)
    page.goto(f"{default.pages}agents/?period=30d")
    height = page.locator(".table tbody tr").first.bounding_box()["height"]
    page.get_by_role("button", name="Compact density").click()
    expect(page.locator("html")).to_have_attribute("data-density", "compact")
    expect(page).to_have_url(re.compile(r"agents/\?period=30d$"))
    page.wait_for_load_state()
    assert page.locator(".table tbody tr").first.bounding_box()["height"] < height
    small = "[...document.querySelectorAll('button, select')].filter((each) => each.checkVisibility())"
    lowest = page.evaluate(f"Math.min(...{small}.map((each) => each.getBoundingClientRect().height))")
    assert lowest >= 24
    page.get_by_role("button", name="Comfortable density").click()
    expect(page.locator("html")).not_to_have_attribute("data-density", "compact")
