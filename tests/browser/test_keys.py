"""Browser tests of API keys: created and revoked on a page, and valid as the page says."""

import time

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import scripting
from tests.browser.product import ACCEPTED, Product, Sender, anew
from tests.browser.watching import overflow, violations

pytestmark = pytest.mark.browser


@pytest.fixture
def sender(product: Product) -> Sender:
    return product.senders["doors"]


@scripting
def test_a_key_is_shown_once_works_and_stops_working(open_page, product, sender, javascript):
    page = open_page("mara", javascript=javascript)
    name = "night-shift" if javascript else "day-shift"
    page.goto(f"{sender.pages}settings/keys/")
    page.get_by_label("Name: who will use it").fill(name)
    page.get_by_role("button", name="Create key").click()
    secret = page.locator("#secret").inner_text()
    assert send(product, sender, secret) == 202
    if javascript:
        assert violations(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert overflow(page) == 0
        page.set_viewport_size({"width": 1440, "height": 900})

    page.goto(f"{sender.pages}settings/keys/")
    assert secret not in page.content()
    row = page.get_by_role("row").filter(has_text=name)
    row.get_by_text("Revoke…").click()
    row.get_by_role("button", name=f"Revoke {name}").click()
    expect(page.get_by_role("status").filter(has_text=f"{name} is revoked")).to_be_visible()
    expect(row).to_contain_text("revoked")
    until = time.monotonic() + 60
    while (status := send(product, sender, secret)) != 401:
        assert time.monotonic() < until, f"it is still answered {status}"
        time.sleep(0.2)


def test_the_key_is_copied(open_page, sender):
    page = open_page("mara", permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{sender.pages}settings/keys/")
    page.get_by_label("Name: who will use it").fill("copied")
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#secret").inner_text()


def test_a_key_without_a_scope_is_refused_at_its_place(open_page, sender):
    page = open_page("mara")
    page.goto(f"{sender.pages}settings/keys/")
    page.get_by_label("Name: who will use it").fill("useless")
    for box in page.get_by_role("group", name="Scopes").get_by_role("checkbox").all():
        box.uncheck()
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Name: who will use it")).to_have_value("useless")
    assert violations(page) == []


def send(product: Product, sender: Sender, secret: str) -> int:
    answer = httpx.post(
        f"{product.address}/api/v1/handoffs",
        json=anew(ACCEPTED, sender.tenant),
        headers={"Authorization": f"Bearer {secret}"},
        timeout=60,
    )
    return answer.status_code
