"""Browser tests of lists: notes about newer rows, filters and saved views."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.product import Sender
from tests.browser.watching import overflow, settled
from tests.running.conftest import wait_for

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]


def sent(sender: Sender, trace_id: str | None = None, **changes: Any) -> str:
    document = {
        "source_agent_id": "lister",
        "target_agent_id": "writer",
        "tenant_id": "default",
        "call_chain": ["lister"],
        "handoff_type": "message",
        "data": {"text": "Three sources agree on the date."},
        **changes,
    }
    submission = {"document": document, "format": "payload"} | ({"trace_id": trace_id} if trace_id else {})
    answer = sender.api.post("/handoffs", json=submission, headers={"Prefer": "wait=30"})
    assert answer.status_code in (200, 202), answer.text
    return str(answer.json()["id"])


def heights(rows: Locator) -> set[int]:
    return set(rows.evaluate_all("rows => rows.map((row) => row.offsetHeight)"))


def test_a_row_is_one_line(open_page: OpenPage, default: Sender) -> None:
    """The icons that filter by a value must not take a line of their own beside a state."""
    sent(default)
    page = open_page("rui")
    # The column of the state is narrower here than on a wider screen.
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{default.pages}handoffs/?source=lister")
    assert max(heights(page.locator("#rows tbody tr"))) < 45


def test_the_id_of_a_trace_is_whole_for_the_keyboard_and_for_copies(open_page: OpenPage, default: Sender) -> None:
    trace = "2026-02-15T10:00:00Z-a-run-with-a-long-name-7"
    sent(default, trace, source_agent_id="tracer", call_chain=["tracer"])
    page = open_page("rui")
    page.goto(f"{default.pages}handoffs/?source=tracer")
    link = page.get_by_role("link", name=trace, exact=True)
    assert link.evaluate("(link) => link.scrollWidth > link.clientWidth")
    assert max(heights(page.locator("#rows tbody tr"))) < 45
    assert overflow(page) == 0
    # Both are as wide as the same number of characters, so a cut id begins where a short id begins.
    sent(default, "iiiiiiiiiiii", source_agent_id="tracer", call_chain=["tracer"])
    page.goto(f"{default.pages}handoffs/?source=tracer")
    widths = [one.bounding_box()["width"] for one in page.locator(".trace-link").all()]
    assert len(widths) == 2
    assert abs(widths[0] - widths[1]) < 2
    assert (
        link.evaluate("(link) => { getSelection().selectAllChildren(link); return String(getSelection()); }") == trace
    )
    assert page.evaluate("(trace) => find(trace, false, false, true)", trace)
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(trace)
    # The column is not shown on a small screen.
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{default.pages}handoffs/?source=tracer")
    expect(link).to_have_count(0)
    assert overflow(page) == 0


def test_a_finding_is_a_row_of_44_pixels_however_long_its_names_are(open_page: OpenPage, default: Sender) -> None:
    name = "an-agent-whose-name-is-very-long-" * 3
    data = {"a_field_with_a_very_long_name_" + "x" * 60: {"text": "It is done."}}
    sent(default, source_agent_id=name, call_chain=["writer", name], data=data)
    wait_for(lambda: default.api.get("/groups", params={"source": name}).json()["items"])
    page = open_page("rui")
    for width in (1100, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{default.pages}groups/")
        rows = page.locator(".groups > .group")
        assert heights(rows) <= {43, 44}
        assert page.locator(".group-where .agent").evaluate_all(
            "names => names.every((name) => name.offsetHeight < 24)"
        )
        assert overflow(page) == 0
    page.locator("[data-row]").first.click()
    expect(page.locator(".panel-body")).to_be_visible()
    assert heights(rows) <= {43, 44}
    expect(page.locator(".panel .group-figures dt")).to_have_count(5)
    assert all(one.is_visible() for one in page.locator(".panel .group-figures dt").all())


def test_the_focus_stays_on_the_head_that_sorted_the_list(open_page: OpenPage, default: Sender) -> None:
    sent(default)
    for javascript in (True, False):
        page = open_page("rui", javascript=javascript)
        for path in ("handoffs/", "groups/", "traces/", "agents/?period=30d"):
            page.goto(f"{default.pages}{path}")
            head = page.locator("a.sort").last
            head.focus()
            page.keyboard.press("Enter")
            page.wait_for_url(re.compile("#sort-"))
            expect(head).to_be_focused()
            expect(head).to_be_in_viewport()


@pytest.mark.parametrize(
    ("path", "order", "sort"),
    [("handoffs", "Lowest score first", "score"), ("traces", "Earliest start first", "started")],
)
def test_a_list_is_sorted_on_a_small_screen(
    open_page: OpenPage, default: Sender, path: str, order: str, sort: str
) -> None:
    page = open_page("rui", width=390)
    page.goto(f"{default.pages}{path}/?saved=all")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Order").select_option(order)
    expect(page).to_have_url(re.compile(f"sort={sort}"))
    expect(page.locator("caption")).to_have_text(f"{path.capitalize()}, {order.lower()}")
    assert overflow(page) == 0


@pytest.mark.parametrize(("path", "number"), [("handoffs", 2), ("agents", 7)])
def test_the_heads_that_sort_a_list_and_its_numbers_are_shown_on_a_small_screen(
    open_page: OpenPage, default: Sender, path: str, number: int
) -> None:
    sent(default)
    page = open_page("rui", width=390)
    page.goto(f"{default.pages}{path}/")
    heads = page.locator("a.sort")
    expect(heads).to_have_count(number)
    assert all(one.is_visible() for one in heads.all())
    table = page.locator("#rows, table:has(#rows)").first
    assert table.evaluate("(table) => table.parentElement.scrollWidth <= table.parentElement.clientWidth")
    assert overflow(page) == 0


def test_an_empty_list_shows_its_first_row_by_itself(open_page: OpenPage, default: Sender) -> None:
    page = open_page("rui")
    page.clock.install()
    page.goto(f"{default.pages}handoffs/?source=beginner")
    expect(page.locator("main .empty")).to_be_visible()
    sent(default, source_agent_id="beginner", call_chain=["beginner"])
    wake(page)
    expect(page.locator("#rows tbody tr")).to_have_count(1)


def wake(page: Page) -> None:
    """Simulate a person who returns to the tab after a while."""
    page.clock.run_for(61_000)
    page.mouse.move(200, 300)
    page.mouse.move(210, 310)


def test_the_list_can_be_skipped_to_while_it_has_rows(open_page: OpenPage, default: Sender) -> None:
    sent(default, source_agent_id="skipped", call_chain=["skipped"])
    page = open_page("rui")
    skip = page.get_by_role("link", name="Skip to the list")
    page.goto(f"{default.pages}handoffs/?source=skipped")
    expect(skip).to_have_count(1)
    page.get_by_label("Type", exact=True).fill("no-such-type")
    page.keyboard.press("Enter")
    expect(page.locator("main .empty")).to_be_visible()
    expect(skip).to_have_count(0)
    page.get_by_label("Type", exact=True).fill("message")
    page.keyboard.press("Enter")
    expect(page.locator("#rows")).to_be_visible()
    expect(skip).to_have_count(1)


def test_a_list_follows_what_happens_and_moves_nothing(open_page: OpenPage, default: Sender) -> None:
    held = sent(default, call_chain=["a", "b", "c", "d", "e", "lister"])
    page = open_page("rui")
    page.clock.install()
    page.goto(f"{default.pages}handoffs/?source=lister")
    row = page.get_by_role("row").filter(has=page.locator(f"a[href*='{held}']"))
    expect(row.locator(".col-state")).to_contain_text("held")
    row.locator(".row-link").focus()
    rows = page.get_by_role("row").count()
    reviewed = default.api.post(f"/handoffs/{held}/review", json={"decision": "approve", "note": ""})
    assert reviewed.status_code == 200, reviewed.text
    sent(default)
    wake(page)
    expect(row.locator(".col-state")).to_contain_text("approved")
    expect(page.get_by_role("link", name="1 new, show")).to_be_visible()
    assert page.get_by_role("row").count() == rows
    expect(row.locator(".row-link")).to_be_focused()
    expect(page.locator("#live-told")).to_have_text("1 new handoff")
    page.get_by_role("link", name="1 new, show").click()
    expect(page.get_by_role("row")).to_have_count(rows + 1)


def test_filters_are_sent_once_and_kept_as_a_view(open_page: OpenPage, default: Sender) -> None:
    sent(default)
    page = open_page("mara")
    page.goto(f"{default.pages}handoffs/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.headers.get("hx-target") else None)
    page.keyboard.press("f")
    page.get_by_label("Source", exact=True).fill("lister")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=re.compile("Remove the filter Source"))).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?source=lister$"))
    page.wait_for_timeout(300)
    assert len(asked) == 1, asked
    page.get_by_text("Save view").click()
    page.get_by_label("Name of the view").fill("By the lister")
    page.get_by_role("button", name="Save", exact=True).click()
    tab = page.get_by_role("navigation", name="Views").get_by_role("link", name="By the lister")
    expect(tab).to_have_attribute("aria-current", "true")
    settled(page)
    # A page without a search box of its own searches everything.
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search handoffs")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_text("held", exact=True).first.click()
    expect(tab).to_contain_text("modified")
    page.get_by_text("Edit view").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The view By the lister is deleted.")).to_be_visible()


def test_views_and_files_need_no_javascript(open_page: OpenPage, default: Sender) -> None:
    sent(default)
    page = open_page("rui", javascript=False)
    page.goto(f"{default.pages}handoffs/?source=lister")
    page.get_by_text("Save view").click()
    page.get_by_label("Name of the view").fill("Plain")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("The view Plain is saved.")).to_be_visible()
    page.get_by_text("Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV for a spreadsheet").click()
    assert re.fullmatch(r"default-handoffs-source-lister-\d{4}-\d\d-\d\d\.csv", download.value.suggested_filename)
    page.get_by_text("Edit view").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The view Plain is deleted.")).to_be_visible()


def test_a_long_name_without_a_space_fits_a_narrow_window(open_page: OpenPage, default: Sender) -> None:
    name = "n" * 200
    handoff = sent(default, source_agent_id=name, handoff_type=name, call_chain=["writer", name])
    page = open_page("rui", width=390)
    for address in (
        f"handoffs/{handoff}/",
        f"review/{handoff}/",
        f"agents/{name}/",
        "agents/",
        f"handoffs/?source={name}",
    ):
        page.goto(f"{default.pages}{address}")
        settled(page)
        assert overflow(page) == 0, address
    # A long type leaves room for the state.
    assert page.locator(".col-state .tag").first.bounding_box()["width"] > 60


@pytest.mark.parametrize(("path", "label"), [("handoffs", "Type"), ("traces", "Order"), ("groups", "Order")])
def test_filters_are_folded_on_a_small_screen_only(open_page: OpenPage, default: Sender, path: str, label: str) -> None:
    sent(default)
    page = open_page("rui", width=390)
    page.goto(f"{default.pages}{path}/?saved=all")
    field, fold = page.get_by_label(label, exact=True), page.get_by_text("Filters", exact=True)
    expect(field).to_be_hidden()
    assert page.locator("#rows :is(tbody tr, .group-line)").first.bounding_box()["y"] < 450
    fold.press("Enter")
    expect(field).to_be_visible()
    fold.press("Enter")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(field).to_be_visible()
    expect(fold).to_be_hidden()


def test_a_table_that_goes_on_says_so_and_a_checkbox_is_on_its_line(open_page: OpenPage, default: Sender) -> None:
    sent(default)
    page = open_page("rui", width=390)
    page.goto(f"{default.pages}traces/?saved=all")
    table = page.locator(".table-scroll")
    assert (
        table.evaluate("(box) => getComputedStyle(box).backgroundAttachment") == "local, local, scroll, scroll, scroll"
    )
    box, link = table.locator(".row-select").first.bounding_box(), table.locator("a.row-link").first.bounding_box()
    assert abs(box["y"] + box["height"] / 2 - link["y"] - link["height"] / 2) < 5
