"""Many rows in one statement: COPY on PostgreSQL, `executemany` on SQLite (`docs/decisions/0003-hot-sql.md`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
        """The rows with each value in the form that SQLite's driver stores."""
        prepare = [field.get_db_prep_save for field in self.fields]
        return [[adapt(value, connection) for adapt, value in zip(prepare, row, strict=True)] for row in rows]


_COPY_TYPES = {
    "OneToOneField": "uuid",
    "BigAutoField": "int8",
    "UUIDField": "uuid",
    "CharField": "varchar",
    "TextField": "text",
    "BinaryField": "bytea",
    "DateTimeField": "timestamptz",
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
    with connection.cursor() as cursor:
        cursor.executemany(
            f'INSERT INTO "{columns.table}" ({columns.listed}) VALUES ({columns.marks()})',  # noqa: S608
            columns.adapted(rows),
        )


def execute_each(sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Runs one statement for each row, in order (SQLite)."""
    with connection.cursor() as cursor:
        cursor.executemany(sql, rows)
