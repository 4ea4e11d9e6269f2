"""Rows of queries summed by the database in one statement, which sees one state of the tables."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from django.db import connection
from django.db.models import QuerySet

from handoffaudit.handoffs import bulk


def summed(
    parts: "Iterable[QuerySet[Any, Any]]", by: Sequence[str], sums: Sequence[str], tail: str = ""
) -> list[tuple[Any, ...]]:
    """`parts`: the rows, all of the same columns; Django groups neither a union nor rows up to a limit. Gives the
    columns `by` with the SQL expressions `sums`, as the database has them; `tail` orders and limits them."""
    compiled = [part.query.sql_with_params() for part in parts]
    rows = " UNION ALL ".join(sql for sql, _ in compiled)
    names = ", ".join(by)
    sql = f"SELECT {names}, {', '.join(sums)} FROM ({rows}) AS counted GROUP BY {names} {tail}"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [param for _, params in compiled for param in params])
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def every(column: str) -> str:
    """The SQL expression for all values of a column that are there; `values_of` reads what it gives."""
    name = "ARRAY_AGG" if bulk.on_postgresql() else "JSON_GROUP_ARRAY"
    return f"{name}({column}) FILTER (WHERE {column} IS NOT NULL)"


def values_of(found: Any) -> list[Any]:
    """What `every` gave."""
    values: list[Any] = orjson.loads(found) if isinstance(found, str) else found or []
    return values
