"""Tests of senders and of /readyz while the database is locked or does not answer."""

import contextlib
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import psycopg
import pytest

from tests.endurance.servers import OwnPostgres, find_programs
from tests.handoffs.support import payload
from tests.resilience.processes import Installation, eventually

# Other tests beside these would take the time that the product has to answer.
pytestmark = pytest.mark.nightly

# The product has 32 threads.
SENDERS = 45
# A loaded machine starts threads and processes late.
SLACK = 1.0


class Senders:
    """Senders that submit one handoff each, at the same moment."""

    def __init__(self, installation: Installation, number: int = SENDERS) -> None:
        # A client of its own for each would take longer to make than the answers.
        self._client = installation.client()
        self.statuses: list[int] = []
        self.slowest = 0.0
        self.retries: list[str] = []
        self._threads = [threading.Thread(target=self._send) for _ in range(number)]

    def _send(self) -> None:
        started = time.monotonic()
        answer = self._client.post("/handoffs", json=payload())
        self.slowest = max(self.slowest, time.monotonic() - started)
        self.statuses.append(answer.status_code)
        self.retries.append(answer.headers.get("Retry-After", ""))

    def start(self) -> "Senders":
        for thread in self._threads:
            thread.start()
        return self

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._client.close()


def ask_ready(installation: Installation) -> tuple[str, float]:
    started = time.monotonic()
    found = httpx.get(f"{installation.url}/readyz", timeout=60).json()["checks"]["database"]
    return found, time.monotonic() - started


@contextlib.contextmanager
def locked_file(installation: Installation) -> Iterator[None]:
    file = installation.folder / "handoffaudit.sqlite3"
    with contextlib.closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.parametrize("installation", ["embedded"], indirect=True)
def test_nobody_waits_long_for_a_locked_sqlite_file(installation: Installation) -> None:
    installation.web()
    with locked_file(installation):
        senders = Senders(installation).start()
        time.sleep(1.5)
        said, took = ask_ready(installation)
        senders.join()
    assert ("is locked" in said, took < 2 + SLACK) == (True, True)
    assert Counter(senders.statuses) == {503: SENDERS}
    assert set(senders.retries) == {"2"}
    assert senders.slowest < 5 + SLACK
    after = Senders(installation).start()
    after.join()
    assert Counter(after.statuses) == {202: SENDERS}
    assert ask_ready(installation)[0] == "ok"


@pytest.fixture(scope="module")
def postgres() -> Iterator[OwnPostgres]:
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed")
    server = OwnPostgres(programs)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def _on_postgres(tmp_path_factory: pytest.TempPathFactory, postgres: OwnPostgres) -> Installation:
    return Installation(tmp_path_factory.mktemp("own") / "data", {"DATABASE_URL": postgres.url})


@pytest.fixture
def on_postgres(_on_postgres: Installation) -> Iterator[Installation]:
    _on_postgres.web()
    # The pool opens all its connections.
    senders = Senders(_on_postgres).start()
    senders.join()
    assert Counter(senders.statuses) == {202: SENDERS}
    yield _on_postgres
    _on_postgres.clear()


@pytest.mark.services
def test_nobody_waits_long_for_a_server_that_does_not_answer(on_postgres: Installation, postgres: OwnPostgres) -> None:
    with postgres.frozen():
        senders = Senders(on_postgres).start()
        time.sleep(0.5)
        said, took = ask_ready(on_postgres)
        senders.join()
        # The fault is known now.
        again, took_again = ask_ready(on_postgres)
        with on_postgres.client() as client:
            started = time.monotonic()
            listed = client.get("/handoffs?limit=1")
        took_to_list = time.monotonic() - started
    assert ("can't be reached" in said, took < 2 + SLACK) == (True, True)
    assert ("can't be reached" in again, took_again < 2) == (True, True)
    assert (listed.status_code, took_to_list < 5) == (503, True)
    assert Counter(senders.statuses) == {503: SENDERS}
    assert "" not in senders.retries
    assert senders.slowest < 5 + SLACK
    eventually(lambda: ask_ready(on_postgres)[0] == "ok", 30)
    after = Senders(on_postgres).start()
    after.join()
    assert Counter(after.statuses) == {202: SENDERS}


@pytest.mark.services
def test_nobody_waits_long_for_a_locked_table(on_postgres: Installation, postgres: OwnPostgres) -> None:
    with psycopg.connect(postgres.url) as other:
        other.execute("LOCK TABLE handoffs_handoff IN ACCESS EXCLUSIVE MODE")
        senders = Senders(on_postgres).start()
        time.sleep(0.5)
        said, took = ask_ready(on_postgres)
        senders.join()
        other.rollback()
    assert ("is locked" in said, took < 2 + SLACK) == (True, True)
    assert Counter(senders.statuses) == {503: SENDERS}
    assert set(senders.retries) == {"2"}
    assert senders.slowest < 5 + SLACK
    eventually(lambda: ask_ready(on_postgres)[0] == "ok", 30)


@pytest.mark.services
def test_a_slow_query_is_not_ended(on_postgres: Installation, postgres: OwnPostgres) -> None:
    slow = "SELECT pg_sleep(2.5), 7"
    found = on_postgres.run(
        "import handoffaudit.wsgi\n"
        "from django.db import connection\n"
        "with connection.cursor() as cursor:\n"
        f"    cursor.execute({slow!r})\n"
        "    print(type(connection.connection).__name__, cursor.fetchone()[1])"
    )
    assert found == "WatchedConnection 7"


@pytest.mark.services
def test_a_restart_of_the_server_fails_no_later_submission(on_postgres: Installation, postgres: OwnPostgres) -> None:
    postgres.stop()
    postgres.start()
    with on_postgres.client() as client:
        answers = [client.post("/handoffs", json=payload()) for _ in range(15)]
    assert Counter(answer.status_code for answer in answers) == {202: 15}
