"""Causes of database errors, limits of waits for database locks, and the free space on the disks."""

import errno
import re
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from django.conf import settings
from django.db import DataError, InterfaceError, InternalError, OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpResponse
from django.template.loader import render_to_string

# libpq accepts no shorter timeout.
CONNECT_SECONDS: Final = 2

LOCK_MILLISECONDS: Final = 1000

# A request waits at most this long for the database, so that its sender learns within 5 seconds that the database is
# locked or away.
REQUEST_LOCK_MILLISECONDS: Final = 4000

# A request may wait this part of `REQUEST_LOCK_MILLISECONDS`, in seconds, for a connection to PostgreSQL.
POOL_SECONDS: Final = 1.0

# Timeouts of the pool in a process that answers requests. The pool repeats a failed attempt to connect with growing
# pauses (1, 2 and 4 seconds). With these timeouts, the attempts end before the request does. The next request begins
# new attempts, so it does not wait for the end of a long pause after the server is back.
POOL_WAITS: Final[Mapping[str, float]] = {"timeout": POOL_SECONDS, "reconnect_timeout": POOL_SECONDS / 2}

# A check of the server takes at most this long: the answer to /readyz must arrive within 2 seconds.
LOOK_AT_SERVER_SECONDS: Final = 1.5

LOOK_LOCK_MILLISECONDS: Final = 500

SERVER_KNOWN_SECONDS: Final = 2.0

# Errors of a database that fails. A PostgreSQL database that is read-only raises `InternalError`.
FAILURES: Final = (InterfaceError, InternalError, OperationalError)


def is_unreadable(error: Exception) -> bool:
    """Return whether the error means that a stored value cannot be read, because somebody changed it in the database.

    SQLite stores values of any type, and texts that are not UTF-8. PostgreSQL stores times that Python does not have.
    """
    kinds = (TypeError, ValueError, AttributeError, DataError)
    return isinstance(error, kinds) or "Could not decode to UTF-8" in str(error)


class Cause(StrEnum):
    """Causes of database errors that are not bugs of the product."""

    AWAY = "away"
    BUSY = "busy"
    LOCKED = "locked"
    SLOW = "slow"
    FULL = "full"
    READ_ONLY = "read_only"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Fault:
    """A cause with a description for people, and the seconds after which a sender should try again."""

    cause: Cause
    detail: str
    retry_after: int

    @property
    def symptom(self) -> str:
        """Return the detail without the advice to the operator, which does not concern senders."""
        return self.detail.partition(":")[0]


FAULTS: Final[Mapping[Cause, Fault]] = MappingProxyType(
    {
        fault.cause: fault
        for fault in (
            Fault(Cause.AWAY, "can't be reached: check the database server and DATABASE_URL, or the SQLite file", 5),
            Fault(Cause.BUSY, "has no free connection: raise max_connections, or lower HANDOFFAUDIT_DATABASE_POOL", 2),
            Fault(Cause.LOCKED, "is locked by another transaction that lasts long", 2),
            Fault(
                Cause.SLOW,
                "did not finish a statement in time: look at its load, or raise HANDOFFAUDIT_MAX_STATEMENT_SECONDS",
                10,
            ),
            Fault(Cause.FULL, "has no room left on its disk: make room", 60),
            Fault(
                Cause.READ_ONLY, "is read-only: check the rights on its file, or whether the server is a standby", 30
            ),
            Fault(Cause.DAMAGED, "is damaged: restore a backup (handoffaudit up says how)", 60),
        )
    }
)

_SQLITE: Final = {
    sqlite3.SQLITE_BUSY: Cause.LOCKED,
    sqlite3.SQLITE_LOCKED: Cause.LOCKED,
    sqlite3.SQLITE_INTERRUPT: Cause.SLOW,
    sqlite3.SQLITE_FULL: Cause.FULL,
    sqlite3.SQLITE_READONLY: Cause.READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: Cause.AWAY,
    sqlite3.SQLITE_IOERR: Cause.AWAY,
    sqlite3.SQLITE_CORRUPT: Cause.DAMAGED,
    sqlite3.SQLITE_NOTADB: Cause.DAMAGED,
}

# Error codes of PostgreSQL (https://www.postgresql.org/docs/current/errcodes-appendix.html), and classes of codes.
_SQLSTATES: Final = {
    "53100": Cause.FULL,
    "25006": Cause.READ_ONLY,
    "55P03": Cause.LOCKED,
    "40P01": Cause.LOCKED,
    "40001": Cause.LOCKED,
    "57014": Cause.SLOW,
    "XX001": Cause.DAMAGED,
    "XX002": Cause.DAMAGED,
    "08": Cause.AWAY,
    "53": Cause.BUSY,
    "57": Cause.AWAY,
    "58": Cause.AWAY,
}

