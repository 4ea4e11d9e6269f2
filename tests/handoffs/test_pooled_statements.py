"""Tests of the pool of connections: statements, and downloads that wait for their readers (PostgreSQL)."""

from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from handoffaudit.dashboard.exports import Parts
from handoffaudit.handoffs import db
from handoffaudit.handoffs.export import Download

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no pool"),
]

OWN_ID = "SELECT pg_backend_pid(), %s::text"


@pytest.fixture(autouse=True)
def without_connection() -> Iterator[None]:
    # The first use opens the pool.
    connection.ensure_connection()
    connection.close()
    yield
    connection.close()


def test_a_statement_leaves_the_thread_without_a_connection() -> None:
    found = db.fetch_alone(OWN_ID, ["value"])
    assert found is not None
    assert found[1] == "value"
    assert connection.connection is None


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    connections = connection.pool  # type: ignore[attr-defined]
    closed = connections.getconn()
    with connections.connection() as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [closed.info.backend_pid])
    connections.putconn(closed)
    # The pool gives its connections in turn, and may have opened more than these two.
    number = connections.get_stats()["pool_size"]
    assert number >= 2
    found = [db.fetch_alone(OWN_ID, ["value"]) for _ in range(number)]
    assert closed.info.backend_pid not in [row[0] for row in found if row]
    assert [row[1] for row in found if row] == ["value"] * number
    assert not db.is_open(closed)


@pytest.mark.parametrize("begin", [Download, lambda parts: Parts.begin(1, 1, parts)], ids=["bundle", "list"])
def test_no_connection_is_held_while_a_reader_takes_a_part(begin: Callable[[Iterator[bytes]], Iterator[bytes]]) -> None:
    def parts() -> Iterator[bytes]:
        for number in range(2):
            with connection.cursor() as cursor:
                cursor.execute("SELECT %s", [number])
                row = cursor.fetchone()
            yield b"%d" % row[0]

    read = begin(parts())
    for expected in (b"0", b"1"):
        assert next(read) == expected
        assert connection.connection is None
    assert not list(read)
