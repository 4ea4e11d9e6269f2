"""Typed settings from environment variables. A wrong value raises an error that says what to set."""

import contextlib
import ipaddress
import json
import os
import secrets
from dataclasses import dataclass
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from environs import Env

from handoffaudit.llm.service import load_prices
from handoffaudit.process import drop_empty
from handoffaudit.sqlite_file import LimitedConnection

drop_empty()
env = Env()


def uses_pgbouncer() -> bool:
    """Return whether a PgBouncer in transaction mode is between this process and PostgreSQL.

    With such a PgBouncer, no setting of a session and no cursor may outlive a transaction.
    """
    found: bool = env.bool("HANDOFFAUDIT_PGBOUNCER", False)
    return found


def data_folder() -> Path:
    """Return the data folder: `HANDOFFAUDIT_DATA`, or else `usual_data_folder()`."""
    given = os.environ.get("HANDOFFAUDIT_DATA")
    return _expand("HANDOFFAUDIT_DATA", given) if given else usual_data_folder()


def usual_data_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return _expand("XDG_DATA_HOME", base) / "handoffaudit"


def _expand(name: str, given: str) -> Path:
    """Return the absolute path of a folder or file. Raise `ImproperlyConfigured` for `~` without a home folder."""
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError:
        raise ImproperlyConfigured(
            f"{name} is {given!r}, but there is no such home folder: use a path without ~."
        ) from None


def secret_key(folder: Path) -> str:
    """Return `HANDOFFAUDIT_SECRET_KEY`, or a key that is created once in the data folder.

    Only the owner of the file can read the created key.
    """
    given = os.environ.get("HANDOFFAUDIT_SECRET_KEY")
    if given:
        return given
    path = folder / "secret-key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = folder / f"secret-key.{os.getpid()}"
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(50))
    # Several processes may start at the same moment. The link makes the key visible only after the key is written.
    with contextlib.suppress(FileExistsError):
        os.link(made, path)
    made.unlink()
    return path.read_text().strip()


# A hundred years: a longer time ends or begins beyond the calendar.
_LONGEST = {"_SECONDS": 36_500 * 86_400, "_HOURS": 36_500 * 24, "_DAYS": 36_500}


def positive(name: str, default: int, most: int | None = None) -> int:
    """Return a whole number from 1 to `most`. The default limit of a time is a hundred years."""
    value: int = env.int(name, default)
    most = next((limit for unit, limit in _LONGEST.items() if name.endswith(unit)), None) if most is None else most
    if value < 1:
        raise ImproperlyConfigured(f"{name} is {value}: set it to a whole number of 1 or more.")
    if most is not None and value > most:
        raise ImproperlyConfigured(f"{name} is {value}: set it to a whole number of at most {most}.")
    return value


def most_log_ratio() -> int:
    """Return the limit of the size of an unpacked log, as a multiple of its packed size."""
    return positive("HANDOFFAUDIT_MAX_LOG_RATIO", 100)


def amount(name: str, default: float) -> float:
    """Return a number of 0 or more."""
    value: float = env.float(name, default)
    if not 0 <= value < float("inf"):
        raise ImproperlyConfigured(f"{name} is {value}: set it to a number of 0 or more.")
    return value


def check_prices() -> None:
    """Raise an error if the prices of LLMs cannot be read. Cost estimates read the prices only later."""
    try:
        load_prices()
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from error


def web_address(name: str) -> str:
    """Return a URL with its scheme, or an empty text if none is set."""
    value = os.environ.get(name, "").strip()
    if value and not value.startswith(("http://", "https://")):
        host = value.rpartition("://")[2].rpartition("@")[2]
        said = f" is {value!r}" if "@" not in value else ""
        raise ImproperlyConfigured(f"{name}{said}: write it with http or https, e.g. https://{host}.")
    try:
        # Reading the port checks the port, too.
        _ = urlsplit(value).port
    except ValueError as error:
        # Before an @, there may be a password, which the error could quote, too.
        said = f" is {value!r}, which is not an address ({error})" if "@" not in value else " is not an address"
        raise ImproperlyConfigured(f"{name}{said}: correct the host or the port.") from None
    return value


