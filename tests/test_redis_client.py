"""Tests of the cache that counts failed sign-ins, without and with Redis."""

import pytest

from handoffaudit.redis_client import FallbackCache


def test_without_redis_the_process_counts_for_itself() -> None:
    cache = FallbackCache("redis://127.0.0.1:1/0", {"OPTIONS": {"socket_connect_timeout": 1}})
    assert cache.get("failures", []) == []
    cache.set("failures", [1.0], 60)
    assert cache.get("failures") == [1.0]
    assert cache.add("failures", [], 60) is False
    assert "failures" in cache
    cache.delete("failures")
    assert cache.get("failures") is None


@pytest.mark.services
def test_with_redis_processes_share_their_counts(redis_url: str) -> None:
    one, other = FallbackCache(redis_url, {}), FallbackCache(redis_url, {})
    one.set("failures", [1.0], 60)
    assert other.get("failures") == [1.0]
    other.delete("failures")
    assert one.get("failures") is None
