"""Every page, wide and light, then narrow and dark: quiet, readable for everybody, and with nothing inline."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.product import ACCEPTED, CIRCLE, CIRCLE_WITH_REASON, NOT_JSON, Product, Sender
from tests.browser.watching import inline_parts, overflow, violations, watch

pytestmark = pytest.mark.browser

# Buttons fade from one colour to the next.
COLOURS_SETTLED = "Promise.allSettled(document.getAnimations().map((each) => each.finished)).then(() => null)"

Address = Callable[[Product, Sender], str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A page; `address` below the default tenant's, or from a function of what is there."""

    address: str | Address
    person: str = "mara"
    status: int = 200


def handoff(handoff_id: str, below: str = "handoffs") -> Address:
    return lambda _, sender: f"{sender.pages}{below}/{sender.get(handoff_id)['id']}/"


def universal(_: Product, sender: Sender) -> str:
    return f"{sender.pages}handoffs/{sender.find(state='accepted', source='planning-petra')['id']}/"


def whole(path: str) -> Address:
    return lambda product, _: f"{product.address}{path}"


PAGES = {
    "sign-in": Shown(whole("/sign-in/"), ""),
    "sign-out": Shown(whole("/sign-out/")),
    "welcome": Shown(lambda product, _: product.links[0], ""),
    "dead link": Shown(whole("/welcome/MQ/x-y/"), "", 410),
    "password": Shown(whole("/password/")),
    "overview": Shown("?period=30d"),
    "overview of a viewer": Shown("", "vik"),
    "empty overview": Shown(whole("/t/empty/")),
    "empty handoffs": Shown(whole("/t/empty/handoffs/")),
    "empty review": Shown(whole("/t/empty/review/")),
    "handoffs": Shown("handoffs/"),
    "handoffs, filtered": Shown("handoffs/?state=rejected&code=chain.circular&quality_max=0.9&trace=nothing"),
    "handoffs, filter not understood": Shown("handoffs/?since=yesterday", status=400),
    "accepted": Shown(handoff(ACCEPTED)),
    "rejected": Shown(handoff(CIRCLE)),
    "rejected, for a viewer": Shown(handoff(CIRCLE), "vik"),
    "held": Shown(handoff(CIRCLE_WITH_REASON)),
    "not JSON": Shown(handoff(NOT_JSON)),
    "universal": Shown(universal),
    "review": Shown("review/", "rui"),
    "review of one": Shown(handoff(CIRCLE_WITH_REASON, "review"), "rui"),
    "review of one without JSON": Shown(handoff(NOT_JSON, "review"), "rui"),
    "strictness": Shown("strictness/"),
    "strictness, editing": Shown("strictness/?edit=visa_check"),
    "strictness, adding": Shown("strictness/?add=1"),
    "strictness, history": Shown("strictness/history/"),
    "strictness, difference": Shown("strictness/compare/?from=1&to=2"),
    "empty rules": Shown(whole("/t/empty/rules/")),
    "empty schemas": Shown(whole("/t/empty/schemas/")),
    "rules": Shown("rules/"),
    "rules of a viewer": Shown("rules/", "vik"),
    "rules, a set": Shown("rules/?set=signal_validation_v1&edit=set"),
    "rules, a rule": Shown("rules/?set=signal_validation_v1&rule=confidence_range"),
    "rules, as JSON": Shown("rules/?json=1"),
    "rules, history": Shown("rules/history/"),
    "rules, difference": Shown("rules/compare/?from=0&to=1"),
    "schemas": Shown("schemas/"),
    "schemas, editing": Shown("schemas/?edit=visa_check"),
    "schemas, adding": Shown("schemas/?add=1"),
    "schemas, history": Shown("schemas/history/"),
    "people": Shown("settings/"),
    "keys": Shown("settings/keys/"),
    "audit": Shown("settings/audit/?check=1"),
    "not allowed": Shown("settings/keys/", "vik", 403),
    "not found": Shown("handoffs/00000000-0000-0000-0000-000000000000/", status=404),
}


@pytest.fixture(scope="module")
def tabs(browser: Browser, signed_in: Callable[[str], Any]) -> Iterator[Callable[[str], tuple[Page, list[str]]]]:
    """One tab a person, with what the browser complained of in it: a new one for each page would take longer."""
    kept: dict[str, tuple[Page, list[str]]] = {}

    def tab(person: str) -> tuple[Page, list[str]]:
        if person not in kept:
            page = browser.new_page(storage_state=signed_in(person) if person else None)
            complaints: list[str] = []
            watch(page, complaints)
            kept[person] = page, complaints
        return kept[person]

    yield tab
    for page, _ in kept.values():
        page.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_readable_and_fits(name, tabs, product, default):
    shown = PAGES[name]
    address = shown.address(product, default) if callable(shown.address) else default.pages + shown.address
    page, complaints = tabs(shown.person)
    complaints.clear()
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": 900})
    answer = page.goto(address)
    assert answer.status == shown.status
    assert_strict(answer.headers["content-security-policy"])
    assert inline_parts(answer.text()) == []
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate(COLOURS_SETTLED)
    assert violations(page) == []
    assert overflow(page) == 0
    assert complaints == []


def test_the_description_of_the_api_is_quiet(open_page, product):
    """It is another project's page: what it looks like is not ours to judge."""
    page = open_page()
    answer = page.goto(f"{product.address}/api/v1/docs")
    assert_strict(answer.headers["content-security-policy"])
    assert inline_parts(answer.text()) == []
    page.get_by_text("Submit one handoff", exact=False).first.wait_for()


def assert_strict(policy: str) -> None:
    directives = {part.split()[0]: part.split()[1:] for part in policy.split(";") if part.strip()}
    assert directives["default-src"] == ["'none'"]
    assert directives["script-src"] == ["'self'"]
    assert directives["style-src"] == ["'self'"]
    assert directives["frame-ancestors"] == ["'none'"]
    assert "unsafe" not in policy
