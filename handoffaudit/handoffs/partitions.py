"""Partitions of the large tables of handoffs on PostgreSQL: one for each week, by the time in an id.

The key of a document is the id of its handoff. A verdict has an id of its own, which begins with the time of the
verdict. So a week is a range of ids, and a week that nobody needs is removed by dropping its partitions. Rows outside
of all weeks are in the default partition. SQLite has plain tables.

The module also gathers the first statistics of tables.
"""

import re
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from django.db import DatabaseError, OperationalError, ProgrammingError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from handoffaudit.handoffs import db
from handoffaudit.handoffs.filters import first_id_at, moment_of

log = structlog.get_logger(__name__)

DOCUMENTS: Final = "handoffs_handoffbody"
VERDICTS: Final = "handoffs_verdict"
# The tables, with their keys.
TABLES: Final = {DOCUMENTS: "handoff_id", VERDICTS: "id"}
WEEK: Final = timedelta(weeks=1)
# A verdict is made after its handoff arrived, but the clocks of two machines may differ by up to a week. The value is a
# week as a difference of two ids.
_CLOCKS: Final = WEEK // timedelta(milliseconds=1) << 80
# The most verdicts on handoffs of other weeks (strays) that are moved out of a partition, so that it can be dropped. A
# partition with more strays is kept.
MOST_STRAYS: Final = 10_000
# How long ahead partitions are made, and how long before the end of the last partition `/readyz` warns.
AHEAD: Final = 8 * WEEK
WARN_BEFORE: Final = timedelta(days=7)
_LOOK_SECONDS: Final = 3600.0
# The wait for the lock of a table is short, because the statements of other processes queue behind it.
_LOCK_MILLISECONDS: Final = 100
_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.3
# A partition that stays in use for all these tries is not dropped.
_DROP_TRIES: Final = 5
_DROP_PAUSE_SECONDS: Final = 0.5
# The first key of the advisory lock of PostgreSQL.
_LOCKS: Final = 0x50415254
_LEAST: Final = uuid.UUID(int=0)
_MOST: Final = uuid.UUID(int=2**128 - 1)
_BOUNDS: Final = re.compile(r"FROM \((?:MINVALUE|'([0-9a-f-]{36})')\) TO \('([0-9a-f-]{36})'\)")
_PARTITIONS: Final = """
    SELECT relname, pg_get_expr(relpartbound, pg_class.oid) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = to_regclass(%s)
"""
_STRAYS: Final = """
    SELECT * FROM "{name}" AS made WHERE (handoff_id < %s OR handoff_id >= %s)
    AND EXISTS (SELECT FROM handoffs_handoff WHERE handoffs_handoff.id = made.handoff_id)
"""
_DETACHED: Final = """
    SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition AND relname ~ %s
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass(%s))
"""

# `CREATE TABLE … LIKE` copies no rights of other roles.
_COPY_RIGHTS: Final = """
    DO $copy$ DECLARE given text; BEGIN
        FOR given IN
            SELECT 'GRANT ' || privilege_type || columns || ' ON "{target}" TO '
                || CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
                || CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
            FROM (
                SELECT relowner, '' AS columns, (aclexplode(relacl)).*
                FROM pg_class WHERE oid = to_regclass('"{source}"')
                UNION ALL
                SELECT relowner, '(' || quote_ident(attname) || ')', (aclexplode(attacl)).*
                FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE attrelid = to_regclass('"{source}"')
            ) AS rights
            WHERE grantee <> relowner
        LOOP EXECUTE given; END LOOP;
    END $copy$;
"""

# A smaller table has at most some hundred rows, which are read fast with any plan.
_LEAST_BYTES: Final = 256 * 1024
_WITHOUT_STATISTICS: Final = """
    SELECT relname FROM pg_class
    WHERE relkind = 'r' AND reltuples <= 0 AND relname ~ '^(handoffs|diagnostics)_'
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('handoffs_handoff'))
    AND pg_relation_size(oid) >= %s
    ORDER BY relname
"""

