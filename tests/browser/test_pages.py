"""Browser tests of every page: wide and narrow, light and dark, with and without JavaScript.

A page logs no errors, moves nothing by itself, is readable for everybody, and has nothing inline.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.browser.conftest import TIMEOUT
from tests.browser.product import ACCEPTED, CIRCLE, CIRCLE_WITH_REASON, NOT_JSON, Product, Sender
from tests.browser.watching import (
    NEWLY_SHOWN,
    dead_ends,
    note_shown,
    overflow,
    shifts,
    unreadable,
    violations,
    watch,
)
from tests.pages import inline_parts
from tests.running.conftest import wait_for
from tests.scale import NIGHTLY, cases

pytestmark = pytest.mark.browser

WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}

Address = Callable[[Product, Sender], str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A page; `address` is below the default tenant's address, or a function that returns the address."""

    address: str | Address
    person: str = "mara"
    status: int = 200


def handoff(handoff_id: str, below: str = "handoffs") -> Address:
    return lambda _, sender: f"{sender.pages}{below}/{sender.get(handoff_id)['id']}/"


def universal(_: Product, sender: Sender) -> str:
    return f"{sender.pages}handoffs/{sender.find(state='accepted', source='planning-petra')['id']}/"


def compared(product: Product, sender: Sender) -> str:
    return f"{handoff(CIRCLE)(product, sender)}compare/?with={sender.get(ACCEPTED)['id']}"


def trace(_: Product, sender: Sender) -> str:
    return f"{sender.pages}traces/{sender.get(ACCEPTED)['trace_id']}/"


def file_report(**found: Any) -> Address:
    """Return a function that stores the same file report at each call and returns the address of the report's page."""
    about = {"run_id": "run-1", "agent": "planner", "phase": "plan", "expected_path": "run-1/planner/handoff.json"}

    def address(_: Product, sender: Sender) -> str:
        sent = sender.api.post("/handoff-files", json={**about, "timestamp": "2026-02-15T00:15:00Z", **found})
        assert sent.status_code in (200, 201), sent.text
        return f"{sender.pages}diagnostics/files/{sent.json()['id']}/"

    return address


