"""Queries on a product's database while a load runs."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg

from benchmarks.places import Place

WAITING = "SELECT count(*) FROM handoffs_handoff WHERE state IN ('received', 'validating') AND NOT parked"
# The query reads stored counts, so that it hardly disturbs the measurement.
JUDGED = "SELECT coalesce(sum(number), 0) FROM handoffs_hourlytotal WHERE code = ''"


class Asked(Protocol):
    def __call__(self, sql: str) -> int: ...


@contextmanager
def database(place: Place) -> Iterator[Asked]:
    """Yield a function that runs a query for one number, without Django."""
    connection: Any
    if place.on_postgresql:
        connection = psycopg.connect(place.database, autocommit=True)
    else:
        connection = sqlite3.connect(place.database.removeprefix("sqlite:///"), timeout=20, isolation_level=None)
    try:
        yield lambda sql: int(connection.execute(sql).fetchone()[0])
    finally:
        connection.close()
