"""The cache on Redis, which counts failed sign-ins across processes; each process counts alone while Redis is away."""

from collections.abc import Callable
from typing import Any

import redis
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache

from handoffaudit.redis_client import Breaker


class FallbackCache(RedisCache):
    """Django's cache on Redis, which goes on in the memory of the process while Redis is away: people still sign in."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._memory = LocMemCache("without-redis", {})
        self._breaker = Breaker()

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        if not self._breaker.is_open:
            try:
                found = getattr(super(), name)(*arguments, **named)
            except redis.RedisError:
                self._breaker.fail()
            else:
                self._breaker.succeed()
                return found
        return getattr(self._memory, name)(*arguments, **named)


def _guarded(name: str) -> Callable[..., Any]:
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
    setattr(FallbackCache, _name, _guarded(_name))