def an_import(product: Product, _: Sender) -> str:
    sender = product.senders["logs"]
    sent = sender.api.post("/logs", params={"source": "pages.log"}, content="neither this nor that\n").json()
    # A page shows another text while a log is still being read.
    wait_for(lambda: sender.api.get(sent["links"]["self"].removeprefix("/api/v1")).json()["finished_at"])
    return f"{sender.pages}diagnostics/logs/import/{sent['id']}/"


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
    "connect": Shown("connect/"),
    "connect, LangGraph": Shown("connect/?with=langgraph"),
    "connect, a viewer": Shown("connect/?with=claude-code", "vik"),
    "help": Shown("help/"),
    "help, searched": Shown("help/?q=circular", "vik"),
    "help, codes": Shown("help/codes/"),
    "help, a guide": Shown("help/guide/operator/"),
    "help, looked up": Shown("help/guide/settings/"),
    "help, a guide with code": Shown("help/guide/developer/", "vik"),
    "help without an account, codes": Shown(whole("/help/codes/")),
    "help without an account, a code": Shown(whole("/help/codes/structure.bad_enum/")),
    "help without an account, problems": Shown(whole("/help/problems/")),
    "help without an account, a problem": Shown(whole("/help/problems/key-needed/")),
    "help, the API": Shown("help/api/"),
    "help, problems": Shown("help/problems/"),
    "help, a call": Shown("help/api/submit_handoff/", "vik"),
    "a code with what is sent along": Shown("diagnostics/codes/grounding.number/"),
    "empty handoffs": Shown(whole("/t/empty/handoffs/")),
    "empty review": Shown(whole("/t/empty/review/")),
    "handoffs": Shown("handoffs/"),
    "handoffs, filtered": Shown("handoffs/?state=rejected&code=chain.circular&quality_max=0.9&trace=nothing"),
    "search": Shown("search/"),
    "search, several found": Shown("search/?q=e"),
    "search, none found": Shown("search/?q=nothing+is+named+so", "vik"),
    "handoffs, filter not understood": Shown("handoffs/?since=yesterday", status=400),
    "traces": Shown("traces/?state=accepted"),
    "empty traces": Shown(whole("/t/empty/traces/")),
    "trace": Shown(trace),
    "trace, all marked": Shown(lambda product, sender: f"{trace(product, sender)}?value=all&lanes=full"),
    "findings": Shown("groups/"),
    "findings, narrowed to nothing": Shown("groups/?status=muted&sort=most&code=chain.circular"),
    "findings, filter not understood": Shown("groups/?sort=oldest", status=400),
    "empty findings": Shown(whole("/t/empty/groups/")),
    "agents": Shown("agents/?period=30d"),
    "empty agents": Shown(whole("/t/empty/agents/")),
    "agent": Shown("agents/planning-petra/"),
    "agent that is not there": Shown("agents/nobody/", status=404),
    "roles": Shown("roles/?agent=planning-petra"),
    "roles, for a viewer": Shown("roles/", "vik"),
    "declared edges": Shown("declared/", "vik"),
    "declared edges, editing": Shown("declared/?seen=1"),
    "accepted": Shown(handoff(ACCEPTED)),
    "rejected": Shown(handoff(CIRCLE)),
    "rejected, for a viewer": Shown(handoff(CIRCLE), "vik"),
    "compared with the last accepted": Shown(compared),
    "compared with none": Shown(lambda product, sender: f"{handoff(NOT_JSON)(product, sender)}compare/", "vik"),
    "compared with what is not there": Shown(
        lambda product, sender: f"{handoff(CIRCLE)(product, sender)}compare/?with=x", status=400
    ),
    "preferences": Shown("preferences/", "vik"),
    "review, assigned to me": Shown("review/?view=mine", "rui"),
    "held": Shown(handoff(CIRCLE_WITH_REASON)),
    "not JSON": Shown(handoff(NOT_JSON)),
    "looked up in a document": Shown(lambda product, sender: f"{handoff(CIRCLE)(product, sender)}?find=e&only=issues"),
    "as it arrived": Shown(lambda product, sender: f"{universal(product, sender)}?view=raw"),
    "universal": Shown(universal),
    "review": Shown("review/", "rui"),
    "review, narrowed": Shown("review/?code=chain.circular&age=1h", "rui"),
    "review, passed on": Shown("review/?view=passed_on", "rui"),
    "review, filter not understood": Shown("review/?age=old", "rui", 400),
    "review of all that match": Shown("review/several/all/", "rui"),
    "review of one": Shown(handoff(CIRCLE_WITH_REASON, "review"), "rui"),
    "review of one without JSON": Shown(handoff(NOT_JSON, "review"), "rui"),
    "strictness": Shown("strictness/"),
    "strictness, editing": Shown("strictness/?edit=visa_check"),
    "strictness, switching": Shown("strictness/?switch=visa_check"),
    "strictness, adding": Shown("strictness/?add=1"),
    "strictness, history": Shown("policies/history/?kind=strictness"),
    "history": Shown("policies/history/"),
    "strictness, difference": Shown("strictness/compare/?from=1&to=2"),
    "empty rules": Shown(whole("/t/empty/rules/")),
    "empty schemas": Shown(whole("/t/empty/schemas/")),
    "rules": Shown("rules/"),
    "rules of a viewer": Shown("rules/", "vik"),
    "rules, a set": Shown("rules/?set=signal_validation_v1&edit=set"),
    "rules, a rule": Shown("rules/?set=signal_validation_v1&rule=confidence_range"),
    "rules, as JSON": Shown("rules/?json=1"),
    "rules, history": Shown("policies/history/?kind=rules"),
    "rules, difference": Shown("rules/compare/?from=0&to=1"),
    "schemas": Shown("schemas/"),
    "schemas, editing": Shown("schemas/?edit=visa_check"),
    "schemas, adding": Shown("schemas/?add=1"),
    "schemas, history": Shown("policies/history/?kind=schemas"),
    "cases": Shown("cases/"),
    "reasons, empty": Shown(whole("/t/empty/diagnostics/")),
    "reasons": Shown("diagnostics/?period=7d"),
    "handoff files, empty": Shown(whole("/t/empty/diagnostics/files/")),
    "handoff file, wrong path": Shown(file_report(file={"exists": False}, elsewhere=["run-1/plan/handoff.json"])),
    "handoff file, not JSON": Shown(
        file_report(
            file={"exists": True, "content": '{"status": "done",}'}, response_text="---HANDOFF---\nSTATUS: done"
        ),
        "vik",
    ),
    "handoff files": Shown("diagnostics/files/?policy=open"),
    "handoff files, filter not understood": Shown("diagnostics/files/?reason=gone", status=400),
    "compliance": Shown("diagnostics/compliance/?period=30d"),
    "noise": Shown("diagnostics/noise/"),
    "noise, empty": Shown(whole("/t/empty/diagnostics/noise/")),
    "why a code": Shown("diagnostics/codes/chain.circular/"),
    "logs, empty": Shown(whole("/t/empty/diagnostics/logs/"), "rui"),
    "logs": Shown(whole("/t/logs/diagnostics/logs/")),
    "logs, filtered": Shown(whole("/t/logs/diagnostics/logs/?kind=health&agent=planner&since=7d&level=error")),
    "logs, filter not understood": Shown(whole("/t/logs/diagnostics/logs/?kind=old"), status=400),
    "logs, imports": Shown(whole("/t/logs/diagnostics/logs/import/"), "rui"),
    "logs, an import": Shown(an_import),
    "model health without a key": Shown(whole("/t/empty/diagnostics/model/")),
    "model health": Shown(whole("/t/model/diagnostics/model/?period=24h")),
    "model health of a viewer": Shown("diagnostics/model/?period=7d", "vik"),
    "overview with alerts": Shown(whole("/t/model/")),
    "prompts": Shown("prompts/"),
    "prompts, adding": Shown("prompts/?add=critique"),
    "prompts, history": Shown("policies/history/?kind=prompts"),
    "gallery": Shown("gallery/", "vik"),
    "people": Shown("settings/"),
    "keys": Shown("settings/keys/"),
    "webhooks": Shown("settings/webhooks/"),
    "webhooks, in use": Shown(whole("/t/model/settings/webhooks/")),
    "a webhook": Shown(whole("/t/model/settings/webhooks/1/")),
    "thresholds": Shown("settings/alerts/"),
    "thresholds, history": Shown("policies/history/?kind=thresholds"),
    "retention": Shown("settings/retention/"),
    "retention, previewed": Shown("settings/retention/?kind=logs&days=30"),
    "retention, refused": Shown("settings/retention/?kind=logs&days=soon", status=400),
    "retention, history": Shown("policies/history/?kind=retention"),
    "alerts": Shown(whole("/t/model/diagnostics/alerts/")),
    "alerts, none": Shown("diagnostics/alerts/", "vik"),
    "audit": Shown("settings/audit/?check=1"),
    "audit, an entry": Shown("settings/audit/1/"),
    "not allowed": Shown("settings/keys/", "vik", 403),
    "not found": Shown("handoffs/00000000-0000-0000-0000-000000000000/", status=404),
}


