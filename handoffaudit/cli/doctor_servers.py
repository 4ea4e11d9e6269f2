"""The checks of `handoffaudit doctor` on the servers that the product uses: the database, its clock, and the broker."""

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final

import psycopg
import redis
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections

from handoffaudit.cli import Stop, database
from handoffaudit.cli.doctor import Check, Installation, Level, Result, name_check
from handoffaudit.database_faults import find_fault
from handoffaudit.handoffs import partitions
from handoffaudit.redis_client import connect
from handoffaudit.replica import ALIAS, MOST_LAG_SECONDS
from handoffaudit.sqlite_file import REMEDY

# The product leases rows with UPDATE … RETURNING.
OLDEST_SQLITE: Final = (3, 35)
# Leases and heartbeats compare times of different machines and tolerate a difference of some seconds.
CLOCK_WARNING, CLOCK_ERROR = timedelta(seconds=2), timedelta(seconds=30)


def needs_database(check: Check) -> Check:
    """Skip the check if the database cannot be used."""

    @wraps(check)
    def wrapper(installation: Installation) -> Iterator[Result]:
        if installation.database_works:
            yield from check(installation)
        else:
            name = name_check(check)
            yield Result(name, Level.SKIPPED, "Not checked, because the database cannot be used.")

    return wrapper


def skip_folder(name: str) -> Result:
    return Result(name, Level.SKIPPED, "Not checked, because this user cannot use the data folder.")


def check_database(installation: Installation) -> Iterator[Result]:
    """Check that the database answers, has a supported version and allows writing."""
    if "DATABASE_URL" in installation.wrong:
        yield Result("database", Level.SKIPPED, "Not checked, because DATABASE_URL is wrong.")
        return
    if connection.vendor == "sqlite":
        yield _check_file(installation) if installation.folder_works else skip_folder("database")
    else:
        yield from _check_server(installation)


def _check_file(installation: Installation) -> Result:
    file = Path(connection.settings_dict["NAME"])
    if not file.is_file():
        fix = "Start the server with handoffaudit up, or name its folder with --data or HANDOFFAUDIT_DATA."
        return Result("database", Level.ERROR, f"There is no database {file}.", fix)
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        fix = f"Install a Python with SQLite {OLDEST_SQLITE[0]}.{OLDEST_SQLITE[1]} or later."
        return Result("database", Level.ERROR, f"SQLite is {sqlite3.sqlite_version}.", fix)
    # The first two checks only read. `find_fault` writes to an empty file, which would hide that the file was emptied.
    try:
        database.refuse_emptied()
        database.refuse_damaged()
    except Stop as error:
        what, _, more = error.message.partition(f": {REMEDY}")
        return Result("database", Level.ERROR, f"{what}.", _to_sentence(REMEDY + more))
    if not file.stat().st_size:
        fix = "Start the server with handoffaudit up, which creates the tables."
        return Result("database", Level.ERROR, f"The database {file} has no tables.", fix)
    if fault := find_fault():
        what, _, fix = fault.detail.partition(": ")
        fix = REMEDY if fault.cause == "damaged" else fix
        return Result("database", Level.ERROR, f"The database {file} {what}.", _to_sentence(fix))
    installation.database_works = True
    return Result(
        "database", Level.OK, f"SQLite {sqlite3.sqlite_version}, {file}, {file.stat().st_size / 1e6:,.1f} MB."
    )


_SERVER: Final = """
    SELECT current_setting('server_version_num')::int, current_setting('server_version'),
           current_setting('TimeZone'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
           COALESCE(has_table_privilege(to_regclass('handoffs_handoff'), 'INSERT, UPDATE'), true)
"""

_CONNECTIONS: Final = """
    SELECT LEAST(
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
        CASE WHEN rolconnlimit < 0 THEN NULL ELSE rolconnlimit - (
            SELECT COUNT(*) FROM pg_stat_activity WHERE usename = CURRENT_USER) END,
        CASE WHEN datconnlimit < 0 THEN NULL ELSE datconnlimit - (
            SELECT COUNT(*) FROM pg_stat_activity WHERE datname = CURRENT_DATABASE()) END
    ) FROM pg_roles, pg_database WHERE rolname = CURRENT_USER AND datname = CURRENT_DATABASE()
"""


