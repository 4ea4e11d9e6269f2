"""Warnings, at most one for each kind of trouble at a time, and debug lines."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# If trouble ends and returns, the client warns again, but not within this time after its last warning.
PAUSE_SECONDS = 600.0


class Notices:
    """The notices of the client to its user; the clock is for tests."""

    def __init__(self, *, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._debug = debug
        self._clock = clock
        # The time of the last warning by kind of trouble, and the warned kinds that have not ended.
        self._warned: dict[str, float] = {}
        self._standing: set[str] = set()
        self._lock = threading.RLock()

    def warn(self, kind: str, message: str) -> None:
        """Warn about a kind of trouble, unless the user knows about it already."""
        with self._lock:
            now = self._clock()
            if kind in self._standing or now - self._warned.get(kind, -PAUSE_SECONDS) < PAUSE_SECONDS:
                return
            self._standing.add(kind)
            self._warned[kind] = now
        import logging

        logging.getLogger("handoffaudit_client").warning("handoffaudit: %s", message)

    def end(self, kind: str) -> None:
        """Note that a kind of trouble is over."""
        self._standing.discard(kind)

    def start_in_child(self) -> None:
        """Replace the lock after a fork, because another thread of the parent may have held it."""
        self._lock = threading.RLock()

    def debug(self, message: Callable[[], str]) -> None:
        """Write one line to standard error, if the client was created with `debug=True`."""
        if not self._debug or sys.stderr is None:
            return
        # A daemon may have closed standard error.
        with contextlib.suppress(OSError, ValueError):
            print(f"handoffaudit: {message()}", file=sys.stderr, flush=True)  # noqa: T201
