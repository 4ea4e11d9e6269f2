"""A migrated database that is kept between runs, because migrations take most of the time of a short run.

With SQLite it is a file beside the caches of pytest, with PostgreSQL a database on the server of the tests.
"""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

from django.db import connection
from django.db.migrations.loader import MigrationLoader

FOLDER = Path(__file__).parents[1] / ".pytest_cache"


@cache
def _hash(made_with: str) -> str:
    """Return a hash of exactly these migrations, made with this version of a database."""
    seen = hashlib.sha256(f"{version('django')} {made_with}".encode())
    for _, migration in sorted(MigrationLoader(None).disk_migrations.items()):
        source = sys.modules[migration.__module__].__file__
        seen.update(Path(source or "").read_bytes())
    return seen.hexdigest()[:16]


def _template() -> Path:
    """Return the path of the SQLite database of exactly these migrations, whether the file exists or not."""
    return FOLDER / f"migrated-{_hash(sqlite3.sqlite_version)}.sqlite3"


@contextmanager
def turn() -> Iterator[None]:
    """Let one process at a time migrate a database, so that the others copy what the first process keeps."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"migrated-{connection.vendor}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def copy_to(file: Path) -> None:
    """Copy the migrated database to the path, if such a database is kept."""
    if _template().is_file():
        shutil.copyfile(_template(), file)


def keep() -> None:
    """Keep the database of the current connection, which has just been migrated."""
    if _template().is_file():
        return
    for outdated in FOLDER.glob("migrated-*.sqlite3"):
        outdated.unlink(missing_ok=True)
    # A run that ends here must not leave half a database.
    own = FOLDER / f"{os.getpid()}.part"
    with sqlite3.connect(own) as copy:
        connection.connection.backup(copy)
    copy.close()
    own.replace(_template())


def use_template() -> str:
    """Let Django copy the migrated PostgreSQL database, if such a database is kept, and return its name.

    Call this before Django gives the connection the name of the worker's own database.
    """
    # Migrations make partitions for the weeks after their day.
    made_with = _hash(datetime.now(UTC).date().isoformat())
    name = f"test_{connection.settings_dict['NAME']}_migrated_{made_with}"
    if name in _list_templates(name):
        connection.settings_dict["TEST"]["TEMPLATE"] = name
    return name


def keep_template(name: str) -> None:
    """Keep the PostgreSQL database of the current connection, which has just been migrated, under this name."""
    kept = _list_templates(name)
    if name in kept:
        return
    made = connection.settings_dict["NAME"]
    # PostgreSQL copies no database that has a connection.
    connection.close()
    connection.close_pool()
    quote = connection.ops.quote_name
    with connection._nodb_cursor() as cursor:
        for outdated in kept:
            cursor.execute(f"DROP DATABASE IF EXISTS {quote(outdated)}")
        cursor.execute(f"CREATE DATABASE {quote(name)} TEMPLATE {quote(made)}")


def _list_templates(name: str) -> set[str]:
    """Return the names of the kept databases that differ from this name in nothing but the hash."""
    with connection._nodb_cursor() as cursor:
        cursor.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [f"{name.rpartition('_')[0]}_"]
        )
        return {name for (name,) in cursor.fetchall()}
