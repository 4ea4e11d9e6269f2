"""Let pages and exports read from a replica of PostgreSQL (`DATABASE_REPLICA_URL`). People still see their own writes.

The browser carries a position in the write-ahead log in a cookie. A request for a page reads from the replica if the
replica has replayed this position. Each request that writes stores the position of the primary in this cookie. API
calls and workers always use the primary.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

log = structlog.get_logger(__name__)

ALIAS: Final = "replica"
# These models are not read from the replica: a person who was removed must lose access at once.
_IDENTITY: Final = frozenset({"sessions.session", "accounts.person", "accounts.membership"})
COOKIE: Final = "handoffaudit_written"
# A browser carries the position for longer than a replica may lag.
COOKIE_SECONDS: Final = 60
MOST_LAG_SECONDS: Final = 10.0
# A process asks the replica for its position this often. While one thread asks, the other threads use the last answer
# or, if the answer is older than `OLDEST_SECONDS`, the primary. If the last try failed, a separate thread asks.
KNOWN_SECONDS: Final = 0.5
OLDEST_SECONDS: Final = 1.5
_SAFE: Final = ("GET", "HEAD")
_LSN: Final = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})\Z", re.ASCII)


@dataclass(slots=True)
class _Reads:
    """The reads of one request. They use the primary if no replica is usable, or once the request has written."""

    uses_replica: bool = True
    has_written: bool = False


_reads: ContextVar[_Reads | None] = ContextVar("reads", default=None)


class Router:
    """Send reads inside `prefer` to the replica, and everything else to the primary.

    Reads of sessions, people and memberships, reads inside a transaction, and reads after a write use the primary, too.
    """

    def db_for_read(self, model: Any, **hints: Any) -> str:
        reads = _reads.get()
        if model._meta.label_lower in _IDENTITY:  # noqa: SLF001 -- Django's documented API
            return DEFAULT_DB_ALIAS
        if reads is None or not reads.uses_replica or reads.has_written:
            return DEFAULT_DB_ALIAS
        return DEFAULT_DB_ALIAS if connections[DEFAULT_DB_ALIAS].in_atomic_block else ALIAS

    def db_for_write(self, model: Any, **hints: Any) -> str:
        if (reads := _reads.get()) is not None:
            reads.has_written = True
        return DEFAULT_DB_ALIAS

    def allow_relation(self, one: Any, other: Any, **hints: Any) -> bool:
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == DEFAULT_DB_ALIAS


@contextmanager
def prefer(written: str = "") -> Iterator[_Reads | None]:
    """Read from the replica in this block if the replica works and has replayed the position `written`.

    Yield None if there is no replica.
    """
    if ALIAS not in settings.DATABASES:
        yield None
        return
    reads = _Reads(_position.covers(written))
    token = _reads.set(reads)
    try:
        yield reads
    finally:
        _reads.reset(token)


class ReplicaMiddleware:
    """Let pages read from the replica, and store the position of the primary in a cookie after each write."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if ALIAS not in settings.DATABASES:
            return self._get_response(request)
        if request.method not in _SAFE:
            response = self._get_response(request)
            return _remember(response)
        with prefer(request.COOKIES.get(COOKIE, "")) as reads:
            response = self._get_response(request)
            if isinstance(response, StreamingHttpResponse) and reads is not None:
                # An export is read while it is sent, after this block.
                response.streaming_content = _stream(response.streaming_content, reads)
            return _remember(response) if reads is not None and reads.has_written else response


def _stream(content: Iterable[bytes], reads: _Reads) -> Iterator[bytes]:
    parts = iter(content)
    while True:
        token = _reads.set(reads)
        try:
            part = next(parts)
        except StopIteration:
            return
        finally:
            _reads.reset(token)
        yield part


def _remember(response: HttpResponse) -> HttpResponse:
    """Store the position of the primary in the browser. If the primary is away, store nothing."""
    try:
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
            written = str(cursor.fetchone()[0])
    except DatabaseError:
        return response
    response.set_cookie(
        COOKIE, written, max_age=COOKIE_SECONDS, httponly=True, samesite="Lax", secure=bool(settings.HTTPS)
    )
    return response


def parse_position(text: str) -> int | None:
    """Return a position in the write-ahead log as a number, or None for another text."""
    found = _LSN.match(text)
    return int(found[1], 16) << 32 | int(found[2], 16) if found else None


class _Position:
    """The position that the replica has replayed, as this process knows it; None if the replica is not usable."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._replayed: int | None = None
        self._is_told = False

    def covers(self, written: str) -> bool:
        """Return whether the replica has replayed the position `written`; False for a text that is not a position."""
        replayed = self._ask()
        if replayed is None:
            return False
        position = parse_position(written) if written else 0
        return position is not None and position <= replayed

    def _ask(self) -> int | None:
        if time.monotonic() - self._asked_at >= KNOWN_SECONDS and self._asking.acquire(blocking=False):
            if self._is_told:
                # A replica that is away can take seconds to answer. After a failed try, a separate thread asks, so that
                # no page waits for the answer.
                threading.Thread(target=self._update, kwargs={"is_alone": True}, daemon=True).start()
            else:
                self._update()
        return self._replayed if time.monotonic() - self._asked_at < OLDEST_SECONDS else None

    def _update(self, *, is_alone: bool = False) -> None:
        """Ask the replica, and release `_asking`. A thread that runs only for this call gives back its connection."""
        try:
            self._replayed = self._read()
            self._asked_at = time.monotonic()
        finally:
            if is_alone and ALIAS in settings.DATABASES:
                connections[ALIAS].close()
            self._asking.release()

    def _read(self) -> int | None:
        try:
            with connections[ALIAS].cursor() as cursor:
                cursor.execute(
                    """SELECT pg_last_wal_replay_lsn()::text, CASE
                        WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
                        ELSE COALESCE(EXTRACT(EPOCH FROM now() - pg_last_xact_replay_timestamp()), 0) END"""
                )
                replayed, lag = cursor.fetchone()
        except DatabaseError as error:
            self._tell(f"the replica does not answer: {error}")
            return None
        if replayed is None or float(lag) > MOST_LAG_SECONDS:
            self._tell(
                "the server of DATABASE_REPLICA_URL is not a replica"
                if replayed is None
                else f"the replica lags by {float(lag):.0f} s"
            )
            return None
        self._is_told = False
        return parse_position(replayed)

    def _tell(self, why: str) -> None:
        """Log that pages read from the primary, but only once until the replica works again."""
        if not self._is_told:
            log.warning("pages read from the primary", why=why)
        self._is_told = True


_position = _Position()
