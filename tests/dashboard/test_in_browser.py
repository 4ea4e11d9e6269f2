"""The queue by keyboard, and the pages as a browser sees them."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.test import Client
from playwright.sync_api import Page, sync_playwright
from pytest_django.live_server_helper import LiveServer

from handoffaudit.accounts.models import Person
from handoffaudit.handoffs.models import Handoff

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Submit = Callable[..., Handoff]
PAGES = ["", "handoffs/", "review/", "review/next/"]
ARGUMENTS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture
def browse(
    chromium: str,
    live_server: LiveServer,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> Iterator[Callable[..., Page]]:
    """Opens a page as a person; whatever the console says at a warning or above fails the test."""
    # The test server finds static files by their own names only.
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}
    monkeypatch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS.split())

        def browse(person: Person, path: str, **options: object) -> Page:
            client.force_login(person)
            context = browser.new_context(base_url=live_server.url, **options)  # type: ignore[arg-type]
            cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}
            context.add_cookies([cookie])  # type: ignore[list-item]
            page = context.new_page()
            page.on(
                "console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None
            )
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(path)
            return page

        yield browse
        browser.close()
    assert said == []


def test_a_circular_chain_is_decided_by_keyboard_in_under_five_seconds(
    browse: Callable[..., Page], reviewer: Person, circular: Handoff
) -> None:
    page = browse(reviewer, "/t/acme/review/")
    start = time.monotonic()
    page.keyboard.press("j")
    page.wait_for_selector("#decide")
    page.keyboard.press("a")
    page.keyboard.type("Wanted: adjust and judge again.")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".note--success")
    assert time.monotonic() - start < 5
    decided = Handoff.objects.get(pk=circular.pk)
    assert decided.state == "approved"


def test_a_key_pressed_while_the_next_one_loads_hits_that_one(
    browse: Callable[..., Page], reviewer: Person, submit: Submit
) -> None:
    first, second = (submit(call_chain=["a", "b", "c", "d", "e", "planner"]) for _ in range(2))
    page = browse(reviewer, f"/t/acme/review/{first.pk}/")
    page.keyboard.press("j")
    page.keyboard.press("a")
    page.wait_for_selector(".note--success")
    assert {row.pk: row.state for row in Handoff.objects.all()} == {first.pk: "held", second.pk: "approved"}


def test_keys_are_silent_while_somebody_types_or_reads_the_help(
    browse: Callable[..., Page], reviewer: Person, held: Handoff
) -> None:
    page = browse(reviewer, f"/t/acme/review/{held.pk}/")
    page.keyboard.press("/")
    page.keyboard.type("ad")
    assert page.input_value("#q") == "ad"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    assert page.is_visible("#several")
    assert Handoff.objects.get(pk=held.pk).state == "held"


def test_a_decision_needs_no_javascript(browse: Callable[..., Page], reviewer: Person, held: Handoff) -> None:
    page = browse(reviewer, "/t/acme/review/", java_script_enabled=False)
    page.click("text=Open the first")
    page.click("#decide [value=decline]")
    assert "planner → writer: declined." in page.inner_text("main")


def test_filters_update_the_list_in_place(
    browse: Callable[..., Page], viewer: Person, submit: Submit, held: Handoff
) -> None:
    submit()
    page = browse(viewer, "/t/acme/handoffs/")
    assert page.locator("tbody tr").count() == 2
    page.click("label:has-text('held')")
    page.wait_for_url("**/handoffs/?state=held")
    page.wait_for_selector(".chip")
    assert page.locator("tbody tr").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_breaks_a_rule_of_accessibility(
    browse: Callable[..., Page], reviewer: Person, held: Handoff, circular: Handoff, theme: str
) -> None:
    for path in PAGES:
        # axe writes its script into the page, which the policy forbids.
        page = browse(reviewer, f"/t/acme/{path}", color_scheme=theme, bypass_csp=True)
        found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
        assert found == [], path


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_a_narrow_screen(
    browse: Callable[..., Page], reviewer: Person, held: Handoff, circular: Handoff, path: str
) -> None:
    page = browse(reviewer, f"/t/acme/{path}", viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
