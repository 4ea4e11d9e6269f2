"""Causes of database errors, by the error codes of SQLite and PostgreSQL, and the room left on the disk."""

import errno
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpResponse
from django.template.loader import render_to_string

# libpq takes no shorter one.
CONNECT_SECONDS: Final = 2

LOCK_MILLISECONDS: Final = 1000

# Whoever sends a request hears within 5 seconds that the database is locked.
REQUEST_LOCK_MILLISECONDS: Final = 4000


class Cause(StrEnum):
    """The kinds of trouble that are nobody's bug."""

    AWAY = "away"
    BUSY = "busy"
    LOCKED = "locked"
    FULL = "full"
    READ_ONLY = "read_only"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Fault:
    """A cause, as people read it, and after how many seconds a sender should try again."""

    cause: Cause
    detail: str
    retry_after: int

    @property
    def symptom(self) -> str:
        """The detail without what an operator should do, which is nothing for senders."""
        return self.detail.partition(":")[0]


FAULTS: Final[Mapping[Cause, Fault]] = MappingProxyType(
    {
        fault.cause: fault
        for fault in (
            Fault(Cause.AWAY, "can't be reached: check DATABASE_URL and the database server", 5),
            Fault(Cause.BUSY, "has no free connection: raise max_connections, or lower HANDOFFAUDIT_DATABASE_POOL", 2),
            Fault(Cause.LOCKED, "is locked by another transaction that lasts long", 2),
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
    sqlite3.SQLITE_FULL: Cause.FULL,
    sqlite3.SQLITE_READONLY: Cause.READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: Cause.AWAY,
    sqlite3.SQLITE_IOERR: Cause.AWAY,
    sqlite3.SQLITE_CORRUPT: Cause.DAMAGED,
    sqlite3.SQLITE_NOTADB: Cause.DAMAGED,
}

# Codes of PostgreSQL (https://www.postgresql.org/docs/current/errcodes-appendix.html), and classes of them.
_SQLSTATES: Final = {
    "53100": Cause.FULL,
    "25006": Cause.READ_ONLY,
    "55P03": Cause.LOCKED,
    "40P01": Cause.LOCKED,
    "40001": Cause.LOCKED,
    "57014": Cause.LOCKED,
    "XX001": Cause.DAMAGED,
    "XX002": Cause.DAMAGED,
    "08": Cause.AWAY,
    "53": Cause.BUSY,
    "57": Cause.AWAY,
    "58": Cause.AWAY,
}

_OF_THE_POOL: Final = ("PoolTimeout", "TooManyRequests")

# A connection that is refused has no code.
_NO_CONNECTION_FREE: Final = re.compile(r"too many (clients|connections)|connection slots are reserved", re.IGNORECASE)


def fault_of(error: BaseException | None) -> Fault | None:
    """Return what an error, or one that it was raised from, says of the database; None for any other error."""
    while error is not None:
        cause = _cause_of(error)
        if cause:
            return FAULTS[cause]
        error = error.__cause__
    return None


def page(fault: Fault) -> HttpResponse:
    """Return the page for people. Rendered without a request: what pages have in common is read from the database."""
    response = HttpResponse(render_to_string("503.html", {"fault": fault}), status=503)
    response["Retry-After"] = str(fault.retry_after)
    return response


def limit_lock_waits(connection: BaseDatabaseWrapper, **_: object) -> None:
    """Have a new connection wait for locks for a short time only; for processes that answer requests."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout={REQUEST_LOCK_MILLISECONDS}")
    elif not getattr(connection.connection, "lock_waits_are_limited", False):
        # A connection of the pool comes here each time that it is lent.
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {REQUEST_LOCK_MILLISECONDS}")
        connection.connection.lock_waits_are_limited = True


def find_fault() -> Fault | None:
    """Look at the database and return what is wrong with it. Takes 2 seconds at most where nobody answers.

    PostgreSQL is asked on a new connection: those of the pool may all be in use, or gone.
    """
    try:
        if connection.vendor == "postgresql":
            return _find_fault_of_server()
        return _find_fault_of_file()
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        return fault


def _find_fault_of_server() -> Fault | None:
    import psycopg  # noqa: PLC0415 -- not needed with SQLite

    parameters = {name: value for name, value in connection.get_connection_params().items() if name != "pool"}
    with psycopg.connect(**parameters | {"connect_timeout": CONNECT_SECONDS}) as server:
        found = server.execute("SELECT current_setting('transaction_read_only')").fetchone()
    return FAULTS[Cause.READ_ONLY] if found == ("on",) else None


def _find_fault_of_file() -> Fault | None:
    """Begin a transaction that may write, which says all but whether there is room."""
    with lock_wait(LOCK_MILLISECONDS), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return None


@contextmanager
def lock_wait(milliseconds: int) -> Iterator[None]:
    """Wait for locks of an SQLite file no longer than this. Waits for rows of PostgreSQL are not changed."""
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        (before,) = cursor.execute("PRAGMA busy_timeout").fetchone()
        cursor.execute(f"PRAGMA busy_timeout={milliseconds}")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA busy_timeout={int(before)}")


def _cause_of(error: BaseException) -> Cause | None:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Cause.FULL
    if isinstance(error, sqlite3.Error):
        # The low byte is the code, the others say more of it.
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
    """A pool says only that it has no connection: whether the server is there tells why."""
    fault = find_fault()
    return fault.cause if fault else Cause.BUSY


# Of the whole disk, where this is less than the setting: a small disk must not look full from the start.
LEAST_FREE_SHARE = 0.02

RETRY_SECONDS = 60


def describe_shortage() -> str:
    """Say in words that a disk is nearly full; empty where there is room.

    Only disks that this process sees: the one of an SQLite file, and the one of the queue where there is no Redis.
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
