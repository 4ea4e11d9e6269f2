"""Browser tests of prompts: started from the shipped prompts, and dry runs after consent to the cost."""

import re
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from handoffaudit.validation.layers.semantic import FABRICATED
from tests.browser.product import PASSWORD, Product, Sender, product_of
from tests.browser.watching import overflow, violations, watch
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, says
from tests.messages_api.server import MessagesServer, running
from tests.running.conftest import Up, prepared, wait_for

# The product with an LLM takes as long to start as the other tests take. By day, tests/dashboard/policies sends these
# forms.
pytestmark = [
    pytest.mark.browser,
    pytest.mark.nightly,
    pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without JavaScript"]),
]
SHARP = "Doubt the seventh."
DOUBTED = {"field": "number", "kind": "fabricated", "quote": "7", "reason": "Nothing speaks of it."}


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    def respond(request: Request) -> Scripted | None:
        sharp = SHARP in request.system and '"number":7' in request.content
        return says({"valid": False, "issues": [DOUBTED]}) if sharp else None

    with running() as server:
        server.respond = respond
        yield server


@pytest.fixture(scope="module")
def asking(model: MessagesServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Yield the product with an LLM."""
    folder = prepared(tmp_path_factory.mktemp("prompts") / "data")
    up = Up(folder, ANTHROPIC_API_KEY="sk-of-the-tests", ANTHROPIC_BASE_URL=model.url)
    try:
        product = product_of(up.wait_ready())
        yield product
        for sender in product.senders.values():
            sender.api.close()
    finally:
        up.stop()


@pytest.fixture
def sender(asking: Product) -> Sender:
    return asking.senders["desk"]


@pytest.fixture
def page(browser: Browser, asking: Product, sender: Sender, javascript: bool) -> Iterator[Page]:
    """Yield the page of prompts, opened by an administrator."""
    context = browser.new_context(java_script_enabled=javascript, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    watch(page, complaints)
    page.goto(f"{asking.address}/sign-in/")
    page.get_by_label("Name").fill("mara")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1, name="First steps")).to_be_visible()
    page.goto(f"{sender.pages}prompts/")
    yield page
    context.close()
    assert not complaints, "\n".join(complaints)


def rows(sender: Sender) -> list[dict[str, str]]:
    return list(sender.api.get("/prompts").json()["rows"])


def begin(page: Page, handoff_type: str) -> None:
    page.get_by_role("link", name="Start from the shipped prompt Grounding check").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(re.compile("^You check what one AI agent hands over"))
    page.locator("select[name=scope]").select_option("type")
    page.get_by_label("Name of the type or workflow").fill(handoff_type)


def test_one_begins_from_the_shipped_prompt_and_finds_it_again(page, sender, javascript):
    own = f"type_{uuid.uuid4().hex[:8]}"
    begin(page, own)
    expect(page.get_by_text("Always added after the prompt").locator("visible=true")).to_have_count(1)
    page.get_by_label("Prompt", exact=True).fill("Is every amount in the list?")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name=f"For type {own}")).to_be_visible()
    assert [row["text"] for row in rows(sender) if row["handoff_type"] == own] == ["Is every amount in the list?"]
    page.get_by_role("link", name=f"Edit grounding type:{own}").click()
    if javascript:
        assert violations(page) == []
    page.get_by_role("link", name="Start from the shipped prompt", exact=True).click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(re.compile("^You check what one AI agent hands over"))


def test_a_draft_is_tried_once_its_cost_is_agreed_to_and_saved(page, sender, model, javascript):
    own = f"type_{uuid.uuid4().hex[:8]}"
    for number in range(6, 9):
        document = {
            "source_agent_id": "planner",
            "target_agent_id": "writer",
            "tenant_id": sender.tenant,
            "call_chain": ["planner"],
            "handoff_type": own,
            "data": {"number": number, "of": own},
        }
        sent = sender.api.post("/handoffs", json={"document": document}, headers={"Prefer": "wait=20"})
        assert sent.json()["state"] == "accepted", sent.text
    asked = len(model.requests)
    begin(page, own)
    page.get_by_label("Prompt", exact=True).fill(SHARP)
    page.get_by_role("button", name="Start dry run").click()
    told = page.get_by_role("alert")
    expect(told).to_be_focused()
    expect(told).to_contain_text("The draft is for 3 of 3 handoffs. That takes 3 questions to the LLM")
    expect(told).to_contain_text("USD are left of today's budget")
    assert len(model.requests) == asked
    if javascript:
        assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    if javascript:
        assert not overflow(page)
    page.get_by_role("button", name="Ask the LLM").click()
    expect(page.get_by_role("heading", level=1, name="Dry run")).to_be_visible()
    found = page.get_by_text("1 verdict would change, 2 would not.")
    if not javascript:
        wait_for(lambda: page.reload() and found.is_visible())
    expect(found).to_be_visible()
    assert len(model.requests) == asked + 3
    expect(page.get_by_role("table", name="Which ones")).to_contain_text(FABRICATED.title)
    page.get_by_role("button", name="Save this draft").click()
    expect(page.get_by_role("heading", name=f"For type {own}")).to_be_visible()
    assert [row["text"] for row in rows(sender) if row["handoff_type"] == own] == [SHARP]
