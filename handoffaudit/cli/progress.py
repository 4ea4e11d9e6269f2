"""How far a command is that takes long, in words."""

import sys
import time
from collections.abc import Callable

QUIET_SECONDS, LINE_SECONDS = 1.0, 2.0


class Progress:
    """A line now and then on standard error, once it takes longer than a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_SECONDS
        self._drawn = False
        self._terminal = sys.stderr.isatty()

    def tell(self, said: Callable[[], str]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._terminal else LINE_SECONDS)
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{said()}" if self._terminal else f"{said()}\n")
        sys.stderr.flush()

    def finish(self) -> None:
        if self._drawn and self._terminal:
            sys.stderr.write("\r\x1b[K")
