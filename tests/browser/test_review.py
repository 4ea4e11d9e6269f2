"""Browser tests of the review page: decide several handoffs in a row, undo, reassign, on any screen."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.product import ACCEPTED, CIRCLE, CIRCLE_WITH_REASON, Product, Sender, anew

pytestmark = pytest.mark.browser

MANY = 12
# More than the 100 rows that a page asks about in one request.
MORE_THAN_ASKED = 130


@pytest.fixture
def sender(product: Product) -> Sender:
    """Return the sender of a tenant with an empty review queue."""
    sender = product.senders["desk"]
    sender.empty_queue()
    return sender


def shown(page: Page, reference: str) -> None:
    expect(page.locator("[data-item]")).to_have_attribute("data-item", reference)


def row(page: Page, reference: str) -> Locator:
    return page.locator(f'.queue-row[data-row="{reference}"]')


def opened(open_page: OpenPage, sender: Sender, first: str) -> Page:
    """Return the queue of a reviewer with the first handoff open."""
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    page.keyboard.press("j")
    shown(page, first)
    return page


def submitted(sender: Sender, number: int) -> list[str]:
    return [sender.submit(CIRCLE_WITH_REASON)["id"] for _ in range(number)]


def test_many_are_decided_with_a_key_each_and_the_page_is_never_loaded_again(open_page, sender):
    sent = submitted(sender, MANY)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    page.keyboard.press("j")
    loaded = []
    page.on("request", lambda request: request.is_navigation_request() and loaded.append(request.url))
    for number, reference in enumerate(sent[:-1]):
        shown(page, reference)
        page.keyboard.press("ad"[number % 2])
    shown(page, sent[-1])
    for number, reference in enumerate(sent[:-1]):
        sender.wait_state(reference, ("approved", "declined")[number % 2])
    assert loaded == []
    expect(page.locator(".queue-row")).to_have_count(1)
    page.keyboard.press("a")
    expect(page.get_by_role("heading", name="Nothing waits for a person")).to_be_visible()
    expect(page.locator("#told")).to_contain_text("approved.")
    expect(page.locator("#item")).to_contain_text("You decided")


def test_a_decision_is_undone_with_a_key_and_its_note_is_there_again(open_page, sender):
    first, second = submitted(sender, 2)
    page = opened(open_page, sender, first)
    page.keyboard.press("n")
    page.keyboard.type("Fine by me.")
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    shown(page, second)
    page.keyboard.press("u")
    shown(page, first)
    expect(page.locator("#decide-note")).to_have_value("Fine by me.")
    sender.wait_state(first, "held")
    expect(page.locator("#told")).to_contain_text("held as before")
    expect(page.locator(".queue-row")).to_have_count(2)
    page.keyboard.press("a")
    sender.wait_state(first, "approved")


def test_a_note_stays_with_its_item_while_others_are_looked_at(open_page, sender):
    first, second = submitted(sender, 2)
    page = opened(open_page, sender, first)
    page.keyboard.press("n")
    page.keyboard.type("Ask the planner first.")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    shown(page, second)
    expect(page.locator("#decide-note")).to_have_value("")
    page.keyboard.press("k")
    shown(page, first)
    expect(page.locator("#decide-note")).to_have_value("Ask the planner first.")
    page.reload()
    expect(page.locator("#decide-note")).to_have_value("Ask the planner first.")


def test_a_note_is_not_shown_to_who_signs_in_after_in_the_same_tab(open_page, signed_in, sender):
    first, _ = submitted(sender, 2)
    page = opened(open_page, sender, first)
    page.keyboard.press("n")
    page.keyboard.type("Ask the planner first.")
    page.keyboard.press("Escape")
    page.context.clear_cookies()
    page.context.add_cookies(signed_in("sana")["cookies"])
    page.reload()
    shown(page, first)
    expect(page.locator("#decide-note")).to_have_value("")


def test_what_is_decided_after_the_session_ended_is_not_done_and_keeps_its_note(open_page, sender, signed_in):
    first, _ = submitted(sender, 2)
    page = opened(open_page, sender, first)
    page.context.clear_cookies(name="sessionid")
    page.keyboard.press("n")
    page.keyboard.type("Ask the planner first.")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile("/sign-in/"))
    page.context.add_cookies(signed_in("rui")["cookies"])
    page.goto(f"{sender.pages}review/{first}/")
    shown(page, first)
    expect(page.locator("#decide-note")).to_have_value("Ask the planner first.")
    assert sender.get(first)["state"] == "held"


def test_what_is_reopened_is_told_and_its_note_counts_for_nothing_else(open_page, sender):
    first = sender.submit(CIRCLE)["id"]
    page = opened(open_page, sender, first)
    page.keyboard.press("d")
    expect(page.get_by_role("heading", name="Nothing waits for a person")).to_be_visible()
    expect(page.locator("#told")).to_contain_text("declined.")
    page.locator("#told a").click()
    expect(page.get_by_role("button", name="Reopen")).to_be_visible()
    page.keyboard.press("o")
    expect(page.locator("#decide-note")).to_be_focused()
    page.keyboard.type("Looked again: wrong")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#told")).to_contain_text("reopened: “Looked again: wrong” It waits again, rejected as before.")
    expect(page.locator("#told")).to_be_focused()
    expect(row(page, first)).to_be_visible()
    expect(page.locator("#decide-note")).to_have_value("")
    page.reload()
    expect(page.locator("#decide-note")).to_have_value("")
    page.keyboard.press("a")
    expect(page.locator("#decide-armed")).to_contain_text("needs a note")
    assert sender.get(first)["state"] == "rejected"


def test_one_key_takes_back_one_decision_after_the_other_and_says_when_none_is_left(open_page, sender):
    first, second, third = submitted(sender, 3)
    page = opened(open_page, sender, first)
    page.keyboard.press("a")
    shown(page, second)
    page.keyboard.press("d")
    shown(page, third)
    sender.wait_state(second, "declined")
    page.keyboard.press("u")
    shown(page, second)
    page.reload()
    page.keyboard.press("u")
    shown(page, first)
    expect(page.locator("#told")).to_contain_text("the decision is undone")
    assert [sender.get(each)["state"] for each in (first, second)] == ["held", "held"]
    page.keyboard.press("o")
    expect(page.get_by_role("status").get_by_text("there is nothing to reopen")).to_be_visible()


def test_what_was_searched_or_linked_to_has_the_focus_and_the_title_says_what_is_open(open_page, sender):
    first, _ = submitted(sender, 2)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    page.keyboard.press("/")
    page.keyboard.type("circular chain WITH a reason")
    page.keyboard.press("Enter")
    expect(page.locator("#queue-found")).to_be_focused()
    expect(page.locator("#queue-found")).to_have_text("2 found")
    page.keyboard.press("j")
    shown(page, first)
    expect(page).to_have_title(re.compile(" → .* · Review · "))
    page.locator(".why-title a[href^='#']").first.click()
    expect(page.locator(":target")).to_be_focused()


def test_a_place_has_the_focus_whatever_signs_its_name_has(open_page, sender):
    sent = anew(CIRCLE, "desk")
    sent["document"]["data"]["Größe der Gruppe"] = 3
    reference = sender.api.post("/handoffs", json=sent, headers={"Prefer": "wait=20"}).json()["id"]
    page = open_page("rui")
    page.goto(f"{sender.pages}review/{reference}/")
    page.locator(".tree").get_by_role("link", name="Größe der Gruppe").click()
    expect(page.locator(":target")).to_contain_text("Größe der Gruppe")
    expect(page.locator(":target")).to_be_focused()


def test_enter_on_a_row_goes_into_what_it_opens(open_page, sender):
    first, _ = submitted(sender, 2)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    page.locator(f'.queue-row[data-row="{first}"] .queue-link').focus()
    page.keyboard.press("Enter")
    shown(page, first)
    expect(page.locator("#item-title")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Whole handoff")).to_be_focused()


def test_what_another_decides_is_crossed_out_and_passed_over(open_page, sender):
    first, second = submitted(sender, 2)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    sender.decide(first, "decline")
    expect(row(page, first)).to_contain_text("no longer waiting")
    page.keyboard.press("j")
    shown(page, second)
    page.keyboard.press("k")
    expect(row(page, second).locator("[aria-current]")).to_be_visible()
    sender.decide(first, "reopen")
    expect(row(page, first)).not_to_contain_text("no longer waiting")
    page.keyboard.press("k")
    shown(page, first)


@pytest.mark.nightly
def test_where_more_are_listed_than_are_asked_about_the_next_ones_and_all_that_are_gone_are_known(open_page, sender):
    first, second = submitted(sender, 2)
    page = opened(open_page, sender, first)
    # Rows above the open one of handoffs that are no more: the server says so of all that it is asked about.
    page.locator("#queue-rows").evaluate(
        """(rows, [pk, number]) => {
          const html = rows.querySelector(".queue-row").outerHTML.replace(/ aria-current="true"/, "");
          for (let at = 0; at < number; at += 1) {
            const fresh = crypto.randomUUID();
            const row = html.replaceAll(pk, fresh).replaceAll(pk.replaceAll("-", ""), fresh.replaceAll("-", ""));
            rows.insertAdjacentHTML("afterbegin", row);
          }
        }""",
        [first, MORE_THAN_ASKED],
    )
    crossed_out = page.get_by_text("no longer waiting")
    sender.decide(second, "decline")
    expect(row(page, second)).to_contain_text("no longer waiting")
    expect(crossed_out).to_have_count(MORE_THAN_ASKED + 1)
    sender.decide(second, "reopen")
    expect(row(page, second)).not_to_contain_text("no longer waiting")
    expect(crossed_out).to_have_count(MORE_THAN_ASKED)
    page.keyboard.press("j")
    shown(page, second)


@pytest.mark.nightly
def test_where_another_decides_all_that_is_listed_the_next_key_goes_on_with_what_is_not(open_page, sender):
    def as_of_a_long_queue(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace('data-last="1"', ""))

    sent = submitted(sender, MANY)
    page = open_page("rui")
    page.route("**/review/live/**", as_of_a_long_queue)
    page.goto(f"{sender.pages}review/")
    # The queue as it is where more wait than a page lists.
    more = f"<li class='queue-more'><a class='button' href='{sender.pages}review/?cursor=held:{sent[-1]}'>More</a></li>"
    page.locator("#queue-rows").evaluate("(rows, more) => rows.insertAdjacentHTML('beforeend', more)", more)
    (unlisted,) = submitted(sender, 1)
    for reference in sent:
        sender.decide(reference, "decline")
    expect(page.get_by_text("no longer waiting")).to_have_count(MANY)
    expect(page.get_by_text("1+ more wait.")).to_be_visible()
    page.keyboard.press("j")
    shown(page, unlisted)


def test_a_key_to_decide_says_what_is_so_where_nothing_is_to_be_decided(open_page, sender):
    reference = sender.submit(ACCEPTED)["id"]
    page = open_page("rui")
    page.goto(f"{sender.pages}review/{reference}/")
    for key in "adpo":
        page.keyboard.press(key)
        expect(page.locator("#not-done")).to_have_text(
            "This handoff does not wait for a person: there is nothing to decide."
        )
        page.keyboard.press("k")
        expect(page.locator("#not-done")).to_be_empty()


@pytest.mark.parametrize("width", [390, 1440])
def test_what_was_done_is_in_view_where_one_has_read_far_down(open_page, sender, width):
    first, second = submitted(sender, 2)
    page = open_page("rui", width=width)
    page.goto(f"{sender.pages}review/")
    page.keyboard.press("j")
    shown(page, first)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("d")
    shown(page, second)
    expect(page.locator("#told")).to_contain_text("declined.")
    expect(page.get_by_role("button", name="Undo")).to_be_in_viewport(ratio=1)


def test_the_list_of_keys_begins_at_its_first(open_page, sender):
    page = opened(open_page, sender, submitted(sender, 1)[0])
    page.set_viewport_size({"width": 800, "height": 600})
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys", exact=True)).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


def test_one_is_passed_on_by_keyboard_and_found_by_whom_it_is_for(open_page, sender):
    first, second = submitted(sender, 2)
    page = opened(open_page, sender, first)
    page.keyboard.press("p")
    expect(page.locator("#decide-note")).to_be_focused()
    page.locator("#pass-to").select_option("sana")
    page.locator("#decide-note").focus()
    page.keyboard.type("You know this agent.")
    page.keyboard.press("Control+Enter")
    shown(page, second)
    expect(page.locator("#told")).to_contain_text("assigned to sana")
    assert sender.get(first)["state"] == "held"
    other = open_page("sana")
    other.goto(f"{sender.pages}review/?view=mine")
    other.keyboard.press("j")
    shown(other, first)
    expect(other.locator("#item")).to_contain_text("You know this agent.")
    other.keyboard.press("a")
    sender.wait_state(first, "approved")


def test_a_refused_decision_comes_back_with_its_note(open_page, sender):
    first, second = submitted(sender, 2)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    # What was fetched ahead asks once more whether it is as it was: a decision before that would open it anew.
    with page.expect_response(re.compile(f"/review/{first}/hold/$")):
        page.keyboard.press("j")
    shown(page, first)
    sender.decide(first, "decline")
    page.keyboard.press("n")
    page.keyboard.type("Fine by me.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("nothing was overwritten")
    shown(page, second)
    page.locator("#told a").click()
    shown(page, first)
    expect(page.locator("#decide-note")).to_have_value("Fine by me.")
    assert sender.get(first)["state"] == "declined"


def test_another_reviewers_hold_shows_without_loading_the_page_again(open_page, sender):
    first, second = submitted(sender, 2)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    other = open_page("sana")
    other.goto(f"{sender.pages}review/{second}/")
    expect(page.locator(f"#hold-{second}")).to_contain_text("sana")
    page.keyboard.press("j")
    shown(page, first)
    page.keyboard.press("a")
    sender.wait_state(first, "approved")
    expect(page.get_by_role("heading", name="Other people have all these handoffs open")).to_be_visible()


def test_all_that_match_are_declined_after_saying_how_many(open_page, sender):
    sent = submitted(sender, 3)
    page = open_page("rui")
    page.goto(f"{sender.pages}review/")
    page.keyboard.press("*")
    page.keyboard.press("a")
    expect(page.get_by_role("status").get_by_text("3 selected")).to_be_visible()
    page.get_by_role("link", name="Decide all that match").click()
    page.get_by_role("button", name="Decline all 3").click()
    expect(page.get_by_role("heading", name="3 declined")).to_be_visible()
    assert {sender.get(reference)["state"] for reference in sent} == {"declined"}
    page.get_by_role("button", name="Undo all 3").click()
    expect(page.get_by_role("heading", name="3 wait again")).to_be_visible()
    assert {sender.get(reference)["state"] for reference in sent} == {"held"}


@pytest.mark.parametrize("width", [390, 1440])
def test_without_javascript_a_decision_is_made_undone_and_made_again_with_a_note(open_page, sender, width):
    first, second = submitted(sender, 2)
    page = open_page("rui", width=width, javascript=False)
    page.goto(f"{sender.pages}review/{first}/")
    page.get_by_role("button", name="Approve").click()
    expect(page).to_have_url(re.compile(f"/review/{second}/"))
    expect(page.locator("#told")).to_contain_text("approved.")
    page.locator("#told").get_by_role("button", name="Undo").click()
    expect(page).to_have_url(re.compile(f"/review/{first}/"))
    assert sender.get(first)["state"] == "held"
    page.get_by_role("button", name="Decline").click()
    expect(page.locator("#told")).to_contain_text("declined.")
    page.goto(f"{sender.pages}review/{first}/")
    page.get_by_label("Note").fill("Declined by mistake.")
    page.get_by_role("button", name="Reopen").click()
    sender.wait_state(first, "held")
    assert sender.last_event(first)["reason"] == "Declined by mistake."


def test_what_has_the_focus_is_not_hidden_by_the_bar_to_decide_in(open_page, sender):
    (only,) = submitted(sender, 1)
    page = open_page("rui", width=390)
    page.goto(f"{sender.pages}review/{only}/")
    links = page.locator(".evidence a, .evidence summary, .aside-part a").all()
    assert len(links) > 3
    bar = page.locator(".decide")
    for link in [each for each in links if each.is_visible()]:
        link.evaluate("each => each.focus()")
        seen, covering = link.bounding_box(), bar.bounding_box()
        assert seen["y"] < covering["y"], link.inner_text()


@pytest.fixture(scope="module")
def many_findings(product: Product) -> str:
    """Return the address of a held handoff with 44 fields whose values are in no source."""
    sender = product.senders["doors"]
    document = {
        "handoff_id": "many-findings",
        "source_agent_id": "researcher",
        "target_agent_id": "writer",
        "tenant_id": "doors",
        "call_chain": ["writer", "researcher"],
        "handoff_type": "research_result",
        "handoff_reason": "The writer asked for one more figure.",
        "data": {
            f"item_{number}": f"Acme sold {number * 731} chairs in {number + 12} days." for number in range(1, 45)
        },
    }
    context = {"question": "How many chairs did we sell, and how fast?"}
    sent = sender.api.post("/handoffs", json={"document": document, "context": context}, headers={"Prefer": "wait=20"})
    assert (sent.status_code, sent.json()["state"]) == (200, "held"), sent.text
    return f"{sender.pages}handoffs/{sent.json()['id']}/"


@pytest.mark.parametrize("width", [1440, 390])
def test_verdict_and_decision_are_in_view_however_many_findings_there_are(open_page, many_findings, width):
    page = open_page("rui", width=width)
    page.goto(many_findings)
    expect(page.locator("#why")).to_contain_text("44 ")
    assert page.evaluate("document.documentElement.scrollHeight") > 2 * page.viewport_size["height"]
    expect(page.get_by_role("heading", name="Held")).to_be_in_viewport(ratio=1)
    for place in ("0", "document.documentElement.scrollHeight / 3", "document.documentElement.scrollHeight"):
        page.evaluate(f"window.scrollTo(0, {place})")
        for name in ("Approve", "Decline"):
            expect(page.locator("#decision").get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
