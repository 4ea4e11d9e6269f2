"""The recount: compare all stored counts with the handoffs that they count, and correct the differences.

The database compares the counts in one snapshot, so that nothing is locked and only differences reach this process.
Then each difference is added to its count, in the same way as the change of a handoff.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone

from handoffaudit.handoffs import db
from handoffaudit.handoffs.counts import AGGREGATES, HOURLY_COUNTS, OUTCOMES, UNVERIFIED, Aggregate, Key, midnight_of
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.leases import NamedLease
from handoffaudit.handoffs.models import WAITING_STATES, Finding, Handoff, RemovedHandoffs
from handoffaudit.policy.retention import HOURS_KEPT

# A round keeps at most this many differences of each aggregate in memory. Another round corrects the rest.
MOST_DIFFERENCES: Final = 100_000
_WRITTEN_AT_ONCE: Final = 500
_TRUE: Final = "handoffaudit_true_counts"
_HANDOFFS: Final = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
_FINDINGS: Final = Finding._meta.db_table  # noqa: SLF001 -- Django's documented API
_REMOVED: Final = RemovedHandoffs._meta.db_table  # noqa: SLF001 -- Django's documented API
_ROUTE: Final = "handoff_type, source_agent_id, target_agent_id, state"


class RecountLease(NamedLease):
    """The lease of a process that corrects counts. Two such processes would add the same difference twice."""

    LENGTH = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Difference:
    """The result of a recount.

    `rows` is the number of counts that should be stored. `wrong` is the number of wrong, missing or extra counts.
    """

    rows: int
    wrong: int


def recount(*, repair: bool = True) -> Difference:
    """Count all handoffs again and compare the result with the stored counts.

    If `repair` is set, correct the stored counts; only one process may do that at a time. Without `repair`, at most
    `MOST_DIFFERENCES` differences of each aggregate are counted. Counts of handoffs that retention may have removed are
    not compared.
    """
    rows, wrong = _compare_all()
    total = sum(len(found) for found in wrong.values())
    while repair and any(wrong.values()):
        for aggregate, found in wrong.items():
            correct(aggregate, found)
        more = max(len(found) for found in wrong.values()) >= MOST_DIFFERENCES
        wrong = _compare_all()[1] if more else {}
        total += sum(len(found) for found in wrong.values())
    return Difference(rows, total)


Found = dict[Key, Sequence[int]]


def correct(aggregate: Aggregate[Any], found: Found) -> None:
    """Add the differences to the stored counts, in several transactions, between which others can write."""
    keys = sorted(found)
    for start in range(0, len(keys), _WRITTEN_AT_ONCE):
        with write_turn(), transaction.atomic():
            aggregate.add({key: found[key] for key in keys[start : start + _WRITTEN_AT_ONCE]})


def _compare_all() -> tuple[int, dict[Aggregate[Any], Found]]:
    """Return the number of true counts, and for each aggregate the differences to add to its wrong counts."""
    rows, wrong = 0, {}
    with _snapshot(), connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {_TRUE}")
        cursor.execute(f"CREATE TEMPORARY TABLE {_TRUE} AS {_count_sql()}", [_edge()])
        for aggregate in AGGREGATES:
            key, true = _fold_sql(aggregate)
            cursor.execute(f"SELECT COUNT(*) FROM ({true}) AS folded", [])  # noqa: S608
            rows += cursor.fetchone()[0]
            wrong[aggregate] = _find_differences(cursor, aggregate, key, true)
        cursor.execute(f"DROP TABLE {_TRUE}")
    return rows, wrong


def _find_differences(cursor: Any, aggregate: Aggregate[Any], key: str, true: str) -> Found:
    length, stored = len(aggregate.numbers), f'"{aggregate.table}"'
    edge = [_edge()] if "hour" in aggregate.key else []
    time = _whole_day_if_old("hour") if edge else "day"
    columns = ", ".join(time + " AS hour" if name == "hour" else name for name in key.split(", "))
    negative = ", ".join(f"-{name}" for name in aggregate.numbers)
    sums = ", ".join(f"CAST(SUM({name}) AS bigint)" for name in aggregate.numbers)
    differs = " OR ".join(f"SUM({name}) <> 0" for name in aggregate.numbers)
    sql = f"""
        SELECT {key}, {sums} FROM (
            SELECT {key}, {", ".join(aggregate.numbers)} FROM ({true}) AS folded
            UNION ALL SELECT {columns}, {negative} FROM {stored} AS counted WHERE {_is_known("counted", aggregate)}
        ) AS compared GROUP BY {key} HAVING {differs} LIMIT {MOST_DIFFERENCES}
    """  # noqa: S608
    cursor.execute(sql, edge)
    return {parse_key(aggregate, row[:-length]): row[-length:] for row in cursor.fetchall()}


def _count_sql() -> str:
    """Return the SQL of the true hourly counts. The parameter is `_edge`: earlier hours are summed into days."""
    hour = _whole_day_if_old("hour")
    waiting = ", ".join(f"'{state}'" for state in WAITING_STATES)
    handoffs = f"""
        SELECT id, tenant_id, {_truncate("hour", "COALESCE(sent_at, received_at)")} AS hour, {_ROUTE}
        FROM "{_HANDOFFS}" WHERE state NOT IN ({waiting})
    """  # noqa: S608
    codes = f"""SELECT DISTINCT handoff_id, code FROM "{_FINDINGS}" WHERE code <> '{UNVERIFIED}'"""  # noqa: S608
    return f"""
        SELECT tenant_id, hour, {_ROUTE}, code, COUNT(*) AS number FROM (
            SELECT tenant_id, {hour} AS hour, {_ROUTE}, CASE WHEN place = 0 THEN '' ELSE code END AS code
            FROM ({handoffs}) AS settled
            CROSS JOIN (SELECT 0 AS place UNION ALL SELECT 1) AS places
            LEFT JOIN ({codes}) AS found ON found.handoff_id = settled.id AND place = 1
            WHERE {_is_known("settled", HOURLY_COUNTS)}
        ) AS each_code WHERE code IS NOT NULL
        GROUP BY tenant_id, hour, {_ROUTE}, code
    """  # noqa: S608


def _fold_sql(aggregate: Aggregate[Any]) -> tuple[str, str]:
    """Return the columns of the aggregate's key, and the SQL of its true numbers."""
    names = [str(name).replace("tenant", "tenant_id") for name in aggregate.key]
    day = "CAST(hour AT TIME ZONE 'UTC' AS date)" if db.is_postgresql() else "strftime('%%Y-%%m-%%d', hour)"
    columns = ", ".join(f"{day} AS day" if name == "day" else name for name in names)
    if aggregate.numbers == ("number",):
        numbers = "SUM(number) AS number"
    else:
        states = {name: ", ".join(f"'{state}'" for state in of) for name, of in OUTCOMES.items()}
        numbers = ", ".join(
            f"SUM(CASE WHEN state IN ({some}) THEN number ELSE 0 END) AS {name}" for name, some in states.items()
        )
    where = "" if "code" in names else "WHERE code = ''"
    places = ", ".join(str(place) for place in range(1, len(names) + 1))
    return ", ".join(names), f"SELECT {columns}, {numbers} FROM {_TRUE} {where} GROUP BY {places}"  # noqa: S608


