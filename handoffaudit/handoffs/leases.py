"""Leases: one worker at a time works on a row, until the worker ends the lease or the lease expires.

A lease is a token and an expiry time in the row itself. Taking, renewing and ending a lease are conditional updates: of
two workers that want the same row, one updates nothing. The leases of a worker that dies expire, and other workers take
the rows.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from handoffaudit.database_faults import Cause, fault_of
from handoffaudit.handoffs import db
from handoffaudit.handoffs.db import reader_of


class Leased(models.Model):
    """A row that a worker leases; `claim` is the token of its lease.

    After a failure, `claim` is empty, and no worker takes the row before `claim_expires_at`.
    """

    claim = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)

    class Meta:
        abstract = True


_Row = TypeVar("_Row", bound=Leased)

_Work = TypeVar("_Work")

# The default column with the end of the lease. A webhook delivery uses the column of its due time for this, because
# both are the time from which a worker may take the delivery.
UNTIL: Final = "claim_expires_at"

NEVER_LEASED: Final = Q(claim_expires_at=None)


def is_expired() -> Q:
    """Return the condition for rows whose lease expired, or whose pause after a failure is over."""
    return Q(claim_expires_at__lt=timezone.now())


def is_free() -> Q:
    """Return the condition for rows without a lease and without a pause after a failure.

    The number of earlier tries does not matter.
    """
    return NEVER_LEASED | is_expired()


def is_exhausted(tries: int | None = None) -> Q:
    """Return the condition for rows whose allowed tries (default: `LEASE_TRIES`) all ended without a result."""
    return is_expired() & Q(tries__gte=settings.LEASE_TRIES if tries is None else tries)


def compute_expiry(seconds: float | None = None) -> datetime:
    """Return the end of a lease that begins now and lasts `seconds` (default: `LEASE_SECONDS`)."""
    return timezone.now() + timedelta(seconds=settings.LEASE_SECONDS if seconds is None else seconds)


def take(
    rows: "QuerySet[Any]", token: uuid.UUID, *, seconds: float | None = None, until: str = UNTIL, **columns: Any
) -> bool:
    """Lease the rows of the query, and return whether there were any.

    The query must contain the condition that the rows are free, because another worker may have taken rows that were
    free when the caller read them.
    """
    return bool(rows.update(**{"claim": token, until: compute_expiry(seconds), **columns}))


def take_first(
    model: type[_Row],
    where: str,
    values: Sequence[Any],
    *,
    order: str,
    limit: int,
    changes: str,
    seconds: float | None = None,
) -> tuple[uuid.UUID, list[_Row]]:
    """Lease up to `limit` rows in one statement, and return the token and the rows in any order.

    `where`, `order` and `changes` are SQL; `values` are the parameters of `where`. On PostgreSQL, rows that another
    worker is taking are skipped.
    """
    token, table, key = uuid.uuid4(), model._meta.db_table, model._meta.pk.column  # noqa: SLF001 -- Django's documented API
    reader = reader_of(model)
    picked = f'SELECT "{key}" FROM "{table}" WHERE {where} ORDER BY {order} LIMIT %s'  # noqa: S608
    # PostgreSQL may run a subquery of IN several times, and could then lease more rows than the limit. PostgreSQL
    # computes an array only once.
    among = f"= ANY(ARRAY({picked} FOR UPDATE SKIP LOCKED))" if db.is_postgresql() else f"IN ({picked})"
    sql = f'UPDATE "{table}" SET claim = %s, claim_expires_at = %s, {changes} WHERE "{key}" {among}'  # noqa: S608
    bound = token if db.is_postgresql() else token.hex
    return token, reader.run(f"{sql} RETURNING {reader.columns}", [bound, compute_expiry(seconds), *values, limit])


def filter_held(model: type[_Row], pk: Any, token: uuid.UUID | None) -> "QuerySet[_Row]":
    """Return the query for a leased row. The query finds nothing if the lease was lost."""
    return model._default_manager.filter(pk=pk, claim=token)  # noqa: SLF001 -- Django's documented API


def renew(rows: "QuerySet[Any]", *, seconds: float | None = None, until: str = UNTIL, **columns: Any) -> bool:
    """Extend the lease on held rows, counted from now; return whether any row was still held."""
    return bool(rows.update(**{until: compute_expiry(seconds), **columns}))


def end(rows: "QuerySet[Any]", *, at: datetime | None = None, until: str = UNTIL, **columns: Any) -> bool:
    """End the lease on held rows, and return whether any row was still held.

    With `at`, no worker takes the rows before that time.
    """
    return bool(rows.update(**{"claim": None, until: at, **columns}))


# The assignments of `end`, for SQL statements that also store a result.
END_SQL: Final = "claim = NULL, claim_expires_at = NULL"


def release(rows: "QuerySet[Any]", tries: int, /, **columns: Any) -> bool:
    """Give back held rows whose work has failed `tries` times, so that a worker tries them again after a pause.

    The pause doubles with each try, up to `LEASE_SECONDS`.
    """
    return end(rows, at=compute_expiry(min(settings.LEASE_SECONDS, 2**tries)), **columns)


COUNT_TRY: Final[dict[str, Any]] = {"tries": F("tries") + 1}

# Faults of the server that no row can cause. A row can be the cause of a lost connection or of a slow statement.
_FAULTS_OF_THE_SERVER: Final = frozenset({Cause.FULL, Cause.READ_ONLY})

# The pause before the next try after such a fault.
_SERVER_PAUSE_SECONDS: Final = 10.0


def is_blameless(error: BaseException) -> bool:
    """Return whether the state of the database server, such as a full disk, caused an error, and not the leased row."""
    fault = fault_of(error)
    return fault is not None and fault.cause in _FAULTS_OF_THE_SERVER


def undo_try(rows: "QuerySet[Any]", *, counted: int = 1) -> bool:
    """Give back held rows for another try after a pause. Subtract the `counted` tries that the lease added.

    Otherwise, rows whose small updates succeed on a nearly full disk would use up their tries, and their work would be
    given up.
    """
    return end(rows, at=compute_expiry(_SERVER_PAUSE_SECONDS), tries=F("tries") - counted)


def undo_if_blameless(rows: "QuerySet[Any]", error: BaseException) -> bool:
    """Call `undo_try` if the state of the database server caused the error, and return whether it did."""
    blameless = is_blameless(error)
    if blameless:
        undo_try(rows)
    return blameless


BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Background work may take this share of one thread's time, across all processes, while handoffs wait to be judged.
BUSY_SHARE: Final = 0.05
LONGEST_PAUSE: Final = timedelta(minutes=1)


def pause_after(spent: float, share: float = BUSY_SHARE, longest: timedelta = LONGEST_PAUSE) -> timedelta:
    """Return the pause that makes `spent` seconds of work a `share` of work and pause together, at most `longest`."""
    return min(timedelta(seconds=spent * (1 / share - 1)), longest)


# On SQLite, background work pauses after each part for as long as the part took, up to this many seconds.
_LONGEST_REST: Final = 0.05

_one_part = threading.Lock()


class _Idle(threading.local):
    """The seconds that this thread has spent in waits and rests of `background_part`."""

    seconds = 0.0


_idle = _Idle()


@contextmanager
def background_part() -> Iterator[None]:
    """Do a short part of background work. On SQLite, one thread at a time does such a part, and a rest follows.

    SQLite has one writer at a time, and the transaction of a thread lasts longer while other threads run Python.
    Without this limit, a sender who waits for a verdict would wait for the background work of all threads.
    """
    if db.is_postgresql():
        yield
        return
    begun = time.monotonic()
    with _one_part:
        _idle.seconds += time.monotonic() - begun
        begun = time.monotonic()
        yield
        rest = min(time.monotonic() - begun, _LONGEST_REST)
        time.sleep(rest)
        _idle.seconds += rest


def work_clock() -> float:
    """Return a time in seconds that stands still while this thread waits or rests in `background_part`."""
    return time.monotonic() - _idle.seconds


@dataclass(frozen=True, slots=True)
class NamedLease:
    """A lease on work that one process at a time may do: a row of a model with the columns `name` and `at`.

    The row holds no token: the time until which the lease is held identifies the holder.
    """

    model: type[models.Model]
    name: str

    LENGTH = timedelta(minutes=2)

    def acquire(self) -> datetime | None:
        """Take the lease; return the time at which the lease ends, or None if another process holds it."""
        now = timezone.now()
        self._all.get_or_create(name=self.name, defaults={"at": BEGINNING})
        until = now + self.LENGTH
        # A lease that seems to end much later was taken before the clock was set back.
        free = Q(at__lt=now) | Q(at__gt=now + 2 * self.LENGTH)
        return until if self._all.filter(free, name=self.name).update(at=until) else None

    def renew(self, held_until: datetime) -> datetime | None:
        """Extend the lease, counted from now; return its new end, or None if the lease was lost."""
        until = timezone.now() + self.LENGTH
        return until if self._all.filter(name=self.name, at=held_until).update(at=until) else None

    def release(self, held_until: datetime | None, pause: timedelta = timedelta()) -> None:
        """End the lease; with a pause, no process can take it before the pause is over."""
        if held_until is not None:
            until = timezone.now() + pause if pause else BEGINNING
            self._all.filter(name=self.name, at=held_until).update(at=until)

    def revoke(self) -> None:
        """Take the lease back from its holder, if there is one."""
        self._all.filter(name=self.name).update(at=BEGINNING)

    def read(self, *, lock: bool = False) -> datetime | None:
        """Return the end of the lease, or None if nobody has taken it yet.

        With `lock`, nobody can take, renew, end or revoke the lease before the transaction ends.
        """
        rows = self._all.filter(name=self.name)
        return (rows.select_for_update() if lock else rows).values_list("at", flat=True).first()

    def run_parts(self, parts: Iterable[int], longest: float, is_busy: Callable[[], bool]) -> int:
        """Do work in parts while this process holds the lease, and return the sum of their results.

        The run ends after all parts, after `longest` seconds of work, or if this process loses the lease. If `is_busy`
        returns True, the run ends after the current part, and all processes pause (`pause_after`). Return 0 if another
        process holds the lease.
        """
        held_until = self.acquire()
        if held_until is None:
            return 0
        begun, total, pause = work_clock(), 0, timedelta()
        try:
            for part in parts:
                total += part
                spent = work_clock() - begun
                if is_busy():
                    pause = pause_after(spent)
                    break
                if spent > longest:
                    break
                held_until = self.renew(held_until)
                if held_until is None:
                    break
        finally:
            self.release(held_until, pause)
        return total

    def is_free(self) -> bool:
        now = timezone.now()
        return not self._all.filter(name=self.name, at__range=(now, now + 2 * self.LENGTH)).exists()

    @property
    def _all(self) -> "QuerySet[Any]":
        return self.model._default_manager.all()  # noqa: SLF001 -- Django's documented API


class WorkerLock:
    """A lock that several threads share or one thread holds alone.

    A thread that waits to hold the lock alone goes before threads that want to share it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting_alone = 0
        self._is_alone = False

    @contextmanager
    def share(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone and not self._waiting_alone)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def hold_alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting_alone += 1
            try:
                self._changed.wait_for(lambda: not self._is_alone and not self._inside)
                self._is_alone = True
            finally:
                self._waiting_alone -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()

    def drain(
        self,
        take: Callable[[], _Work | None],
        is_any_left_behind: Callable[[], bool],
        take_left_behind: Callable[[], _Work | None],
        work: Callable[[_Work], int],
        is_ending: Callable[[], bool] = lambda: False,
    ) -> int:
        """Work until nothing waits or the process ends; return the number of stored results.

        Work whose last worker died may also kill this worker. This thread therefore does such work while no other
        thread works, so that no other work is lost. Such work takes turns with new work, or a stream of new work would
        delay the old work forever.
        """
        stored = 0
        while not is_ending():
            with self.share():
                fresh = take()
                stored += work(fresh) if fresh else 0
            left_behind = None
            if is_any_left_behind():
                with self.hold_alone():
                    left_behind = take_left_behind()
                    stored += work(left_behind) if left_behind else 0
            if not fresh and not left_behind:
                break
        return stored
