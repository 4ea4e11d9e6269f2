"""Partitions of the large tables of handoffs on PostgreSQL: one for each week, by the id of the handoff.

The id of a handoff begins with its time, so a week is a range of ids, and a week that nobody needs leaves by dropping
its partitions. Rows outside of all weeks are in the default partition. SQLite has plain tables.
"""

import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from django.db import DatabaseError, OperationalError, connection, transaction
from django.utils import timezone

from handoffaudit.handoffs import db
from handoffaudit.handoffs.filters import first_id_at

log = structlog.get_logger(__name__)

# The tables, with the column of the handoff's id.
TABLES: Final = {"handoffs_handoffbody": "handoff_id"}
WEEK: Final = timedelta(weeks=1)
# Partitions are made so long ahead, and `/readyz` warns so long before the last one ends.
AHEAD: Final = 8 * WEEK
WARN_BEFORE: Final = timedelta(days=7)
_LOOK_SECONDS: Final = 3600.0
# While a statement waits for the lock of a table, the statements of others wait behind it.
_LOCK_MILLISECONDS: Final = 100
_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.3
# The first key of the advisory lock of PostgreSQL.
_LOCKS: Final = 0x50415254
_LEAST: Final = uuid.UUID(int=0)
_MOST: Final = uuid.UUID(int=2**128 - 1)
_BOUNDS: Final = re.compile(r"FROM \((?:MINVALUE|'([0-9a-f-]{36})')\) TO \('([0-9a-f-]{36})'\)")
_PARTITIONS: Final = """
    SELECT relname, pg_get_expr(relpartbound, pg_class.oid) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = to_regclass(%s)
"""
_DETACHED: Final = """
    SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition AND relname ~ %s
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass(%s))
"""

_next_look = 0.0


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a table, for the handoffs from the id `low` up to the id `high`."""

    table: str
    name: str
    low: uuid.UUID
    high: uuid.UUID

    @property
    def ends_at(self) -> datetime:
        return datetime.fromtimestamp((self.high.int >> 80) / 1000, UTC)


def week_of(moment: datetime) -> datetime:
    """Return the Monday (UTC) on which the week of the moment begins."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def list_partitions(table: str) -> list[Partition]:
    """Return the partitions of a table in the order of time, without the default partition."""
    if not db.is_postgresql():
        return []
    with connection.cursor() as cursor:
        cursor.execute(_PARTITIONS, [table])
        found = [(name, _BOUNDS.search(bounds)) for name, bounds in cursor.fetchall()]
    ranges = [(name, match[1], match[2]) for name, match in found if match]
    made = [Partition(table, name, uuid.UUID(low) if low else _LEAST, uuid.UUID(high)) for name, low, high in ranges]
    return sorted(made, key=lambda one: one.low)


def find(pk: uuid.UUID) -> list[Partition]:
    """Return the partitions of all tables that have the rows of a handoff, if the bounds of all are the same."""
    found = [one for table in TABLES for one in list_partitions(table) if one.low <= pk < one.high]
    return found if len({(one.low, one.high) for one in found}) == 1 else []


def bounds_of(pk: uuid.UUID) -> tuple[uuid.UUID, uuid.UUID]:
    """Return the bounds of the partition of a handoff, or of the time between two partitions."""
    edges = {_LEAST, _MOST}
    edges.update(edge for one in list_partitions(next(iter(TABLES))) for edge in (one.low, one.high))
    return max(edge for edge in edges if edge <= pk), min(edge for edge in edges if edge > pk or edge == _MOST)


def describe_shortage() -> str:
    """Return what is wrong if the partitions of a table end soon, or an empty text."""
    ends = [partitions[-1].ends_at for table in TABLES if (partitions := list_partitions(table))]
    end = min(ends, default=None)
    if end is None or end - timezone.now() > WARN_BEFORE:
        return ""
    return f"the partitions end on {end:%Y-%m-%d}: start a worker whose database user owns the tables, or read its log"


def look() -> None:
    """Make partitions ahead once an hour. A periodic job of each worker."""
    global _next_look  # noqa: PLW0603 -- one for the process
    if db.is_postgresql() and time.monotonic() >= _next_look:
        _next_look = time.monotonic() + _LOOK_SECONDS
        make_ahead()


def make_ahead() -> None:
    """Make the missing partitions of the next weeks, and drop detached ones that are left. Idempotent."""
    until = timezone.now() + AHEAD
    for table in TABLES:
        drop_detached(table)
        while (partitions := list_partitions(table)) and partitions[-1].ends_at < until:
            if not make_week(table, partitions[-1].ends_at):
                return


