"""SQL that the ORM does not write: bulk inserts, sums of several queries (`docs/decisions/0003-hot-sql.md`)."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

import orjson
import psycopg
from django.db import connection
from django.db.models import Func, IntegerField, Model, QuerySet


def is_postgresql() -> bool:
    return connection.vendor == "postgresql"


def server_cursor() -> "psycopg.Cursor[Any]":
    """A cursor with parameters bound by the server: Django's own writes them into the text of the statement, which
    costs most for bodies."""
    connection.ensure_connection()
    return psycopg.Cursor(connection.connection)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table a bulk statement fills, in order, with their PostgreSQL types."""

    table: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    fields: tuple[Any, ...]

    @classmethod
    def of(cls, model: type[Model], *attributes: str) -> "Columns":
        fields = tuple(model._meta.get_field(name) for name in attributes)  # noqa: SLF001 -- Django's documented API
        names = tuple(str(field.column) for field in fields)  # type: ignore[union-attr]
        return cls(model._meta.db_table, names, tuple(_copy_type(field) for field in fields), fields)  # noqa: SLF001 # type: ignore[arg-type]

    @property
    def listed(self) -> str:
        return ", ".join(f'"{name}"' for name in self.names)

    def marks(self, mark: str = "%s") -> str:
        return ", ".join([mark] * len(self.names))

    def adapted(self, rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
        """The rows with each value in the form that SQLite stores."""
        forms = [_SQLITE_FORMS.get(kind) for kind in self.types]
        return [
            [value if form is None or value is None else form(value) for form, value in zip(forms, row, strict=True)]
            for row in rows
        ]


# Counts have few hours, and each of these many times.
@lru_cache(maxsize=1024)
def _sqlite_time(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ")


# As Django's own fields write them, without their cost for each value.
_SQLITE_FORMS: dict[str, Callable[[Any], Any]] = {
    "uuid": attrgetter("hex"),
    "timestamptz": _sqlite_time,
    "date": date.isoformat,
    "jsonb": json.dumps,
}

_COPY_TYPES = {
    "OneToOneField": "uuid",
    "BigAutoField": "int8",
    "UUIDField": "uuid",
    "CharField": "varchar",
    "TextField": "text",
    "BinaryField": "bytea",
    "DateTimeField": "timestamptz",
    "DateField": "date",
    "BigIntegerField": "int8",
    "JSONField": "jsonb",
    "PositiveIntegerField": "int4",
    "IntegerField": "int4",
    "PositiveSmallIntegerField": "int2",
    "FloatField": "float8",
    "BooleanField": "bool",
}


def _copy_type(field: Any) -> str:
    target = field.target_field if field.is_relation else field
    return _COPY_TYPES[target.get_internal_type()]


def insert_rows(columns: Columns, rows: Sequence[Sequence[Any]]) -> None:
    """Inserts all of them, or raises `IntegrityError` (SQLite) or `UniqueViolation` (PostgreSQL)."""
    if not rows:
        return
    if is_postgresql():
        statement = f'COPY "{columns.table}" ({columns.listed}) FROM STDIN (FORMAT BINARY)'
        with server_cursor() as server, server.copy(statement) as copy:
            copy.set_types(columns.types)
            for row in rows:
                copy.write_row(row)
        return
    execute_each(
        f'INSERT INTO "{columns.table}" ({columns.listed}) VALUES ({columns.marks()})',  # noqa: S608
        columns.adapted(rows),
    )


def execute_each(sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Runs one statement for each row, in order (SQLite). Past Django's cursor, which would read the statement through
    for its own kind of marks each time."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        connection.connection.executemany(sql.replace("%s", "?"), rows)


def add_to_counts(columns: Columns, rows: Sequence[Sequence[Any]], numbers: int = 1) -> None:
    """Adds to counts: so many of the last columns are numbers, the others are their key, which a constraint makes
    unique. Rows in a fixed order keep two workers from waiting for each other in a circle."""
    if not rows:
        return
    if is_postgresql():
        arrays = ", ".join(f"%s::{kind}[]" for kind in columns.types)
        with server_cursor() as cursor:
            sql = _add_statement(columns, f"SELECT * FROM unnest({arrays})", numbers)  # noqa: S608
            cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)], binary=True)
    else:
        execute_each(_add_statement(columns, f"VALUES ({columns.marks()})", numbers), columns.adapted(rows))


def _add_statement(columns: Columns, rows: str, numbers: int) -> str:
    key = ", ".join(f'"{name}"' for name in columns.names[:-numbers])
    sums = ", ".join(f'"{name}" = "{columns.table}"."{name}" + excluded."{name}"' for name in columns.names[-numbers:])
    return f'INSERT INTO "{columns.table}" ({columns.listed}) {rows} ON CONFLICT ({key}) DO UPDATE SET {sums}'


def sum_rows(
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


def collect_values(column: str) -> str:
    """The SQL expression for all values of a column that are there; `values_of` reads what it gives."""
    name = "ARRAY_AGG" if is_postgresql() else "JSON_GROUP_ARRAY"
    return f"{name}({column}) FILTER (WHERE {column} IS NOT NULL)"


def split_values(found: Any) -> list[Any]:
    """What `every` gave."""
    values: list[Any] = orjson.loads(found) if isinstance(found, str) else found or []
    return values


class TimeStep(Func):
    """The number of the step of so many `seconds` that a moment falls into, counted from `begin` (seconds since 1970;
    1970 where it is not given)."""

    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"FLOOR((date_part('epoch', %(expressions)s) - {self._begin}) / {self.extra['seconds']})::integer"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"((CAST(strftime('%%%%s', %(expressions)s) AS INTEGER) - {self._begin}) / {self.extra['seconds']})"
        return self.as_sql(compiler, connection, template=template, **context)

    @property
    def _begin(self) -> int:
        begin: int = self.extra.get("begin", 0)
        return begin


def release_connection() -> None:
    """Back into the pool while waiting: a handful of waiting threads must not keep all others from the database."""
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
