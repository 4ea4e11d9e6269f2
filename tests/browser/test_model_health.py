"""Browser tests of model health: without JavaScript, by keyboard, and from an alert to its handoffs."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_an_alert_is_acknowledged_without_javascript(open_page, product):
    page = open_page("rui", javascript=False)
    page.goto(f"{product.address}/t/model/diagnostics/model/")
    alert = page.locator(".alert", has_text="3 webhook deliveries failed for good")
    alert.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_text("The alert is acknowledged.")).to_be_visible()
    expect(page.get_by_role("heading", level=1, name="Settings")).to_be_visible()
    expect(alert).to_have_count(0)
    expect(page.locator(".alert")).to_have_count(1)


def test_an_alert_leads_to_its_handoffs(open_page, product):
    page = open_page("rui")
    page.goto(f"{product.address}/t/model/")
    page.get_by_role("link", name="See the flagged handoffs").click()
    expect(page.get_by_role("heading", level=1, name="Handoffs")).to_be_visible()
    assert page.url.endswith("?flag=flagged")


@pytest.mark.parametrize("width", [390, 1440])
def test_another_period_is_chosen_by_keyboard(open_page, product, width):
    page = open_page("mara", width=width)
    page.goto(f"{product.address}/t/model/diagnostics/model/")
    calls = page.locator(".figure", has_text="Calls").locator(".figure-value")
    expect(calls).to_have_text("42")
    page.get_by_role("link", name="7 days").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="Hour", exact=True).focus()
    page.keyboard.press("Enter")
    expect(calls).to_have_text(re.compile(r"[123]"))


def test_the_chart_is_there_in_numbers_without_javascript(open_page, product):
    page = open_page("mara", javascript=False)
    page.goto(f"{product.address}/t/model/diagnostics/model/")
    page.get_by_text("As a table").first.click()
    table = page.get_by_role("region", name="Questions over time, as a table")
    expect(table.get_by_role("columnheader", name="answered")).to_be_visible()


def test_what_failed_stands_beside_its_cure(open_page, product):
    page = open_page("mara")
    page.goto(f"{product.address}/t/model/diagnostics/model/")
    refused = page.locator("li", has=page.get_by_role("heading", name="Refused (401)"))
    expect(refused).to_contain_text("Set ANTHROPIC_API_KEY to a valid key and restart.")


def test_without_a_key_the_page_says_how_to_set_one(open_page, product):
    page = open_page("mara", javascript=False)
    page.goto(f"{product.address}/t/empty/")
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("link", name="LLM", exact=True).click()
    expect(page.get_by_role("heading", name="No LLM key is set")).to_be_visible()
    expect(page.get_by_text("export ANTHROPIC_API_KEY=YOUR_KEY")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_without_a_key_no_row_says_that_it_is_unverified(open_page, product, width):
    page = open_page("mara", width=width)
    page.goto(f"{product.address}/t/default/handoffs/?flag=unverified")
    state = page.locator("tbody .col-state").first
    expect(state).to_be_visible()
    expect(page.locator("tbody").get_by_text("unverified")).to_have_count(0)
    assert state.evaluate("cell => cell.scrollWidth <= cell.clientWidth")
