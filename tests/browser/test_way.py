"""Browser tests of a whole handoff: an agent submits it, a person decides it, the agent learns the decision."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import scripting
from tests.browser.product import CIRCLE, CIRCLE_WITH_REASON, PASSWORD, Product, Sender

pytestmark = pytest.mark.browser
# Two runs cover each width and each scripting mode; all four combinations would test nothing more.
pairs = pytest.mark.parametrize(
    ("width", "javascript"), [(390, False), (1440, True)], ids=["narrow without JavaScript", "wide with JavaScript"]
)


@pytest.fixture
def sender(product: Product) -> Sender:
    return product.senders["way"]


def go(page: Page, name: str) -> None:
    menu = page.get_by_role("button", name="Menu")
    if menu.is_visible():
        menu.click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()


@pairs
def test_a_held_one_is_seen_and_approved(open_page, sender, width, javascript):
    sent = sender.submit(CIRCLE_WITH_REASON)
    assert sent["state"] == "held"
    hear = sender.listen(sent["id"])

    page = open_page("rui", width=width, javascript=javascript)
    page.goto(sender.pages)
    go(page, "Handoffs")
    row = page.get_by_role("row").filter(has=page.locator(f'a[href*="{sent["id"]}"]'))
    expect(row).to_contain_text("held")
    row.locator(f'a[href*="{sent["id"]}"]').click()
    expect(page.get_by_text("Held for a person")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved by rui", exact=True)).to_be_visible()

    heard = hear()
    assert heard["state"] == "approved"
    assert heard["verdict"]["outcome"] == "held"


@pairs
def test_a_held_one_is_declined_in_the_queue(open_page, sender, width, javascript):
    sent = sender.submit(CIRCLE_WITH_REASON)
    hear = sender.listen(sent["id"])

    page = open_page("rui", width=width, javascript=javascript)
    page.goto(sender.pages)
    go(page, "Review")
    page.locator(f'.queue-link[href*="{sent["id"]}"]').click()
    page.get_by_label("Note", exact=True).fill("The analyst has answered this already.")
    page.get_by_role("button", name="Decline", exact=False).and_(page.locator("#item button")).click()
    expect(page.get_by_role("status").get_by_text("declined").first).to_be_visible()

    assert hear()["state"] == "declined"
    event = sender.last_event(sent["id"])
    assert event["actor"]["name"] == "rui"
    assert event["reason"] == "The analyst has answered this already."


@pairs
def test_a_rejected_one_is_approved_only_with_a_note(open_page, sender, width, javascript):
    sent = sender.submit(CIRCLE)
    assert sent["state"] == "rejected"

    page = open_page("rui", width=width, javascript=javascript)
    page.goto(f"{sender.pages}review/{sent['id']}/")
    page.locator("#item").get_by_role("button", name="Approve").click()
    if javascript:
        expect(page.locator("#decide-note")).to_be_focused()
    else:
        expect(page.get_by_role("alert")).to_contain_text("note")
    assert sender.get(sent["id"])["state"] == "rejected"
    page.get_by_label(re.compile(r"^\s*Note")).and_(page.locator("#decide-note")).fill("The loop is wanted here.")
    page.locator("#item").get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status").get_by_text("approved").first).to_be_visible()
    assert sender.last_event(sent["id"])["reason"] == "The loop is wanted here."


@pairs
def test_a_rejected_one_is_declined_with_a_note(open_page, sender, width, javascript):
    sent = sender.submit(CIRCLE)
    page = open_page("rui", width=width, javascript=javascript)
    page.goto(f"{sender.pages}handoffs/{sent['id']}/")
    page.locator("#decide-note").fill("Ask the planner again.")
    page.get_by_role("button", name="Decline").click()
    expect(page.get_by_text("Declined by rui", exact=True)).to_be_visible()
    expect(page.get_by_text("Ask the planner again.").first).to_be_visible()
    assert sender.get(sent["id"])["state"] == "declined"


@scripting
def test_several_are_decided_at_once(open_page, sender, javascript):
    sender.empty_queue()
    sent = [sender.submit(CIRCLE_WITH_REASON)["id"] for _ in range(3)]
    page = open_page("rui", javascript=javascript)
    page.goto(f"{sender.pages}review/")
    for reference in sent[:2]:
        page.locator(f'[data-row="{reference}"] input').check()
    page.get_by_role("button", name="Approve selected").click()
    page.get_by_label("Note for all of them").fill("Looked at together.")
    page.get_by_role("button", name="Approve all 2").click()
    expect(page.get_by_role("heading", name="2 approved")).to_be_visible()
    assert [sender.get(reference)["state"] for reference in sent] == ["approved", "approved", "held"]


@scripting
def test_somebody_added_signs_in_with_the_one_time_link(open_page, product, javascript):
    sender = product.senders["doors"]
    name = "nia" if javascript else "nils"
    page = open_page("mara", javascript=javascript)
    page.goto(f"{sender.pages}settings/")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Create invite link").click()
    link = page.locator("#link").inner_text()
    assert link.startswith(product.address)

    theirs = open_page(javascript=javascript)
    theirs.goto(link)
    theirs.get_by_label("New password", exact=True).fill(PASSWORD)
    theirs.get_by_label("New password again").fill(PASSWORD)
    theirs.get_by_role("button", name="Start").click()
    # The first steps are the overview of a tenant without handoffs.
    expect(theirs.get_by_role("heading", level=1, name=re.compile("^(Overview|First steps)$"))).to_be_visible()
    answer = open_page().goto(link)
    assert answer.status == 410
