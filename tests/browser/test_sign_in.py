"""Browser tests of sign-in: through a certified OpenID provider, with passkeys and with an authenticator app.

The provider runs with Node.js: `npm ci --prefix tests/oidc_provider` installs it.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import HEIGHTS, TIMEOUT
from tests.browser.product import PASSWORD
from tests.browser.watching import overflow, unreadable, violations, watch
from tests.conftest import REQUIRED
from tests.pages import inline_parts
from tests.running.conftest import PRODUCT, Up, free_port, prepared, wait_for

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).parents[1] / "oidc_provider"
ROLES = {"reviewers": "reviewer", "admins": "admin"}


def answers(address: str) -> bool:
    try:
        return httpx.get(address, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a product that trusts a certified provider; ada reviews and grace administers."""
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules").is_dir():
        why = "there is no Node.js, or npm ci --prefix tests/oidc_provider was not run"
        if REQUIRED:
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    port, provider_port = free_port(), free_port()
    # A passkey belongs to a host name, so the address must not be a number.
    address, issuer = f"http://localhost:{port}", f"http://127.0.0.1:{provider_port}"
    command = [node, str(FOLDER / "provider.js"), str(provider_port), f"{address}/sign-in/oidc/callback/"]
    provider = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    up = Up(
        prepared(tmp_path_factory.mktemp("sign-in") / "data"),
        port=port,
        program=PRODUCT,
        HANDOFFAUDIT_PUBLIC_URL=address,
        HANDOFFAUDIT_OIDC_ISSUER=issuer,
        HANDOFFAUDIT_OIDC_CLIENT_ID="handoffaudit",
        HANDOFFAUDIT_OIDC_CLIENT_SECRET="a secret of the tests",
        HANDOFFAUDIT_OIDC_NAME="Acme",
        HANDOFFAUDIT_OIDC_ROLE_CLAIM="groups",
        HANDOFFAUDIT_OIDC_ROLES=json.dumps(ROLES),
        HANDOFFAUDIT_OIDC_ALLOWED_DOMAINS="example.com",
    )
    try:
        up.wait_ready()
        wait_for(lambda: answers(f"{issuer}/.well-known/openid-configuration"), seconds=30)
        make_administrator(f"{address}/{up.link.split('/', 3)[3]}" if up.link else "")
        yield address
    finally:
        up.stop()
        provider.terminate()
        provider.wait(30)


def make_administrator(link: str) -> None:
    """Make mara the first administrator with the printed link, as the page does."""
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=60) as client:
        page = client.get(link)
        form = {"name": "mara", "password": PASSWORD, "again": PASSWORD}
        token = client.cookies["csrftoken"]
        client.post(page.url, data=form | {"csrfmiddlewaretoken": token}).raise_for_status()


@pytest.fixture
def new_page(browser: Browser, address: str) -> Iterator[Callable[[], Page]]:
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_one() -> Page:
        context = browser.new_context(viewport={"width": 1440, "height": HEIGHTS[1440]})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        watch(page, complaints)
        return page

    yield open_one
    for context in contexts:
        context.close()
    # The pages of the provider are not ours.
    assert [one for one in complaints if address in one] == []


@pytest.fixture
def page(new_page: Callable[[], Page]) -> Page:
    return new_page()


def passkeys(page: Page, *, verified: bool = True) -> tuple[Any, str]:
    """Give the tab a device that holds passkeys, and return the way to control the device, and its id."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options |= {"isUserVerified": verified, "automaticPresenceSimulation": True}
    made = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, made["authenticatorId"]


def heading(page: Page, name: str) -> None:
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


def sign_in_at_provider(page: Page, address: str, name: str) -> None:
    page.goto(f"{address}/t/default/traces/")
    page.get_by_role("link", name="Sign in with Acme").click()
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def enter_password(page: Page, address: str) -> None:
    page.goto(f"{address}/sign-in/")
    page.get_by_label("Name").fill("mara")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def confirm(page: Page) -> None:
    heading(page, "Confirm that it is you")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()


def assert_looks_right(page: Page) -> None:
    """Check the page light and dark, wide and narrow, without axe's complaints and without anything inline."""
    assert inline_parts(page.content()) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
            assert overflow(page) == 0
            assert unreadable(page) == []
            folder = os.environ.get("HANDOFFAUDIT_TEST_SHOTS")
            if folder:
                page.screenshot(path=f"{folder}/{time.monotonic_ns()}-{scheme}-{width}.png", full_page=True)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": HEIGHTS[1440]})
    assert violations(page) == []


