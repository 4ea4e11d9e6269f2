"""An SQLite database file: checks for damage, statistics, time limits, and shared transactions of several threads."""

import contextlib
import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

REMEDY = (
    "restore a backup: stop the server, put the backup in the place of that file, remove the files that end in -wal and"
    " -shm beside it, and start again."
)
# SQLite calls the progress handler after this many of its instructions, which take well below a millisecond.
_STEPS = 10_000
# With `limit_each`, the handler reads the clock less often, because each call of the handler has to wait until no other
# thread runs Python.
_STEPS_OF_REQUEST = 1_000_000
# If more time than this passes between two calls of the handler, only this much of it counts as work. The rest is a
# pause of the code that reads the rows, such as an export to a slow client.
_PAUSE_SECONDS = 1.0
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def find_damage(file: Path, *, seconds: float | None = None, thorough: bool = False) -> str:
    """Return SQLite's description of the damage in one line, empty if no damage was found.

    The check stops after `seconds` and returns an empty text if no damage was found by then. `thorough` also
    compares the indexes with their tables. A file that is absent, busy or unreadable counts as undamaged.
    """
    if not file.is_file():
        return ""
    check = "integrity_check" if thorough else "quick_check"
    until = None if seconds is None else time.monotonic() + seconds
    try:
        with contextlib.closing(sqlite3.connect(file.absolute().as_uri() + "?mode=ro", uri=True, timeout=1)) as reader:
            if until is not None:
                reader.set_progress_handler(lambda: int(time.monotonic() > until), _STEPS)
            (said,) = reader.execute(f"PRAGMA {check}(1)").fetchone()
    except sqlite3.Error as error:
        return str(error) if is_damage(error) else ""
    return "" if said == "ok" else " ".join(str(said).split())


def is_damage(error: BaseException | None) -> bool:
    """Return whether an SQLite error, or one of its causes, says that the file is damaged."""
    while error is not None:
        # The low byte is the primary code, the other bytes extend it.
        if isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _DAMAGE:
            return True
        error = error.__cause__
    return False


# The planner's statistics describe this many rows in each table, because every plan is fast on small tables.
_ROWS = 1_000_000
# For columns in which many rows have the same value: the number of different values within a tenant. All other columns
# count as unique.
_VALUES = {
    # With the number 1, SQLite would rather read a whole table than look for the rows of a tenant in an index.
    "tenant_id": 2,
    # A few reviewers make all decisions, so a reviewer hardly narrows a search.
    "actor": 1,
    **dict.fromkeys(("state", "outcome", "kind", "status", "severity", "reason", "source", "fallback", "runtime"), 5),
    **dict.fromkeys(("handoff_type", "code", "phase", "subscriber_id", "person_id", "to_id"), 10),
    **dict.fromkeys(("source_agent_id", "target_agent_id", "agent", "score", "day", "group_id"), 40),
    "hour": 700,
    "trace_id": _ROWS // 10,
}
# The share of the rows that a partial index has. Partial indexes that are not named here have few rows (`_FEW`).
_SHARES = {
    "handoff_accepted_route": 0.7,
    "handoff_by_score": 0.5,
    "handoff_warned": 0.2,
    "handoff_decided_type": 0.1,
    "handoff_decided_pair": 0.1,
    "handoff_due": 0.05,
    "handoff_held": 0.05,
    "event_decision": 0.05,
    "event_decider": 0.05,
    "hourly_total_by_state": 0.2,
    "hourly_total_by_code": 0.8,
}
_FEW = 0.001
_INDEXES = """
    SELECT made.tbl_name, made.name, made.sql LIKE '% WHERE %', (SELECT json_group_array(name) FROM (
        SELECT name FROM pragma_index_info(made.name) ORDER BY seqno
    )) FROM sqlite_schema AS made JOIN sqlite_schema AS owner ON owner.name = made.tbl_name AND owner.type = 'table'
    WHERE made.type = 'index' AND owner.sql LIKE '%"tenant_id"%'
"""


def store_statistics(connection: sqlite3.Connection) -> None:
    """Store the planner's statistics of the tables with a tenant, unless exactly these statistics are stored already.

    The statistics do not depend on the rows that the tables have now. Without statistics, SQLite assumes
    that a tenant has few rows, and reads all of them instead of using a better index.
    """
    rows = {
        (table, name, _describe(json.loads(columns), _SHARES.get(name, _FEW) if is_partial else 1.0))
        for table, name, is_partial, columns in connection.execute(_INDEXES).fetchall()
    }
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat_'")}
    read = "SELECT tbl, idx, stat FROM sqlite_stat1"
    if tables == {"sqlite_stat1"} and set(connection.execute(read)) == rows:
        return
    # A savepoint also works within a transaction. Half of the statistics would be worse than none.
    connection.execute("SAVEPOINT statistics")
    try:
        connection.execute("ANALYZE sqlite_schema")
        # If an operator ran `ANALYZE`, there may be other tables, whose samples would count as well.
        for table in {"sqlite_stat1", *tables}:
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
        connection.executemany("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", sorted(rows))
    except BaseException:
        connection.execute("ROLLBACK TO statistics")
        raise
    finally:
        connection.execute("RELEASE statistics")
    # This connection uses the new statistics from now on, others when they open the database.
    connection.execute("ANALYZE sqlite_schema")