def make_week(table: str, monday: datetime) -> bool:
    """Add the partition of a week. Return False if it cannot be made now, for example because another process does."""
    key, name, rest = TABLES[table], f"{table}_{monday:%Y%m%d}", f"{table}_rest"
    low, high = first_id_at(monday), first_id_at(monday + WEEK)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            _limit_locks(cursor)
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [_LOCKS])
            if cursor.fetchone() != (True,) or any(one.low < high and low < one.high for one in list_partitions(table)):
                return False
            cursor.execute(f'CREATE TABLE "{name}" (LIKE "{table}" INCLUDING ALL EXCLUDING IDENTITY)')
            # The default partition has rows of the week if no worker made the partition in time.
            cursor.execute(f'LOCK TABLE "{rest}" IN ACCESS EXCLUSIVE MODE')
            cursor.execute(
                f"""WITH moved AS (DELETE FROM "{rest}" WHERE "{key}" >= %s AND "{key}" < %s RETURNING *)
                    INSERT INTO "{name}" SELECT * FROM moved""",  # noqa: S608
                [low, high],
            )
            cursor.execute(f'ALTER TABLE "{table}" ATTACH PARTITION "{name}" FOR VALUES FROM (%s) TO (%s)', [low, high])
    except DatabaseError as error:
        log.warning("a partition could not be made, and is tried again", partition=name, error=str(error))
        return False
    log.info("a partition was made", partition=name)
    return True


def detach(partitions: Sequence[Partition], is_free: Callable[[], bool]) -> bool:
    """Detach partitions if nobody needs their rows. Call inside a transaction, and `drop_detached` after its commit.

    `is_free` is called while nobody else can read or write the tables, so it must be fast. Raise `OperationalError` if
    the locks are not free in time.
    """
    with connection.cursor() as cursor:
        _limit_locks(cursor)
        for one in partitions:
            cursor.execute(f'LOCK TABLE ONLY "{one.table}" IN ACCESS EXCLUSIVE MODE')
            cursor.execute(f'LOCK TABLE "{one.name}" IN ACCESS EXCLUSIVE MODE')
        if not is_free():
            return False
        for one in partitions:
            cursor.execute(f'ALTER TABLE "{one.table}" DETACH PARTITION "{one.name}"')
    return True


def drop_detached(table: str) -> None:
    """Drop the detached partitions of a table. Removing their files takes a while, so no lock is held meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(_DETACHED, [rf"^{table}_(first|[0-9]{{8}})$", table])
        for (name,) in cursor.fetchall():
            cursor.execute(f'DROP TABLE IF EXISTS "{name}"')
            log.info("a partition was dropped", partition=name)


def _limit_locks(cursor: Any) -> None:
    cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}")


def partition(table: str) -> None:
    """Make a table partitioned while processes use it. Call outside of a transaction, from a migration. Idempotent.

    The table becomes the first partition, for everything up to the week after the next one, so no row moves.
    """
    high = first_id_at(week_of(timezone.now()) + 2 * WEEK)
    check = f'ALTER TABLE "{table}" ADD CONSTRAINT "{table}_range" CHECK ("{TABLES[table]}" < %s) NOT VALID'
    with connection.cursor() as cursor:
        cursor.execute("SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", [table])
        if cursor.fetchone() == ("p",):
            return
    # With a validated constraint, PostgreSQL reads no rows while the table is locked.
    _execute(f'ALTER TABLE "{table}" DROP CONSTRAINT IF EXISTS "{table}_range"')
    _execute(check, [high])
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER TABLE "{table}" VALIDATE CONSTRAINT "{table}_range"')
    _execute(_SWITCH.format(table=table, key=TABLES[table]), [high])
    make_ahead()


_SWITCH: Final = """
    LOCK TABLE "{table}" IN ACCESS EXCLUSIVE MODE;
    ALTER TABLE "{table}" RENAME TO "{table}_first";
    ALTER INDEX "{table}_pkey" RENAME TO "{table}_first_pkey";
    CREATE TABLE "{table}" (LIKE "{table}_first" INCLUDING ALL) PARTITION BY RANGE ("{key}");
    ALTER TABLE "{table}" DROP CONSTRAINT "{table}_range";
    CREATE TABLE "{table}_rest" PARTITION OF "{table}" DEFAULT;
    ALTER TABLE "{table}" ATTACH PARTITION "{table}_first" FOR VALUES FROM (MINVALUE) TO (%s);
    ALTER TABLE "{table}_first" DROP CONSTRAINT "{table}_range";
"""


def _execute(statements: str, parameters: Sequence[Any] = ()) -> None:
    """Run statements in one transaction, and try again while the lock of a table is not free."""
    for tries in range(1, _TRIES + 1):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                _limit_locks(cursor)
                cursor.execute(statements, parameters or None)
        except OperationalError:
            if tries == _TRIES:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return