def test_a_member_comes_in_through_the_page_of_the_provider(page: Page, address: str) -> None:
    sign_in_at_provider(page, address, "ada")
    # The sign-in leads on to the page that was asked for.
    expect(page).to_have_url(f"{address}/t/default/traces/")
    page.goto(f"{address}/security/")
    expect(page.get_by_text("How ada@example.com signs in.")).to_be_visible()
    # A reviewer does not see the settings.
    assert page.goto(f"{address}/t/default/settings/").status == 403


def test_an_administrator_comes_in_and_the_log_says_so(page: Page, address: str) -> None:
    sign_in_at_provider(page, address, "grace")
    page.goto(f"{address}/t/default/settings/audit/")
    expect(page.get_by_text("signed in through the provider as").first).to_be_visible()
    expect(page.get_by_text("made a member of").first).to_be_visible()


@pytest.mark.parametrize(
    ("name", "told"), [("mallory", "did not say that your e-mail address is verified"), ("oscar", "no role")]
)
def test_who_may_not_come_in_reads_why(page: Page, address: str, name: str, told: str) -> None:
    sign_in_at_provider(page, address, name)
    heading(page, "Not signed in")
    expect(page.get_by_text(told)).to_be_visible()
    assert_looks_right(page)
    page.get_by_role("link", name="Back to sign-in").click()
    heading(page, "Sign in")


def test_a_passkey_signs_in_alone(page: Page, address: str) -> None:
    enter_password(page, address)
    session, device = passkeys(page)
    page.goto(f"{address}/security/")
    page.get_by_role("link", name="Add a passkey").click()
    confirm(page)
    page.get_by_label("Name").fill("Work laptop")
    assert_looks_right(page)
    page.get_by_role("button", name="Add the passkey").click()
    heading(page, "Recovery codes")
    assert_looks_right(page)
    page.get_by_role("link", name="I have stored the codes").click()
    expect(page.get_by_role("link", name="Remove Work laptop")).to_be_visible()
    assert_looks_right(page)

    page.context.clear_cookies()
    page.goto(f"{address}/sign-in/")
    assert_looks_right(page)
    # Whoever cannot show a finger or a PIN stays outside, and reads why.
    session.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("alert")).to_have_text("The browser was given no passkey. Try again.")
    assert violations(page) == []
    session.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": True})
    page.get_by_role("button", name="Use a passkey").press("Enter")
    expect(page).to_have_url(f"{address}/t/default/")

    page.goto(f"{address}/security/")
    page.get_by_role("link", name="Remove Work laptop").click()
    confirm(page)
    assert_looks_right(page)
    page.get_by_role("button", name="Remove the passkey").click()
    heading(page, "Security")
    expect(page.get_by_role("link", name="Remove Work laptop")).to_have_count(0)


def test_an_app_is_the_second_step_after_the_password(page: Page, address: str) -> None:
    enter_password(page, address)
    page.goto(f"{address}/security/")
    page.get_by_role("link", name="Set up an authenticator app").click()
    assert_looks_right(page)
    confirm(page)
    heading(page, "Set up an authenticator app")
    assert_looks_right(page)
    key = page.locator(".door-key").inner_text()
    page.get_by_label("Code").fill(format_hotp_value(hotp_value(key, int(time.time()) // 30)))
    page.keyboard.press("Enter")
    heading(page, "Recovery codes")
    recovery = page.locator(".door-codes li").first.inner_text()

    page.context.clear_cookies()
    enter_password(page, address)
    heading(page, "Second factor")
    assert_looks_right(page)
    page.get_by_label("Code").fill("000000")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This code is wrong")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Code").fill(recovery)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{address}/t/default/")

    page.goto(f"{address}/security/app/remove/")
    confirm(page)
    assert_looks_right(page)
    page.get_by_role("button", name="Remove the authenticator app").click()
    expect(page.get_by_role("link", name="Set up an authenticator app")).to_be_visible()


def test_every_step_works_with_the_keyboard(page: Page, address: str) -> None:
    """The focus starts where one types, and Tab reaches each link and button of the page in its order."""
    page.goto(f"{address}/sign-in/")
    expect(page.get_by_label("Name")).to_be_focused()
    reached = []
    for _ in range(3):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name"))
    assert reached == ["password", "Sign in", "Use a passkey"]
    enter_password(page, address)
    page.goto(f"{address}/security/app/")
    expect(page.get_by_label("Password")).to_be_focused()
