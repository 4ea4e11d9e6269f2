"""A migrated SQLite database that is kept between runs, because migrations take most of the time of a short run."""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

from django.db import connection
from django.db.migrations.loader import MigrationLoader

FOLDER = Path(__file__).parents[1] / ".pytest_cache"


@cache
def _template() -> Path:
    """Return the path of the database of exactly these migrations, whether the file exists or not."""
    seen = hashlib.sha256(f"{version('django')} {sqlite3.sqlite_version}".encode())
    for _, migration in sorted(MigrationLoader(None).disk_migrations.items()):
        source = sys.modules[migration.__module__].__file__
        seen.update(Path(source or "").read_bytes())
    return FOLDER / f"migrated-{seen.hexdigest()[:16]}.sqlite3"


@contextmanager
def turn() -> Iterator[None]:
    """Let one process at a time migrate a database, so that the others copy what the first process keeps."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "migrated.lock").open("w") as lock:
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
