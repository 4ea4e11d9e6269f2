"""Long polling: requests wait for a verdict or a decision. Redis messages, or polls of the database, end the wait."""

import threading
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from handoffaudit.handoffs.db import release_connection
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.webhooks.delivery import notify_webhook_workers
from handoffaudit.redis_client import ServerBreaker, connect

if TYPE_CHECKING:
    import redis

log = structlog.get_logger(__name__)

CHANNEL = "handoffaudit:changed"

LOOK_SECONDS = 0.008

# The pauses between the queries for a batch, in seconds. The pauses grow, so that a batch needs few queries.
BATCH_LOOK_SECONDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)

# Redis messages may be lost, so each waiting request also checks the database this often.
RECHECK_SECONDS = 1.0

_subscriber = ServerBreaker()


@contextmanager
def tolerate_faults() -> Generator[None]:
    """Log a database error of the block instead of raising it.

    Use this function for a wait after a handoff was stored. An error would make the sender send the handoff again.
    """
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        log.warning("the database failed while the sender of a stored handoff waited", error=str(error))


@dataclass(slots=True)
class _Waiter:
    """A waiting request, with the version of the handoff that the request has seen."""

    version: int
    tenant_id: int
    event: threading.Event = field(default_factory=threading.Event)


class _Waiters:
    """The waiting requests of this process by handoff, and one thread that watches all these handoffs."""

    def __init__(self) -> None:
        self._waiters: dict[uuid.UUID, list[_Waiter]] = {}
        self._lock = threading.Lock()
        self._someone = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, pk: uuid.UUID, version: int, tenant_id: int) -> _Waiter:
        waiter = _Waiter(version, tenant_id)
        with self._lock:
            self._waiters.setdefault(pk, []).append(waiter)
            self._someone.set()
            if self._thread is None or not self._thread.is_alive():
                watch = self._subscribe if settings.REDIS_URL else self._look
                self._thread = threading.Thread(target=watch, name="listener", daemon=True)
                self._thread.start()
        return waiter

    def remove(self, pk: uuid.UUID, waiter: _Waiter) -> None:
        with self._lock:
            left = [one for one in self._waiters.get(pk, []) if one is not waiter]
            if left:
                self._waiters[pk] = left
            else:
                self._waiters.pop(pk, None)
            if not self._waiters:
                self._someone.clear()

    def count_waiting(self, tenant_id: int | None = None) -> int:
        """Return the number of waiting requests, of one tenant or of all."""
        with self._lock:
            waiters = [waiter for waiters in self._waiters.values() for waiter in waiters]
        return sum(tenant_id is None or waiter.tenant_id == tenant_id for waiter in waiters)

    def tell(self, pks: Iterable[uuid.UUID]) -> None:
        with self._lock:
            for pk in pks:
                for waiter in self._waiters.get(pk, ()):
                    waiter.event.set()

    def _tell_newer(self, found: Mapping[uuid.UUID, int]) -> None:
        with self._lock:
            for pk, version in found.items():
                for waiter in self._waiters.get(pk, ()):
                    if version != waiter.version:
                        waiter.event.set()

    def _subscribe(self) -> None:
        from redis import RedisError  # noqa: PLC0415 -- not needed without Redis

        while True:
            try:
                with connect(answer_seconds=None) as client, client.pubsub() as subscription:
                    subscription.subscribe(CHANNEL)
                    _subscriber.succeed()
                    for message in subscription.listen():
                        if message["type"] == "message":
                            data: bytes = message["data"]
                            self.tell(uuid.UUID(bytes=data[at : at + 16]) for at in range(0, len(data), 16))
            except RedisError as error:
                if _subscriber.fail():
                    log.warning("Redis cannot be reached; waiting requests poll the database", error=str(error))
                time.sleep(RECHECK_SECONDS)

    def _look(self) -> None:
        while self._someone.wait():
            with self._lock:
                wanted = list(self._waiters)
            # The comparison with the version that each request has seen also finds changes before the first look.
            self._tell_newer(dict(Handoff.objects.filter(pk__in=wanted).values_list("pk", "version")))
            if connection.vendor == "postgresql":
                close_old_connections()
            time.sleep(LOOK_SECONDS)


_waiters = _Waiters()

_publisher: "redis.Redis | None" = None

_publishing = ServerBreaker()


def announce(pks: Iterable[uuid.UUID]) -> None:
    """Notify the waiting requests of all processes, and the webhook workers, that these handoffs changed.

    Call after the commit.
    """
    global _publisher  # noqa: PLW0603 -- one connection pool per process
    changed = list(pks)
    if not changed:
        return
    _waiters.tell(changed)
    notify_webhook_workers()
    if settings.REDIS_URL and not _publishing.is_open:
        from redis import RedisError  # noqa: PLC0415 -- not needed without Redis

        try:
            if _publisher is None:
                _publisher = connect()
            _publisher.publish(CHANNEL, b"".join(pk.bytes for pk in changed))
            _publishing.succeed()
        except RedisError as error:
            if _publishing.fail():
                log.warning("Redis cannot be reached; waiting requests poll the database", error=str(error))


def are_too_many(tenant_id: int) -> bool:
    """Return whether too many requests wait, so that one more would leave too few threads for other requests.

    The requests of one tenant may use three quarters of the slots, so that one tenant cannot take all slots.
    """
    most = settings.MAX_WAITING_REQUESTS
    return _waiters.count_waiting() >= most or _waiters.count_waiting(tenant_id) >= most - most // 4


def wait_while(look: Callable[[], Handoff], states: Collection[str], seconds: float) -> Handoff:
    """Return the handoff as soon as it has left these states, or its current version after `seconds`."""
    deadline = time.monotonic() + seconds
    handoff = look()
    if handoff.state not in states:
        return handoff
    waiter = _waiters.add(handoff.pk, handoff.version, handoff.tenant_id)
    try:
        # The handoff may have changed between the first look and the registration.
        handoff = look()
        while handoff.state in states and (left := deadline - time.monotonic()) > 0:
            waiter.version = handoff.version
            release_connection()
            waiter.event.wait(min(left, RECHECK_SECONDS))
            waiter.event.clear()
            handoff = look()
    finally:
        _waiters.remove(handoff.pk, waiter)
    return handoff


def wait_for_all(tenant_id: int, pks: Collection[uuid.UUID], states: Collection[str], seconds: float) -> None:
    """Wait until all these handoffs have left these states, at most `seconds`.

    The request waits for one handoff at a time, always the newest: workers judge in the order of arrival, so the newest
    is usually judged last. So a batch counts as one waiting request, and its number of queries depends on the time and
    not on the number of handoffs.
    """
    deadline = time.monotonic() + seconds
    rows = Handoff.objects.filter(tenant=tenant_id, state__in=states).order_by("-id").values_list("pk", "version")
    pauses = chain(BATCH_LOOK_SECONDS, repeat(BATCH_LOOK_SECONDS[-1]))
    left = sorted(pks, reverse=True)
    if not rows.filter(pk__in=left).exists():
        return
    while left:
        last = left[0]
        waiter = _waiters.add(last, 0, tenant_id)
        try:
            # The look follows the registration, so that no change after the look is missed.
            found = dict(rows.filter(pk__in=left))
            waiter.version = found.get(last, 0)
            remaining = max(deadline - time.monotonic(), 0.0)
            if not found or not remaining:
                return
            release_connection()
            time.sleep(min(next(pauses), remaining))
            if last in found:
                waiter.event.wait(min(remaining, RECHECK_SECONDS))
        finally:
            _waiters.remove(last, waiter)
        left = list(found)
