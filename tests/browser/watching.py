"""Checks of pages: complaints of the browser, breaches of WCAG, and sideways scrolling."""

import sys
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import ConsoleMessage, Locator, Page, Request, Response, expect

from tests.scale import NIGHTLY

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# `on_response` handles resources that could not be loaded. Leaving a page aborts its open requests, and htmx logs
# that. It logs more about requests that failed otherwise.
HANDLED_ELSEWHERE = ("Failed to load resource", "htmx:sendAbort", "htmx:afterRequest")
# The status of a rejected form, which is shown in its own place on the page.
REFUSALS = (400, 409)

# A button without a script sends its form or opens a popover; a link within the page leads to something.
_DEAD_ENDS = """
() => [...document.querySelectorAll("button, a[href^='#'], summary")].filter((element) => {
  if (!element.checkVisibility({ visibilityProperty: true }) || element.matches(":disabled")) return false;
  if (element.matches("summary")) return !element.parentElement.matches("details");
  if (element.matches("a")) return !document.getElementById(decodeURIComponent(element.hash.slice(1)));
  return !element.hasAttribute("popovertarget") && !(element.form && element.type !== "button");
}).map((element) => element.outerHTML.slice(0, 160))
"""

_SHOWN = """(each) => {
  const box = each.getBoundingClientRect();
  return box.width > 1 && box.height > 1 && each.checkVisibility({ visibilityProperty: true });
}"""
NEWLY_SHOWN = f"[...document.querySelectorAll('body *')].filter((each) => !each.wasShown && ({_SHOWN})(each))"

# What moved by itself, from the first paint on; and tables whose columns move with each row that comes. A busy machine
# can paint a line whose last word has not come yet: what follows that word in the line moves by it, 0.001 at most.
_SHIFTS = """
() => {
  const name = (node) => node?.nodeType === Node.TEXT_NODE ? `in ${name(node.parentElement)}` :
    node ? node.cloneNode().outerHTML?.slice(0, 80) ?? node.nodeName : "what is gone";
  const observer = new PerformanceObserver(() => {});
  observer.observe({ type: "layout-shift", buffered: true });
  const shifts = observer.takeRecords().filter((shift) => !shift.hadRecentInput);
  if (shifts.reduce((sum, shift) => sum + shift.value, 0) < 0.002) return [];
  const told = (shift) => shift.sources.map((source) => name(source.node)).join(", ");
  return shifts.map((shift) => `${shift.value.toFixed(5)}: ${told(shift)}`);
}
"""
_LOOSE_TABLES = """
() => [...document.querySelectorAll("table")].filter((table) => {
  const { display, tableLayout } = getComputedStyle(table);
  return table.checkVisibility() && display === "table" && tableLayout !== "fixed";
}).map((table) => table.cloneNode().outerHTML)
"""

# The time of axe grows with the elements of the page. The rows of a list are alike, so by day axe sees the first ones.
# The others are out of the page meanwhile, because axe also reads what it is told to exclude.
_ROWS_BY_DAY = 4
_RUN = """async ([options, rows]) => {
  const among = AMONG;
  const out = [];
  for (const list of document.querySelectorAll("tbody, ol, ul, dl, svg, svg g")) {
    const counts = new Map();
    for (const row of list.children) {
      const kind = `${row.tagName} ${row.getAttribute("class")}`;
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      if (counts.get(kind) > rows && !row.contains(document.activeElement)) out.push(row);
    }
  }
  const places = out.map((row) => [row.parentNode, row.nextSibling, row]);
  for (const row of out) row.remove();
  try {
    const left = Array.isArray(among) ? among.filter((each) => each.isConnected) : among;
    return left.length === 0 ? [] : (await axe.run(left, options)).violations;
  } finally {
    for (const [list, next, row] of places.reverse()) list.insertBefore(row, next);
  }
}"""


def watch(page: Page, complaints: list[str]) -> None:
    """Add the page's complaints to `complaints` as they arrive."""

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(HANDLED_ELSEWHERE):
            complaints.append(f"{message.type} on {page.url}: {message.text}")

    def on_failure(request: Request) -> None:
        # Leaving a page aborts its open requests.
        if request.failure != "net::ERR_ABORTED":
            complaints.append(f"{request.url} failed: {request.failure}")

    def on_response(response: Response) -> None:
        kind = response.request.resource_type
        refused = kind in ("xhr", "fetch") and response.status in REFUSALS
        if response.status >= 400 and kind != "document" and not refused:
            complaints.append(f"{response.url} was answered {response.status}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(f"{error} on {page.url}"))
    page.on("requestfailed", on_failure)
    page.on("response", on_response)


def violations(page: Page) -> list[str]:
    """Return the violations that axe finds, one line per rule and place."""
    return _violations(page, {"runOnly": {"type": "tag", "values": RULES}})


def unreadable(page: Page, among: str = "document") -> list[str]:
    """Return the violations of colour contrast alone: nothing else changes with the theme."""
    return _violations(page, {"runOnly": {"type": "rule", "values": ["color-contrast"]}}, among)


def note_shown(page: Page) -> None:
    """Mark every element that is shown now, so that `NEWLY_SHOWN` leaves it out."""
    page.evaluate(f"for (const each of document.querySelectorAll('body *')) each.wasShown = ({_SHOWN})(each)")


def shifts(page: Page) -> list[str]:
    """Return the layout shifts of the page load, and the tables whose columns would move on a slower load."""
    page.wait_for_load_state("load")
    # The last shift is reported with the next frame.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return [*page.evaluate(_SHIFTS), *page.evaluate(_LOOSE_TABLES)]


def dead_ends(page: Page) -> list[str]:
    """Return the visible buttons and links that do nothing without a script."""
    return list(page.evaluate(_DEAD_ENDS))


def _violations(page: Page, options: dict[str, Any], among: str = "document") -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    rows = sys.maxsize if NIGHTLY else _ROWS_BY_DAY
    found = page.evaluate(_RUN.replace("AMONG", among), [{"resultTypes": ["violations"], **options}, rows])
    return [f"{each['id']}: {node['html'][:200]} {node['failureSummary']}" for each in found for node in each["nodes"]]


def settled(page: Page) -> None:
    """Wait until htmx has swapped everything: htmx focuses the element with `autofocus` only after a short delay."""
    page.wait_for_load_state()
    expect(page.locator(".htmx-request, .htmx-swapping, .htmx-added, .htmx-settling")).to_have_count(0)


def select_two(page: Page, name: str) -> Locator:
    """Select the first two rows by keys, and return the bar of actions with this name, which appears then."""
    bar = page.get_by_role("form", name=name)
    expect(bar).to_be_hidden()
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(bar).to_be_visible()
    expect(page.locator("#live-told")).to_have_text("2 selected")
    settled(page)
    return bar


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
