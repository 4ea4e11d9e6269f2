"""The Redis databases of test processes that run side by side."""

import re
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

# As many as a server has where nobody configured another number.
DATABASES = 16


class NoSuchDatabase(ValueError):
    """An error whose message names the wrong database and the possible ones."""


def url_of_worker(given: str, worker: int) -> str:
    """Return `given` with the number of its database raised by that of the worker. No number means 0."""
    number = _number(given) + worker
    if number >= DATABASES:
        raise NoSuchDatabase(
            f"REDIS_URL is {given}, so that test process {worker} would use database {number}, and Redis has"
            f" {DATABASES}, from 0 to {DATABASES - 1}: start fewer processes (pytest -n), or give a lower number."
        )
    parts = urlsplit(given)
    query = parse_qs(parts.query)
    if "db" in query or parts.scheme == "unix":
        # Put together anew, an address without a host would lose its slashes.
        return f"{given.partition('?')[0]}?{urlencode(query | {'db': [str(number)]}, doseq=True)}"
    return urlunsplit(parts._replace(path=f"/{number}"))


def _number(given: str) -> int:
    """Return the database that the Redis client would use: `?db=`, otherwise the path."""
    parts = urlsplit(given)
    named = parse_qs(parts.query).get("db", ["" if parts.scheme == "unix" else parts.path.strip("/")])[0]
    if not re.fullmatch(r"\d*", named, re.ASCII):
        raise NoSuchDatabase(
            f"REDIS_URL is {given}, and {named!r} is not the number of a database: write it like redis://127.0.0.1:6379/0."
        )
    return int(named or 0)
