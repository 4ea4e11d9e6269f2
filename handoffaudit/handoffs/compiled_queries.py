"""Queries that a process compiles only once, sums over the rows of several queries, and sums of closed days.

Django takes longer to build and compile a small statement than the database takes to execute the statement. The sums of
closed days are kept in the process, see `docs/decisions/0083-sums-of-closed-days.md`.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from operator import add
from typing import Any, Final, NamedTuple

import orjson
from django.db import DEFAULT_DB_ALIAS, connection, connections, router
from django.db.models import (
    BigIntegerField,
    CharField,
    DateField,
    DateTimeField,
    Expression,
    Field,
    QuerySet,
    Subquery,
)

from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import HourlyTotal

NUMBER: Final = BigIntegerField()

TIME: Final = DateTimeField()

DAY: Final = DateField()

TEXT: Final = CharField()

Row = tuple[Any, ...]


class Parameter(Expression):
    """A value of a compiled query. Each execution passes the value by the name of the parameter."""

    def __init__(self, name: str, field: "Field[Any, Any]") -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", [self]


# The value of a foreign key to the tenant.
TENANT: Final[Any] = Parameter("tenant", NUMBER)


def count_rows(rows: "QuerySet[Any]", most: int) -> Subquery:
    """Return the expression for the number of rows of a query of values, counted up to `most`."""
    counted = "(SELECT COUNT(*) FROM (%(subquery)s) AS counted)"
    return Subquery(rows.order_by()[:most], template=counted, output_field=NUMBER)


def bind(params: Iterable[Any], values: dict[str, Any], connection: Any) -> list[Any]:
    """Return the parameters of a statement with each `Parameter` replaced by its value."""
    return [
        param.output_field.get_db_prep_value(values[param.name], connection) if isinstance(param, Parameter) else param
        for param in params
    ]


class Statement(NamedTuple):
    """A statement with its parameters; `is_limited` if the query is sliced."""

    sql: str
    params: Sequence[Any]
    is_limited: bool = False

    @classmethod
    def of(cls, rows: "QuerySet[Any, Any]") -> "Statement":
        return cls(*rows.query.sql_with_params(), rows.query.is_sliced)


class CompiledQuery:
    """A query of values that is compiled when it is first executed.

    `build` returns the query, with a `Parameter` in place of each value that varies.
    """

    def __init__(self, build: "Callable[[], QuerySet[Any, Any]]") -> None:
        self._build = build
        self._compiled: tuple[str, tuple[Any, ...], list[Any], Any] | None = None

    def rows(self, **values: Any) -> list[tuple[Any, ...]]:
        """Execute the query with these values of its parameters; return its rows."""
        sql, params, columns, model = self._compiled or self._compile()
        reader = connections[router.db_for_read(model)]
        with reader.cursor() as cursor:
            cursor.execute(sql, bind(params, values, reader))
            found: list[tuple[Any, ...]] = cursor.fetchall()
        converters = {
            at: (column, functions)
            for at, column in enumerate(columns)
            if (functions := [*reader.ops.get_db_converters(column), *column.get_db_converters(reader)])
        }
        if not converters:
            return found
        return [tuple(_convert(value, converters.get(at), reader) for at, value in enumerate(row)) for row in found]

    def statement(self, **values: Any) -> Statement:
        """Return the statement with these values of its parameters."""
        sql, params, _, _ = self._compiled or self._compile()
        return Statement(sql, bind(params, values, connection))

    def _compile(self) -> tuple[str, tuple[Any, ...], list[Any], Any]:
        query = self._build().query
        model: Any = query.model
        compiler = query.get_compiler(connection=connections[router.db_for_read(model)])
        sql, params = compiler.as_sql()
        # All parts are set in one assignment, because two threads may compile the same statement at once.
        self._compiled = sql, params, [column for column, *_ in compiler.select or ()], model
        return self._compiled


def _convert(value: Any, converter: "tuple[Any, list[Callable[..., Any]]] | None", connection: Any) -> Any:
    column, functions = converter or (None, ())
    for function in functions:
        value = function(value, column, connection)
    return value


def convert_time(value: Any) -> Any:
    """Return a time that a statement of `sum_rows` returned; SQLite returns times as texts."""
    column = Parameter("time", TIME)
    return _convert(value, (column, connection.ops.get_db_converters(column)), connection)


def sum_rows(
    parts: "Iterable[QuerySet[Any, Any] | Statement]",
    by: Sequence[str],
    sums: Sequence[str],
    tail: str = "",
    *,
    only: str = "",
    using: str = DEFAULT_DB_ALIAS,
) -> list[tuple[Any, ...]]:
    """Group the rows of all `parts` by the columns `by`; return these columns and the SQL expressions `sums`.

    Without columns, all rows are one group. All parts must have the same columns. `only` is SQL that orders and limits
    the rows, `tail` filters, orders and limits the result, and `using` is the alias of the database. Django can group
    neither a union nor a limited query.
    """
    compiled = [part if isinstance(part, tuple) else Statement.of(part) for part in parts]
    # SQLite unites limited queries only inside of another query.
    rows = " UNION ALL ".join(
        f"SELECT * FROM ({sql}) AS part_{number}" if is_limited else sql  # noqa: S608
        for number, (sql, _, is_limited) in enumerate(compiled)
    )
    if only:
        rows = f"SELECT * FROM ({rows}) AS united {only}"  # noqa: S608
    grouped = f"GROUP BY {', '.join(by)}" if by else ""
    sql = f"SELECT {', '.join((*by, *sums))} FROM ({rows}) AS counted {grouped} {tail}"  # noqa: S608
    with connections[using].cursor() as cursor:
        cursor.execute(sql, [param for _, params, _ in compiled for param in params])
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def collect_values(column: str) -> str:
    """Return the SQL expression for all non-null values of a column; `split_values` parses its result."""
    name = "ARRAY_AGG" if db.is_postgresql() else "JSON_GROUP_ARRAY"
    return f"{name}({column}) FILTER (WHERE {column} IS NOT NULL)"


def split_values(found: Any) -> list[Any]:
    """Return the list of values from the result of a `collect_values` expression."""
    values: list[Any] = orjson.loads(found) if isinstance(found, str) else found or []
    return values


def merge_rows(some: Iterable[Row], others: Iterable[Row], place: int) -> list[Row]:
    """Return the sums of the rows with the same columns before `place`; the columns from `place` on are numbers."""
    found = {row[:place]: row for row in some}
    for row in others:
        known = found.get(row[:place])
        found[row[:place]] = row if known is None else (*row[:place], *map(add, known[place:], row[place:]))
    return list(found.values())


# A sum of closed days is kept only if it covers at least `_FEWEST` and at most `_OLDEST`.
_OLDEST: Final = timedelta(days=31)
_FEWEST: Final = timedelta(days=3)
# A process keeps at most `_MOST_KEPT` rows, some 20 MB, and no sum with more than `_MOST_ROWS` rows. The key of a sum
# takes as much memory as five rows, so it counts as `_ROWS_OF_KEY` rows. Otherwise, sums without rows, such as the sums
# of an unknown agent, would take memory without a limit.
_MOST_KEPT: Final = 50_000
_MOST_ROWS: Final = 5_000
_ROWS_OF_KEY: Final = 5
# A recount may correct daily counts and leave the hourly totals as they are, so no sum is kept for longer than this.
_KEPT_SECONDS: Final = 600.0

_kept: "OrderedDict[Hashable, tuple[Any, float, list[Row] | None]]" = OrderedDict()
_kept_lock = threading.Lock()


@dataclass(frozen=True)
class ClosedDays:
    """The days of a tenant before yesterday (UTC). Their counts change only rarely, such as after a late handoff.

    A process keeps sums of these days. A kept sum is used only while the hourly totals of the days are the same rows as
    when the sum was read. A page makes one instance, so that all sums of the page compare the same totals.
    """

    tenant_id: int
    now: datetime

    @property
    def end(self) -> date:
        """Return yesterday (UTC), the first day that is not closed."""
        return self.now.astimezone(UTC).date() - timedelta(days=1)

    def sum_rows(
        self,
        since: date,
        by: Sequence[str],
        sums: Sequence[str],
        key: Hashable,
        build: Callable[[], Iterable[Statement]],
    ) -> list[Row] | None:
        """Return the sums of counts from `since` to before `end`, or None if they cannot be kept.

        `build` returns the statements of the counts, which `key` identifies.
        """
        if not _FEWEST <= self.end - since <= _OLDEST or self._state is None:
            return None
        place = (self.tenant_id, self.end, tuple(by), tuple(sums), key)
        with _kept_lock:
            state, until, rows = _kept.get(place, (None, 0.0, None))
        # A sum with too many rows is kept as None, and is not read again before `until`, even if the totals change.
        if time.monotonic() < until and (rows is None or state == self._state):
            return rows
        found = sum_rows(build(), by, sums, f"LIMIT {_MOST_ROWS + 1}")
        rows = found if len(found) <= _MOST_ROWS else None
        with _kept_lock:
            _kept[place] = (self._state, time.monotonic() + _KEPT_SECONDS, rows)
            _kept.move_to_end(place)
            while sum(_ROWS_OF_KEY + len(some or ()) for *_, some in _kept.values()) > _MOST_KEPT:
                _kept.popitem(last=False)
        return rows

    def sum_hours(self, query: CompiledQuery, since: datetime, until: datetime, by: Sequence[str]) -> list[Row]:
        """Return the sums of `number`, by the columns `by`, over the query's rows from `since` to before `until`.

        The query has the parameters `tenant`, `since` and `until`.
        """
        sums, begin = ("CAST(SUM(number) AS bigint)",), self._begin
        read = partial(query.statement, tenant=self.tenant_id)
        kept = None
        if until >= begin:
            key = (query, since)
            kept = self.sum_rows(since.date(), by, sums, key, lambda: [read(since=since, until=begin)])
        rows = sum_rows([read(since=since if kept is None else begin, until=until)], by, sums)
        return rows if kept is None else merge_rows(kept, rows, len(by))

    @property
    def _begin(self) -> datetime:
        return datetime.combine(self.end, datetime.min.time(), UTC)

    @cached_property
    def _state(self) -> tuple[Any, ...] | None:
        """Return a value that differs after each change of the hourly totals; None without totals, and with SQLite.

        PostgreSQL writes a new row for each change, with the number of the transaction in `xmin`.
        """
        if not db.is_postgresql():
            return None
        with connection.cursor() as cursor:
            cursor.execute(_STATE, [self.tenant_id, self._begin - _OLDEST, self._begin])
            number, *state = cursor.fetchone()
        return (number, *state) if number else None


_STATE: Final = f"""
    SELECT COUNT(*), SUM(number), SUM(xmin::text::bigint) FROM "{HourlyTotal._meta.db_table}"
    WHERE tenant_id = %s AND hour >= %s AND hour < %s AND code = ''
"""  # noqa: S608, SLF001 -- Django's documented API
