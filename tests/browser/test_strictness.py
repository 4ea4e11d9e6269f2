"""Strictness is edited where it stands."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import Product, Sender
from tests.browser.watching import overflow, violations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without JavaScript"]),
]


@pytest.fixture
def sender(product: Product) -> Sender:
    return product.senders["rules"]


def edit(page: Page, sender: Sender) -> None:
    page.goto(f"{sender.pages}strictness/")
    page.get_by_role("link", name="Edit any other type").click()
    expect(page.get_by_label("Token budget")).to_be_visible()


def version(sender: Sender) -> int:
    return int(sender.api.get("/strictness").json()["version"])


def test_a_row_is_edited_in_place_and_judges_from_then_on(open_page, sender, javascript):
    before = version(sender)
    page = open_page("mara", javascript=javascript)
    edit(page, sender)
    budget = str(300 + before)
    page.get_by_label("Token budget").fill(budget)
    page.get_by_label(re.compile("^Note for the history")).fill("Smaller ones only.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="any other type")).to_contain_text(budget)
    expect(page.get_by_text(f"Version {before + 1}, saved by mara")).to_be_visible()
    expect(page).to_have_url(f"{sender.pages}strictness/")
    assert version(sender) == before + 1


def test_a_wrong_value_is_told_at_its_field_and_kept(open_page, sender, javascript):
    before = version(sender)
    page = open_page("mara", javascript=javascript)
    edit(page, sender)
    budget = page.get_by_label("Token budget")
    budget.fill("plenty")
    page.get_by_role("button", name="Save").click()
    expect(budget).to_have_attribute("aria-invalid", "true")
    expect(budget).to_have_value("plenty")
    expect(budget).to_have_accessible_description(re.compile("number"))
    assert version(sender) == before
    if javascript:
        assert violations(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert overflow(page) == 0
    page.get_by_role("link", name="Cancel").click()
    expect(budget).to_be_hidden()


def test_a_change_made_meanwhile_is_shown_and_not_overwritten(open_page, sender, javascript):
    first, second = open_page("mara", javascript=javascript), open_page("mara", javascript=javascript)
    edit(first, sender)
    edit(second, sender)
    before = version(sender)
    theirs, mine = str(500 + before), str(700 + before)
    first.get_by_label("Token budget").fill(theirs)
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_text(f"Version {before + 1}, saved by")).to_be_visible()

    second.get_by_label("Token budget").fill(mine)
    second.get_by_role("button", name="Save").click()
    told = second.get_by_role("alert")
    expect(told).to_contain_text(f"mara saved version {before + 1} while you were editing")
    expect(told).to_be_focused()
    expect(told).to_contain_text(theirs)
    expect(told).to_contain_text(mine)
    assert version(sender) == before + 1
    if javascript:
        assert violations(second) == []
    second.get_by_role("button", name=f"Save mine on version {before + 1}").click()
    expect(second.get_by_text(f"Version {before + 2}, saved by")).to_be_visible()
    expect(second.get_by_role("row").filter(has_text="any other type")).to_contain_text(mine)
