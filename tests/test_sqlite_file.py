"""Tests of SQLite files: damage is found in bounded time, and threads share transactions."""

import itertools
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import DatabaseError, OperationalError, connection
from django.db.backends.sqlite3.base import SQLiteCursorWrapper

from handoffaudit import sqlite_file
from handoffaudit.database_faults import Cause, LockTimeout, fault_of, prepare_for_requests
from handoffaudit.sqlite_file import LimitedConnection, SharedWrites, find_damage, is_damage, write_transaction

# It would run for minutes.
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT count(*) FROM n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.sqlite3"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE notes (text TEXT)")
        database.executemany("INSERT INTO notes VALUES (?)", [("x" * 1000,)] * 200)
    database.close()
    return path


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 3 * 4096)


def test_a_whole_file_an_absent_one_and_one_that_is_busy_are_not_damaged(file: Path) -> None:
    assert find_damage(file) == find_damage(file, thorough=True) == find_damage(file.with_name("none")) == ""
    with sqlite3.connect(file) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert find_damage(file, seconds=1) == ""
    writer.close()


def test_damaged_pages_are_found(file: Path) -> None:
    damage(file)
    assert find_damage(file, seconds=5)
    assert "\n" not in find_damage(file, thorough=True)


def test_what_is_no_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"not a database" * 100)
    assert find_damage(path) == "file is not a database"


def test_the_look_ends_in_time(file: Path, monkeypatch) -> None:
    damage(file)
    monkeypatch.setattr(sqlite_file, "_STEPS", 1)
    assert find_damage(file, seconds=0) == ""


def test_an_error_that_was_caused_by_damage_is_told_from_others(file: Path) -> None:
    damage(file)
    with pytest.raises(sqlite3.DatabaseError) as raised, sqlite3.connect(file) as database:
        database.execute("SELECT sum(length(text)) FROM notes").fetchone()
    outer = DatabaseError("as Django wraps it")
    outer.__cause__ = raised.value
    assert is_damage(outer)
    assert not is_damage(sqlite3.OperationalError("disk full"))
    assert not is_damage(None)


