"""Fixtures for one product and one Chromium, and pages that record the complaints of the browser."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.product import PASSWORD, Product, Sender, product_of
from tests.browser.watching import watch
from tests.running.conftest import Up, prepared, wait_for
from tests.scale import cases

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A new renderer for each page takes a fifth of the page's processor time.
    "--renderer-process-limit=1",
]
TIMEOUT = 60_000
HEIGHTS = {390: 844, 1440: 900}

OpenPage = Callable[..., Page]
# A page without JavaScript is plain HTML, and other tests send its forms by day.
scripting = pytest.mark.parametrize(
    "javascript", cases([True, False], [True]), ids=["with JavaScript", "without JavaScript"]
)


@pytest.fixture(scope="package")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    up = Up(prepared(tmp_path_factory.mktemp("browser") / "data"), "--sample")
    try:
        product = product_of(up.wait_ready())
        wait_for(lambda: "refused" in up.out)
        default = product.senders["default"].api
        wait_for(lambda: not default.get("/handoffs", params={"state": "received,validating"}).json()["items"])
        yield product
        for sender in product.senders.values():
            sender.api.close()
    finally:
        up.stop()


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def signed_in(browser: Browser, product: Product) -> Callable[[str], Any]:
    """Return a function that gives the cookies of a person, who signs in on the page once."""
    kept: dict[str, Any] = {}

    def state_of(person: str) -> Any:
        if person not in kept:
            page = browser.new_page()
            page.set_default_timeout(TIMEOUT)
            page.goto(f"{product.address}/sign-in/")
            page.get_by_label("Name").fill(person)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
            kept[person] = page.context.storage_state()
            page.close()
        return kept[person]

    return state_of


@pytest.fixture
def open_page(browser: Browser, signed_in: Callable[[str], Any]) -> Iterator[OpenPage]:
    """Return `open_page(person, width=390, javascript=False)`, which opens an empty tab of that person.

    Without a person, the tab belongs to a stranger. Any complaint of the browser in a tab fails the test at its end.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_one(person: str = "", *, width: int = 1440, javascript: bool = True, **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": HEIGHTS[width]},
            java_script_enabled=javascript,
            storage_state=signed_in(person) if person else None,
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        watch(page, complaints)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def default(product: Product) -> Sender:
    """Return the sender of the tenant that holds the bundled sample."""
    return product.senders["default"]
