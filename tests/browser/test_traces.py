"""Browser tests of traces: by keyboard, without JavaScript, on a small screen."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import ACCEPTED, Product, Sender

pytestmark = pytest.mark.browser


def address_of(product: Product) -> str:
    sender: Sender = product.senders["default"]
    return f"{sender.pages}traces/{sender.get(ACCEPTED)['trace_id']}/"


def arrows(page: Page, form: str = "wide"):
    return page.locator(f".lanes-scroll--{form} a.lane-step")


def test_a_handoff_in_the_drawing_is_opened_by_keyboard(open_page, product):
    page = open_page("mara")
    page.goto(address_of(product))
    arrows(page).first.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/handoffs/[0-9a-f-]{36}/\?in=trace$"))


def test_a_small_screen_has_a_drawing_of_its_own(open_page, product):
    page = open_page("mara", width=390)
    page.goto(address_of(product))
    expect(arrows(page, "narrow").first).to_be_visible()
    expect(arrows(page, "wide").first).to_be_hidden()


def test_traces_are_narrowed_and_read_without_javascript(open_page, product):
    page = open_page("mara", javascript=False)
    page.goto(f"{product.senders['default'].pages}traces/")
    page.get_by_label("With a handoff").select_option("accepted")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"/traces/\?state=accepted$"))
    page.locator(".trace-id a").first.click()
    page.get_by_text("As a list").click()
    expect(page.locator(".lanes-words li").first).to_be_visible()
