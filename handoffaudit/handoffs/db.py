"""SQL that the ORM cannot generate or generates slowly: bulk writes, sums, rows (`docs/decisions/0003-hot-sql.md`)."""

import json
import select
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Model, UUIDField
from django.db.models.base import ModelState
from django.db.models.expressions import Col
from django.db.models.lookups import In

from handoffaudit.database_faults import WriteTurn

if TYPE_CHECKING:
    import psycopg

# psycopg prepares a statement by itself after this many runs. So in effect, it prepares only on request.
_ONLY_ON_REQUEST = sys.maxsize


# An expression that is selected only for its effect: it makes the commit wait for a synchronous standby, even if the
# transaction only reads. Without the wait, an answer could report a row that another transaction has just stored and
# that the standby lacks.
AWAIT_STANDBY: Final = (
    "CASE WHEN current_setting('synchronous_standby_names') <> '' THEN pg_logical_emit_message(TRUE, '', '') END"
)


@cache
def is_postgresql() -> bool:
    return connection.vendor == "postgresql"


@contextmanager
def server_cursor() -> Generator["psycopg.Cursor[Any]"]:
    """Yield a cursor that sends parameters separately from the statement, and raises Django's database errors.

    Django's own cursor writes the parameters into the statement, which is expensive for document bodies. A statement
    with `prepare=True` is prepared, except with PgBouncer, which may run the next transaction on another connection.
    """
    connection.ensure_connection()
    with connection.wrap_database_errors, _cursor_of(connection.connection) as cursor:
        yield cursor


@contextmanager
def _cursor_of(opened: "psycopg.Connection[Any]") -> Generator["psycopg.Cursor[Any]"]:
    import psycopg  # noqa: PLC0415 -- not needed with SQLite

    # Django turns prepared statements off. They are turned on for this cursor only, because the texts of Django's own
    # statements contain the parameters and rarely repeat.
    opened.prepare_threshold = None if settings.PGBOUNCER else _ONLY_ON_REQUEST
    try:
        with psycopg.Cursor(opened) as cursor:
            yield cursor
    finally:
        opened.prepare_threshold = None