def redis_address(name: str) -> str:
    """Return the address of a Redis server, or an empty text if none is set."""
    value = os.environ.get(name, "").strip()
    try:
        url = urlsplit(value)
        readable = url.scheme in ("redis", "rediss") and url.port != 0 and not url.fragment
    except ValueError:
        readable = False
    if value and not readable:
        # The value is not shown, because it could contain the password.
        raise ImproperlyConfigured(
            f"{name} cannot be read: write it as redis://HOST:6379/0 or redis://:PASSWORD@HOST:6379/0 (or with"
            " rediss://), with %23 for #, %2F for / and %3F for ? in the password."
        )
    return value


LEAST_TOKEN = 24


def token(name: str) -> str:
    """Return a secret of at least `LEAST_TOKEN` characters, or an empty text if none is set."""
    value = os.environ.get(name, "").strip()
    if value and (len(value) < LEAST_TOKEN or not value.isascii() or not value.isprintable() or " " in value):
        raise ImproperlyConfigured(
            f"{name} is too short, has a space, or is not printable ASCII: set it to {LEAST_TOKEN} ASCII characters or"
            " more, without spaces, e.g. to what this prints:"
            " python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return value


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}: set it to one of {', '.join(allowed)}.")
    return value


def folder_or_none(name: str) -> Path | None:
    """Return the folder, or None if no folder is set. The folder must exist."""
    given = os.environ.get(name)
    if not given:
        return None
    folder = _expand(name, given)
    if not folder.is_dir():
        raise ImproperlyConfigured(f"{name} is {given!r}, which is not a folder: name one that is there, or unset it.")
    return folder


def folders(name: str) -> list[Path]:
    """Return the folders of a comma-separated list. Each folder must exist, and none may be a whole disk."""
    given = [one.strip() for one in os.environ.get(name, "").split(",")]
    found = [_expand(name, one) for one in given if one]
    flaws = []
    if missing := [str(folder) for folder in found if not folder.is_dir()]:
        named = ", ".join(map(repr, missing))
        flaws.append(f"paths that are not folders ({named}): name folders that are there, or unset it")
    if whole := [str(folder) for folder in found if folder == Path(folder.anchor)]:
        flaws.append(f"{whole[0]!r}: name folders of handoff files, not the whole disk")
    if flaws:
        raise ImproperlyConfigured(f"{name} names {'; and '.join(flaws)}.")
    return found


def lists_by_name(name: str) -> dict[str, list[str]]:
    """Return lists of texts by name from a JSON object, whose values are texts or lists of texts."""
    given = os.environ.get(name, "").strip()
    try:
        found = {key: value if isinstance(value, list) else [value] for key, value in json.loads(given or "{}").items()}
        readable = all(isinstance(text, str) for texts in found.values() for text in texts)
    except (ValueError, TypeError, AttributeError, RecursionError):
        readable = False
    if not readable:
        raise ImproperlyConfigured(
            f"{name} cannot be read: write it as a JSON object of texts, such as "
            '{"audit-admins": "admin", "crew": "reviewer@acme"}.'
        )
    return found


def file_or_none(name: str) -> Path | None:
    """Return the file to write to, or None if no file is set. The folder of the file must exist."""
    given = os.environ.get(name)
    if not given:
        return None
    path = _expand(name, given)
    if path.is_dir() or not path.parent.is_dir():
        raise ImproperlyConfigured(f"{name} is {given!r}: name a file in a folder that is there, or unset it.")
    return path


