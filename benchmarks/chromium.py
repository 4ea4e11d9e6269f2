"""Measurement of pages in a browser: bytes, requests, depth of the request chain, first byte, layout shift."""

import os
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Request

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The parameter of requests that a page makes for an item that nobody has opened yet. Nothing waits for their answers.
AHEAD = "ahead=1"
# Milliseconds.
SETTLED = 500
# Adds up every layout shift that no input explains, from the first paint on.
SHIFTS = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 300);
})"""
FIRST_BYTE = """() => {
  const [way] = performance.getEntriesByType("navigation");
  return way.responseStart - way.requestStart;
}"""


@dataclass(frozen=True, slots=True)
class Seen:
    """The measurements of a page.

    `kilobytes`, `requests` and `depth` belong to the first visit with an empty cache; `kilobytes` are over the wire,
    without fonts. `depth` is the length of the request chain (2: the page, and the files that the page names), without
    requests made ahead. `again_kilobytes` and `first_byte` (milliseconds) belong to later visits. `shift` is the
    largest layout shift of all visits.
    """

    kilobytes: float
    again_kilobytes: float
    requests: int
    depth: int
    shift: float
    first_byte: float
    first_byte_p95: float


@dataclass(frozen=True, slots=True)
class Watched:
    """The requests that an idle tab makes: their number, and the mean bytes out and back, including headers."""

    requests: int
    sent: float
    received: float


@contextmanager
def chromium() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    named = (
        os.environ.get("HANDOFFAUDIT_TEST_CHROMIUM"),
        "chromium",
        "chromium-browser",
        "google-chrome",
        "chromium-headless-shell",
    )
    found = next((path for name in named if name and (path := shutil.which(name))), None)
    if found is None:
        raise RuntimeError("there is no Chromium on the PATH (HANDOFFAUDIT_TEST_CHROMIUM)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def visit(browser: "Browser", address: str, cookie: str, times: int) -> Seen:
    """Visit a page once with an empty cache, then `times` times with the filled cache."""
    with _context(browser, address, cookie) as context:
        first = _Load(context, address)
        later = [_Load(context, address) for _ in range(times)]
    waits = sorted(load.first_byte for load in later)
    return Seen(
        kilobytes=first.size / 1000,
        again_kilobytes=statistics.median(load.size for load in later) / 1000,
        requests=len(first.starters),
        depth=first.depth(),
        shift=max(load.shift for load in (first, *later)),
        first_byte=statistics.median(waits),
        first_byte_p95=waits[min(len(waits) - 1, int(0.95 * len(waits)))],
    )


# A page polls often until some minutes after the person's last action, and then more and more rarely.
_UNTIL_IDLE = 8 * 60


def watch(browser: "Browser", address: str, cookie: str, seconds: int) -> Watched:
    """Watch a tab whose person left 8 minutes ago. The clock of the tab runs fast, and its requests are real."""
    asked: list[int] = []
    answered: list[int] = []

    def note(request: "Request") -> None:
        size = request.sizes()
        asked.append(size["requestHeadersSize"] + size["requestBodySize"])
        answered.append(size["responseHeadersSize"] + size["responseBodySize"])

    with _context(browser, address, cookie) as context:
        page = context.new_page()
        page.clock.install()
        page.goto(address, wait_until="load")
        for second in range(_UNTIL_IDLE + seconds):
            if second == _UNTIL_IDLE:
                page.on("requestfinished", note)
            page.clock.run_for(1000)
            page.wait_for_timeout(15)
        page.close()
    number = max(1, len(asked))
    return Watched(len(asked), sum(asked) / number, sum(answered) / number)


@contextmanager
def _context(browser: "Browser", address: str, cookie: str) -> Iterator["BrowserContext"]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    name, _, value = cookie.partition("=")
    if name:
        # The cookie is for all paths of the server, because a page may redirect to another page.
        context.add_cookies([{"name": name, "value": value, "domain": urlsplit(address).hostname or "", "path": "/"}])
    try:
        yield context
    finally:
        context.close()


class _Load:
    """A visit in a new tab, which uses the cache of its context."""

    def __init__(self, context: "BrowserContext", address: str) -> None:
        self.starters: dict[str, str] = {}
        self.size = 0.0
        self._addresses: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._refused: list[str] = []
        page = context.new_page()
        # Wait until the previous tab is closed, its prefetches are answered, and the process of this tab has started.
        # In normal use, no browser process starts while the server answers.
        page.wait_for_timeout(SETTLED)
        told = context.new_cdp_session(page)
        told.on("Network.requestWillBeSent", self._begun)
        told.on("Network.loadingFinished", self._ended)
        told.on("Network.responseReceived", self._answered)
        told.send("Network.enable")
        answer = page.goto(address, wait_until="load")
        if answer is None or not answer.ok:
            raise RuntimeError(f"{address} was answered with {answer and answer.status}")
        self.shift = float(page.evaluate(SHIFTS))
        self.first_byte = float(page.evaluate(FIRST_BYTE))
        page.close()
        if self._refused:
            raise RuntimeError(f"{address} asked for what was refused: {self._refused}")

    def _begun(self, event: dict[str, Any]) -> None:
        address = event["request"]["url"]
        initiator = event["initiator"]
        frames = initiator.get("stack", {}).get("callFrames", [])
        self.starters.setdefault(address, initiator.get("url") or (frames[0]["url"] if frames else ""))
        self._kinds[event["requestId"]] = event.get("type", "")

    def _answered(self, event: dict[str, Any]) -> None:
        answer = event["response"]
        if answer["status"] >= HTTPStatus.BAD_REQUEST:
            self._refused.append(f"{answer['url']}: {answer['status']}")

    def _ended(self, event: dict[str, Any]) -> None:
        if self._kinds.get(event["requestId"]) != "Font":
            self.size += event["encodedDataLength"]

    def depth(self) -> int:
        def of(address: str, seen: frozenset[str] = frozenset()) -> int:
            starter = self.starters.get(address, "")
            if not starter or starter == address or starter in seen:
                return 1
            return 1 + of(starter, seen | {address})

        needed = (address for address in self.starters if AHEAD not in urlsplit(address).query)
        return max(map(of, needed), default=0)
