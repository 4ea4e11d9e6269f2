"""Checks of an SQLite database file for damage, bounded in time."""

import contextlib
import sqlite3
import time
from pathlib import Path

REMEDY = (
    "restore a backup: stop the server, put the backup in the place of that file, remove the files that end in -wal and"
    " -shm beside it, and start again."
)
# SQLite calls the progress handler after this many of its instructions, which take well below a millisecond.
_STEPS = 10_000
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def find_damage(file: Path, *, seconds: float | None = None, thorough: bool = False) -> str:
    """Return SQLite's description of the damage in one line, empty if no damage was found.

    The check stops after `seconds` and returns an empty text if no damage was found by then. `thorough` also
    compares the indexes with their tables. A file that is absent, busy or unreadable is not damaged.
    """
    if not file.is_file():
        return ""
    check = "integrity_check" if thorough else "quick_check"
    until = None if seconds is None else time.monotonic() + seconds
    try:
        with contextlib.closing(sqlite3.connect(file.absolute().as_uri() + "?mode=ro", uri=True, timeout=1)) as reader:
            if until is not None:
                reader.set_progress_handler(lambda: int(time.monotonic() > until), _STEPS)
            (said,) = reader.execute(f"PRAGMA {check}(1)").fetchone()
    except sqlite3.Error as error:
        return str(error) if is_damage(error) else ""
    return "" if said == "ok" else " ".join(str(said).split())


def is_damage(error: BaseException | None) -> bool:
    """Return whether an SQLite error, or one of its causes, says that the file is damaged."""
    while error is not None:
        # The low byte is the primary code, the other bytes extend it.
        if isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _DAMAGE:
            return True
        error = error.__cause__
    return False
