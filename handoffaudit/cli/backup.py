"""`handoffaudit backup`: copies the embedded database into one file, while the server runs."""

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

import click

from handoffaudit.cli.bootstrap import refuse_no_data
from handoffaudit.cli.errors import Stop
from handoffaudit.cli.options import DATABASE_FILE, data_folder, data_option, example
from handoffaudit.cli.progress import ProgressLine
from handoffaudit.sqlite_file import REMEDY, find_damage, is_damage

# The backup copies this many pages (of 4 KiB) before it reports progress and reacts to Ctrl-C.
PAGES = 4096


@click.command(name="backup", epilog=example("handoffaudit backup /backups/handoffaudit.sqlite3"))
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@data_option
def command(file: Path) -> None:
    """Write the whole database to FILE, which must not exist; the server can keep running.

    The command checks the copy before it creates FILE. A damaged copy is an error, and FILE is not written.

    Also keep the file secret-key of the data folder: without it, everybody must sign in again. To restore, stop the
    server, put FILE back as handoffaudit.sqlite3, remove the files beside it that end in -wal and -shm, and start the
    server.
    """
    if os.environ.get("DATABASE_URL"):
        raise Stop('The database is PostgreSQL: pg_dump --format=custom --file=FILE "$DATABASE_URL" backs it up.')
    refuse_no_data()
    database = data_folder() / DATABASE_FILE
    try:
        if file.exists():
            raise Stop(f"{file} is there already: name a new file.")
        # The file is readable only for its owner, as the database is.
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.", suffix=".part")
        os.close(handle)
        draft = Path(name)
        try:
            _copy(database, draft)
            _refuse_damage(database, draft)
            draft.rename(file)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, sqlite3.Error) as error:
        if is_damage(error):
            raise _build_damage_error(database, str(error)) from error
        raise Stop(f"{file} can't be written ({error}).") from error
    click.echo(f"{file}: {file.stat().st_size:,} bytes.", err=True)


def _refuse_damage(database: Path, copy: Path) -> None:
    """Raise `Stop` if the copy is damaged, because the original database is then damaged, too."""
    if damage := find_damage(copy, thorough=True):
        raise _build_damage_error(database, damage)


def _build_damage_error(database: Path, damage: str) -> Stop:
    return Stop(f"No backup was written, because the database {database} is damaged ({damage}): {REMEDY}")


def _copy(database: Path, target: Path) -> None:
    progress = ProgressLine()

    def tell(_: int, left: int, pages: int) -> None:
        progress.tell(lambda: f"{100 * (pages - left) / max(pages, 1):.0f} % copied")

    with (
        contextlib.closing(sqlite3.connect(database.as_uri() + "?mode=ro", uri=True, timeout=20)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        # A read transaction pins the state of the source. Without it, SQLite would restart the copy after each write of
        # another process. In WAL mode, writers do not wait for the reader.
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        source.backup(copy, pages=PAGES, progress=tell)
        # The backup must be a single file, without a write-ahead log beside it.
        copy.execute("PRAGMA journal_mode=DELETE")
    progress.finish()
