"""Tests of statements on a connection of the pool (PostgreSQL)."""

from collections.abc import Iterator

import pytest
from django.db import connection

from handoffaudit.handoffs import db

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
    found = [db.fetch_alone(OWN_ID, ["value"]) for _ in range(2)]
    assert closed.info.backend_pid not in [row[0] for row in found if row]
    assert [row[1] for row in found if row] == ["value", "value"]
    assert not db.is_open(closed)
