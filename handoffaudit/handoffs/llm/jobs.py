"""Queue of handoffs for the LLM: one row for each handoff, leased one at a time."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.database_faults import FAILURES
from handoffaudit.handoffs import attempts, db, leases, transitions
from handoffaudit.handoffs.models import CheckKind, Handoff, ModelCheck
from handoffaudit.handoffs.results import JudgedHandoff

CHECK = db.Columns.of(ModelCheck, "handoff", "tenant", "kind", "since", "tries")

# One job may call the LLM for a check, a critique and a repair of the handoff. It may then call the LLM for a check and
# a critique of the repaired candidate.
CALLS_OF_A_LEASE = 5

# Limits of the pause before another recheck of a handoff for which the LLM fails, although the LLM answers for other
# handoffs.
SOONEST_AGAIN = timedelta(minutes=1)

LATEST_AGAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Job:
    """A lease of one thread on one check. `alone` is True if the previous worker died during this check."""

    token: uuid.UUID
    handoff: Handoff
    kind: CheckKind
    alone: bool = False

    def hold(self, judged: Iterable[JudgedHandoff]) -> list[JudgedHandoff]:
        """Lock the handoff and its lineage. Return `judged` if the lease is still held, else an empty list."""
        return list(judged) if lock_if_held(self) else []

    def end(self) -> None:
        """Remove the check from the queue."""
        finish(self)


class _Gate:
    """Let only one check a minute pass in this process while results cannot be stored, because each check costs money.

    The answers of the LLM cannot be stored then, either, so each try of a check asks the LLM again.
    """

    PAUSE_SECONDS = 60.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_failing = False
        self._until = 0.0

    def admit(self, take: "Callable[[], Job | None]") -> "Job | None":
        """Return the result of `take`. While checks fail, return None if another check began during the pause."""
        if not self._is_failing:
            return take()
        with self._lock:
            job = take() if time.monotonic() >= self._until else None
            if job:
                self._until = time.monotonic() + self.PAUSE_SECONDS
            return job

    def set_failing(self, *, is_failing: bool) -> None:
        with self._lock:
            self._is_failing = is_failing
            self._until = time.monotonic() + self.PAUSE_SECONDS


gate = _Gate()


def enqueue(handoffs: Sequence[Handoff], kind: CheckKind) -> None:
    """Queue the handoffs for a check. Call inside the transaction that stores the cause of the check."""
    now = timezone.now()
    db.insert_rows(CHECK, [[handoff.pk, handoff.tenant_id, kind.value, now, 0] for handoff in handoffs])


def take() -> Job | None:
    """Lease the oldest free check: first checks, then rechecks, then repairs. Return None if no check is free.

    Leasing does not count as a try; `release` counts a failed check. If a worker dies with several checks, the cause is
    unknown, so no try is counted for any of the checks.
    """
    is_free = "(claim_expires_at IS NULL OR (claim_expires_at < %s AND claim IS NULL))"
    return gate.admit(partial(_take, is_free, alone=False))


def take_left_behind() -> Job | None:
    """Lease a check whose worker died, or return None if there is no such check.

    Leasing counts as a try. The caller must make no other check at the same time.
    """
    return gate.admit(partial(_take, "claim_expires_at < %s AND claim IS NOT NULL", alone=True))


def is_any_left_behind() -> bool:
    """Return whether a worker died while it held the lease of a check that may be tried again."""
    late = ModelCheck.objects.filter(leases.is_expired(), tries__lt=settings.LEASE_TRIES)
    return late.exclude(claim=None).exists()


def _take(condition: str, *, alone: bool) -> Job | None:
    with transaction.atomic():
        token, checks = leases.take_first(
            ModelCheck,
            f"{condition} AND tries < %s",
            [timezone.now(), settings.LEASE_TRIES],
            order="kind, handoff_id",
            limit=1,
            changes=f"tries = tries + {int(alone)}",
            seconds=CALLS_OF_A_LEASE * settings.MODEL_SECONDS + settings.LEASE_SECONDS,
        )
    if not checks:
        return None
    [check] = checks
    try:
        handoff = Handoff.objects.select_related("tenant").get(pk=check.handoff_id)
    except FAILURES:
        _lost[token] = Job(token, Handoff(pk=check.handoff_id), CheckKind(check.kind), alone), True
        raise
    return Job(token, handoff, CheckKind(check.kind), alone)


def lock_if_held(job: Job) -> bool:
    """Lock the handoff, its lineage and the check until the transaction ends; return whether the lease is held."""
    attempts.lock([job.handoff])
    return _filter_held(job).select_for_update().exists()


def finish(job: Job) -> None:
    _filter_held(job).delete()


def release(job: Job) -> None:
    """Give back a check that failed, for a retry after a pause that grows with each try."""
    row = ModelCheck.objects.filter(pk=job.handoff.pk).first()
    tries = (row.tries if row else 0) + (0 if job.alone else 1)
    leases.release(_filter_held(job), tries, tries=tries)


# The checks, by token, that this process could not give back, because the database failed; and whether they are
# blameless.
_lost: dict[uuid.UUID, tuple[Job, bool]] = {}


def release_after(job: Job, error: BaseException) -> None:
    """Give back a check after an error. If the database fails, `release_lost` gives the check back later."""
    blameless = leases.is_blameless(error)
    if blameless:
        gate.set_failing(is_failing=True)
    try:
        _give_back(job, blameless=blameless)
    except FAILURES:
        _lost[job.token] = job, blameless


def release_lost() -> None:
    """Give back the checks that this process lost with the database, so that no handoff waits until the leases expire.

    Raise the error of the database if it still fails.
    """
    for token, (job, blameless) in list(_lost.items()):
        _give_back(job, blameless=blameless)
        _lost.pop(token, None)


def _give_back(job: Job, *, blameless: bool) -> None:
    if blameless:
        leases.undo_try(_filter_held(job), counted=int(job.alone))
    else:
        release(job)


def end_leases() -> None:
    """Expire all leases. Call only when no process with a lease can still run."""
    leases.renew(ModelCheck.objects.exclude(claim=None), seconds=0)


def postpone(job: Job) -> None:
    """Give back the check for a later retry. Call while the row of the check is locked.

    The pause is as long as the check has waited so far, within `SOONEST_AGAIN` and `LATEST_AGAIN`.
    """
    now = timezone.now()
    waited = now - _filter_held(job).get().since
    later = now + min(max(waited, SOONEST_AGAIN), LATEST_AGAIN)
    leases.end(_filter_held(job), at=later, tries=0)


def _filter_held(job: Job) -> "QuerySet[ModelCheck]":
    return leases.filter_held(ModelCheck, job.handoff.pk, job.token)


def count_under_way(kind: CheckKind) -> int:
    """Return the number of checks of this kind in the queue. Checks that pause before another try do not count."""
    later = Q(claim=None, claim_expires_at__gt=timezone.now())
    return ModelCheck.objects.filter(kind=kind).exclude(later).count()


def count_waiting(most: int) -> int:
    """Return the number of checks that a worker may lease now, counted up to `most`.

    Checks that pause before another try, and checks without a try left, do not count.
    """
    return ModelCheck.objects.filter(leases.is_free(), tries__lt=settings.LEASE_TRIES)[:most].count()


def park_exhausted() -> int:
    """Remove up to 100 checks that used all their tries without a result, and park the handoffs of first checks.

    Return the number of parked handoffs.
    """
    spent = ModelCheck.objects.filter(leases.is_exhausted()).order_by("handoff_id")
    return sum(_park(check) for check in spent[:100])


def _park(check: ModelCheck) -> bool:
    with transaction.atomic():
        # A handoff with a late verdict must not be parked. Workers that store a verdict also lock the handoff first.
        handoff = Handoff.objects.select_for_update().get(pk=check.handoff_id)
        deleted, _ = leases.filter_held(ModelCheck, check.pk, check.claim).filter(tries=check.tries).delete()
        if not deleted or check.kind != CheckKind.FIRST:
            return False
        transitions.park(handoff, f"{check.tries} tries of its LLM check failed")
    return True