# These differ from another page of the table in their data or in the person. They are opened at night.
VARIANTS = {
    "overview of a viewer",
    "empty overview",
    "connect, LangGraph",
    "connect, a viewer",
    "help, searched",
    "help, looked up",
    "search, several found",
    "search, none found",
    "empty handoffs",
    "empty review",
    "empty traces",
    "trace, all marked",
    "findings, narrowed to nothing",
    "findings, filter not understood",
    "empty findings",
    "empty agents",
    "roles, for a viewer",
    "rejected, for a viewer",
    "review, narrowed",
    "review, passed on",
    "review, assigned to me",
    "compared with none",
    "compared with what is not there",
    "review, filter not understood",
    "strictness, adding",
    "empty rules",
    "empty schemas",
    "rules of a viewer",
    "strictness, history",
    "rules, history",
    "rules, difference",
    "schemas, adding",
    "schemas, history",
    "reasons, empty",
    "handoff files, empty",
    "handoff files, filter not understood",
    "noise, empty",
    "logs, empty",
    "logs, filter not understood",
    "model health without a key",
    "model health of a viewer",
    "prompts, history",
    "thresholds, history",
    "retention, previewed",
    "retention, history",
    "alerts, none",
    "help without an account, codes",
    "help without an account, problems",
    "help without an account, a problem",
    "help, problems",
    "help, a guide",
    "a code with what is sent along",
    "agent that is not there",
    "declared edges",
    "held",
    "as it arrived",
    "review of one without JSON",
    "strictness, switching",
    "rules, a set",
    "rules, as JSON",
    "handoff file, not JSON",
    "logs, imports",
    "webhooks",
    "retention, refused",
}

