"""Browser tests of finding groups: a reviewer opens, mutes and restores them."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.watching import overflow, violations

pytestmark = pytest.mark.browser


def test_a_finding_is_looked_into_muted_and_unmuted(open_page, product):
    page = open_page("rui")
    page.goto(f"{product.senders['default'].pages}groups/?sort=most")
    first = page.locator(".group").first
    first.locator("summary").click()
    expect(first.locator(".group-handoffs a").first).to_be_visible()
    first.locator(".group-title a").press("Enter")
    expect(page).to_have_url(re.compile(r"/groups/\d+/$"))
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) == 0
    page.get_by_label("Comes back with").select_option("double")
    page.locator("form").filter(has=page.get_by_label("Comes back with")).get_by_label("Why").fill(
        "Known; the new prompt goes out on Monday."
    )
    page.get_by_role("button", name="Mute").click()
    expect(page.get_by_text("Known; the new prompt goes out on Monday.")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Unmute").click()
    expect(page.get_by_text("The group is unmuted.")).to_be_visible()


def test_findings_are_read_without_javascript(open_page, product):
    page = open_page("vik", javascript=False)
    page.goto(f"{product.senders['default'].pages}groups/")
    page.get_by_label("Order").select_option("most")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"/groups/\?sort=most$"))
    first = page.locator(".group").first
    first.locator("summary").click()
    first.get_by_text("See them on the finding's page").click()
    expect(page).to_have_url(re.compile(r"/groups/\d+/#newest$"))
