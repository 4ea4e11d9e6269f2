"""Browser tests of the review queue by keyboard alone."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.product import CIRCLE, CIRCLE_WITH_REASON, Product, Sender

pytestmark = pytest.mark.browser


@pytest.fixture
def sender(product: Product) -> Sender:
    """Return the sender of a tenant with an empty review queue."""
    sender = product.senders["desk"]
    sender.empty_queue()
    return sender


@pytest.fixture
def queue(open_page, sender) -> tuple[Page, list[str]]:
    """Return three held handoffs, oldest first, and the page that shows them."""
    sent = [sender.submit(CIRCLE_WITH_REASON)["id"] for _ in range(3)]
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    return page, sent


def open_one(page: Page, reference: str) -> None:
    """Check that the handoff is the one shown, and that the address names it."""
    expect(page.locator('.queue-link[aria-current="true"]')).to_have_attribute("href", f"/t/desk/review/{reference}/")
    expect(page.locator("#decide")).to_have_attribute("action", f"/t/desk/handoffs/{reference}/decide/")
    expect(page).to_have_url(re.compile(f"/review/{reference}/$"))


def held_back(page: Page, address: re.Pattern[str]) -> Callable[[], None]:
    """Hold back every answer of the address until the returned function is called."""
    waiting: list[Route] = []
    released: list[bool] = []

    def answer(route: Route) -> None:
        if released:
            route.continue_()
        else:
            waiting.append(route)

    def release() -> None:
        released.append(True)
        for route in waiting:
            route.continue_()

    page.route(address, answer)
    return release


@pytest.mark.parametrize(
    ("document", "keys", "state"),
    [(CIRCLE, "jd", "declined"), (CIRCLE_WITH_REASON, "ja", "approved")],
    ids=["declined", "approved"],
)
def test_a_circular_chain_is_decided_with_two_keys(open_page, sender, document, keys, state):
    sent = sender.submit(document)
    assert {"chain.circular", "chain.circular_with_reason"} & set(sent["codes"])
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    page.keyboard.press(keys[0])
    open_one(page, sent["id"])
    page.keyboard.press(keys[1])
    sender.wait_state(sent["id"], state)


def test_a_rejected_circular_chain_is_approved_with_two_keys_and_a_note(open_page, sender):
    sent = sender.submit(CIRCLE)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    page.keyboard.press("j")
    open_one(page, sent["id"])
    page.keyboard.press("a")
    expect(page.locator("#decide-note")).to_be_focused()
    page.keyboard.type("wanted")
    page.keyboard.press("Control+Enter")
    sender.wait_state(sent["id"], "approved")
    assert sender.last_event(sent["id"])["reason"] == "wanted"


def test_a_key_pressed_while_the_next_one_loads_decides_nothing_and_says_so(queue, sender):
    page, sent = queue
    release = held_back(page, re.compile(f"/review/{sent[1]}/"))
    not_yet = page.get_by_role("status").filter(has_text="The next handoff was not shown yet, so d did nothing.")
    page.keyboard.press("j")
    open_one(page, sent[0])
    page.keyboard.press("a")
    expect(page.locator("#item")).to_have_attribute("aria-busy", "true")
    page.keyboard.press("d")
    expect(not_yet).to_be_visible()
    sender.wait_state(sent[0], "approved")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    expect(not_yet).to_be_visible()
    release()
    open_one(page, sent[1])
    assert sender.get(sent[1])["state"] == "held"
    page.keyboard.press("d")
    open_one(page, sent[2])
    expect(not_yet).to_have_count(0)
    sender.wait_state(sent[1], "declined")
    assert sender.get(sent[2])["state"] == "held"


def test_j_and_k_go_down_and_up(queue):
    page, sent = queue
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("j", 2), ("k", 1), ("k", 0), ("k", 0)):
        page.keyboard.press(key)
        open_one(page, sent[at])


def test_the_next_one_opens_after_a_decision(queue, sender):
    page, sent = queue
    page.keyboard.press("j")
    open_one(page, sent[0])
    page.keyboard.press("a")
    open_one(page, sent[1])
    page.keyboard.press("d")
    open_one(page, sent[2])
    page.keyboard.press("a")
    expect(page.get_by_role("heading", name="Nothing waits for a person")).to_be_visible()
    assert [sender.get(reference)["state"] for reference in sent] == ["approved", "declined", "approved"]


def test_x_selects_and_the_decision_asks_once_for_all(queue, sender):
    page, sent = queue
    page.keyboard.press("j")
    open_one(page, sent[0])
    page.keyboard.press("x")
    page.keyboard.press("j")
    open_one(page, sent[1])
    page.keyboard.press("x")
    page.keyboard.press("d")
    expect(page.get_by_role("button", name="Decline selected")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Decline all 2")).to_be_focused()
    assert {sender.get(reference)["state"] for reference in sent} == {"held"}
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="2 declined")).to_be_visible()
    assert [sender.get(reference)["state"] for reference in sent] == ["declined", "declined", "held"]


def test_x_again_takes_it_back(queue):
    page, sent = queue
    page.keyboard.press("j")
    open_one(page, sent[0])
    box = page.locator(f'[data-row="{sent[0]}"] input')
    page.keyboard.press("x")
    expect(box).to_be_checked()
    page.keyboard.press("x")
    expect(box).not_to_be_checked()


def test_keys_are_silent_in_the_note(queue, sender):
    page, sent = queue
    page.keyboard.press("j")
    open_one(page, sent[0])
    note = page.locator("#decide-note")
    note.focus()
    page.keyboard.type("a bad dojo? x/k")
    expect(note).to_have_value("a bad dojo? x/k")
    expect(page.get_by_role("dialog")).to_have_count(0)
    open_one(page, sent[0])
    assert {sender.get(reference)["state"] for reference in sent} == {"held"}
    page.keyboard.press("Escape")
    expect(note).not_to_be_focused()
    page.keyboard.press("j")
    open_one(page, sent[1])


def test_slash_searches(queue, sender):
    page, sent = queue
    page.keyboard.press("/")
    search = page.get_by_role("searchbox")
    expect(search).to_be_focused()
    page.keyboard.type("jad")
    expect(search).to_have_value("jad")
    page.keyboard.press("Control+a")
    page.keyboard.type("chain.circular_with_reason")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?q=chain\.circular_with_reason$"))
    expect(page.locator(".queue-row")).to_have_count(3)
    assert {sender.get(reference)["state"] for reference in sent} == {"held"}


def test_the_question_mark_shows_the_keys_and_they_are_silent_there(queue, sender):
    page, sent = queue
    page.keyboard.press("j")
    open_one(page, sent[0])
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    for key in "dajx":
        page.keyboard.press(key)
    open_one(page, sent[0])
    expect(page.locator(".queue-select:checked")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert {sender.get(reference)["state"] for reference in sent} == {"held"}


def test_keys_of_the_browser_are_left_alone(queue, sender):
    page, sent = queue
    page.keyboard.press("j")
    open_one(page, sent[0])
    for key in ("Control+a", "Control+d", "Alt+d", "Meta+a"):
        page.keyboard.press(key)
    page.keyboard.press("j")
    open_one(page, sent[1])
    assert {sender.get(reference)["state"] for reference in sent} == {"held"}


def test_the_second_reviewer_sees_who_has_it_open_and_is_told_of_the_decision(queue, open_page, sender):
    first, sent = queue
    first.keyboard.press("j")
    open_one(first, sent[0])
    second = open_page("sana")
    second.goto(f"{sender.pages}review/")
    expect(second.locator(f'[data-row="{sent[0]}"]')).to_contain_text("rui")
    second.goto(f"{sender.pages}review/{sent[0]}/")
    expect(second.locator("#item")).to_contain_text("rui has this open")
    second.locator("#decide-note").fill("Looks right to me.")

    first.keyboard.press("d")
    sender.wait_state(sent[0], "declined")
    second.locator("#item").get_by_role("button", name="Approve").click()
    told = second.get_by_role("alert")
    expect(told).to_contain_text("rui changed the state to declined")
    told.get_by_role("link").click()
    expect(second.locator("#item")).to_contain_text("Declined by rui")
    expect(second.locator("#decide-note")).to_have_value("Looks right to me.")
    assert sender.get(sent[0])["state"] == "declined"
    assert sender.last_event(sent[0])["actor"]["name"] == "rui"


def test_the_first_free_one_is_opened_for_the_second_reviewer(queue, open_page, sender):
    first, sent = queue
    first.keyboard.press("j")
    open_one(first, sent[0])
    second = open_page("sana")
    second.goto(f"{sender.pages}review/")
    second.get_by_role("link", name="Open the first").click()
    open_one(second, sent[1])


def test_a_viewer_decides_nothing(open_page, default):
    page = open_page("vik")
    page.goto(f"{default.pages}review/")
    page.keyboard.press("j")
    expect(page.locator("#item")).to_contain_text("you need the role reviewer")
    expect(page).to_have_url(re.compile("/review/[0-9a-f-]{36}/$"))
    reference = page.url.rstrip("/").rpartition("/")[2]
    before = default.get(reference)["version"]
    for key in "adx":
        page.keyboard.press(key)
    expect(page.locator("#decide")).to_have_count(0)
    assert default.get(reference)["version"] == before
