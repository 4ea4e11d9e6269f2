"""Settings from the environment, read with their type; a wrong value is refused with the remedy."""

import ipaddress
import os
import secrets
from dataclasses import dataclass
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from environs import Env

from handoffaudit.llm.service import prices_here
from handoffaudit.variables import drop_empty

drop_empty()
env = Env()


def data_folder() -> Path:
    """The folder of the embedded way: `HANDOFFAUDIT_DATA`, else a folder of the user's own data."""
    given = os.environ.get("HANDOFFAUDIT_DATA")
    return Path(given).expanduser().absolute() if given else usual_data_folder()


def usual_data_folder() -> Path:
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


def most_log_ratio() -> int:
    """How many times its size a packed log may unpack to."""
    return positive("HANDOFFAUDIT_MAX_LOG_RATIO", 100)


def amount(name: str, default: float) -> float:
    """A number of 0 or more."""
    value: float = env.float(name, default)
    if not 0 <= value < float("inf"):
        raise ImproperlyConfigured(f"{name} is {value}: set it to a number of 0 or more.")
    return value


def check_prices() -> None:
    """Refuses prices of the model that cannot be read; who estimates a call reads them."""
    try:
        prices_here()
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from error


def web_address(name: str) -> str:
    """An address that begins with its scheme; empty where none is set."""
    value = os.environ.get(name, "").strip()
    if value and not value.startswith(("http://", "https://")):
        raise ImproperlyConfigured(f"{name} is {value!r}: write it with its scheme, e.g. https://{value}.")
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


def folders(name: str) -> list[Path]:
    """Return the folders of a list with commas between, none where it is empty. Each must be there."""
    given = [one.strip() for one in os.environ.get(name, "").split(",")]
    found = [Path(one).expanduser().absolute() for one in given if one]
    for folder in found:
        if not folder.is_dir():
            raise ImproperlyConfigured(
                f"{name} names {str(folder)!r}, which is no folder: name folders that are there, or unset it."
            )
        if folder == Path(folder.anchor):
            raise ImproperlyConfigured(
                f"{name} names {str(folder)!r}: name folders of handoff files, not the whole disk."
            )
    return found


def file_or_none(name: str) -> Path | None:
    """A file to write to, where one is named; its folder must be there."""
    given = os.environ.get(name)
    if not given:
        return None
    path = Path(given).expanduser().absolute()
    if path.is_dir() or not path.parent.is_dir():
        raise ImproperlyConfigured(f"{name} is {given!r}: name a file in a folder that is there, or unset it.")
    return path


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
        settings["OPTIONS"] = {
            # Who asks for a connection hears soon that there is none, and a server that is back is found soon.
            "pool": {
                "min_size": 1,
                "max_size": positive("HANDOFFAUDIT_DATABASE_POOL", 12),
                "timeout": 2.0,
                "reconnect_timeout": 5.0,
            },
            "connect_timeout": 3,
            # A server that vanished without a word is noticed while a query waits for it.
            "tcp_user_timeout": 4000,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 2,
        }
    else:
        raise ImproperlyConfigured("DATABASE_URL names a database that is not supported: use PostgreSQL or SQLite.")
    return settings


@dataclass(frozen=True, slots=True)
class PrivateTargets:
    """Which addresses that are not public may be sent to: all of them, or these."""

    everything: bool = False
    hosts: frozenset[str] = frozenset()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()


def private_targets(name: str) -> PrivateTargets:
    """`true`, `false`, or names of hosts and networks with commas between: `hooks.internal, 10.1.0.0/16`."""
    given = [part.strip().lower() for part in os.environ.get(name, "").split(",") if part.strip()]
    if given in ([], ["false"], ["0"]):
        return PrivateTargets()
    if given in (["true"], ["1"]):
        return PrivateTargets(everything=True)
    hosts, networks = set(), []
    for part in given:
        try:
            networks.append(ipaddress.ip_network(part))
        except ValueError:
            if not all(sign.isalnum() or sign in ".-_" for sign in part) or part in ("true", "false"):
                raise ImproperlyConfigured(
                    f"{name} has {part!r}: set it to true, false, or to hosts and networks such as"
                    " hooks.internal,10.1.0.0/16 (a network ends in zeros)."
                ) from None
            hosts.add(part)
    return PrivateTargets(hosts=frozenset(hosts), networks=tuple(networks))


def mail_server(name: str) -> dict[str, Any]:
    """Django's EMAIL_ settings from `smtp://USER:PASSWORD@HOST:PORT/?tls=true`, or `smtps://…`; without it none."""
    given = os.environ.get(name, "").strip()
    if not given:
        return {}
    example = f"write {name} as smtp://USER:PASSWORD@HOST:587/?tls=true, or smtps://USER:PASSWORD@HOST:465/."
    try:
        url = urlsplit(given)
        host, port, asked = url.hostname, url.port, dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
    except ValueError:
        # What it says could hold the password.
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
    """An e-mail address, with a name before it or without: `Audit <audit@example.com>`."""
    value = os.environ.get(name, "").strip() or default
    if not value.isprintable() or "@" not in parseaddr(value)[1]:
        raise ImproperlyConfigured(f"{name} is {value!r}: set it to an address such as audit@example.com.")
    return value