_next_look = 0.0
# The tables whose statistics this process has tried to gather.
_gathered: set[str] = set()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a table, for the keys from `low` up to `high`, which is not included."""

    table: str
    name: str
    low: uuid.UUID
    high: uuid.UUID

    @property
    def ends_at(self) -> datetime:
        return moment_of(self.high)


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
    """Return the partitions to drop if nobody needs the week of a handoff; an empty list if the week has no partition.

    The first partition has the documents of the week. The other partitions have verdicts, end in the same week,
    and have few strays.
    """
    documents = [one for one in list_partitions(DOCUMENTS) if one.low <= pk < one.high]
    verdicts = [one for week in documents for one in list_partitions(VERDICTS) if week.low < one.high <= week.high]
    return documents + [one for one in verdicts if not _has_many_strays(one, documents[0])]


def _has_many_strays(verdicts: Partition, week: Partition) -> bool:
    with transaction.atomic(), connection.cursor() as cursor:
        # Without statistics, the planner would read the whole partition instead of the index by handoff.
        cursor.execute("SET LOCAL enable_seqscan = off")
        some = _STRAYS.format(name=verdicts.name)
        cursor.execute(f"SELECT count(*) FROM ({some} LIMIT %s) AS strays", [week.low, week.high, MOST_STRAYS + 1])  # noqa: S608
        return bool(cursor.fetchone()[0] > MOST_STRAYS)


def is_empty(one: Partition) -> bool:
    with connection.cursor() as cursor:
        # The oldest rows are deleted first. In ascending order, PostgreSQL would read the pages of all deleted rows.
        cursor.execute(f'SELECT FROM "{one.name}" ORDER BY "{TABLES[one.table]}" DESC LIMIT 1')
        return cursor.fetchone() is None


def bound_verdicts(first: uuid.UUID, last: uuid.UUID | None) -> tuple[uuid.UUID, uuid.UUID]:
    """Return bounds for the ids of verdicts that were made between the times of two ids.

    The bounds are a week wider on both sides, because clocks may differ (`_CLOCKS`). Without `last`, the upper bound is
    the highest possible id. With these bounds, PostgreSQL plans a query by handoff for a few partitions instead of all.
    """
    high = last.int + _CLOCKS if last else _MOST.int
    return uuid.UUID(int=max(first.int - _CLOCKS, 0)), uuid.UUID(int=min(high, _MOST.int))


def filter_made_between(first: uuid.UUID, last: uuid.UUID | None) -> Q:
    """Return the condition for verdicts within `bound_verdicts`, empty on SQLite, which would choose a wrong index."""
    return Q(id__range=bound_verdicts(first, last)) if db.is_postgresql() else Q()


def bounds_of(pk: uuid.UUID) -> tuple[uuid.UUID, uuid.UUID]:
    """Return the bounds of the partition of a handoff, or of the gap between partitions that the handoff is in."""
    edges = {_LEAST, _MOST}
    edges.update(edge for one in list_partitions(next(iter(TABLES))) for edge in (one.low, one.high))
    return max(edge for edge in edges if edge <= pk), min(edge for edge in edges if edge > pk or edge == _MOST)


def describe_shortage() -> str:
    """Return a warning if the partitions of a table end soon, or else an empty text."""
    ends = [partitions[-1].ends_at for table in TABLES if (partitions := list_partitions(table))]
    end = min(ends, default=None)
    if end is None or end - timezone.now() > WARN_BEFORE:
        return ""
    remedy = "start a worker whose database user owns the tables; if one is running, read its log"
    return f"the partitions end on {end:%Y-%m-%d}: {remedy}"


def look() -> None:
    """Make partitions ahead, once an hour. Each worker runs the function as a periodic job."""
    global _next_look  # noqa: PLW0603 -- one for the process
    if db.is_postgresql() and time.monotonic() >= _next_look:
        _next_look = time.monotonic() + _LOOK_SECONDS
        make_ahead()


def make_ahead() -> None:
    """Make the missing partitions of the next weeks, and drop partitions that are still detached. Idempotent."""
    until = timezone.now() + AHEAD
    for table in TABLES:
        drop_detached(table)
        while (partitions := list_partitions(table)) and partitions[-1].ends_at < until:
            if not make_week(table, partitions[-1].ends_at):
                return


def make_week(table: str, monday: datetime) -> bool:
    """Add the partition of a week. Return False if the week has a partition, or if the partition cannot be made now."""
    key, name, rest = TABLES[table], f"{table}_{monday:%Y%m%d}", f"{table}_rest"
    low, high = first_id_at(monday), first_id_at(monday + WEEK)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            _limit_locks(cursor)
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [_LOCKS])
            if cursor.fetchone() != (True,) or any(one.low < high and low < one.high for one in list_partitions(table)):
                return False
            cursor.execute(f'CREATE TABLE "{name}" (LIKE "{table}" INCLUDING ALL EXCLUDING IDENTITY)')
            cursor.execute(_COPY_RIGHTS.format(source=table, target=name))
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
    """Detach partitions, or return False if somebody needs their rows.

    Call inside a transaction, and call `drop_detached` after the commit. Verdicts on handoffs outside of the first
    partition's range, such as handoffs of the last second of the week before, move to the default partition. `is_free`
    must be fast, because nobody else can read or write the tables while it runs. Raise `OperationalError` if the locks
    are not free in time.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        _limit_locks(cursor)
        for one in partitions:
            cursor.execute(f'LOCK TABLE ONLY "{one.table}" IN ACCESS EXCLUSIVE MODE')
            cursor.execute(f'LOCK TABLE "{one.name}" IN ACCESS EXCLUSIVE MODE')
        if not is_free():
            return False
        for one in partitions:
            cursor.execute(f'ALTER TABLE "{one.table}" DETACH PARTITION "{one.name}"')
            if one.table == VERDICTS:
                strays = _STRAYS.format(name=one.name)
                cursor.execute(f'INSERT INTO "{one.table}" {strays}', [partitions[0].low, partitions[0].high])
    return True


