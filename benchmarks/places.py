"""Databases and folders of a run, which the run creates and removes."""

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis

ROOT = Path(__file__).parent.parent
POSTGRESQL = os.environ.get("BENCH_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432")
REDIS = os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/11")


@dataclass(frozen=True, slots=True)
class Place:
    """A separate installation of the product: its folder, its database and the environment of its processes."""

    name: str
    folder: Path
    database: str
    environment: dict[str, str] = field(repr=False)

    @property
    def on_postgresql(self) -> bool:
        return self.database.startswith("postgresql")


@contextmanager
def postgresql(name: str, kept: str = "") -> Iterator[Place]:
    """Create a PostgreSQL database, or use the database `kept`, and empty the Redis database of the benchmarks."""
    database = kept or f"bench_{name}_{secrets.token_hex(3)}"
    with psycopg.connect(f"{POSTGRESQL}/postgres", autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
            connection.execute(f"CREATE DATABASE {database}")
        broker = redis.Redis.from_url(REDIS)
        broker.flushdb()
        try:
            with _folder() as folder:
                url = f"{POSTGRESQL}/{database}"
                yield Place("PostgreSQL", folder, url, _environment(folder, DATABASE_URL=url, REDIS_URL=REDIS))
        finally:
            if not kept:
                connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
            broker.flushdb()
            broker.close()


@contextmanager
def sqlite(synchronous: str = "NORMAL") -> Iterator[Place]:
    """Create a data folder for an SQLite file."""
    with _folder() as folder:
        name = "SQLite" if synchronous == "NORMAL" else f"SQLite, {synchronous}"
        database = f"sqlite:///{folder / 'handoffaudit.sqlite3'}"
        yield Place(name, folder, database, _environment(folder, HANDOFFAUDIT_SQLITE_SYNCHRONOUS=synchronous))


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="handoffaudit-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of an operator: shipped limits, and none of the caller's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(part for part in sys.path if part.endswith("site-packages"))]),
        "HANDOFFAUDIT_DATA": str(folder),
        "HANDOFFAUDIT_SECRET_KEY": secrets.token_urlsafe(50),
        "HANDOFFAUDIT_LOG_LEVEL": "WARNING",
        **more,
    }