def databases(folder: Path) -> dict[str, dict[str, Any]]:
    """Return Django's settings of the database and, if `DATABASE_REPLICA_URL` is set, of its replica."""
    url = os.environ.get("DATABASE_REPLICA_URL")
    replica = _parse_database("DATABASE_REPLICA_URL", url) if url else None
    # Each of these settings concerns only one kind of database. Both are always read, so that doctor finds a wrong
    # value even if `DATABASE_URL` is wrong, too.
    pool = positive("HANDOFFAUDIT_DATABASE_POOL", 12)
    synchronous = choice("HANDOFFAUDIT_SQLITE_SYNCHRONOUS", "NORMAL", ("NORMAL", "FULL"))
    found = {"default": _database(folder, pool, synchronous)}
    if replica:
        if not replica["ENGINE"] == found["default"]["ENGINE"] == "django.db.backends.postgresql":
            raise ImproperlyConfigured("DATABASE_REPLICA_URL is set: it and DATABASE_URL must both name PostgreSQL.")
        shared = {name: found["default"][name] for name in ("CONN_MAX_AGE", "DISABLE_SERVER_SIDE_CURSORS")}
        options = _postgresql_options(replica, pool)
        found["replica"] = replica | shared | {"OPTIONS": options, "TEST": {"MIRROR": "default"}}
    return found


def broker_options(redis_url: str, queue_folder: Path) -> dict[str, Any]:
    """Return Celery's options of Redis, or of the queue in the data folder if there is no Redis."""
    if redis_url:
        # Requests send wake-ups, so a wake-up must not wait long for a broker that does not answer.
        return {"visibility_timeout": 120, "socket_connect_timeout": 1, "socket_timeout": 2, "max_retries": 0}
    return {
        "data_folder_in": str(queue_folder / "messages"),
        "data_folder_out": str(queue_folder / "messages"),
        "control_folder": str(queue_folder / "control"),
        # Without this option, kombu polls once a second.
        "polling_interval": 0.05,
    }


def _parse_database(name: str, url: str) -> dict[str, Any]:
    try:
        return dict(dj_database_url.parse(url))
    except (ValueError, KeyError) as error:
        raise ImproperlyConfigured(
            f"{name} cannot be read: write it as postgresql://USER:PASSWORD@HOST:5432/NAME or sqlite:////PATH."
        ) from error


def _postgresql_options(parsed: dict[str, Any], pool: int) -> dict[str, Any]:
    """Return the parameters of the parsed address, such as `sslmode`, with the product's pool and timeouts."""
    return {
        **parsed.get("OPTIONS", {}),
        # With short timeouts, a request fails soon if no connection is free, and soon finds a server that is back.
        "pool": {"min_size": 1, "max_size": pool, "timeout": 2.0, "reconnect_timeout": 5.0},
        "connect_timeout": 3,
        # With these values, a query notices a server that vanished without closing the connection.
        "tcp_user_timeout": 4000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
    }


# While a backup or a recount reads, SQLite's write-ahead log grows with each write. Afterwards, its file shrinks to at
# most this number of bytes. Without a limit, the file would keep its size until the server stops.
MOST_KEPT_LOG = 64 * 2**20


def _database(folder: Path, pool: int, synchronous: str) -> dict[str, Any]:
    """Return Django's database settings from `DATABASE_URL`, or for an SQLite file in the data folder."""
    url = os.environ.get("DATABASE_URL") or f"sqlite:///{quote(str(folder / 'handoffaudit.sqlite3'))}"
    settings = _parse_database("DATABASE_URL", url)
    if settings["ENGINE"] == "django.db.backends.sqlite3":
        settings["CONN_MAX_AGE"] = None
        settings["OPTIONS"] = {
            # If a deferred transaction reads first and then writes while another writer is active, the write fails
            # immediately, without waiting for the other writer.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "factory": LimitedConnection,
            "init_command": (
                f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA temp_store=MEMORY;"
                f" PRAGMA cache_size=-4000; PRAGMA busy_timeout=20000; PRAGMA journal_size_limit={MOST_KEPT_LOG};"
            ),
        }
        settings["TEST"] = {"NAME": os.environ.get("HANDOFFAUDIT_TEST_DATABASE")}
    elif settings["ENGINE"] == "django.db.backends.postgresql":
        settings["CONN_MAX_AGE"] = 0
        settings["OPTIONS"] = _postgresql_options(settings, pool)
        settings["DISABLE_SERVER_SIDE_CURSORS"] = uses_pgbouncer()
    else:
        raise ImproperlyConfigured("DATABASE_URL names a database that is not supported: use PostgreSQL or SQLite.")
    return settings


