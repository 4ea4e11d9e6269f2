"""Client of a server's gate: posts one event within a time limit, and reads the answer."""

import contextlib
import hashlib
import http.client
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar
from urllib.parse import urlsplit

from handoffaudit.cli import Stop


class OutOfTime(Exception):
    """The operation exceeded its time limit."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the body after `seconds`, even in the middle of a regular expression.

    Use only one limit at a time, and only in the main thread.
    """
    previous = signal.signal(signal.SIGALRM, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _raise_out_of_time(_: int, __: FrameType | None) -> None:
    raise OutOfTime


PATH = "/api/v1/hooks/post-tool-use"

CONNECT_SECONDS = 5.0

# Allow this much time for the network, on top of the server's time.
ON_THE_WAY_SECONDS = 5.0

# A large event gets the time that its upload takes at this speed: for the longest event, about the default `--timeout`.
_LEAST_BYTES_PER_SECOND = 128 * 1024

LONGEST_ANSWER = 1024 * 1024

# The statuses with which a server asks for another try later, refuses the key, or shows that the address is wrong.
_RETRY_STATUSES = {408, 425, 429}
_KEY_STATUSES = {401, 403}
_ADDRESS_STATUSES = {404, 405, 410}


class Undelivered(Exception):
    """The event can be sent again later: the server is unreachable or busy, or the address or the key is wrong.

    `is_away` means that no other event can be sent either; otherwise this event may be the cause.
    """

    def __init__(self, message: str, *, is_away: bool) -> None:
        super().__init__(message)
        self.is_away = is_away


class Rejected(Exception):
    """The server will never accept this event; the message says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that takes events; `url` must have passed `check_server`.

    `path` is the path of the endpoint, `what` its name in messages, and `taken` its statuses that mean success.
    """

    path: ClassVar[str] = PATH
    what: ClassVar[str] = "gate for hooks"
    taken: ClassVar[tuple[int, ...]] = (200,)
    url: str
    key: str

    @property
    def name(self) -> str:
        """Return a name for this address and key that reveals neither of them.

        Each pair of address and key has its own spool, so that events for one server never go to another server.
        """
        return f"{self.name_of_address}-{_digest(self.key)}"

    @property
    def name_of_address(self) -> str:
        return _digest(self.url)

    def post(self, body: str, idempotency_key: str, seconds: float) -> dict[str, Any]:
        """Post an event and return the answer, within `seconds` plus some time for the network.

        A long body gets the time that its upload takes on a slow connection, if that is more than `seconds`. Raises
        `Undelivered` or `Rejected`.
        """
        limit = max(seconds, len(body.encode("utf-8", "surrogatepass")) / _LEAST_BYTES_PER_SECOND) + ON_THE_WAY_SECONDS
        connection = self._create_connection()
        is_away = True
        try:
            with time_limit(limit), contextlib.closing(connection):
                connection.connect()
                is_away = False
                connection.sock.settimeout(limit)
                status, response = self._exchange(connection, body, idempotency_key, seconds)
        except OutOfTime:
            raise Undelivered(f"{self.url} gave no answer within {limit:.3g} s", is_away=is_away) from None
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            message = f"{self.url} can't be reached ({_describe_error(error)})"
            raise Undelivered(message, is_away=is_away) from error
        return self._read(status, response)

    def _create_connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=CONNECT_SECONDS)

    def _exchange(
        self, connection: http.client.HTTPConnection, body: str, idempotency_key: str, seconds: float
    ) -> tuple[int, bytes]:
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Idempotency-Key": idempotency_key,
        }
        path = f"{urlsplit(self.url).path.rstrip('/')}{self.path}"
        connection.request("POST", path + self._query(seconds), body.encode("utf-8", "surrogatepass"), headers)
        response = connection.getresponse()
        return response.status, response.read(LONGEST_ANSWER)

    def _query(self, seconds: float) -> str:
        return f"?timeout={seconds:g}"

    def _read(self, status: int, body: bytes) -> dict[str, Any]:
        answer = _parse(body)
        why = _explain(status, answer or {})
        if status in _KEY_STATUSES:
            raise Undelivered(f"{self.url} refuses the key ({why}): use a key with the scope ingest", is_away=True)
        if 400 <= status < 500 and status not in _RETRY_STATUSES | _ADDRESS_STATUSES:
            raise Rejected(why)
        if status >= 500 or status in _RETRY_STATUSES:
            raise Undelivered(f"{self.url} is busy or broken ({why})", is_away=False)
        if status not in self.taken or answer is None:
            raise Undelivered(f"{self.url} has no {self.what} ({why}): check the address", is_away=True)
        return answer


def check_server(url: str | None, key: str | None, code: int) -> Server:
    """Return the server at `url`. Raises `Stop` with `code` if the address or the key is invalid.

    The messages never contain the key.
    """
    if not url:
        raise Stop("No server is named: give its address with --url or HANDOFFAUDIT_URL.", code)
    if "@" in url:
        raise Stop("The address has a user name or a password, which the client would not use: leave it out.", code)
    if not _is_address(url):
        raise Stop(f"{url!r} is not the address of a server: write it like https://audit.example.com.", code)
    if not key:
        raise Stop("There is no key: give one with the scope ingest in HANDOFFAUDIT_KEY.", code)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise Stop("The key has characters that no key has: check HANDOFFAUDIT_KEY.", code)
    return Server(url.rstrip("/"), key)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return fits and not (parts.query or parts.fragment) and url.isascii() and url.isprintable() and " " not in url


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _parse(body: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(body)
        if isinstance(parsed, dict):
            return parsed
    return None


def _explain(status: int, answer: dict[str, Any]) -> str:
    parts = [str(status), *(one for one in (answer.get("title"), answer.get("detail")) if isinstance(one, str))]
    return _strip_controls(": ".join(parts))[:500].rstrip(".")


def _describe_error(error: Exception) -> str:
    return _strip_controls(" ".join(str(error).split()))[:200] or type(error).__name__


def _strip_controls(text: str) -> str:
    """Replace characters that a terminal could interpret as commands."""
    return "".join(one if one.isprintable() else " " for one in text)