def drop(partitions: Sequence[Partition], detach_some: Callable[[], bool]) -> None:
    """Drop partitions that `detach_some` detaches. The partitions stay if they are in use in all tries.

    `detach_some` is called inside a transaction, and returns False if somebody needs the rows.
    """
    for _ in range(_DROP_TRIES):
        try:
            with transaction.atomic():
                is_done = detach_some()
                transaction.set_rollback(not is_done)
        except OperationalError as error:
            name = partitions[0].name
            log.info("a partition is not dropped yet, because it is in use", partition=name, error=str(error))
            time.sleep(_DROP_PAUSE_SECONDS)
            continue
        if is_done:
            for one in partitions:
                drop_detached(one.table)
        return


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

    The table becomes the first partition, so no row moves. This partition ends a week after the current week or, if
    that is later, a week after the week of the newest row.
    """
    last = timezone.now()
    with connection.cursor() as cursor:
        # The clock of a machine may have been ahead.
        cursor.execute(f'SELECT "{TABLES[table]}" FROM "{table}" ORDER BY 1 DESC LIMIT 1')  # noqa: S608
        for (newest,) in cursor.fetchall():
            last = max(last, moment_of(newest))
    high = first_id_at(week_of(last) + 2 * WEEK)
    check = f'ALTER TABLE "{table}" ADD CONSTRAINT "{table}_range" CHECK ("{TABLES[table]}" < %s) NOT VALID'
    with connection.cursor() as cursor:
        cursor.execute("SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", [table])
        if cursor.fetchone() == ("p",):
            return
    # With a validated constraint, PostgreSQL reads no rows while the table is locked.
    execute_when_free(f'ALTER TABLE "{table}" DROP CONSTRAINT IF EXISTS "{table}_range"')
    execute_when_free(check, [high])
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER TABLE "{table}" VALIDATE CONSTRAINT "{table}_range"')
    rights = _COPY_RIGHTS.format(source=f"{table}_first", target=table)
    rights += _COPY_RIGHTS.format(source=table, target=f"{table}_rest")
    execute_when_free(_SWITCH.format(table=table, key=TABLES[table]) + rights, [high])
    make_ahead()


def restore_rights(table: str) -> None:
    """Copy the rights of roles from the first partition to the table, and from the table to all its partitions."""
    names = [f"{table}_rest", *(one.name for one in list_partitions(table))]
    pairs = [(f"{table}_first", table), *((table, name) for name in names)]
    execute_when_free("".join(_COPY_RIGHTS.format(source=source, target=target) for source, target in pairs))


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


def execute_when_free(statements: str, parameters: Sequence[Any] = ()) -> None:
    """Run statements in one transaction, and try again while the lock of a table is not free.

    Raise `OperationalError` after `_TRIES` tries.
    """
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


def gather_statistics() -> None:
    """Gather the statistics of tables that have grown but have no statistics yet.

    Autovacuum looks once a minute. Until then, PostgreSQL plans queries as if the tables of a new installation were
    empty. For example, the search for the ancestors of a handoff reads all handoffs of the tenant.
    """
    if not db.is_postgresql():
        return
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT_STATISTICS, [_LEAST_BYTES])
        names = [name for (name,) in cursor.fetchall() if name not in _gathered]
    for name in names:
        _gathered.add(name)
        # Whoever holds the lock gathers the statistics now, or autovacuum does later. A detached partition may be gone.
        with suppress(OperationalError, ProgrammingError), transaction.atomic(), connection.cursor() as cursor:
            _limit_locks(cursor)
            cursor.execute(f'ANALYZE "{name}"')