def _describe(columns: Sequence[str | None], share: float) -> str:
    """Return the statistics of an index as SQLite reads them.

    The first number is the number of rows in the index. The other numbers are the average numbers of rows with equal
    values in the first column, in the first two columns, and so on.
    """
    rows = int(_ROWS * share)
    numbers, values = [rows], 1
    for column in columns:
        values *= _VALUES.get(column or "", rows)
        numbers.append(max(1, rows // values))
    return " ".join(map(str, numbers))


# The interval of the checks of the file, and the longest time of one check. The request that starts a check waits for
# its end.
EVERY_SECONDS = 60.0

CHECK_SECONDS = 0.5


class DamageWatch:
    """The result of the last check of the file. Other requests do not wait for a check in progress."""

    def __init__(self) -> None:
        self._checking = threading.Lock()
        self._check_at = 0.0
        self._found = ""

    def is_damaged(self) -> bool:
        """Return whether the file is damaged. Check the file again if the last check is old."""
        from django.db import connection  # noqa: PLC0415 -- commands that only check files start without Django

        if connection.vendor != "sqlite":
            return False
        if time.monotonic() >= self._check_at and self._checking.acquire(blocking=False):
            try:
                self._found = find_damage(Path(connection.settings_dict["NAME"]), seconds=CHECK_SECONDS)
                self._check_at = time.monotonic() + EVERY_SECONDS
            finally:
                self._checking.release()
        return bool(self._found)

    def is_known(self) -> bool:
        """Return whether the last check found damage that is still there.

        If the last check found no damage, this call does not check the file.
        """
        return bool(self._found) and self.is_damaged()


damage_watch = DamageWatch()


BEGIN = "BEGIN IMMEDIATE"
# The beginnings of statements that need the lock of the file. Outside of a transaction, each of the last three is a
# transaction of its own.
_LOCKING = (BEGIN, "INSERT ", "UPDATE ", "DELETE ")
# The pause between two tries to get the lock: at first, and after `_SOON_SECONDS`.
_TRY_SECONDS, _LATER_TRY_SECONDS = 0.001, 0.005
_SOON_SECONDS = 0.1


@cache
def _lock_soon(cursor: Any) -> Any:
    """Return a subclass of the class `cursor` that gets the lock of the file with `LimitedConnection.lock_soon`."""

    class Cursor(cursor):  # type: ignore[misc]
        def execute(self, sql: str, *parameters: Any) -> Any:
            return self.connection.lock_soon(super().execute, sql, *parameters)

    return Cursor


class LimitedConnection(sqlite3.Connection):
    """A connection with time limits. A statement beyond a limit raises `OperationalError` ("interrupted")."""

    _most_seconds: float | None = None
    _worked = 0.0
    _looked_at = 0.0

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        # SQLite does not tell when a statement began, but Django creates a cursor for each statement.
        self._restart_clock()
        return super().cursor(_lock_soon(factory))

    def execute(self, *args: Any) -> Any:
        # The method of the base class does not call `cursor` above, so the clock and the lock are set up here.
        self._restart_clock()
        return self.lock_soon(super().execute, *args)

    def lock_soon(self, execute: Callable[..., Any], sql: str, *parameters: Any) -> Any:
        """Run a statement with `execute`. Take the lock of the file, if needed, soon after another writer frees it.

        Raise `OperationalError` ("database is locked") after the `busy_timeout` of the connection. SQLite itself sleeps
        up to 100 ms between its tries, and meanwhile another writer often gets the lock.
        """
        if self.in_transaction or not sql.startswith(_LOCKING):
            return execute(sql, *parameters)
        (milliseconds,) = super().execute("PRAGMA busy_timeout").fetchone()
        begun = time.monotonic()
        super().execute("PRAGMA busy_timeout=0")
        try:
            while True:
                try:
                    return execute(sql, *parameters)
                except sqlite3.OperationalError as error:
                    waited = time.monotonic() - begun
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= milliseconds / 1000:
                        raise
                time.sleep(_TRY_SECONDS if waited < _SOON_SECONDS else _LATER_TRY_SECONDS)
        finally:
            super().execute(f"PRAGMA busy_timeout={milliseconds}")

    def executemany(self, *args: Any) -> Any:
        self._restart_clock()
        return super().executemany(*args)

    def limit_each(self, seconds: float) -> None:
        """Limit each statement to `seconds` of work from now on.

        A statement in a transaction has no limit, because SQLite would undo the whole transaction.
        """
        self._most_seconds = seconds
        self._look_for_late_statements()

    @contextlib.contextmanager
    def limit_together(self, seconds: float) -> Iterator[None]:
        """Limit all statements of a block together to `seconds`, counted from now, also in a transaction."""
        until = time.monotonic() + seconds
        self.set_progress_handler(lambda: int(time.monotonic() > until), _STEPS)
        try:
            yield
        finally:
            self._look_for_late_statements()

    def _restart_clock(self) -> None:
        self._worked, self._looked_at = 0.0, time.monotonic()

    def _look_for_late_statements(self) -> None:
        if self._most_seconds is None:
            self.set_progress_handler(None, 0)
            return
        # The handler must not keep its connection alive.
        own = weakref.WeakMethod(self._is_late)
        self.set_progress_handler(lambda: int((is_late := own()) is not None and is_late()), _STEPS_OF_REQUEST)

    def _is_late(self) -> bool:
        now = time.monotonic()
        self._worked += min(now - self._looked_at, _PAUSE_SECONDS)
        self._looked_at = now
        return self._most_seconds is not None and self._worked > self._most_seconds and not self.in_transaction


@contextlib.contextmanager
def write_transaction(opened: sqlite3.Connection) -> Iterator[None]:
    """Write in one transaction on a connection that has none.

    With Django's `atomic`, beginning and ending the transaction would take as long as the writes themselves.
    """
    opened.execute(BEGIN)
    try:
        yield
        opened.execute("COMMIT")
    except BaseException:
        opened.rollback()
        raise


_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


@dataclass(eq=False, slots=True)
class _Write(Generic[_Item, _Answer]):
    """An item that a thread wants to write; once it is written, `answers` has one answer."""

    item: _Item
    answers: list[_Answer] = field(default_factory=list)
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return bool(self.answers) or self.error is not None


class SharedWrites(Generic[_Item, _Answer]):
    """Writes of several threads that share one transaction, because each commit costs as much as some writes.

    A thread adds its item and waits for `turn`, the lock of the writers. The thread that gets the lock writes all items
    that wait, so the other threads find their items written when they get the lock. `write` commits the items and
    returns an answer for each. After an error of the type `concerns_all`, all threads get the error. After any other
    error, each item is written alone, so that only the thread with the faulty item gets the error.
    """

    def __init__(
        self,
        write: Callable[[Sequence[_Item]], Sequence[_Answer]],
        turn: AbstractContextManager[object],
        concerns_all: type[Exception],
    ) -> None:
        self._write = write
        self._turn = turn
        self._concerns_all = concerns_all
        self._waiting: list[_Write[_Item, _Answer]] = []
        self._guard = threading.Lock()
        self._writing = threading.Lock()

    def add(self, item: _Item) -> _Answer:
        """Write an item and return its answer after the commit. Raise the error of the write or of the lock."""
        mine: _Write[_Item, _Answer] = _Write(item)
        with self._guard:
            self._waiting.append(mine)
        try:
            with self._turn:
                if not mine.is_done:
                    self._write_waiting()
        except Exception:
            if self._withdraw(mine):
                raise
        if mine.error is not None:
            raise mine.error
        return mine.answers[0]

    def _withdraw(self, mine: "_Write[_Item, _Answer]") -> bool:
        """Stop waiting for an item, and return whether the item has neither an answer nor an error.

        If no thread has begun to write the item, it will not be written. Wait for a thread that writes the item.
        """
        with self._guard:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return True
        with self._writing:
            return not mine.is_done

    def _write_waiting(self) -> None:
        with self._writing:
            with self._guard:
                some, self._waiting = self._waiting, []
            try:
                self._try(some)
            except BaseException as error:
                # `_try` handles the errors of a write, so this one, such as `SystemExit`, ends the thread.
                ended = (
                    f"the thread that wrote for several threads ended with {error!r}: perhaps this item is not written"
                )
                for one in some:
                    if not one.is_done:
                        one.error = RuntimeError(ended)
                raise

    def _try(self, some: "Sequence[_Write[_Item, _Answer]]") -> None:
        try:
            answers = self._write([one.item for one in some])
        except Exception as error:  # noqa: BLE001 -- raised by the thread that added the item
            is_shared = len(some) == 1 or isinstance(error, self._concerns_all)
            for one in some:
                if is_shared:
                    one.error = error
                else:
                    self._try([one])
        else:
            for one, answer in zip(some, answers, strict=True):
                one.answers.append(answer)