def test_readiness_looks_at_the_file_once_in_a_while(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
    watch = sqlite_file.DamageWatch()
    assert not watch.is_damaged()
    damage(file)
    assert not watch.is_damaged()
    watch._check_at = 0
    assert watch.is_damaged()


def add_at_once(write: Callable[[Sequence[int]], list[int]], items: Sequence[int]) -> list[Future[int]]:
    """Add all items while another writer has the turn, so that one thread finds all of them."""
    turn = threading.Lock()
    writes = SharedWrites(write, turn, LockTimeout)
    with ThreadPoolExecutor(len(items)) as pool, turn:
        added = [pool.submit(writes.add, item) for item in items]
        while len(writes._waiting) < len(items):
            time.sleep(0.001)
    return added


def test_threads_share_a_transaction_and_each_gets_its_own_answer() -> None:
    written: list[list[int]] = []

    def write(items: Sequence[int]) -> list[int]:
        written.append(sorted(items))
        return [-item for item in items]

    assert [one.result() for one in add_at_once(write, [1, 2, 3, 4])] == [-1, -2, -3, -4]
    assert written == [[1, 2, 3, 4]]


def test_a_faulty_write_fails_alone_and_a_locked_file_concerns_all() -> None:
    def refuse_two(items: Sequence[int]) -> list[int]:
        if 2 in items:
            raise ValueError
        return list(items)

    answers = add_at_once(refuse_two, [1, 2, 3])
    assert [type(one.exception()) for one in answers] == [type(None), ValueError, type(None)]
    tried: list[int] = []

    def find_locked(items: Sequence[int]) -> list[int]:
        tried.append(len(items))
        raise LockTimeout

    assert [type(one.exception()) for one in add_at_once(find_locked, [1, 2, 3])] == [LockTimeout] * 3
    assert tried == [3]


def test_when_the_writing_thread_ends_the_others_hear_why() -> None:
    def end(items: Sequence[int]) -> list[int]:
        raise SystemExit(3)

    errors = [one.exception() for one in add_at_once(end, [1, 2, 3])]
    assert sorted(type(error).__name__ for error in errors) == ["RuntimeError", "RuntimeError", "SystemExit"]
    ended = "the thread that wrote for several threads ended with SystemExit(3): perhaps this item is not written"
    assert {str(error) for error in errors} == {"3", ended}


class Turn:
    """A lock of writers that refuses one of two writers, if `is_busy` at once, or else while the other one writes."""

    def __init__(self, *, is_busy: bool) -> None:
        self.first = threading.Lock()
        self.is_busy = is_busy
        self.begun, self.refused = threading.Event(), threading.Event()

    def __enter__(self) -> None:
        if self.is_busy:
            self.is_busy = False
            raise LockTimeout
        if self.first.acquire(blocking=False):
            return
        assert self.begun.wait(30)
        self.refused.set()
        raise LockTimeout

    def __exit__(self, *_: object) -> None:
        pass


def test_a_write_without_a_turn_is_withdrawn_and_not_written_later() -> None:
    written: list[int] = []

    def write(items: Sequence[int]) -> list[int]:
        written.extend(items)
        return list(items)

    writes = SharedWrites(write, Turn(is_busy=True), LockTimeout)
    with pytest.raises(LockTimeout):
        writes.add(1)
    assert (writes.add(2), written) == (2, [2])


def test_a_write_that_another_thread_began_is_answered_though_its_own_turn_never_came() -> None:
    turn, batches = Turn(is_busy=False), []

    def write(items: Sequence[int]) -> list[int]:
        batches.append(len(items))
        turn.begun.set()
        assert turn.refused.wait(30)
        return list(items)

    writes = SharedWrites(write, turn, LockTimeout)
    with ThreadPoolExecutor(2) as pool:
        # Neither thread enters the turn before both items wait.
        with writes._writing:
            added = [pool.submit(writes.add, item) for item in (1, 2)]
            while len(writes._waiting) < 2:
                time.sleep(0.001)
        assert [one.result() for one in added] == [1, 2]
    assert batches == [2]


def test_a_failed_transaction_leaves_nothing(file: Path) -> None:
    with sqlite3.connect(file, isolation_level=None) as database:

        def write_half() -> None:
            with write_transaction(database):
                database.execute("DELETE FROM notes")
                database.execute("SELECT * FROM nothing")

        with pytest.raises(sqlite3.OperationalError, match="nothing"):
            write_half()
        with write_transaction(database):
            database.execute("INSERT INTO notes VALUES ('y')")
        assert database.execute("SELECT count(*) FROM notes").fetchone() == (201,)
    database.close()


@pytest.fixture
def limited(file: Path) -> Iterator[LimitedConnection]:
    with closing(sqlite3.connect(file, factory=LimitedConnection, isolation_level=None)) as opened:
        opened.limit_each(0.05)
        yield opened


def test_a_statement_that_takes_too_long_is_interrupted_and_the_next_has_its_own_time(limited) -> None:
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="interrupted") as error:
            limited.execute(ENDLESS)
        assert fault_of(error.value).cause == Cause.SLOW
    assert limited.execute("SELECT count(*) FROM notes").fetchone() == (200,)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda limited, sql: limited.cursor().execute(sql), id="cursor"),
        pytest.param(lambda limited, sql: limited.execute(sql), id="execute"),
        pytest.param(lambda limited, sql: limited.executemany(f"INSERT INTO notes {sql}", [()]), id="executemany"),
    ],
)
def test_statements_do_not_share_a_limit(limited: LimitedConnection, monkeypatch, run) -> None:
    monkeypatch.setattr(sqlite_file, "_STEPS_OF_REQUEST", 100)
    # A clock that advances by 0.01 s with each look makes the time of a statement the same on every machine.
    ticks = (number / 100 for number in itertools.count())
    monkeypatch.setattr(sqlite_file, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    limited.limit_each(0.5)
    for _ in range(10):
        run(limited, ENDLESS.replace("1000000000", "200"))
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        run(limited, ENDLESS.replace("1000000000", "2000"))


def test_a_statement_in_a_transaction_is_not_interrupted(limited: LimitedConnection) -> None:
    with write_transaction(limited):
        limited.execute("DELETE FROM notes")
        limited.execute("INSERT INTO notes " + ENDLESS.replace("1000000000", "300000"))
    assert limited.execute("SELECT text FROM notes").fetchall() == [("300000",)]


def test_the_pauses_of_a_reader_do_not_count(limited: LimitedConnection, monkeypatch) -> None:
    monkeypatch.setattr(sqlite_file, "_PAUSE_SECONDS", 0.005)
    monkeypatch.setattr(sqlite_file, "_STEPS_OF_REQUEST", 100)
    limited.limit_each(0.05)
    rows = 0
    for _ in limited.execute(ENDLESS.replace("count(*)", "i").replace("1000000000", "50")):
        rows += 1
        if rows % 10 == 0:
            time.sleep(0.02)
    assert rows == 50


def test_a_shorter_limit_ends_with_its_block(limited: LimitedConnection) -> None:
    limited.limit_each(20)
    with limited.limit_together(0.01), pytest.raises(sqlite3.OperationalError, match="interrupted"):
        limited.execute(ENDLESS)
    assert limited.execute(ENDLESS.replace("1000000000", "300000")).fetchone() == (300_000,)


def test_a_connection_is_freed_without_the_garbage_collector(file: Path) -> None:
    opened = sqlite3.connect(file, factory=LimitedConnection)
    opened.limit_each(1)
    known = weakref.ref(opened)
    opened.close()
    del opened
    assert known() is None


@pytest.mark.skipif("connection.vendor != 'sqlite'")
@pytest.mark.django_db
def test_requests_have_the_limit(settings) -> None:
    settings.MAX_STATEMENT_SECONDS = 0.05
    of_request = connection.copy()
    of_request.connect()
    try:
        prepare_for_requests(of_request)
        with pytest.raises(OperationalError) as error, of_request.cursor() as cursor:
            cursor.execute(ENDLESS.replace("1000000000", "30000000"))
        assert fault_of(error.value).cause == Cause.SLOW
    finally:
        of_request.connection.close()


@pytest.fixture
def other(file: Path) -> Iterator[sqlite3.Connection]:
    """Return the connection of another process, which writes in a transaction."""
    with closing(sqlite3.connect(file, isolation_level=None)) as opened:
        opened.execute("BEGIN IMMEDIATE")
        yield opened


def begin_in_django(limited: LimitedConnection) -> None:
    limited.cursor(factory=SQLiteCursorWrapper).execute("BEGIN IMMEDIATE")


def begin_alone(limited: LimitedConnection) -> None:
    limited.execute("BEGIN IMMEDIATE")


def write_in_django(limited: LimitedConnection) -> None:
    limited.cursor(factory=SQLiteCursorWrapper).execute("INSERT INTO notes VALUES (%s)", ("y",))


@pytest.mark.parametrize("write", [begin_in_django, begin_alone, write_in_django])
def test_a_writer_gets_the_file_soon_after_another_process(limited, other, monkeypatch, write) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            other.execute("COMMIT")

    monkeypatch.setattr(sqlite_file, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
    limited.execute("PRAGMA busy_timeout=20000")
    write(limited)
    assert (len(pauses), max(pauses) < 0.01) == (3, True)
    assert limited.execute("PRAGMA busy_timeout").fetchone() == (20000,)
    assert limited.in_transaction or limited.execute("SELECT count(*) FROM notes").fetchone() == (201,)


@pytest.mark.parametrize("write", [begin_in_django, begin_alone, write_in_django])
def test_a_writer_waits_for_another_process_until_its_limit(limited, other, write) -> None:
    limited.execute("PRAGMA busy_timeout=30")
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        write(limited)
    assert limited.execute("PRAGMA busy_timeout").fetchone() == (30,)
    assert not limited.in_transaction


def test_a_transaction_within_a_transaction_is_refused_without_a_wait(limited: LimitedConnection) -> None:
    begin_alone(limited)
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        begin_alone(limited)


def test_a_later_try_comes_less_often(limited, other, monkeypatch) -> None:
    pauses: list[float] = []
    now = [0.0]

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(sqlite_file, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=pause))
    limited.execute("PRAGMA busy_timeout=1000")
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        begin_alone(limited)
    assert (pauses[0], pauses[-1], len(pauses) < 300) == (0.001, 0.005, True)