@dataclass(frozen=True, slots=True)
class PrivateTargets:
    """The non-public addresses that webhooks may send to: all of them, or the given hosts and networks."""

    everything: bool = False
    hosts: frozenset[str] = frozenset()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()


def private_targets(name: str) -> PrivateTargets:
    """Return the targets from `true`, `false`, or a list of hosts and networks: `hooks.internal, 10.1.0.0/16`."""
    given = [part.strip().lower() for part in os.environ.get(name, "").split(",") if part.strip()]
    if given in ([], ["false"], ["0"]):
        return PrivateTargets()
    if given in (["true"], ["1"]):
        return PrivateTargets(everything=True)
    hosts, networks, wrong = set(), [], []
    for part in given:
        try:
            networks.append(ipaddress.ip_network(part))
        except ValueError:
            if not all(sign.isalnum() or sign in ".-_" for sign in part) or part in ("true", "false"):
                wrong.append(part)
            hosts.add(part)
    if wrong:
        raise ImproperlyConfigured(
            f"{name} has {', '.join(map(repr, wrong))}: set it to true, false, or to hosts and networks such as"
            " hooks.internal,10.1.0.0/16 (a network ends in zeros)."
        )
    return PrivateTargets(hosts=frozenset(hosts), networks=tuple(networks))


def checkpoint_places(name: str, folder: Path) -> list[str]:
    """Return where checkpoints are written: absolute paths of files, web addresses, or `-` for standard output.

    The default is a file in the data folder. The value `off` gives an empty list.
    """
    given = [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()]
    if given == ["off"]:
        return []
    addresses = ("https://", "http://")
    wrong = [part for part in given if part != "-" and not part.startswith(addresses) and not Path(part).is_absolute()]
    if wrong:
        raise ImproperlyConfigured(
            f"{name} has {', '.join(map(repr, wrong))}: set it to off, or to absolute paths of files, web addresses,"
            " and - for standard output, with commas between."
        )
    return given or [str(folder / "checkpoints.jsonl")]


def mail_server(name: str) -> dict[str, Any]:
    """Return Django's `EMAIL_` settings from a URL, or an empty dict if no URL is set.

    The URL is `smtp://USER:PASSWORD@HOST:PORT/?tls=true` or `smtps://…`.
    """
    given = os.environ.get(name, "").strip()
    if not given:
        return {}
    example = f"write {name} as smtp://USER:PASSWORD@HOST:587/?tls=true, or smtps://USER:PASSWORD@HOST:465/."
    try:
        url = urlsplit(given)
        host, port, asked = url.hostname, url.port, dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
    except ValueError:
        # The message of the error could contain the password.
        raise ImproperlyConfigured(f"{name} cannot be read: {example}") from None
    tls = asked.pop("tls", "false")
    if url.scheme not in ("smtp", "smtps") or not host or asked or tls not in ("true", "false"):
        raise ImproperlyConfigured(f"{name} names no mail server: {example}")
    return {
        "EMAIL_HOST": host,
        "EMAIL_PORT": port or (465 if url.scheme == "smtps" else 587 if tls == "true" else 25),
        "EMAIL_HOST_USER": unquote(url.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(url.password or ""),
        "EMAIL_USE_SSL": url.scheme == "smtps",
        "EMAIL_USE_TLS": url.scheme == "smtp" and tls == "true",
    }


def mail_sender(name: str, default: str) -> str:
    """Return an e-mail address, with or without a name: `Audit <audit@example.com>`."""
    value = os.environ.get(name, "").strip() or default
    if not value.isprintable() or "@" not in parseaddr(value)[1]:
        raise ImproperlyConfigured(f"{name} is {value!r}: set it to an address such as audit@example.com.")
    return value
