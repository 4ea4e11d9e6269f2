"""Browser tests of a new installation: the page Connect with its first keys and handoffs, and the sample data."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import scripting
from tests.browser.watching import violations
from tests.running.conftest import Up, prepared

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Yield a product that nobody has used."""
    up = Up(prepared(tmp_path_factory.mktemp("fresh") / "data"))
    try:
        yield up.wait_ready()
    finally:
        up.stop()


@pytest.fixture(scope="module")
def newcomer(fresh: Up, browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    assert fresh.link
    page.goto(fresh.link)
    for field in page.locator("input[type=password]").all():
        field.fill(PASSWORD)
    page.locator("main button[type=submit], form button[type=submit]").first.click()
    expect(page.get_by_role("heading", name="First steps")).to_be_visible()
    yield page
    page.context.close()


def text_on(page: Page, name: str) -> str:
    """Return lines of the page, which contain the new key in place of the placeholder."""
    place = page.locator(f"#{name}")
    expect(place).to_contain_text("ha_")
    return place.text_content() or ""


def paste(command: str) -> dict[str, Any]:
    """Run a command in a shell, and return the JSON that it prints."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    return dict(json.loads(done.stdout))


def test_the_command_works_as_pasted_and_its_handoff_is_seen_without_reloading(newcomer: Page) -> None:
    newcomer.get_by_role("link", name="curl").click()
    newcomer.get_by_role("button", name="Create a key for curl").click()
    command, held = text_on(newcomer, "code-1"), text_on(newcomer, "held")
    assert violations(newcomer) == []
    assert paste(command)["state"] == "accepted"
    arrived = newcomer.locator("#arrived")
    expect(arrived).to_contain_text("The next agent may start".lower(), ignore_case=True)
    assert arrived.get_attribute("data-live") is None
    assert violations(newcomer) == []
    arrived.get_by_role("link", name="Wait for the next one").click()
    expect(arrived).to_contain_text("Waiting for the next handoff with the key curl")
    assert paste(held)["state"] == "held"
    arrived.get_by_role("link", name="Decide it").click()
    newcomer.locator("#item").get_by_role("button", name="Approve").click()
    expect(newcomer).to_have_url(re.compile("done="))


def test_the_lines_for_typescript_work_as_they_are(newcomer: Page, fresh: Up) -> None:
    """The lines are JavaScript, too: they run in the browser, on a page of the server."""
    newcomer.goto(f"{fresh.address}/t/default/connect/?with=typescript")
    newcomer.get_by_role("button", name="Create a key for TypeScript").click()
    said: list[str] = []
    newcomer.on("console", lambda message: said.append(message.text))
    newcomer.evaluate(f"async () => {{ {text_on(newcomer, 'code-1')} }}")
    assert [text.partition(" [")[0] for text in said] == ["The writer may start."]
    expect(newcomer.locator("#arrived")).to_contain_text("may start")


@scripting
def test_a_new_key_goes_along_from_way_to_way(newcomer: Page, browser: Browser, fresh: Up, javascript: bool) -> None:
    page = browser.new_page(storage_state=newcomer.context.storage_state(), java_script_enabled=javascript)
    page.goto(f"{fresh.address}/t/default/settings/keys/")
    page.get_by_label("Name: who will use it").fill(f"crew {javascript}")
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("button", name="LangGraph").press("Enter")
    expect(page.get_by_role("heading", name="What LangGraph can do")).to_be_visible()
    setup = text_on(page, "install")
    page.get_by_role("navigation", name="Ways to connect").get_by_role("button", name="Python").press("Enter")
    expect(page.get_by_role("heading", name="What Python can do")).to_be_visible()
    assert text_on(page, "install").splitlines()[1:] == setup.splitlines()[1:]
    page.get_by_role("navigation", name="Ways to connect").get_by_role("button", name="curl").press("Enter")
    arrived = page.locator("#arrived")
    expect(arrived).to_contain_text(f"Waiting for the first handoff with the key crew {javascript}")
    assert paste(text_on(page, "code-1"))["state"] == "accepted"
    if not javascript:
        arrived.get_by_role("link", name="Look again").click()
    expect(arrived).to_contain_text("may start")
    page.context.close()


def test_sample_data_comes_at_a_click_and_goes_at_a_click(newcomer: Page, fresh: Up) -> None:
    newcomer.goto(f"{fresh.address}/t/default/connect/")
    newcomer.get_by_role("button", name="Look around with sample data").click()
    banner = newcomer.locator("#sample-banner")
    expect(banner).to_contain_text("This is sample data")
    expect(newcomer.locator("#sample-banner:not([hx-get])")).to_be_visible(timeout=300_000)
    expect(newcomer.get_by_role("heading", name="Overview")).to_be_visible()
    for page in (
        "handoffs/",
        "traces/",
        "agents/",
        "diagnostics/?period=7d",
        "diagnostics/files/",
        "diagnostics/logs/",
    ):
        assert newcomer.goto(f"{fresh.address}/t/sample/{page}").status == 200
        expect(banner).to_be_visible()
    newcomer.get_by_role("button", name="Remove it").click()
    expect(newcomer.get_by_text("The sample data is removed.")).to_be_visible()
    assert newcomer.url == f"{fresh.address}/t/default/"
    assert newcomer.goto(f"{fresh.address}/t/sample/").status == 404
