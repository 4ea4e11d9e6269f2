"""Many rows in one statement: COPY on PostgreSQL, `executemany` on SQLite (`docs/decisions/0003-hot-sql.md`)."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

import psycopg
from django.db import connection
from django.db.models import Model


def on_postgresql() -> bool:
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


def insert(columns: Columns, rows: Sequence[Sequence[Any]]) -> None:
    """Inserts all of them, or raises `IntegrityError` (SQLite) or `UniqueViolation` (PostgreSQL)."""
    if not rows:
        return
    if on_postgresql():
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


def add(columns: Columns, rows: Sequence[Sequence[Any]], numbers: int = 1) -> None:
    """Adds to counts: so many of the last columns are numbers, the others are their key, which a constraint makes
    unique. Rows in a fixed order keep two workers from waiting for each other in a circle."""
    if not rows:
        return
    if on_postgresql():
        arrays = ", ".join(f"%s::{kind}[]" for kind in columns.types)
        with server_cursor() as cursor:
            sql = _added(columns, f"SELECT * FROM unnest({arrays})", numbers)  # noqa: S608
            cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)], binary=True)
    else:
        execute_each(_added(columns, f"VALUES ({columns.marks()})", numbers), columns.adapted(rows))


def _added(columns: Columns, rows: str, numbers: int) -> str:
    key = ", ".join(f'"{name}"' for name in columns.names[:-numbers])
    sums = ", ".join(f'"{name}" = "{columns.table}"."{name}" + excluded."{name}"' for name in columns.names[-numbers:])
    return f'INSERT INTO "{columns.table}" ({columns.listed}) {rows} ON CONFLICT ({key}) DO UPDATE SET {sums}'