def fetch_alone(sql: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Run a statement on PostgreSQL, and return its first row or None.

    The statement is committed immediately, unless the thread has begun a transaction. A thread without a connection
    takes a connection of the pool for this statement only. Django takes several times as long to get and return a
    connection.
    """
    # `connection` is a proxy: each access to one of its attributes takes several function calls.
    database: Any = connections[DEFAULT_DB_ALIAS]
    if database.connection is not None or (pool := database.pool) is None or pool.closed:
        with server_cursor() as cursor:
            return cursor.execute(sql, values, prepare=True, binary=True).fetchone()
    with database.wrap_database_errors:
        while not is_open(opened := pool.getconn()):
            # The pool replaces the closed connection.
            pool.putconn(opened)
        try:
            opened.autocommit = True
            with _cursor_of(opened) as cursor:
                return cursor.execute(sql, values, prepare=True, binary=True).fetchone()
        finally:
            pool.putconn(opened)


def is_open(opened: "psycopg.Connection[Any]") -> bool:
    """Return whether an idle connection is still open. A restart of the server, for example, closes connections.

    Only a connection that has become readable needs a round trip, because a closed connection is always readable.
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


def fetch_rows(sql: str, values: Sequence[Any], alias: str = DEFAULT_DB_ALIAS, *, binary: bool = False) -> list[Any]:
    """Return the rows of a statement. Only the primary database prepares the statement, not a replica.

    With `binary`, PostgreSQL sends the values in binary form, because writing documents as text takes long.
    """
    if is_postgresql() and alias == DEFAULT_DB_ALIAS:
        with server_cursor() as server:
            return server.execute(sql, values, prepare=True, binary=binary).fetchall()
    with connections[alias].cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def among(values: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the SQL condition that a column has one of the values, and its parameters.

    PostgreSQL gets one array, because psycopg takes 30 microseconds for each parameter.
    """
    if is_postgresql():
        return "= ANY(%s)", [list(values)]
    stored = [value.hex if isinstance(value, UUID) else value for value in values]
    return f"IN ({', '.join(['%s'] * len(stored))})", stored


def to_uuid(found: Any) -> UUID:
    """Return a UUID that a statement returned. SQLite returns UUIDs as text."""
    return found if isinstance(found, UUID) else UUID(found)


# PostgreSQL plans a short list and an array alike, and short lists are easier to read in logs.
_SHORT_LIST = 10


@UUIDField.register_lookup
@CharField.register_lookup
class InArray(In):
    """The lookup `in`, which sends a long list of values to PostgreSQL as one array."""

    def as_postgresql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Sequence[Any]]:
        if not self.rhs_is_direct_value() or len(self.rhs) <= _SHORT_LIST:
            return self.as_sql(compiler, connection)
        values = list(dict.fromkeys(self.rhs))
        if any(value is None or hasattr(value, "as_sql") for value in values):
            return self.as_sql(compiler, connection)
        column, params = self.process_lhs(compiler, connection)
        field = self.lhs.output_field
        bound = [field.get_db_prep_value(one, connection, prepared=True) for one in values]
        return f"{column} = ANY(%s)", [*params, bound]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table that a bulk statement fills, in order, with their PostgreSQL types.

    `name_list` has the names in SQL, `forms` the positions and conversions of values that SQLite stores in another
    form.
    """

    table: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    name_list: str
    forms: tuple[tuple[int, Callable[[Any], Any]], ...]

    @classmethod
    def of(cls, model: type[Model], *attributes: str) -> "Columns":
        fields = tuple(model._meta.get_field(name) for name in attributes)  # noqa: SLF001 -- Django's documented API
        names = tuple(str(field.column) for field in fields)  # type: ignore[union-attr]
        types = tuple(_copy_type(field) for field in fields)
        forms = tuple((at, _SQLITE_FORMS[kind]) for at, kind in enumerate(types) if kind in _SQLITE_FORMS)
        listed = ", ".join(f'"{name}"' for name in names)
        return cls(model._meta.db_table, names, types, listed, forms)  # noqa: SLF001 # type: ignore[arg-type]

    @property
    def arrays(self) -> str:
        """Return a placeholder for an array of each column. Psycopg writes binary arrays twice as fast as text."""
        return ", ".join(f"%b::{kind}[]" for kind in self.types)

    def placeholders(self, mark: str = "%s") -> str:
        return ", ".join([mark] * len(self.names))

    def insert_statement(self, mark: str = "%s") -> str:
        return f'INSERT INTO "{self.table}" ({self.name_list}) VALUES ({self.placeholders(mark)})'  # noqa: S608

    def adapt_rows(self, rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
        """Return the rows with each value in the form that SQLite stores."""
        adapted = [list(row) for row in rows]
        for values in adapted:
            for at, form in self.forms:
                if values[at] is not None:
                    values[at] = form(values[at])
        return adapted


# Rows of counts repeat the same few hours many times, so the texts of the hours are cached.
@lru_cache(maxsize=1024)
def _sqlite_time(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ")


# These functions return the same forms as Django's fields do, without the cost of a field call for each value.
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
    """Insert all rows. Raise `IntegrityError` if a row exists already."""
    if not rows:
        return
    if is_postgresql():
        statement = f'COPY "{columns.table}" ({columns.name_list}) FROM STDIN (FORMAT BINARY)'
        with server_cursor() as server, server.copy(statement) as copy:
            copy.set_types(columns.types)
            for row in rows:
                copy.write_row(row)
        return
    execute_each(columns.insert_statement(), columns.adapt_rows(rows))


def execute_each(sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run one statement for each row, in order (SQLite).

    The statement bypasses Django's cursor, which would search the statement for `%s` each time.
    """
    connection.ensure_connection()
    with connection.wrap_database_errors:
        connection.connection.executemany(sql.replace("%s", "?"), rows)


def upsert_rows(columns: Columns, rows: Sequence[Sequence[Any]], key: int, *, adds: bool = False) -> None:
    """Insert the rows. If a row with the same key exists, replace its other columns or, with `adds`, add to them.

    The first `key` columns are the unique key, and no two of the rows may have the same key. Callers must pass the rows
    in a fixed order, so that two workers cannot deadlock.
    """
    if not rows:
        return
    unique = ", ".join(f'"{name}"' for name in columns.names[:key])
    change = f'"{{0}}" = "{columns.table}"."{{0}}" + excluded."{{0}}"' if adds else '"{0}" = excluded."{0}"'
    changes = ", ".join(map(change.format, columns.names[key:]))
    source = f"SELECT * FROM unnest({columns.arrays})" if is_postgresql() else f"VALUES ({columns.placeholders()})"  # noqa: S608
    sql = f'INSERT INTO "{columns.table}" ({columns.name_list}) {source} ON CONFLICT ({unique}) DO UPDATE SET {changes}'
    if is_postgresql():
        with server_cursor() as cursor:
            cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)], prepare=True, binary=True)
    else:
        execute_each(sql, columns.adapt_rows(rows))


def take_lock(kind: int, number: int, *, shared: bool = False) -> None:
    """Take an advisory lock until the transaction ends. Do nothing on SQLite, which has one writer at a time."""
    if is_postgresql():
        function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s, %s)", [kind, number])


def await_standby() -> None:
    """Let the commit wait for a synchronous standby; call if the answer reports what an earlier transaction stored."""
    if is_postgresql():
        fetch_rows(f"SELECT {AWAIT_STANDBY}", [])


def release_connection() -> None:
    """Give the connections that have no open transaction back to their pools. Call before a wait, or pools run dry."""
    if is_postgresql():
        for used in connections.all(initialized_only=True):
            if used.connection is not None and not used.in_atomic_block:
                used.close()


# The lock of `write_turn`. `ingest/store.py` also takes this lock, without `write_turn`.
ONE_WRITER: Final = WriteTurn()


def write_turn() -> AbstractContextManager[object]:
    """Return a lock for the writers of this process on SQLite; on PostgreSQL, return a context that does nothing.

    SQLite allows one writer at a time. A writer that waits for SQLite sleeps between its tries, but a lock wakes the
    next thread immediately. A caller that opens a transaction around `ingest.store.accept` must take this lock first.
    Otherwise, one thread holds the lock and waits for the database, while another thread waits for the lock inside its
    transaction.
    """
    return nullcontext() if is_postgresql() else ONE_WRITER


_Row = TypeVar("_Row", bound=Model)


class RowReader(Generic[_Row]):
    """Read rows of a model. `columns` lists all columns of the model in SQL.

    `by` names the attributes by which `first` finds a row.

    Each statement is written once per process. Django writes the statement of a query anew each time, which for a wide
    table takes several times as long as running it.
    """

    def __init__(self, model: type[_Row], by: Sequence[str]) -> None:
        meta = model._meta  # noqa: SLF001 -- Django's documented API
        self.model = model
        self.fields = [field for field in meta.concrete_fields if field.column]
        self.columns = ", ".join(f'"{field.column}"' for field in self.fields)
        self._names = [field.attname for field in self.fields]
        self._by = [field for name in by for field in self.fields if field.attname == name]
        tests = " AND ".join(f'"{field.column}" = %s' for field in self._by)
        self._sql = f'SELECT {self.columns} FROM "{meta.db_table}" WHERE {tests}'  # noqa: S608

    def first(self, *values: Any) -> _Row | None:
        """Return a row with these values, one for each name in `by`, or None. The router chooses the database."""
        alias = router.db_for_read(self.model)
        given = zip(self._by, values, strict=True)
        bound = [field.get_db_prep_value(value, connections[alias]) for field, value in given]
        return next(iter(self.run(self._sql, bound, alias)), None)

    def run(
        self, sql: str, values: Sequence[Any], alias: str = DEFAULT_DB_ALIAS, *, binary: bool = False
    ) -> list[_Row]:
        """Return the rows of a statement that returns `columns`."""
        connection = connections[alias]
        bound = list(map(connection.ops.adapt_unknown_value, values))
        found = list(map(list, fetch_rows(sql, bound, alias, binary=binary)))
        for at, convert, column in _converters(self, connection.vendor, alias):
            for row in found:
                row[at] = convert(row[at], column, connection)
        return [self._make(row, alias) for row in found]

    def _make(self, row: Sequence[Any], alias: str) -> _Row:
        """Return the row as Django would. Django sets the attributes one by one, which takes three times as long."""
        made, state = self.model.__new__(self.model), ModelState()
        state.adding, state.db = False, alias
        made.__dict__.update(zip(self._names, row, strict=True), _state=state)
        return made


@cache
def _converters(reader: "RowReader[Any]", vendor: str, alias: str) -> tuple[tuple[int, Callable[..., Any], Col], ...]:
    """Return the conversions of the database's values, by position in the row."""
    connection, table = connections[alias], reader.model._meta.db_table  # noqa: SLF001 -- Django's documented API
    return tuple(
        (at, convert, column)
        for at, column in enumerate(field.get_col(table) for field in reader.fields)
        for convert in (*connection.ops.get_db_converters(column), *column.get_db_converters(connection))
    )


def reader_of(model: type[_Row], *by: str) -> RowReader[_Row]:
    """Return the reader of a model, which finds rows by these attributes, for example `"id", "tenant_id"`."""
    reader: RowReader[_Row] = _reader(model, by)
    return reader


_reader = cache(RowReader)
