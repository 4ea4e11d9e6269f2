"""Browser tests of editing rules and schemas in place, and of dry runs before saving."""

import re
import uuid

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import scripting
from tests.browser.product import ACCEPTED, Product, Sender
from tests.browser.watching import overflow, settled, violations
from tests.running.conftest import wait_for

pytestmark = [
    pytest.mark.browser,
    scripting,
]


@pytest.fixture
def sender(product: Product) -> Sender:
    """Return a sender whose tenant has the default token budgets, whatever other tests saved."""
    sender = product.senders["rules"]
    table = sender.api.get("/strictness").json()
    rows = [row | {"token_budget": 2000} for row in table["rows"]]
    sender.api.put("/strictness", json={"base_version": table["version"], "rows": rows}).raise_for_status()
    return sender


def version(sender: Sender, kind: str) -> int:
    return int(sender.api.get(f"/{kind}").json()["version"])


def check(page: Page, *, javascript: bool) -> None:
    """Check accessibility and width of the page; axe is a script, so JavaScript must be on."""
    if not javascript:
        return
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) == 0
    page.set_viewport_size({"width": 1440, "height": 900})


def finished(page: Page, *, javascript: bool) -> None:
    """Wait for the end of a dry run; without JavaScript, follow the link that reloads the page."""
    done, again = page.get_by_role("heading", name="Verdicts"), page.get_by_role("link", name="Look again")

    def look_again() -> bool:
        expect(done.or_(again).first).to_be_visible()
        page.wait_for_load_state()
        if done.is_visible():
            return True
        with page.expect_navigation():
            again.click()
        return False

    if not javascript:
        wait_for(look_again)
    expect(done).to_be_visible()


def test_a_set_and_a_rule_are_written_tried_and_saved(open_page, sender, javascript):
    handoff = sender.submit(ACCEPTED)
    handoff_type = handoff["handoff_type"]
    own = f"s{uuid.uuid4().hex[:8]}"
    before = version(sender, "rules")
    page = open_page("mara", javascript=javascript)
    page.goto(f"{sender.pages}rules/")
    page.get_by_role("link", name="Add a set", exact=True).click()
    page.get_by_label("Name of the set").fill(f"Set {own}")
    page.get_by_label("Id", exact=True).fill(own)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text(f"Saved as version {before + 1}. Now write the first rule of the set.")).to_be_visible()

    page.get_by_label("Field", exact=True).first.fill("never_there")
    page.get_by_label("Type", exact=True).select_option("required")
    page.get_by_label("Handoff types").fill(handoff_type)
    page.get_by_label("Name", exact=True).fill("It is there")
    identity = page.get_by_label("Id", exact=True)
    identity.fill("no id")
    page.get_by_role("button", name="Start dry run").click()
    expect(identity).to_have_attribute("aria-invalid", "true")
    expect(identity).to_be_focused()
    check(page, javascript=javascript)
    identity.fill("never_there")
    page.get_by_label("Note for the history (optional)").fill("A first one.")
    page.get_by_role("button", name="Start dry run").click()

    finished(page, javascript=javascript)
    expect(page.locator(".trial-said")).to_contain_text(re.compile("verdicts? would change"))
    expect(page.get_by_role("link", name=handoff["handoff_id"], exact=True)).to_be_visible()
    check(page, javascript=javascript)
    page.get_by_role("link", name=f"Compare the verdicts of {handoff['handoff_id']}").click()
    expect(page.get_by_role("row").filter(has_text="never_there")).to_contain_text("new")
    check(page, javascript=javascript)
    page.go_back()
    assert version(sender, "rules") == before + 1

    page.get_by_role("link", name="Back to editing").click()
    expect(identity).to_have_value("never_there")
    expect(page.get_by_label("Note for the history (optional)")).to_have_value("A first one.")
    page.go_back()
    page.get_by_role("button", name="Save this draft").click()
    expect(page.get_by_text(f"Saved as version {before + 2}.")).to_be_visible()
    rule = page.get_by_role("table", name=f"Rules of Set {own}").get_by_role("row").nth(1)
    expect(rule).to_contain_text("never_there must be present and not empty")
    check(page, javascript=javascript)

    rule.get_by_role("link", name="Edit never_there").click()
    page.get_by_role("button", name="Delete this rule").click()
    expect(page.get_by_text("Deleted never_there.")).to_be_visible()
    assert version(sender, "rules") == before + 3


def test_a_schema_is_written_by_keyboard_and_refused_where_it_is_wrong(open_page, sender, javascript):
    own, before = f"type_{uuid.uuid4().hex[:8]}", version(sender, "schemas")
    page = open_page("mara", javascript=javascript)
    page.goto(f"{sender.pages}schemas/")
    page.get_by_role("link", name="Add a type").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Handoff type")).to_be_focused()
    settled(page)
    page.keyboard.type(own)
    page.keyboard.press("Tab")
    page.keyboard.type('{"required": title]}')
    schema = page.get_by_role("textbox", name="Schema of the data")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    expect(schema).to_have_accessible_description(re.compile("line 1, column 14"))
    expect(schema).to_have_value('{"required": title]}')
    expect(schema).to_be_focused()
    settled(page)
    check(page, javascript=javascript)
    schema.fill('{"required": ["title"]}')
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text=own)).to_contain_text("requires title")
    assert version(sender, "schemas") == before + 1


def test_a_type_that_never_came_says_what_to_do(open_page, sender, javascript):
    page = open_page("mara", javascript=javascript)
    page.goto(f"{sender.pages}strictness/?add=1")
    page.get_by_role("textbox", name="Handoff type").fill("never_came")
    page.locator("#id_tried").select_option("7d")
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_text("No handoff to judge:")).to_be_visible()
    check(page, javascript=javascript)
    page.get_by_role("link", name="Back to editing").click()
    expect(page.get_by_role("textbox", name="Handoff type")).to_have_value("never_came")
    expect(page.locator("#id_tried")).to_have_value("7d")
