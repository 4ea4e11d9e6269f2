"""How many requests a key has made in this minute, counted in this process.

By hand and not by a library: the one that was here started a thread for most requests, and its other storages ask Redis
each time (`docs/decisions/0001-dependencies.md`).
"""

import math
import threading
import time

WINDOW_SECONDS = 60


class RequestRate:
    """Windows of a minute, each from a key's first request on; two numbers are kept for each key."""

    def __init__(self) -> None:
        self._counted: dict[int, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def seconds_to_wait(self, key_id: int, most: int) -> int:
        """Counts a request; 0 where it is within the rate, else the seconds until the next window."""
        now = time.monotonic()
        with self._lock:
            began, number = self._counted.get(key_id, (now, 0))
            if now - began >= WINDOW_SECONDS:
                began, number = now, 0
            self._counted[key_id] = (began, number + 1)
        return 0 if number < most else math.ceil(began + WINDOW_SECONDS - now)
