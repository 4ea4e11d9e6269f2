"""Tests of the first statistics of tables on PostgreSQL."""

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection

from handoffaudit.handoffs import db, partitions

pytestmark = pytest.mark.django_db
MAKE = "CREATE TABLE handoffs_grown AS SELECT n, repeat('x', 100) FROM generate_series(1, 3000) AS n"


@pytest.fixture(autouse=True)
def _only_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    if not db.is_postgresql():
        pytest.skip("only PostgreSQL plans queries with statistics of its own")
    monkeypatch.setattr(partitions, "_gathered", set())


@pytest.fixture
def locked() -> Iterator[None]:
    parts = connection.get_connection_params()
    keys = ("dbname", "user", "password", "host", "port")
    with psycopg.connect(**{key: parts[key] for key in keys if parts.get(key)}) as other:
        other.execute(MAKE)
        other.commit()
        other.execute("LOCK TABLE handoffs_grown IN SHARE UPDATE EXCLUSIVE MODE")
        yield
        other.execute("DROP TABLE handoffs_grown")


def rows_known() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = to_regclass('handoffs_grown')")
        return float(cursor.fetchone()[0])


def test_a_table_that_has_grown_gets_statistics() -> None:
    with connection.cursor() as cursor:
        cursor.execute(MAKE)
    partitions.gather_statistics()
    assert rows_known() == 3000


def test_a_locked_table_is_left_to_autovacuum(locked: None) -> None:
    partitions.gather_statistics()
    assert rows_known() <= 0


def test_a_table_that_is_dropped_meanwhile_keeps_no_other_from_its_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute(MAKE)
    monkeypatch.setattr(partitions, "_WITHOUT_STATISTICS", "VALUES ('handoffs_dropped'), ('handoffs_grown') LIMIT %s")
    partitions.gather_statistics()
    assert rows_known() == 3000
