"""Tests of the meaning of database errors, from real databases that fail."""

import contextlib
import errno
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connections
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg_pool import ConnectionPool, PoolTimeout

from handoffaudit import database_faults
from handoffaudit.cli import Stop, database
from handoffaudit.database_faults import POOL_WAITS, Cause, fault_of, find_fault


def raised(act) -> BaseException:
    with pytest.raises(Exception) as error:  # noqa: PT011
        act()
    return error.value


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(tmp_path / "one.sqlite3", timeout=0, isolation_level=None)) as opened:
        opened.execute("CREATE TABLE notes (text)")
        yield opened


def test_an_sqlite_file_that_is_locked_full_or_read_only(file: sqlite3.Connection, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "one.sqlite3", timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert fault_of(raised(lambda: file.execute("BEGIN IMMEDIATE"))).cause == Cause.LOCKED
        other.execute("ROLLBACK")
    file.execute("PRAGMA max_page_count = 3")
    full = raised(lambda: [file.execute("INSERT INTO notes VALUES (zeroblob(4096))") for _ in range(9)])
    assert fault_of(full).cause == Cause.FULL
    file.execute("PRAGMA query_only = 1")
    assert fault_of(raised(lambda: file.execute("DELETE FROM notes"))).cause == Cause.READ_ONLY


def test_a_file_that_is_not_there_and_a_folder_without_room(tmp_path: Path) -> None:
    assert fault_of(raised(lambda: sqlite3.connect(tmp_path / "no" / "one.sqlite3"))).cause == Cause.AWAY
    assert fault_of(OSError(errno.ENOSPC, "No space left on device")).cause == Cause.FULL


def test_our_own_bugs_are_no_faults_of_the_database(file: sqlite3.Connection) -> None:
    assert fault_of(raised(lambda: file.execute("SELECT * FROM nothing"))) is None
    assert fault_of(IntegrityError("twice")) is None
    assert fault_of(KeyError("x")) is None


def test_a_writer_is_refused_sooner_while_no_writer_gets_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_faults, "_busy_timeout", lambda: 4000)
    monkeypatch.setattr(database_faults, "MOST_LATE", 0)
    turn = database_faults.WriteTurn()
    waits: list[float] = []

    def write() -> None:
        began = time.monotonic()
        with pytest.raises(database_faults.LockTimeout), turn:
            pass
        waits.append(time.monotonic() - began)

    def try_writing() -> float:
        writer = threading.Thread(target=write)
        writer.start()
        writer.join()
        return waits[-1]

    with turn:
        assert try_writing() >= database_faults.LATE_SECONDS
        assert try_writing() < database_faults.LATE_SECONDS
    with turn:
        assert try_writing() >= database_faults.LATE_SECONDS


def server(url: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> DatabaseWrapper:
    """Return Django's connection to a PostgreSQL server in place of the connection of the tests."""
    parts = urlsplit(url)
    settings = dict(connections["default"].settings_dict)
    settings |= {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname,
        "PORT": parts.port,
        "OPTIONS": options,
        "TIME_ZONE": None,
        "CONN_MAX_AGE": 0,
    }
    wrapper = DatabaseWrapper(settings, alias="faults")
    monkeypatch.setattr(database_faults, "connection", wrapper)
    monkeypatch.setattr(database_faults, "server", database_faults.ServerWatch())
    return wrapper


@pytest.mark.services
@pytest.mark.django_db
def test_a_postgresql_server_that_is_away_is_known_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = {"min_size": 1, "max_size": 2, "timeout": 0.3, "reconnect_timeout": 0.2}
    wrapper = server("postgresql://postgres@127.0.0.1:1/postgres", monkeypatch, pool=pool)
    started = time.monotonic()
    assert find_fault().cause == Cause.AWAY
    error = raised(wrapper.ensure_connection)
    assert isinstance(error, OperationalError)
    assert fault_of(error).cause == Cause.AWAY
    assert time.monotonic() - started < 5
    wrapper.close_pool()


@pytest.mark.services
@pytest.mark.django_db
def test_a_postgresql_server_without_a_free_connection(monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> None:
    one = server(postgres_url, monkeypatch, pool={"min_size": 1, "max_size": 1, "timeout": 0.2})
    assert find_fault() is None
    one.ensure_connection()
    try:
        other = one.copy()
        assert fault_of(raised(other.ensure_connection)).cause == Cause.BUSY
    finally:
        one.close()
        one.close_pool()


@pytest.mark.services
@pytest.mark.django_db
def test_a_postgresql_server_that_lets_too_few_in_or_takes_no_writes(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    role = f"faults_{time.time_ns()}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
        try:
            parts = urlsplit(postgres_url)
            server(f"postgresql://{role}@{parts.hostname}:{parts.port}{parts.path}", monkeypatch)
            assert find_fault().cause == Cause.BUSY
        finally:
            admin.execute(f"DROP ROLE {role}")
    server(postgres_url, monkeypatch, options="-c default_transaction_read_only=on")
    assert find_fault().cause == Cause.READ_ONLY
    with psycopg.connect(postgres_url, options="-c default_transaction_read_only=on") as reader:
        assert fault_of(raised(lambda: reader.execute("CREATE TABLE x (y int)"))).cause == Cause.READ_ONLY


@pytest.mark.services
def test_whoever_waits_for_a_lock_of_postgresql_is_told(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as one, psycopg.connect(postgres_url) as other:
        one.execute("SELECT pg_advisory_xact_lock(4242)")
        other.execute("SET lock_timeout = 20")
        assert fault_of(raised(lambda: other.execute("SELECT pg_advisory_xact_lock(4242)"))).cause == Cause.LOCKED


@pytest.mark.services
def test_the_first_request_finds_a_server_that_is_back(postgres_url: str) -> None:
    class Restarted(psycopg.Connection[Any]):
        is_away = True

        @classmethod
        def connect(cls, *args: Any, **more: Any) -> Any:
            if cls.is_away:
                raise psycopg.OperationalError("the server is away")
            return super().connect(*args, **more)

    with ConnectionPool(postgres_url, connection_class=Restarted, min_size=1, max_size=2, **POOL_WAITS) as pool:
        with pytest.raises(PoolTimeout):
            pool.getconn()
        # Attempts that go on would come 1 and 3 seconds after the first.
        time.sleep(0.4)
        Restarted.is_away = False
        pool.putconn(pool.getconn())


@pytest.mark.parametrize(
    ("error", "free", "remedy"),
    [
        (OSError(errno.ENOSPC, "no room"), 10**12, r"make room\.$"),
        (sqlite3.OperationalError("disk I/O error"), 0, r": 0 MB are free in .*: make room\.$"),
        (sqlite3.OperationalError("disk I/O error"), 10**12, "check the file and its permissions"),
    ],
)
def test_a_command_names_a_full_disk_as_the_cause(monkeypatch, error: Exception, free: int, remedy: str) -> None:
    monkeypatch.setattr(database, "_try_connection", lambda: None)
    monkeypatch.setattr(
        database, "connection", SimpleNamespace(vendor="sqlite", settings_dict={"NAME": "/x/y.sqlite3"})
    )
    monkeypatch.setattr(database_faults, "connection", database.connection)
    monkeypatch.setattr(database_faults.shutil, "disk_usage", lambda _: SimpleNamespace(total=10**12, free=free))
    with pytest.raises(Stop, match=remedy), database.stop_on_database_errors():
        raise OperationalError(str(error)) from error
