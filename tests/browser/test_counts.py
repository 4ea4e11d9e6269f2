"""Browser tests of frequent tasks, with their keys and clicks counted, and of what every page of the menu keeps."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.product import CIRCLE, CIRCLE_WITH_REASON, Product, Sender
from tests.browser.watching import overflow, settled

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

OpenPage = Callable[..., Page]

HELD = 20
MOST_BYTES = 100_000
# A window of 1440 pixels at 200 % zoom.
ZOOMED = {"width": 720, "height": 450}
MENU = (
    *("", "handoffs/?saved=all", "groups/?saved=all", "traces/?saved=all", "agents/?period=30d", "review/?saved=all"),
    *("diagnostics/compliance/?period=30d", "diagnostics/", "diagnostics/files/", "diagnostics/logs/"),
    *("strictness/", "rules/", "schemas/", "prompts/", "settings/", "settings/keys/", "settings/webhooks/"),
    *("settings/alerts/", "settings/retention/", "settings/audit/", "diagnostics/model/", "help/"),
)
LISTS = ("handoffs/?saved=all", "groups/?saved=all", "traces/?saved=all", "agents/?period=30d", "review/?saved=all")
LOG = "agent=planner phase=plan source=text_fallback reason=file_missing timestamp=2026-02-15T0{}:15:00Z\n"


class Hand:
    """A person's hand, which counts its keys and clicks."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.keys = self.clicks = 0

    def press(self, key: str) -> None:
        self.keys += 1
        self._page.keyboard.press(key)

    def paste(self, text: str) -> None:
        self.keys += 1
        self._page.keyboard.insert_text(text)

    def click(self, place: Locator, **options: Any) -> None:
        self.clicks += 1
        place.click(**options)


def menu(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile(f"^{name}"))


def test_twenty_held_handoffs_take_21_keys(open_page: OpenPage, product: Product) -> None:
    sender = product.senders["desk"]
    sender.empty_queue()
    sent = [sender.submit(CIRCLE_WITH_REASON)["id"] for _ in range(HELD)]
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    hand = Hand(page)
    hand.press("j")
    for number, reference in enumerate(sent):
        expect(page.locator("[data-item]")).to_have_attribute("data-item", reference)
        hand.press("ad"[number % 2])
    expect(page.get_by_role("heading", name="Nothing waits for a person")).to_be_visible()
    for number, reference in enumerate(sent):
        sender.wait_state(reference, ("approved", "declined")[number % 2])
    assert (hand.keys, hand.clicks) == (HELD + 1, 0)


def test_a_pasted_prefix_leads_to_the_reason_with_3_keys(open_page: OpenPage, default: Sender) -> None:
    page = open_page("vik")
    page.goto(f"{default.pages}help/")
    hand = Hand(page)
    hand.press("Control+k")
    hand.paste(CIRCLE[:12])
    hand.press("Enter")
    expect(page).to_have_url(re.compile(f"/handoffs/{default.get(CIRCLE)['id']}/$"))
    expect(page.locator("#verdict-title")).to_be_in_viewport()
    assert (hand.keys, hand.clicks) == (3, 0)


def test_the_worst_route_and_its_beginning_take_2_clicks(open_page: OpenPage, default: Sender) -> None:
    page = open_page("vik")
    page.goto(f"{default.pages}help/")
    hand = Hand(page)
    hand.click(menu(page, "Agents"))
    hand.click(page.get_by_role("link", name=re.compile("^Its blocked handoffs")))
    expect(page).to_have_url(re.compile("source=.+&target=.+&state=rejected.*&sort=oldest"))
    expect(page.locator("#rows tbody tr .col-time").first).to_be_in_viewport()
    assert (hand.keys, hand.clicks) == (0, 2)


def test_compliance_by_agent_and_week_is_a_file_with_2_clicks(open_page: OpenPage, default: Sender) -> None:
    page = open_page("vik")
    page.goto(f"{default.pages}help/")
    hand = Hand(page)
    hand.click(menu(page, "Compliance"))
    expect(page.locator("table.weeks").first).to_be_in_viewport()
    with page.expect_download() as download:
        hand.click(page.get_by_role("link", name="Export CSV"))
    assert download.value.suggested_filename.endswith(".csv")
    assert (hand.keys, hand.clicks) == (0, 2)


def test_a_noisy_code_is_muted_everywhere_with_2_clicks(open_page: OpenPage, default: Sender) -> None:
    page = open_page("rui")
    page.goto(f"{default.pages}groups/?sort=most")
    page.goto(page.locator("[data-row]").first.evaluate("link => link.href"))
    hand = Hand(page)
    hand.click(page.get_by_text(re.compile("^Mute everywhere")).first)
    hand.click(page.get_by_role("button", name=re.compile("^Mute ")).first)
    unmute = page.get_by_role("button", name=re.compile("^Unmute everywhere"))
    expect(unmute).to_be_visible()
    assert (hand.keys, hand.clicks) == (0, 2)
    unmute.click()
    expect(unmute).to_have_count(0)


def test_a_log_is_uploaded_and_its_reasons_read_with_4_clicks(open_page: OpenPage, product: Product) -> None:
    sender = product.senders["logs"]
    sender.api.post("/logs", params={"source": "first.log"}, content=LOG.format(1)).raise_for_status()
    page = open_page("rui")
    page.goto(f"{sender.pages}help/")
    hand = Hand(page)
    hand.click(menu(page, "Logs"))
    hand.click(page.get_by_role("link", name="Import logs"))
    with page.expect_file_chooser() as chooser:
        hand.click(page.locator("input[type=file]"))
    chooser.value.set_files({"name": "agents.log", "mimeType": "text/plain", "buffer": LOG.format(2).encode()})
    hand.click(page.get_by_role("button", name="Import", exact=True))
    expect(page).to_have_url(re.compile(r"/diagnostics/logs/import/[0-9a-f-]{36}/$"))
    expect(page.get_by_role("link", name="file_missing")).to_be_visible()
    assert (hand.keys, hand.clicks) == (0, 4)


