"""The pool of connections to PostgreSQL, for statements that are each a transaction of their own."""

import select
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from handoffaudit.handoffs import db

if TYPE_CHECKING:
    import psycopg


def is_open(opened: "psycopg.Connection[Any]") -> bool:
    """Return whether the server has not closed an idle connection, for example in a restart.

    An idle connection becomes readable only when the server closes it, so the check of a working connection needs no
    round trip.
    """
    import psycopg  # noqa: PLC0415 -- not needed with SQLite

    poll = select.poll()
    try:
        poll.register(opened.fileno(), select.POLLIN)
        if poll.poll(0):
            opened.execute("")
    except psycopg.OperationalError:
        return False
    return True


def fetch_one(sql: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the row of a statement, which is committed unless the thread has begun a transaction.

    The values are sent in binary form, apart from the statement, which is prepared. A thread without a connection takes
    one for this statement only, because Django needs several times as long to take one and to give it back.
    """
    used = connections[DEFAULT_DB_ALIAS]
    pool = used.pool  # type: ignore[attr-defined]
    if used.connection is not None or pool is None or pool.closed:
        with db.server_cursor() as cursor:
            return cursor.execute(sql, values, prepare=True, binary=True).fetchone()
    with used.wrap_database_errors:
        opened = _take(pool)
        try:
            return _fetch_one(opened, sql, values)
        finally:
            pool.putconn(opened)


def _take(pool: Any) -> "psycopg.Connection[Any]":
    """Return a connection that is open and commits each statement."""
    opened: psycopg.Connection[Any]
    while not is_open(opened := pool.getconn()):
        # The pool replaces the closed connection.
        pool.putconn(opened)
    if not opened.autocommit:
        opened.autocommit = True
    return opened


def _fetch_one(opened: "psycopg.Connection[Any]", sql: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    import psycopg  # noqa: PLC0415 -- not needed with SQLite

    opened.prepare_threshold = None if settings.PGBOUNCER else db.ONLY_ON_REQUEST
    try:
        with psycopg.Cursor(opened) as cursor:
            return cursor.execute(sql, values, prepare=True, binary=True).fetchone()
    finally:
        opened.prepare_threshold = None
