"""Browser tests of editing the strictness table in place."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import scripting
from tests.browser.product import Product, Sender
from tests.browser.watching import overflow, settled, violations

pytestmark = [
    pytest.mark.browser,
    scripting,
]


@pytest.fixture
def sender(product: Product) -> Sender:
    return product.senders["rules"]


def edit(page: Page, sender: Sender) -> None:
    page.goto(f"{sender.pages}strictness/")
    page.get_by_role("link", name="Edit any other type").click()
    expect(page.get_by_label("Token budget", exact=True)).to_be_visible()
    settled(page)


def version(sender: Sender) -> int:
    return int(sender.api.get("/strictness").json()["version"])


def test_a_row_is_edited_in_place_and_judges_from_then_on(open_page, sender, javascript):
    before = version(sender)
    page = open_page("mara", javascript=javascript)
    edit(page, sender)
    budget = str(300 + before)
    page.get_by_label("Token budget", exact=True).fill(budget)
    page.get_by_label(re.compile("^Note for the history")).fill("Smaller ones only.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("tr.policy-other")).to_contain_text(budget)
    expect(page.get_by_text(f"Version {before + 1}, saved by mara")).to_be_visible()
    expect(page).to_have_url(f"{sender.pages}strictness/")
    assert version(sender) == before + 1


def test_the_models_part_unfolds_by_keyboard_and_is_saved(open_page, sender, javascript):
    page = open_page("mara", javascript=javascript)
    edit(page, sender)
    expect(page.get_by_label("Without the LLM")).to_be_hidden()
    page.locator("summary", has_text="LLM checks").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Without the LLM").select_option("closed")
    if javascript:
        assert violations(page) == []
    page.get_by_label("Objective confidence").fill("0.7")
    page.get_by_role("button", name="Save").click()
    row = page.locator("tr.policy-other")
    expect(row).to_contain_text("if unavailable: hold")
    expect(row).to_contain_text("objective: 0.7 sure")
    table = sender.api.get("/strictness").json()
    rows = [one | {"fail_mode": "open", "objective_confidence": 0.0} for one in table["rows"]]
    assert rows != table["rows"]
    assert sender.api.put("/strictness", json={"base_version": table["version"], "rows": rows}).status_code == 200


def test_a_wrong_value_is_told_at_its_field_and_kept(open_page, sender, javascript):
    before = version(sender)
    page = open_page("mara", javascript=javascript)
    edit(page, sender)
    budget = page.get_by_label("Token budget", exact=True)
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
    first.get_by_label("Token budget", exact=True).fill(theirs)
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_text(f"Version {before + 1}, saved by")).to_be_visible()

    second.get_by_label("Token budget", exact=True).fill(mine)
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
    expect(second.locator("tr.policy-other")).to_contain_text(mine)


def test_a_row_is_put_into_shadow_and_enforced_again_by_keyboard(open_page, sender, javascript):
    page = open_page("mara", javascript=javascript)
    page.goto(f"{sender.pages}strictness/")
    for link, button, told in (
        ("Switch to shadow… any other type", "Put into shadow", "any other type is in shadow"),
        ("Enforce… any other type", "Enforce it", "any other type is enforced"),
    ):
        page.get_by_role("link", name=link).press("Enter")
        confirm = page.get_by_role("button", name=button)
        expect(confirm).to_be_focused()
        settled(page)
        if javascript:
            assert violations(page) == []
            assert overflow(page) == 0
        confirm.press("Enter")
        expect(page.get_by_text(told)).to_be_visible()
        settled(page)
    assert sender.api.get("/strictness").json()["rows"][-1]["mode"] == "enforce"


def test_what_was_typed_is_not_lost_without_a_question(open_page, sender, javascript):
    if not javascript:
        pytest.skip("the browser alone asks nothing")
    page = open_page("mara", javascript=javascript)
    edit(page, sender)
    asked: list[str] = []

    def stay(dialog):
        asked.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", stay)
    page.get_by_label("Token budget", exact=True).fill("4321")
    page.get_by_role("link", name="Add a type").click()
    assert asked == ["Leave without saving? What you typed is lost."]
    expect(page.get_by_label("Token budget", exact=True)).to_have_value("4321")
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_label("Token budget", exact=True)).to_be_hidden()
    page.get_by_role("link", name="Add a type").click()
    expect(page.get_by_role("textbox", name="Handoff type")).to_be_visible()
    assert len(asked) == 1
