"""Progress of long commands on standard error, as a line of text or as a bar."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

QUIET_SECONDS, LINE_SECONDS = 1.0, 2.0


class ProgressLine:
    """A progress line, rewritten now and then once the command takes longer than a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS
        self._drawn = False
        self._terminal = sys.stderr.isatty()

    def tell(self, describe: Callable[[], str]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._terminal else LINE_SECONDS)
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{describe()}" if self._terminal else f"{describe()}\n")
        sys.stderr.flush()

    def finish(self) -> None:
        if self._drawn and self._terminal:
            sys.stderr.write("\r\x1b[K")


BAR_SECONDS, BAR_LINE_SECONDS = 0.1, 5.0

BAR_WIDTH = 28


class ProgressBar:
    """A progress bar; `size` is the number of bytes to read, 0 if unknown (standard input)."""

    def __init__(self, size: int, *, show: bool = True, out: TextIO | None = None, noun: str = "documents") -> None:
        self._size = size
        self._out = out or sys.stderr
        self._show = show
        self._noun = noun
        self._bar = self._out.isatty()
        self._began = time.monotonic()
        self._next = self._began + (0 if self._bar else BAR_LINE_SECONDS)

    def update(self, number: int, read_bytes: int) -> None:
        now = time.monotonic()
        if not self._show or now < self._next:
            return
        self._next = now + (BAR_SECONDS if self._bar else BAR_LINE_SECONDS)
        self._draw(number, read_bytes, now)

    def finish(self, number: int) -> None:
        if self._show and self._bar:
            self._draw(number, self._size, time.monotonic())
            self._out.write("\n")

    def _draw(self, number: int, read_bytes: int, now: float) -> None:
        seconds = max(now - self._began, 0.001)
        text = f"{number:,} {self._noun} · {number / seconds:,.0f}/s"
        if self._size:
            share = min(read_bytes / self._size, 1.0)
            left = f" · {_clock(seconds / share - seconds)} left" if 0 < share < 1 else ""
            filled = round(share * BAR_WIDTH)
            bar = f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} " if self._bar else ""
            text = f"{bar}{100 * share:3.0f} % · {text}{left}"
        if self._bar:
            columns = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[K{text[:columns]}")
        else:
            self._out.write(f"{text}\n")
        self._out.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