def test_a_guessed_role_is_declared_with_4_clicks(open_page: OpenPage, default: Sender) -> None:
    page = open_page("mara")
    page.goto(f"{default.pages}help/")
    hand = Hand(page)
    hand.click(menu(page, "Agents"))
    hand.click(page.get_by_role("link", name=re.compile("the role of Orchestrator$")))
    # A menu of the system opens with a click, and a second one chooses.
    hand.clicks += 1
    page.locator("#role select").select_option("worker")
    hand.click(page.get_by_role("button", name=re.compile("^Save the role")))
    expect(page.locator("#role .agents-role")).to_contain_text("worker, declared")
    assert (hand.keys, hand.clicks) == (0, 4)
    page.locator("#role select").select_option("guessed")
    page.get_by_role("button", name=re.compile("^Save the role")).click()
    expect(page.locator("#role .agents-role")).to_contain_text("guessed")


def test_two_handoffs_are_compared_with_3_keys_and_a_click(open_page: OpenPage, default: Sender) -> None:
    page = open_page("vik")
    page.goto(f"{default.pages}help/")
    hand = Hand(page)
    hand.press("Control+k")
    hand.paste(CIRCLE[:12])
    hand.press("Enter")
    expect(page.locator("#verdict-title")).to_be_visible()
    hand.click(page.get_by_role("link", name=re.compile("^Compare")))
    expect(page.get_by_role("heading", level=1, name="Compare with the last accepted")).to_be_visible()
    assert (hand.keys, hand.clicks) == (3, 1)


@pytest.mark.parametrize("address", MENU)
def test_a_page_is_small_and_fits_at_200_percent(open_page: OpenPage, default: Sender, address: str) -> None:
    page = open_page("mara")
    sent = page.context.new_cdp_session(page)
    sent.send("Network.enable")
    loaded: list[float] = []
    sent.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
    fonts: list[str] = []
    page.on("request", lambda request: fonts.append(request.url) if request.resource_type == "font" else None)
    page.goto(default.pages + address, wait_until="networkidle")
    assert fonts == []
    assert 0 < sum(loaded) <= MOST_BYTES
    page.set_viewport_size(ZOOMED)  # type: ignore[arg-type]
    assert overflow(page) == 0


@pytest.mark.parametrize("address", LISTS)
def test_the_first_row_is_within_5_tabs_of_the_skip_link(open_page: OpenPage, default: Sender, address: str) -> None:
    page = open_page("mara")
    page.goto(default.pages + address)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    row = "Boolean(document.activeElement.closest('tbody tr, .group, .queue-row'))"
    for _ in range(5):
        page.keyboard.press("Tab")
        if page.get_by_role("link", name="Skip to the list").evaluate_all(
            "all => all.includes(document.activeElement)"
        ):
            page.keyboard.press("Enter")
        if page.evaluate(row):
            return
    raise AssertionError(f"The focus is on {page.evaluate('document.activeElement.outerHTML')[:200]}")


def test_two_reviewers_see_each_others_decisions_everywhere_within_5_seconds(
    open_page: OpenPage, product: Product
) -> None:
    sender = product.senders["desk"]
    sender.empty_queue()
    first, second = (sender.submit(CIRCLE_WITH_REASON)["id"] for _ in range(2))
    one, other = open_page("rui"), open_page("sana")
    for page in (one, other):
        page.goto(f"{sender.pages}review/")
        settled(page)
    badge = other.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile("^Review"))
    expect(badge).to_contain_text("2")
    one.keyboard.press("j")
    expect(one.locator("[data-item]")).to_have_attribute("data-item", first)
    one.keyboard.press("a")
    sender.wait_state(first, "approved")
    decided = time.monotonic()
    expect(other.locator(f'[data-row="{first}"]')).to_contain_text("no longer waiting", timeout=5000)
    expect(badge).to_contain_text("1", timeout=5000)
    expect(other.locator("#progress")).to_contain_text("1 left", timeout=5000)
    assert time.monotonic() - decided <= 5
    assert sender.get(second)["state"] == "held"


def test_a_decision_comes_to_every_page_that_shows_the_handoff_within_5_seconds(
    open_page: OpenPage, product: Product
) -> None:
    sender = product.senders["desk"]
    sender.empty_queue()
    sent = sender.submit(CIRCLE_WITH_REASON)["id"]
    row, waiting = f'tr:has([data-item="{sent}"]) .col-state', "#attention .waits-number"
    places = {
        "": waiting,
        "handoffs/?saved=all": row,
        f"handoffs/?saved=all&open={sent}": "#panel #changed",
        f"handoffs/{sent}/": "#changed",
        "settings/": "#waiting",
    }
    pages = [(open_page("mara"), address, place) for address, place in places.items()]
    for page, address, place in pages:
        page.goto(sender.pages + address)
        page.locator(place).first.wait_for(state="attached")
    before = [page.locator(place).first.inner_text() for page, _, place in pages]
    sender.decide(sent, "decline")
    decided = time.monotonic()
    for (page, _, place), text in zip(pages, before, strict=True):
        expect(page.locator(place).first).not_to_have_text(text, timeout=5000)
    assert time.monotonic() - decided <= 5
