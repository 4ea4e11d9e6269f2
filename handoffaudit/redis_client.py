"""Connections to Redis, and the cache on Redis. Redis only makes things faster, so waits for Redis are short."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache

if TYPE_CHECKING:
    import redis

CONNECT_SECONDS = 1.0

ANSWER_SECONDS = 2.0

PAUSE_SECONDS = 1.0


def connect(*, answer_seconds: float | None = ANSWER_SECONDS) -> "redis.Redis":
    """Return a client of `REDIS_URL` with short timeouts and without retries.

    With None as `answer_seconds`, the client waits for an answer without a limit.
    """
    import redis  # noqa: PLC0415 -- 6 MB, which an installation without Redis saves
    from redis.backoff import NoBackoff  # noqa: PLC0415
    from redis.retry import Retry  # noqa: PLC0415

    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=answer_seconds,
        retry=Retry(NoBackoff(), 0),
    )


class ServerBreaker:
    """A breaker that keeps callers away from a failed server for a moment.

    Without the breaker, each caller would wait for the server's timeout.
    """

    def __init__(self, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._pause_seconds = pause_seconds
        self._lock = threading.Lock()
        self._open_until = 0.0
        self._is_failing = False

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self._open_until

    def fail(self) -> bool:
        """Open the breaker. Return whether this is the first failure after a success, which deserves a log line."""
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


class FallbackCache(RedisCache):
    """Django's Redis cache with a fallback to process memory, so that people can still sign in without Redis."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._memory = LocMemCache("without-redis", {})
        self._breaker = ServerBreaker()

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        if not self._breaker.is_open:
            from redis import RedisError  # noqa: PLC0415

            try:
                found = getattr(super(), name)(*arguments, **named)
            except RedisError:
                self._breaker.fail()
            else:
                self._breaker.succeed()
                return found
        return getattr(self._memory, name)(*arguments, **named)


def _fall_back(name: str) -> Callable[..., Any]:
    def method(self: FallbackCache, *arguments: Any, **named: Any) -> Any:
        return self._call(name, *arguments, **named)

    method.__name__ = name
    return method


for _name in (
    "add",
    "get",
    "set",
    "touch",
    "delete",
    "get_many",
    "set_many",
    "delete_many",
    "has_key",
    "incr",
    "clear",
):
    setattr(FallbackCache, _name, _fall_back(_name))
