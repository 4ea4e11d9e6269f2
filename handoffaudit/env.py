"""Settings from the environment, read with their type; a wrong value is refused with the remedy."""

import os
import secrets
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from environs import Env

env = Env()


def data_folder() -> Path:
    """The folder of the embedded way: `HANDOFFAUDIT_DATA`, else a folder of the user's own data."""
    given = os.environ.get("HANDOFFAUDIT_DATA")
    if given:
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "handoffaudit"


def secret_key(folder: Path) -> str:
    """`HANDOFFAUDIT_SECRET_KEY`, else one made once and kept in the data folder, readable by its owner only."""
    given = os.environ.get("HANDOFFAUDIT_SECRET_KEY")
    if given:
        return given
    path = folder / "secret-key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = secrets.token_urlsafe(50)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(made)
    except FileExistsError:
        return path.read_text().strip()
    return made


def positive(name: str, default: int) -> int:
    """A whole number of 1 or more."""
    value: int = env.int(name, default)
    if value < 1:
        raise ImproperlyConfigured(f"{name} is {value}: set it to a whole number of 1 or more.")
    return value


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}: set it to one of {', '.join(allowed)}.")
    return value


def folder_or_none(name: str) -> Path | None:
    """A folder that must be there, where one is named."""
    given = os.environ.get(name)
    if not given:
        return None
    folder = Path(given).expanduser().absolute()
    if not folder.is_dir():
        raise ImproperlyConfigured(f"{name} is {given!r}, which is no folder: name one that is there, or unset it.")
    return folder


def database(folder: Path) -> dict[str, Any]:
    """Django's database settings from `DATABASE_URL`; without it an SQLite file in the data folder."""
    url = os.environ.get("DATABASE_URL") or f"sqlite:///{folder / 'handoffaudit.sqlite3'}"
    try:
        settings: dict[str, Any] = dict(dj_database_url.parse(url))
    except (ValueError, KeyError) as error:
        raise ImproperlyConfigured(
            "DATABASE_URL cannot be read: write it as postgresql://USER:PASSWORD@HOST:5432/NAME or sqlite:////PATH."
        ) from error
    if settings["ENGINE"] == "django.db.backends.sqlite3":
        synchronous = choice("HANDOFFAUDIT_SQLITE_SYNCHRONOUS", "NORMAL", ("NORMAL", "FULL"))
        settings["CONN_MAX_AGE"] = None
        settings["OPTIONS"] = {
            # A deferred transaction that reads first cannot wait for the writer before it and fails at once.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA temp_store=MEMORY;"
                " PRAGMA cache_size=-4000; PRAGMA busy_timeout=20000;"
            ),
        }
        settings["TEST"] = {"NAME": os.environ.get("HANDOFFAUDIT_TEST_DATABASE")}
    elif settings["ENGINE"] == "django.db.backends.postgresql":
        settings["CONN_MAX_AGE"] = 0
        settings["OPTIONS"] = {"pool": {"min_size": 1, "max_size": positive("HANDOFFAUDIT_DATABASE_POOL", 12)}}
    else:
        raise ImproperlyConfigured("DATABASE_URL names a database that is not supported: use PostgreSQL or SQLite.")
    return settings