def _is_known(rows: str, aggregate: Aggregate[Any]) -> str:
    """Return the SQL condition for counts whose handoffs retention cannot have removed."""
    time = f"{rows}.hour" if "hour" in aggregate.key else f"{rows}.day"
    before = _truncate("day", "removed.before") if "hour" in aggregate.key else _date_of("removed.before")
    return f"""NOT EXISTS (
        SELECT 1 FROM "{_REMOVED}" AS removed WHERE removed.tenant_id = {rows}.tenant_id AND {time} < {before}
    )"""  # noqa: S608


def _date_of(column: str) -> str:
    return f"CAST({column} AT TIME ZONE 'UTC' AS date)" if db.is_postgresql() else f"strftime('%%Y-%%m-%%d', {column})"


def _whole_day_if_old(column: str) -> str:
    return f"CASE WHEN {column} < %s THEN {_truncate('day', column)} ELSE {column} END"


def _truncate(unit: str, column: str) -> str:
    if db.is_postgresql():
        return f"date_trunc('{unit}', {column}, 'UTC')"
    return f"strftime('%%Y-%%m-%%d {'%%H' if unit == 'hour' else '00'}:00:00', {column})"


def _edge() -> Any:
    """Return the start of the first day whose hours are compared one by one.

    The time has the form in which the database stores times.
    """
    return connection.ops.adapt_datetimefield_value(midnight_of(timezone.now() - HOURS_KEPT))


def parse_key(aggregate: Aggregate[Any], key: Sequence[Any]) -> Key:
    """Return a key as Python values. SQLite returns some times and dates as text, and times without a zone."""
    if db.is_postgresql():
        return tuple(key)
    return tuple(_parse(name, value) for name, value in zip(aggregate.key, key, strict=True))


def _parse(name: str, value: Any) -> Any:
    if name == "hour":
        return (datetime.fromisoformat(value) if isinstance(value, str) else value).replace(tzinfo=UTC)
    return date.fromisoformat(value) if name == "day" and isinstance(value, str) else value


@contextmanager
def _snapshot() -> Iterator[None]:
    """Let all statements of the block read the same state of the database, without a lock.

    On SQLite, one of Django's own transactions would take the write lock. If a transaction is open already, the block
    runs in that transaction.
    """
    if connection.in_atomic_block:
        yield
    elif db.is_postgresql():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield
    else:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