_OF_THE_POOL: Final = ("PoolTimeout", "TooManyRequests")

# The error about a refused connection has no code, so only its message tells the cause.
_NO_CONNECTION_FREE: Final = re.compile(r"too many (clients|connections)|connection slots are reserved", re.IGNORECASE)


def fault_of(error: BaseException | None) -> Fault | None:
    """Return the database fault behind an error or its causes, None for any other error."""
    while error is not None:
        cause = _cause_of(error)
        if cause:
            return FAULTS[cause]
        error = error.__cause__
    return None


def page(fault: Fault) -> HttpResponse:
    """Return the error page, rendered without a request, because the context of other pages needs the database."""
    response = HttpResponse(render_to_string("503.html", {"fault": fault}), status=503)
    response["Retry-After"] = str(fault.retry_after)
    return response


def prepare_for_requests(connection: BaseDatabaseWrapper, **_: object) -> None:
    """Set the time limits of requests on a new connection; call this function in processes that answer requests."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout={REQUEST_LOCK_MILLISECONDS}")
        connection.connection.limit_each(settings.MAX_STATEMENT_SECONDS)
    # A pooled connection gets here each time it is taken from the pool.
    elif not getattr(connection.connection, "is_for_requests", False):
        limit_for_requests(connection.connection)


def limit_for_requests(opened: Any) -> None:
    """Set time limits for locks and statements on a PostgreSQL connection, and turn off parallel workers and JIT.

    Starting parallel workers or compiling a query takes longer than most pages may take.
    """
    # PgBouncer would keep the settings on its connection to the server, which other clients use next.
    if not settings.PGBOUNCER:
        limit = REQUEST_LOCK_MILLISECONDS - int(1000 * POOL_SECONDS)
        opened.execute(
            f"SET lock_timeout = {limit}; SET statement_timeout = {int(1000 * settings.MAX_STATEMENT_SECONDS)};"
            " SET max_parallel_workers_per_gather = 0; SET jit = off; SET client_min_messages = warning"
        )
    opened.is_for_requests = True


def find_fault() -> Fault | None:
    """Check the database and return its fault, or None. Raise any error that has none of the causes in `Cause`.

    If a PostgreSQL server does not answer, the check ends after `LOOK_AT_SERVER_SECONDS`. PostgreSQL is checked on a
    new connection, because all connections of the pool may be in use or broken.
    """
    try:
        if connection.vendor == "postgresql":
            return _prober.submit(_find_fault_of_server).result(LOOK_AT_SERVER_SECONDS)
        return _find_fault_of_file()
    except TimeoutError:
        return FAULTS[Cause.AWAY]
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        return fault


_prober = ThreadPoolExecutor(2, thread_name_prefix="readyz")


def _find_fault_of_server() -> Fault | None:
    import psycopg  # noqa: PLC0415 -- not needed with SQLite

    parameters = {name: value for name, value in connection.get_connection_params().items() if name != "pool"}
    with psycopg.connect(**parameters | {"connect_timeout": CONNECT_SECONDS}) as opened:
        asked = "SELECT current_setting('transaction_read_only'), to_regclass('handoffs_handoff') IS NOT NULL"
        read_only, has_tables = opened.execute(asked).fetchone() or ("", False)
        if read_only == "on":
            return FAULTS[Cause.READ_ONLY]
        if has_tables:
            opened.execute(f"SET LOCAL lock_timeout = {LOOK_LOCK_MILLISECONDS}")
            # Submissions take the same lock.
            opened.execute("LOCK TABLE handoffs_handoff IN ROW EXCLUSIVE MODE")
    return None


class ServerWatch:
    """The fault that the last look at the PostgreSQL server found. Requests at the same moment share one look."""

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._look_at = 0.0
        self._fault: Fault | None = None

    def look(self) -> Fault | None:
        """Return the fault of the server. Check the server again if the last check is old."""
        with self._looking:
            if time.monotonic() >= self._look_at:
                self._fault = find_fault()
                self._look_at = time.monotonic() + SERVER_KNOWN_SECONDS
            return self._fault


server = ServerWatch()


def _find_fault_of_file() -> Fault | None:
    """Begin a write transaction, which raises an error for every fault but a full disk and most damage to the file."""
    with lock_wait(LOCK_MILLISECONDS), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return None


@contextmanager
def lock_wait(milliseconds: int) -> Iterator[None]:
    """Limit waits for locks of an SQLite file. Waits for rows in PostgreSQL do not change."""
    if connection.vendor != "sqlite":
        yield
        return
    before = _busy_timeout()
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout={milliseconds}")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA busy_timeout={before}")


class LockTimeout(OperationalError):
    """Another writer of this process held the SQLite file for too long."""


# A writer that has waited this long is late. While no writer gets the lock, at most `MOST_LATE` late writers keep
# waiting. The other threads of the process must stay free for readers and `/readyz`.
LATE_SECONDS: Final = 0.5

MOST_LATE: Final = 16

# While no writer gets the lock and `MOST_LATE` writers are late, a further writer waits only this long.
STUCK_SECONDS: Final = 0.05


class WriteTurn:
    """A lock for the writers of this process. A writer waits for its turn as long as it may wait for the SQLite file.

    After this time, or if too many late writers wait, entering the lock raises `LockTimeout`.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._patient = threading.Semaphore(MOST_LATE)
        self._turns = 0
        # The value of `_turns` when a writer was last refused because no writer got the lock.
        self._stuck_at = -1
        self._limits: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        turns = self._turns
        limit: AbstractContextManager[None] = nullcontext()
        if not self._lock.acquire(timeout=STUCK_SECONDS if turns == self._stuck_at else LATE_SECONDS):
            limit = lock_wait(self._wait(turns))
        try:
            limit.__enter__()
        except BaseException:
            self._lock.release()
            raise
        self._turns += 1
        self._limits.append(limit)

    def __exit__(self, *error: object) -> None:
        try:
            self._limits.pop().__exit__(None, None, None)
        finally:
            self._lock.release()

    def _wait(self, turns: int) -> int:
        """Wait for the lock, and return the milliseconds that are left for locks of the file. Raise `LockTimeout`."""
        until = time.monotonic() + _busy_timeout() / 1000 - LATE_SECONDS
        patient = self._patient.acquire(blocking=False)
        try:
            while True:
                stuck, turns = self._turns == turns, self._turns
                left = until - time.monotonic()
                if left <= 0 or (stuck and not patient):
                    self._stuck_at = turns if stuck else self._stuck_at
                    raise LockTimeout("database is locked")
                if self._lock.acquire(timeout=min(LATE_SECONDS, left)):
                    return max(1, int(1000 * (until - time.monotonic())))
        finally:
            if patient:
                self._patient.release()


