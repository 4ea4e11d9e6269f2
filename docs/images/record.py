"""Record the demonstration: `python docs/images/record.py` writes demo.webp and the screenshots beside it.

The script runs `handoffaudit demo`, signs in, watches the agents in Chromium, and decides the held handoff, as a reader
would. It needs the extras `demo`, `docs` and `test`, handoffaudit-client, and Chromium.
"""

import io
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
PORT = 8093
ADDRESS = f"http://127.0.0.1:{PORT}"
SIZE = {"width": 1280, "height": 800}
FRAME_SECONDS = 0.5
RECORDED_WIDTH = 960
# The last picture of a scene stays for this time.
REST_MS = 2500
PATIENCE_SECONDS = 60


class Demo:
    """The demonstration as a process on a terminal of its own, with what it has printed."""

    def __init__(self) -> None:
        self._terminal, end = pty.openpty()
        command = [sys.executable, "-m", "handoffaudit", "demo", "--port", str(PORT), "--pace", "1"]
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=end, stdout=end, stderr=end, start_new_session=True
        )
        self.printed = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                text = os.read(self._terminal, 4096).decode(errors="replace")
            except OSError:
                return
            self.printed += re.sub(r"\x1b\[[0-9;]*m", "", text)

    def wait_for(self, pattern: str) -> str:
        """Return the first group of a pattern as soon as it is printed."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            if found := re.search(pattern, self.printed):
                return found[found.re.groups]
            time.sleep(0.1)
        raise SystemExit(f"{pattern!r} was not printed:\n{self.printed}")

    def press_enter(self) -> None:
        os.write(self._terminal, b"\n")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(20)


class Film:
    """Pictures of a page with the time that each stays, in milliseconds; equal pictures are joined."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[tuple[bytes, int]] = []

    def watch(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            self._add(self._page.screenshot(), round(FRAME_SECONDS * 1000))
            time.sleep(max(0.0, FRAME_SECONDS - (time.monotonic() - began)))

    def rest(self) -> None:
        self._add(self._page.screenshot(), REST_MS)

    def _add(self, picture: bytes, duration: int) -> None:
        if self._frames and self._frames[-1][0] == picture:
            self._frames[-1] = (picture, self._frames[-1][1] + duration)
        else:
            self._frames.append((picture, duration))

    def save(self, path: Path) -> None:
        size = RECORDED_WIDTH, SIZE["height"] * RECORDED_WIDTH // SIZE["width"]
        pictures = [Image.open(io.BytesIO(picture)).convert("RGB").resize(size) for picture, _ in self._frames]
        durations = [min(duration, REST_MS) for _, duration in self._frames]
        pictures[0].save(
            path, save_all=True, append_images=pictures[1:], duration=durations, loop=0, quality=70, method=6
        )


def record(demo: Demo, page: Page) -> None:
    link = demo.wait_for(r"Sign in\s+(\S*?/welcome/\S+/)")
    demo.wait_for(r"press Enter")
    sign_in(page, link)
    page.goto(f"{ADDRESS}/t/default/handoffs/")
    film = Film(page)
    film.watch(1)
    demo.press_enter()
    held = re.compile(r"Your turn: approve or decline it on (\S+)")
    while not held.search(demo.printed):
        show_new(page)
        film.watch(1)
    film.watch(5)
    show_new(page)
    film.rest()
    page.get_by_role("row").filter(has_text="Ungrounded").locator("a.row-link").click()
    film.watch(2)
    page.screenshot(path=HERE / "rejected.png")
    film.rest()
    page.goto(demo.wait_for(held.pattern))
    page.screenshot(path=HERE / "held.png")
    film.rest()
    page.get_by_role("button", name=re.compile("^Approve")).first.click()
    film.watch(2)
    demo.wait_for("The crew has finished")
    page.goto(f"{ADDRESS}/t/default/traces/")
    film.rest()
    film.save(HERE / "demo.webp")


def show_new(page: Page) -> None:
    """Press the button that shows the handoffs that have arrived, if it is there."""
    button = page.get_by_role("link", name=re.compile("new, show")).or_(
        page.get_by_role("button", name=re.compile("new, show"))
    )
    if button.is_visible():
        button.click()


def sign_in(page: Page, link: str) -> None:
    page.goto(link)
    for field in page.locator("input[type=password]").all():
        field.fill("a demonstration of handoffs")
    page.locator("form button[type=submit]").first.click()
    page.wait_for_url(re.compile(r"/t/default/"))


def main() -> None:
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    demo = Demo()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, device_scale_factor=1)
            record(demo, page)
            browser.close()
    finally:
        demo.stop()


if __name__ == "__main__":
    main()
