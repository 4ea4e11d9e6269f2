"""HTTP with one server: reused connections, a time limit, and errors in words."""

from __future__ import annotations

# The client loads this module before it starts a thread. Also load here what threads need later: Base64 for bytes in
# documents, the codec for names of hosts, and the log for warnings.
import base64  # noqa: F401
import contextlib
import encodings.idna  # noqa: F401
import hashlib
import http.client
import json
import logging  # noqa: F401
import os
import threading
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "/api/v1"

_LONGEST_ANSWER = 16 * 1024 * 1024

_MOST_IDLE = 4

_CONNECT_SECONDS = 5.0

# Endings of problem types that refuse a name in the document, not the key.
_OF_THE_DOCUMENT = ("/another-agent/", "/another-tenant/")

# The longest pause after `Retry-After`: a longer pause could go on long after the server is back. Time limits of
# sockets have the same maximum, because a socket refuses a very long time limit.
_LONGEST_PAUSE = 600.0


class Unreachable(Exception):
    """The error for a request without a complete answer; the message says why."""


class Answer:
    """The answer of the server: its status, its headers in lower case, and its JSON."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> dict[str, Any]:
        """Return the JSON object of the answer; empty if the answer is something else."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def is_problem(self) -> bool:
        """Return whether the answer is a problem document, as each error of the server is; proxies send none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/problem+json"

    @property
    def retry_after(self) -> float:
        """Return the seconds of `Retry-After`, at most ten minutes; 0.0 without it, or for an unusable or past time."""
        given = self.headers.get("retry-after", "").strip()
        if given.isascii() and given.isdigit():
            return min(float(given), _LONGEST_PAUSE)
        if not given:
            return 0.0
        # Some dates can be read, but are out of range.
        with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
            return min(max(parsedate_to_datetime(given).timestamp() - time.time(), 0.0), _LONGEST_PAUSE)
        return 0.0

    @property
    def refuses_document(self) -> bool:
        """Return whether the key works, but may not name this agent or tenant: another try would not help."""
        return self.status == 403 and str(self.json.get("type")).endswith(_OF_THE_DOCUMENT)

    def explain(self) -> str:
        """Return the status with the title and the detail of the answer, and with the address of a redirect."""
        found = self.json
        parts = [str(self.status), *(found[name] for name in ("title", "detail") if isinstance(found.get(name), str))]
        if self.status // 100 == 3:
            parts.append(f"it redirects to {self.headers.get('location', 'another address')}")
        return ": ".join(parts)[:500].rstrip(".")


class Server:
    """A server by its address and key. Threads may use it at the same time."""

    def __init__(self, url: str, key: str) -> None:
        """Raise `ValueError` if the address or the key is malformed; the message never contains the key."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{url!r} is not the address of a server: {error}") from None
        is_plain = url.isascii() and url.isprintable() and " " not in url and not (parts.query or parts.fragment)
        if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not is_plain:
            raise ValueError(f"{url!r} is not the address of a server: write it like https://audit.example.com")
        if "@" in parts.netloc:
            raise ValueError("the address has a user name or a password, which the client would not use: leave it out")
        if not (key.isascii() and key.isprintable() and key and " " not in key):
            raise ValueError("the key has characters that no key has: check HANDOFFAUDIT_KEY")
        self.url = url.rstrip("/")
        self._key = key
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._path = parts.path.rstrip("/") + PREFIX
        self._forget_connections()

    @property
    def name(self) -> str:
        """Return a name made from hashes of the address and the key, which reveals neither of them."""
        return "-".join(hashlib.sha256(text.encode()).hexdigest()[:12] for text in (self.url, self._key))

    def _forget_connections(self) -> None:
        self._is_closed = False
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def start_in_child(self) -> None:
        """Drop the connections in a forked child, because the parent still uses them."""
        for connection in self._idle:
            connection.close()
        self._forget_connections()

    def close(self) -> None:
        """Close the idle connections. Connections in use are closed after their requests."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        timeout: float,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer, within about `timeout` seconds. Raises `Unreachable`."""
        until = time.monotonic() + timeout
        sent = {"Authorization": f"Bearer {self._key}", "Accept": "application/json", **(headers or {})}
        while True:
            connection, is_used = self._connection(min(timeout, _CONNECT_SECONDS))
            try:
                answer = self._exchange(connection, method, path, body, sent, until)
            except BaseException as error:
                connection.close()
                # The server may close an idle connection at any time. The request has an id, so repeating it is safe.
                if is_used and isinstance(error, OSError) and time.monotonic() < until:
                    continue
                if isinstance(error, Exception):
                    # Before the time is over, only connecting can have taken too long.
                    limit = timeout if time.monotonic() >= until else _CONNECT_SECONDS
                    raise Unreachable(f"{self.url} can't be reached ({_describe(error, limit)})") from error
                raise
            self._keep(connection, answer)
            return answer

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        until: float,
    ) -> Answer:
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(_left(until))
        connection.request(method, self._path + path, body, headers)
        connection.sock.settimeout(_left(until))
        response = connection.getresponse()
        chunks: list[bytes] = []
        length = 0
        # `read` would wait for the whole body, however slowly the body comes.
        while chunk := response.read1(262_144):
            chunks.append(chunk)
            length += len(chunk)
            if length > _LONGEST_ANSWER:
                raise OSError("the answer is too long")
            if connection.sock is not None:
                connection.sock.settimeout(_left(until))
        if response.length:
            raise ConnectionError("the answer ended too early")
        response.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, b"".join(chunks))

    def _keep(self, connection: http.client.HTTPConnection, answer: Answer) -> None:
        with self._lock:
            # `http.client` drops the socket of a connection that the server closes.
            if connection.sock is not None and len(self._idle) < _MOST_IDLE and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _connection(self, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        proxy = _proxy_for(self._host) if self._is_secure else None
        if proxy is None:
            return kind(self._host, self._port, timeout=timeout), False
        connection = kind(*proxy, timeout=timeout)
        connection.set_tunnel(self._host, self._port)
        return connection, False


def _proxy_for(host: str) -> tuple[str, int] | None:
    """Return the proxy that the environment names for a host with HTTPS; None if there is none.

    Raises `Unreachable` if the address of the proxy is malformed.
    """
    variable = "https_proxy" if os.environ.get("https_proxy") else "HTTPS_PROXY"
    given = os.environ.get(variable)
    if not given or proxy_bypass(host):
        return None
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        name, port = parts.hostname or "", parts.port or 80
    except ValueError:
        # The text of this error may contain a part of a password.
        name, port = " ", 0
    if " " in name or not name.isprintable():
        raise Unreachable(f"the proxy in {variable} is not an address: write it like http://proxy.example.com:3128")
    return (name, port) if name else None


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, _LONGEST_PAUSE)


def _describe(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    return " ".join(str(error).split())[:200] or type(error).__name__