def _connect(alias: str = DEFAULT_DB_ALIAS) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect without the pool, which would try for half a minute to reach a server that does not answer."""
    parameters = {name: value for name, value in connections[alias].get_connection_params().items() if name != "pool"}
    parameters.pop("cursor_factory", None)
    parameters.pop("context", None)
    return psycopg.connect(**parameters | {"connect_timeout": database.CONNECT_SECONDS})


def _check_server(installation: Installation) -> Iterator[Result]:
    name = database.name_database()
    try:
        with _connect() as opened:
            number, version, zone, is_read_only, may_write = opened.execute(_SERVER).fetchone() or (
                0,
                "",
                "",
                True,
                False,
            )
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        fix = "Check that the server runs, that DATABASE_URL is right, and that the server has a free connection."
        yield Result("database", Level.ERROR, f"{name} cannot be used: {reason}", fix)
        return
    needed = connection.features.minimum_database_version[0]  # type: ignore[index]
    if number // 10_000 < needed:
        yield Result("database", Level.ERROR, f"{name} is PostgreSQL {version}.", f"Upgrade to {needed} or later.")
    elif is_read_only:
        fix = "Set DATABASE_URL to the primary server, or unset default_transaction_read_only."
        yield Result("database", Level.ERROR, f"{name} is read-only.", fix)
    elif not may_write:
        fix = "Grant the user of DATABASE_URL all rights on the tables, or let this user own them."
        yield Result("database", Level.ERROR, f"The user of {name} may not write to its tables.", fix)
    else:
        installation.database_works = True
        text = f"PostgreSQL {version}, {name}; its time zone is {zone}, and the product uses UTC."
        yield Result("database", Level.OK, text)


# While nothing writes to the primary, the last replayed transaction grows old although the replica does not lag.
_REPLICA: Final = """
    SELECT pg_is_in_recovery(), CASE WHEN pg_last_wal_replay_lsn() >= %s::pg_lsn THEN 0.0 ELSE
        COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8, 0.0) END
