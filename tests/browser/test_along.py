"""Browser tests of the way through a list handoff by handoff: by keys, and by links without JavaScript."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import Sender
from tests.browser.watching import settled

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]
QUERY = "in=handoffs&source=strider"


@pytest.fixture
def three(default: Sender) -> list[str]:
    """Submit three handoffs, and return their ids with the oldest first."""
    return [_sent(default, f"strider-{number}") for number in range(3)]


def _sent(sender: Sender, handoff_id: str, **changes: Any) -> str:
    document = {
        "handoff_id": handoff_id,
        "source_agent_id": "strider",
        "target_agent_id": "writer",
        "tenant_id": "default",
        "call_chain": ["strider"],
        "handoff_type": "message",
        "data": {"text": "Three sources agree on the date."},
        **changes,
    }
    answer = sender.api.post("/handoffs", params={"format": "payload"}, json=document, headers={"Prefer": "wait=30"})
    assert answer.status_code in (200, 202), answer.text
    return str(answer.json()["id"])


def at(reference: str) -> re.Pattern[str]:
    return re.compile(rf"/handoffs/{reference}/\?{QUERY}$")


def test_keys_lead_along_the_list_and_the_link_above_back_to_it(
    open_page: OpenPage, default: Sender, three: list[str]
) -> None:
    page = open_page("rui")
    page.goto(f"{default.pages}handoffs/?source=strider")
    page.locator(f"a.row-link[href*='{three[2]}']").press("Enter")
    expect(page).to_have_url(at(three[2]))
    settled(page)
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    page.keyboard.press("j")
    expect(page).to_have_url(at(three[1]))
    settled(page)
    page.keyboard.press("j")
    expect(page).to_have_url(at(three[0]))
    settled(page)
    page.keyboard.press("k")
    expect(page).to_have_url(at(three[1]))
    settled(page)
    # In a field the keys type letters.
    find = page.get_by_role("searchbox", name="Find in this document")
    find.click()
    expect(find).to_be_focused()
    page.keyboard.press("j")
    expect(find).to_have_value("j")
    expect(page).to_have_url(at(three[1]))
    page.keyboard.press("Tab")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next in the list")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Handoffs: source strider").click()
    expect(page).to_have_url(re.compile(r"/handoffs/\?source=strider$"))


def test_links_lead_along_it_without_javascript(open_page: OpenPage, default: Sender, three: list[str]) -> None:
    page = open_page("rui", javascript=False, width=390)
    page.goto(f"{default.pages}handoffs/{three[2]}/?{QUERY}")
    page.get_by_role("link", name="Next").click()
    expect(page).to_have_url(at(three[1]))
    page.get_by_role("link", name="Only findings").or_(page.get_by_role("link", name="Unfold all")).first.click()
    expect(page).to_have_url(re.compile(QUERY))
    page.get_by_role("link", name="Next").click()
    expect(page).to_have_url(at(three[0]))


def test_a_list_opens_with_the_view_that_was_chosen(open_page: OpenPage, default: Sender, three: list[str]) -> None:
    page = open_page("mara", javascript=False)
    page.goto(f"{default.pages}traces/")
    page.locator("summary", has_text="Default view").click()
    page.get_by_label("Your default view of Traces").select_option("Last 24 hours")
    page.get_by_role("button", name="Set as my default").click()
    expect(page.get_by_text("The default view of Traces is changed for you.")).to_be_visible()
    page.get_by_role("link", name="Traces", exact=True).click()
    expect(page).to_have_url(re.compile(r"/traces/\?since=24h&saved=today$"))
    page.get_by_role("link", name="All", exact=True).click()
    expect(page).to_have_url(re.compile(r"/traces/\?saved=all$"))
    page.locator("summary", has_text="Default view").click()
    page.get_by_label("Your default view of Traces").select_option("")
    page.get_by_role("button", name="Set as my default").click()
    expect(page.get_by_text("The default view of Traces is changed for you.")).to_be_visible()
