"""Tests of the choice of the Redis database of each test process."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.redis_databases import NoSuchDatabase, url_of_worker
from tests.running.conftest import clean_environment


@pytest.mark.parametrize(
    ("given", "worker", "url"),
    [
        ("redis://127.0.0.1:6379/4", 0, "redis://127.0.0.1:6379/4"),
        ("redis://127.0.0.1:6379/4", 11, "redis://127.0.0.1:6379/15"),
        ("redis://127.0.0.1:6379", 3, "redis://127.0.0.1:6379/3"),
        ("redis://127.0.0.1:6379/", 3, "redis://127.0.0.1:6379/3"),
        ("rediss://me:a%2Fb@host:1/2?health_check_interval=2", 1, "rediss://me:a%2Fb@host:1/3?health_check_interval=2"),
        ("redis://host?db=2", 1, "redis://host?db=3"),
        ("unix:///run/redis.sock", 2, "unix:///run/redis.sock?db=2"),
        ("unix:///run/redis.sock?db=1", 2, "unix:///run/redis.sock?db=3"),
    ],
)
def test_each_process_has_a_database_of_its_own(given: str, worker: int, url: str) -> None:
    assert url_of_worker(given, worker) == url
    used = redis.ConnectionPool.from_url(url).connection_kwargs.get("db", 0)
    assert used == redis.ConnectionPool.from_url(given).connection_kwargs.get("db", 0) + worker


@pytest.mark.parametrize(
    ("given", "worker", "said"),
    [
        ("redis://host/12", 4, "test process 4 would use database 16, and Redis has 16, from 0 to 15"),
        ("redis://host/cache", 0, "'cache' is not the number of a database"),
        ("redis://host?db=-1", 0, "'-1' is not the number of a database"),
    ],
)
def test_what_cannot_be_used_is_said(given: str, worker: int, said: str) -> None:
    with pytest.raises(NoSuchDatabase, match=said):
        url_of_worker(given, worker)


def test_a_run_with_too_many_processes_ends_before_it_starts_them() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--collect-only", __file__],
        cwd=Path(__file__).parents[1],
        # Where this test is run by a test process, the new one is none.
        env=clean_environment(REDIS_URL="redis://127.0.0.1:6379/15", PYTEST_XDIST_WORKER=""),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 4
    assert "test process 1 would use database 16" in done.stderr
