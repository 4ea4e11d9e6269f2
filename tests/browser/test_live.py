"""The list says that new handoffs came, and shows them when asked."""

import pytest
from playwright.sync_api import expect

from tests.browser.product import ACCEPTED, CIRCLE

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
