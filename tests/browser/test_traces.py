"""Browser tests of traces: by keyboard, without JavaScript, on a small screen."""

import re
import uuid

import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import ACCEPTED, Product, Sender
from tests.browser.watching import overflow, settled, violations

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


@pytest.fixture
def traced(product: Product) -> str:
    """Submit a trace in which the second agent makes a number up and the third repeats it; return its address."""
    sender: Sender = product.senders["agents"]
    texts = ("The order 4711 costs 240 EUR.", "The order 4711 costs 98731 EUR.", "Paid: 98731 EUR for the order 4711.")
    agents = ("reader", "solver", "writer", "end")
    trace_id = uuid.uuid4().hex
    for at, words in enumerate(texts):
        document = {
            "source_agent_id": agents[at],
            "target_agent_id": agents[at + 1],
            "tenant_id": "agents",
            "call_chain": [agents[at]],
            "handoff_type": "message",
            "data": {"notes": [f"Line {number}." for number in range(30)], "text": words},
        }
        sent = {"document": document, "trace_id": trace_id, "context": {"order": texts[0]}}
        answer = sender.api.post("/handoffs", json=sent, headers={"Prefer": "wait=30"})
        assert answer.status_code in (200, 202), answer.text
    return f"{sender.pages}traces/{trace_id}/"


def test_a_value_opens_its_place_in_the_document_beside_the_trace(open_page, traced):
    page = open_page("rui")
    page.goto(traced)
    place = page.locator(".origin", has_text="98731").locator(".origin-way a").nth(1)
    place.click()
    wanted = page.locator("#panel .entry--wanted")
    expect(wanted).to_contain_text("Paid: 98731 EUR")
    expect(wanted).to_be_in_viewport()
    settled(page)
    assert violations(page) == []
    link = page.url
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(place).to_be_focused()
    page.goto(link)
    expect(page.locator("#panel .entry--wanted")).to_be_in_viewport()


@pytest.mark.parametrize("width", [390, 1440])
def test_the_place_of_a_value_is_a_link_without_javascript(open_page, traced, width):
    page = open_page("rui", javascript=False, width=width)
    page.goto(traced)
    page.locator(".origin", has_text="98731").locator(".origin-way a").nth(1).click()
    expect(page.locator(".entry--wanted")).to_contain_text("Paid: 98731 EUR")
    expect(page.locator(".entry--wanted")).to_be_in_viewport()
    assert overflow(page) == 0


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
