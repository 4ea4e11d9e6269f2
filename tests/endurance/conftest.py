"""Fixtures for installations on servers of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endurance.servers import OwnPostgres, find_programs
from tests.resilience.processes import Installation, OwnRedis


@pytest.fixture
def postgres() -> Iterator[OwnPostgres]:
    programs = find_programs()
    if programs is None:
        pytest.fail("no PostgreSQL server is installed")
    server = OwnPostgres(programs)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def redis_server() -> Iterator[OwnRedis]:
    server = OwnRedis()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def installation(tmp_path: Path, postgres: OwnPostgres, redis_server: OwnRedis) -> Iterator[Installation]:
    broker = f"redis://127.0.0.1:{redis_server.port}/0"
    found = Installation(tmp_path / "data", {"DATABASE_URL": postgres.url, "REDIS_URL": broker})
    yield found
    found.clear()
