"""Redis connections of the product. Redis only makes things faster: nothing waits long for it, and nothing needs it."""

import threading
import time

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 2.0
PAUSE_SECONDS = 1.0


def connect(*, answer_seconds: float | None = ANSWER_SECONDS) -> redis.Redis:
    """Return a client of `REDIS_URL` that gives up soon and never repeats a command."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=answer_seconds,
        retry=Retry(NoBackoff(), 0),
    )


class Breaker:
    """Keep callers away from a server for a moment after it failed, so that each of them does not wait for it."""

    def __init__(self, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._pause_seconds = pause_seconds
        self._lock = threading.Lock()
        self._open_until = 0.0
        self._is_failing = False

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self._open_until

    def fail(self) -> bool:
        """Open the breaker. Return whether this is the first failure after a success, which is worth a log line."""
        with self._lock:
            is_first = not self._is_failing
            self._is_failing = True
            self._open_until = time.monotonic() + self._pause_seconds
        return is_first

    def succeed(self) -> None:
        if self._is_failing:
            with self._lock:
                self._is_failing = False
                self._open_until = 0.0
