"""Browser tests of a new installation: the first key, command and handoff, and the sample data."""

import json
import subprocess
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.running.conftest import Up, prepared, wait_for

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


def command_on(page: Page, name: str) -> str:
    """Return the page's command, which contains the new key in place of the placeholder."""
    place = page.locator(f"#{name}")
    expect(place).to_contain_text("Bearer ha_")
    return place.text_content() or ""


def secret_in(command: str) -> str:
    return command.partition("Bearer ")[2].partition("'")[0]


def test_the_command_works_as_pasted_and_its_handoff_is_seen_without_reloading(newcomer: Page) -> None:
    newcomer.get_by_role("button", name="Make a key for the command").click()
    command = command_on(newcomer, "first-curl")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["handoff_id"]
    arrived = newcomer.locator("#arrived")
    expect(arrived).to_contain_text("accepted", timeout=60_000)
    expect(newcomer.locator("#start-lead")).to_contain_text("2 of 4")
    assert arrived.get_attribute("data-live") is None
    arrived.get_by_role("link", name="See it").click()
    expect(newcomer.get_by_text("Three suppliers deliver within a week.").first).to_be_visible()


def test_the_command_for_python_works_and_the_second_handoff_waits(newcomer: Page, fresh: Up) -> None:
    newcomer.goto(f"{fresh.address}/t/default/start/")
    newcomer.get_by_role("button", name="Make a key for the command").click()
    script, held = command_on(newcomer, "first-python"), command_on(newcomer, "held-curl")
    subprocess.run(["python3", "-c", script], capture_output=True, check=True, timeout=60)
    waits = subprocess.run(["bash", "-c", held], capture_output=True, text=True, check=True, timeout=60)
    sent = json.loads(waits.stdout)["id"]
    key = httpx.Headers({"Authorization": f"Bearer {secret_in(held)}"})
    asked = f"{fresh.address}/api/v1/handoffs/{sent}"
    wait_for(lambda: httpx.get(asked, headers=key).json()["state"] == "held")


def test_sample_data_comes_at_a_click_and_goes_at_a_click(newcomer: Page, fresh: Up) -> None:
    newcomer.goto(f"{fresh.address}/t/default/start/")
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


def test_without_javascript_the_key_is_made_and_the_page_can_be_looked_at_again(
    newcomer: Page, browser: Browser, fresh: Up
) -> None:
    plain = browser.new_page(storage_state=newcomer.context.storage_state(), java_script_enabled=False)
    plain.goto(f"{fresh.address}/t/default/start/")
    plain.get_by_role("button", name="Make a key for the command").click()
    command = command_on(plain, "first-curl")
    key = httpx.Headers({"Authorization": f"Bearer {secret_in(command)}"})
    newest = f"{fresh.address}/api/v1/handoffs?limit=1"
    known = httpx.get(newest, headers=key).json()["items"]
    arrived = plain.locator("#arrived")
    expect(arrived).to_contain_text("Waiting for the first handoff with the key")
    subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=60)
    wait_for(lambda: httpx.get(newest, headers=key).json()["items"] != known)
    wait_for(lambda: httpx.get(newest, headers=key).json()["items"][0]["state"] == "accepted")
    arrived.get_by_role("link", name="Look again").click()
    expect(arrived).to_contain_text("See it")
    plain.context.close()