def _busy_timeout() -> int:
    with connection.cursor() as cursor:
        (milliseconds,) = cursor.execute("PRAGMA busy_timeout").fetchone()
    return int(milliseconds)


def _cause_of(error: BaseException) -> Cause | None:
    if isinstance(error, LockTimeout):
        return Cause.LOCKED
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Cause.FULL
    if isinstance(error, sqlite3.Error):
        # The low byte is the primary code, the other bytes extend it.
        return _SQLITE.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF)
    psycopg = sys.modules.get("psycopg")
    return _cause_in_postgresql(psycopg, error) if psycopg and isinstance(error, psycopg.Error) else None


def _cause_in_postgresql(psycopg: ModuleType, error: Any) -> Cause | None:
    if error.sqlstate:
        return _SQLSTATES.get(error.sqlstate) or _SQLSTATES.get(error.sqlstate[:2])
    if type(error).__name__ in _OF_THE_POOL:
        return _cause_of_used_up_pool()
    if _NO_CONNECTION_FREE.search(str(error)):
        return Cause.BUSY
    return Cause.AWAY if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) else None


def _cause_of_used_up_pool() -> Cause:
    """Return the cause of an exhausted pool. The pool does not say why, so the function checks the server."""
    fault = server.look()
    return fault.cause if fault else Cause.BUSY


# This share of free space is always enough, because a small disk must not look full from the start.
LEAST_FREE_SHARE = 0.02

RETRY_SECONDS = 60


def describe_shortage() -> str:
    """Describe a disk that is nearly full. Return an empty text if there is room.

    Only disks of this process count: the disk of an SQLite file, and without Redis the disk of the queue.
    """
    for folder in _folders():
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        least = min(settings.MIN_FREE_BYTES, int(usage.total * LEAST_FREE_SHARE))
        if usage.free < least:
            return f"{usage.free / 1e6:,.0f} MB are free in {folder}, {least / 1e6:,.0f} MB are needed: make room"
    return ""


def _folders() -> set[Path]:
    folders = set()
    if connection.vendor == "sqlite":
        folders.add(Path(connection.settings_dict["NAME"]).parent)
    if not settings.REDIS_URL:
        folders.add(settings.DATA_FOLDER)
    return folders
