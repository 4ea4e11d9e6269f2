import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
import redis

from tests.resilience.processes import Installation, OwnRedis

FULL = pytest.param("full", marks=pytest.mark.services, id="postgresql+redis")
# By day, one installation is enough: what is killed and what goes on is the same code.
EMBEDDED = pytest.param("embedded", marks=pytest.mark.nightly)
BOTH = pytest.mark.parametrize("installation", [EMBEDDED, FULL], indirect=True)


@contextmanager
def new_database(postgres_url: str) -> Iterator[str]:
    name = f"handoffaudit_resilience_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
    yield f"{postgres_url.rpartition('/')[0]}/{name}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("embedded") / "data", {})


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory, postgres_url: str, redis_url: str) -> Iterator[Installation]:
    broker = f"{redis_url.rpartition('/')[0]}/9"
    with redis.Redis.from_url(broker) as client:
        client.flushdb()
    with new_database(postgres_url) as url:
        yield Installation(tmp_path_factory.mktemp("full") / "data", {"DATABASE_URL": url, "REDIS_URL": broker})


@pytest.fixture
def installation(request: pytest.FixtureRequest) -> Iterator[Installation]:
    found: Installation = request.getfixturevalue(request.param)
    shared = dict(found.environment)
    yield found
    found.clear()
    found.environment = shared


@pytest.fixture
def own_redis() -> Iterator[OwnRedis]:
    server = OwnRedis()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def with_own_redis(full: Installation, own_redis: OwnRedis) -> Iterator[Installation]:
    shared = full.environment["REDIS_URL"]
    full.environment["REDIS_URL"] = f"redis://127.0.0.1:{own_redis.port}/10"
    yield full
    full.clear()
    full.environment["REDIS_URL"] = shared


@pytest.fixture
def lose_messages(redis_url: str) -> Callable[[Installation], None]:
    def lose(installation: Installation) -> None:
        broker = installation.environment["REDIS_URL"]
        if broker:
            with redis.Redis.from_url(broker) as client:
                client.delete("structural")
        else:
            # The first message makes the folder.
            for message in (installation.folder / "queue" / "messages").glob("*"):
                message.unlink(missing_ok=True)

    return lose