CASES = cases(PAGES, PAGES.keys() - VARIANTS)

HEADINGS = "[...document.querySelectorAll('main :is(h1, h2)')].map((each) => each.textContent.trim())"

Tab = tuple[Page, list[str]]


@pytest.fixture(scope="module")
def tabs(browser: Browser, signed_in: Callable[[str], Any]) -> Iterator[Callable[..., Tab]]:
    """Yield a function that returns the tab of a person, with or without JavaScript, and the browser's complaints.

    Each tab is reused, because a new tab for each page would take longer.
    """
    kept: dict[tuple[str, bool], Tab] = {}

    def tab(person: str, *, javascript: bool = True) -> Tab:
        if (person, javascript) not in kept:
            state = signed_in(person) if person else None
            page = browser.new_page(storage_state=state, java_script_enabled=javascript)
            page.set_default_timeout(TIMEOUT)
            complaints: list[str] = []
            watch(page, complaints)
            kept[person, javascript] = page, complaints
        return kept[person, javascript]

    yield tab
    for page, _ in kept.values():
        page.context.close()


def test_every_variant_is_a_page():
    assert set(PAGES) > VARIANTS


@pytest.mark.parametrize("name", CASES)
def test_a_page_is_quiet_still_readable_and_fits(name, tabs, product, default):
    shown = PAGES[name]
    address = shown.address(product, default) if callable(shown.address) else default.pages + shown.address
    page, complaints = tabs(shown.person)
    complaints.clear()
    # A welcome link works once, so the page is not requested again.
    again = name != "welcome"
    if again:
        look(page, "light", NARROW)
        page.goto(address)
        assert shifts(page) == []
    look(page, "light", WIDE)
    answer = page.goto(address)
    assert shifts(page) == []
    assert answer.status == shown.status
    assert_strict(answer.headers["content-security-policy"])
    assert inline_parts(answer.text()) == []
    headings = page.evaluate(HEADINGS)
    assert_accessible(page, first=NARROW if list(PAGES).index(name) % 2 else WIDE)
    assert complaints == []
    if again:
        assert_reads_without_javascript(tabs(shown.person, javascript=False)[0], address, headings)


def assert_accessible(page: Page, *, first: ViewportSize) -> None:
    """Check the page with axe, by day only in the size `first`, because axe takes longer than all else.

    No width changes the colours of what the other shows, too: each theme is checked in one, then what the other adds.
    """
    if NIGHTLY or first == WIDE:
        assert violations(page) == []
        note_shown(page)
    look(page, "dark", NARROW)
    assert overflow(page) == 0
    if NIGHTLY or first == NARROW:
        # The decision stays in view and covers a link here or there, until the reader scrolls to its own place.
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        assert violations(page) == []
    if NIGHTLY:
        look(page, "light", NARROW)
        assert unreadable(page, NEWLY_SHOWN) == []
        note_shown(page)
        look(page, "dark", WIDE)
        assert unreadable(page, NEWLY_SHOWN) == []


def look(page: Page, scheme: str, size: ViewportSize) -> None:
    # Without the motion that buttons fade with from one colour to the next, the new ones are there at once.
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size(size)


def assert_reads_without_javascript(page: Page, address: str, headings: list[str]) -> None:
    page.set_viewport_size(NARROW)
    # Until then style sheets may be missing: without scripts nothing waits for them.
    page.goto(address, wait_until="load")
    assert page.evaluate(HEADINGS) == headings
    assert dead_ends(page) == []
    assert overflow(page) == 0


def test_the_description_of_the_api_is_quiet(open_page, product):
    """Another project makes the page, so its look is not tested."""
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
