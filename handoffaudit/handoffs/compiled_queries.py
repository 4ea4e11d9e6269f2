"""Queries of pages that are compiled once in a process, and sums over the rows of several queries.

Django takes longer to build and compile a small statement than the database to execute it.
"""

from collections.abc import Callable, Iterable, Sequence
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

NUMBER: Final = BigIntegerField()

TIME: Final = DateTimeField()

DAY: Final = DateField()

TEXT: Final = CharField()


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