"""


@needs_database
def check_replica(_: Installation) -> Iterator[Result]:
    """Check that a configured replica answers and does not lag too much. Otherwise, pages read from the primary."""
    if ALIAS not in settings.DATABASES:
        return
    try:
        with _connect() as primary, _connect(ALIAS) as opened:
            (written,) = primary.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("0/0",)
            is_replica, lag = opened.execute(_REPLICA, [written]).fetchone() or (False, 0.0)
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        fix = "Check that the replica runs and that DATABASE_REPLICA_URL is right. Until then, pages use the primary."
        yield Result("replica", Level.WARNING, f"The replica cannot be used: {reason}", fix)
        return
    if not is_replica:
        message = "DATABASE_REPLICA_URL names a primary server."
        yield Result("replica", Level.WARNING, message, "Set the variable to the address of a replica, or unset it.")
    elif lag > MOST_LAG_SECONDS:
        message = f"The replica lags by {lag:,.0f} s, so pages read from the primary."
        yield Result("replica", Level.WARNING, message, "Look at the replication and at the load of the replica.")
    else:
        yield Result("replica", Level.OK, f"The replica answers, and lags by {lag:.1f} s at most.")


@needs_database
def check_connections(_: Installation) -> Iterator[Result]:
    """Compare the number of free connections of the server with the number that one process may open."""
    if connection.vendor == "sqlite":
        return
    needed = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
    with _connect() as opened:
        (free,) = opened.execute(_CONNECTIONS).fetchone() or (0,)
    if free >= needed:
        yield Result("connections", Level.OK, f"{free} connections are free; one process opens {needed} at most.")
    else:
        message = f"{free} connections are free, but one process opens up to {needed} (HANDOFFAUDIT_DATABASE_POOL)."
        fix = "Raise max_connections or the limit of the user or database, or lower HANDOFFAUDIT_DATABASE_POOL."
        yield Result("connections", Level.WARNING, message, fix)


@needs_database
def check_migrations(installation: Installation) -> Iterator[Result]:
    try:
        database.refuse_unknown()
    except Stop as error:
        installation.database_works = False
        what, _, fix = error.message.partition("): ")
        yield Result("migrations", Level.ERROR, f"{what}).", _to_sentence(fix))
        return
    if database.is_behind():
        installation.database_works = False
        fix = "Back up the database, then run handoffaudit manage migrate."
        yield Result("migrations", Level.ERROR, "The tables are of an older version.", fix)
    else:
        yield Result("migrations", Level.OK, "All migrations are applied.")


@needs_database
def check_partitions(_: Installation) -> Iterator[Result]:
    """Check that the tables have partitions for the next week. Otherwise, the default partition would take the rows."""
    if connection.vendor == "sqlite":
        return
    if shortage := partitions.describe_shortage():
        what, fix = shortage.split(": ", 1)
        yield Result("partitions", Level.WARNING, _to_sentence(what), _to_sentence(fix))
    else:
        yield Result("partitions", Level.OK, "The tables have partitions for the next week and longer.")


@needs_database
def check_clock(_: Installation) -> Iterator[Result]:
    """Compare the clock of this machine with the clock of the database server."""
    if connection.vendor == "sqlite":
        yield Result("clock", Level.OK, "The database is on this machine, so there is one clock.")
        return
    with _connect() as opened:
        before = time.time()
        (at,) = opened.execute("SELECT clock_timestamp()").fetchone() or (datetime.now(UTC),)
        here = datetime.fromtimestamp((before + time.time()) / 2, UTC)
    yield compare_clocks(here, at)


def compare_clocks(here: datetime, server: datetime) -> Result:
    difference = (here - server).total_seconds()
    if abs(difference) < CLOCK_WARNING.total_seconds():
        return Result("clock", Level.OK, f"This clock differs from the database server's by {abs(difference):.1f} s.")
    level = Level.ERROR if abs(difference) >= CLOCK_ERROR.total_seconds() else Level.WARNING
    direction = "ahead of" if difference > 0 else "behind"
    message = f"The clock of this machine is {abs(difference):,.1f} s {direction} the clock of the database server."
    return Result("clock", level, message, "Synchronise the clocks of both machines with NTP.")


def check_broker(installation: Installation) -> Iterator[Result]:
    """Check that Redis answers and does not remove messages. Without Redis, check the folder of the queue."""
    if "REDIS_URL" in installation.wrong:
        yield Result("broker", Level.SKIPPED, "Not checked, because REDIS_URL is wrong.")
        return
    if not settings.REDIS_URL:
        yield _check_queue_folder(installation)
        return
    try:
        with connect() as server:
            about: Any = server.info()
    except (redis.RedisError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        fix = "Check that Redis runs and that REDIS_URL is right. Until then, workers look for work once a second."
        yield Result("broker", Level.ERROR, f"Redis cannot be used: {reason}", fix)
        return
    policy, most = about.get("maxmemory_policy", "noeviction"), about.get("maxmemory", 0)
    if most and policy != "noeviction":
        message = f"Redis may remove messages when {most:,} bytes are used (maxmemory-policy is {policy})."
        yield Result("broker", Level.WARNING, message, "Set maxmemory-policy to noeviction.")
    else:
        yield Result("broker", Level.OK, f"Redis {about.get('redis_version', '')}, maxmemory-policy {policy}.")


def _check_queue_folder(installation: Installation) -> Result:
    if not installation.folder_works:
        return skip_folder("broker")
    folder: Path = settings.QUEUE_FOLDER
    if not folder.is_dir():
        message = f"The folder of the queue {folder} is missing."
        return Result("broker", Level.ERROR, message, "Start the server with handoffaudit up.")
    return Result("broker", Level.OK, f"No Redis: messages are files in {folder}.")


def _to_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
