"""Browser tests of logs: dropped, sent with and without JavaScript, searched, and notes about new lines."""

import re
from datetime import UTC, datetime

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.product import ACCEPTED, Product, Sender, sample
from tests.browser.watching import select_two, violations
from tests.running.conftest import wait_for

pytestmark = pytest.mark.browser

ASKED_EVERY = 5000
BAD = "neither this nor that"
DROP = """([area, text]) => {
  const given = new DataTransfer();
  given.items.add(new File([text], "dropped.log", { type: "text/plain" }));
  area.dispatchEvent(new DragEvent("dragover", { dataTransfer: given, bubbles: true, cancelable: true }));
  area.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true }));
}"""


def line(details: str, event: str = "INFO", at: datetime | None = None) -> str:
    return f"[{at or datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}] [{event}] [plan-gate] {details}"


def send(sender: Sender, source: str, *lines: str) -> None:
    """Send logs and return when all of them are read."""
    answer = sender.api.post("/logs", params={"source": source}, content="".join(f"{one}\n" for one in lines))
    assert answer.is_success, answer.text
    wait_read(sender.api, answer.json()["links"]["self"])


def wait_read(api: httpx.Client, address: str) -> None:
    wait_for(lambda: api.get(address.removeprefix("/api/v1")).json()["finished_at"])


@pytest.fixture
def sender(product: Product) -> Sender:
    return product.senders["logs"]


def expect_read(page: Page) -> None:
    expect(page).to_have_url(re.compile(r"/diagnostics/logs/import/[0-9a-f-]{36}/$"))
    expect(page.locator("#reading .tag").get_by_text("read", exact=True)).to_be_visible(timeout=60_000)


def test_a_dropped_log_is_sent_read_and_its_bad_lines_shown(open_page, sender):
    page = open_page("rui")
    page.goto(f"{sender.pages}diagnostics/logs/import/")
    area = page.locator("[data-drop]").element_handle()
    page.evaluate(DROP, [area, f"{line('from a drop')}\n{BAD}\n"])
    expect_read(page)
    expect(page.get_by_role("heading", name="dropped.log")).to_be_visible()
    bad = page.get_by_role("region", name="Lines in no known format")
    expect(bad).to_contain_text("line 2")
    expect(bad).to_contain_text(BAD)


def test_without_javascript_a_log_is_sent_searched_and_opened(open_page, sender):
    page = open_page("rui", width=390, javascript=False)
    page.goto(f"{sender.pages}diagnostics/logs/import/")
    content = f"{line('sent plainly')}\n".encode()
    page.get_by_label("Log files").set_input_files({"name": "plain.log", "mimeType": "text/plain", "buffer": content})
    page.get_by_label("Where they are from").fill("ci-3")
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("heading", level=1, name="ci-3/plain.log")).to_be_visible()
    page.wait_for_load_state()
    again = page.get_by_role("link", name="Look again")
    # The worker may read the log before the page shows it.
    if again.count():
        wait_read(sender.api, f"/logs/imports/{page.url.rstrip('/').rpartition('/')[2]}")
        again.click()
    page.get_by_role("link", name="Show its lines").click()
    found = page.locator(".log-line")
    expect(found).to_have_count(1)
    found.locator("summary").click()
    expect(found.locator("pre")).to_contain_text("sent plainly")
    found.get_by_role("link", name="only these with the event INFO").click()
    expect(page.get_by_role("list", name="Filters in force")).to_contain_text("INFO")


def test_a_log_that_is_too_large_is_not_sent_and_the_command_named(open_page, sender):
    page = open_page("rui")
    page.goto(f"{sender.pages}diagnostics/logs/import/")
    page.locator("#log-form").evaluate("form => { form.dataset.most = '3'; }")
    page.get_by_label("Log files").set_input_files({"name": "a.log", "mimeType": "text/plain", "buffer": b"too much"})
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("alert")).to_contain_text("handoffaudit import-log FILE --tenant logs")
    expect(page.get_by_role("button", name="Import")).to_be_enabled()


def test_sending_can_be_cancelled(open_page, sender):
    page = open_page("rui")
    page.goto(f"{sender.pages}diagnostics/logs/import/")
    # The request never arrives, so that the test can always cancel it.
    page.route("**/import/send/", lambda route: None)
    page.get_by_label("Log files").set_input_files({"name": "a.log", "mimeType": "text/plain", "buffer": b"a line"})
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("progressbar", name="Sent")).to_be_visible()
    # htmx reports a cancelled request as an error.
    page.evaluate("console.error = () => {}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("Cancelled. Nothing was imported.")
    expect(page.get_by_role("progressbar")).to_be_hidden()
    expect(page.get_by_label("Log files")).to_be_focused()


def test_new_lines_are_counted_without_a_jump_and_shown_on_click(open_page, sender):
    send(sender, "live.log", line("the first", "TRIGGER"))
    page = open_page("rui")
    page.clock.install()
    page.goto(f"{sender.pages}diagnostics/logs/?event=TRIGGER")
    rows = page.locator(".log-line")
    expect(rows).to_have_count(1)
    before = rows.first.bounding_box()
    send(sender, "live.log", line("the first", "TRIGGER"), line("two", "TRIGGER"), line("three", "TRIGGER"), line("x"))
    page.clock.fast_forward(ASKED_EVERY)
    show = page.get_by_role("link", name="new lines, show")
    expect(show).to_be_visible()
    assert rows.count() == 1
    assert rows.first.bounding_box() == before
    show.click()
    expect(page.locator(".log-details").get_by_text("three", exact=True)).to_be_visible()


def test_lines_are_narrowed_and_opened_by_keyboard(open_page, sender):
    send(sender, "keys.log", line("by keyboard", "SKIP"), line("another", "DEBUG"))
    page = open_page("rui")
    page.goto(f"{sender.pages}diagnostics/logs/?source=keys.log")
    page.get_by_label("Text", exact=True).fill("KEYBOARD")
    page.keyboard.press("Tab")
    rows = page.locator(".log-line")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=KEYBOARD"))
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    expect(rows.locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows.locator("pre")).to_be_visible()
    page.keyboard.press("Tab")
    expect(rows.locator("pre")).to_be_focused()


def test_lines_are_selected_by_keys_and_exported(open_page, sender):
    send(sender, "selected", line("selected first"), line("selected last"))
    page = open_page("rui")
    page.goto(f"{sender.pages}diagnostics/logs/?q=selected")
    bar = select_two(page, "Selected log lines")
    assert violations(page) == []
    with page.expect_download() as download:
        bar.get_by_role("button", name="Export NDJSON").click()
    assert len(download.value.path().read_text().splitlines()) == 2


def test_a_handoffs_page_loads_the_lines_around_it_when_they_come_into_view(open_page, sender):
    handoff = sender.submit(ACCEPTED)
    agent, dated = handoff["source_agent_id"], sample()[ACCEPTED]["document"]["timestamp"]
    send(sender, "around.log", f"agent={agent} phase=plan source=handoff_json timestamp={dated}")
    page = open_page("rui")
    page.goto(f"{sender.pages}handoffs/{handoff['id']}/")
    page.locator("#logs").scroll_into_view_if_needed()
    expect(page.locator("#logs .log-line").first).to_contain_text(agent)
