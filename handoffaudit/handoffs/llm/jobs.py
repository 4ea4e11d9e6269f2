"""Queue of handoffs for the LLM: one row for each handoff, leased one at a time."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.handoffs import attempts, db, leases, transitions
from handoffaudit.handoffs.models import CheckKind, Handoff, ModelCheck
from handoffaudit.handoffs.results import JudgedHandoff

CHECK = db.Columns.of(ModelCheck, "handoff", "tenant", "kind", "since", "tries")

# One handoff may need the check, the critique and a repair, whose candidate needs a check and a critique again.
CALLS_OF_A_LEASE = 5

# Limits of the pause before a recheck of a handoff that gets no answer although the LLM answers for others.
SOONEST_AGAIN = timedelta(minutes=1)

LATEST_AGAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Job:
    """A lease on one check for one thread. `alone` says that the last worker died during this check."""

    token: uuid.UUID
    handoff: Handoff
    kind: CheckKind
    alone: bool = False

    def hold(self, judged: Iterable[JudgedHandoff]) -> list[JudgedHandoff]:
        """Lock the handoff and its lineage; return the judged handoff if the lease is still held."""
        return list(judged) if lock_if_held(self) else []

    def end(self) -> None:
        """Remove the check from the queue."""
        finish(self)


def enqueue(handoffs: Sequence[Handoff], kind: CheckKind) -> None:
    """Queue the handoffs. Call inside the transaction that stores the reason."""
    now = timezone.now()
    db.insert_rows(CHECK, [[handoff.pk, handoff.tenant_id, kind.value, now, 0] for handoff in handoffs])


def take() -> Job | None:
    """Lease the oldest free check, first checks before rechecks. Return None where no check is free.

    A failure of the check itself counts as a try. When a worker dies with several checks, nobody knows which of them
    caused it, so its death does not count.
    """
    return _take("(claim_expires_at IS NULL OR (claim_expires_at < %s AND claim IS NULL))", alone=False)


def take_left_behind() -> Job | None:
    """Lease a check that a worker died with, None where there is none.

    The caller makes no other check meanwhile, and the try counts.
    """
    return _take("claim_expires_at < %s AND claim IS NOT NULL", alone=True)


def is_any_left_behind() -> bool:
    """Return whether a worker died while it held the lease of a check."""
    late = ModelCheck.objects.filter(leases.expired(), tries__lt=settings.LEASE_TRIES)
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
    handoff = Handoff.objects.select_related("tenant").get(pk=check.handoff_id)
    return Job(token, handoff, CheckKind(check.kind), alone)


def lock_if_held(due: Job) -> bool:
    """Lock the handoff, its lineage and the check until the transaction ends; return whether the lease is held."""
    attempts.lock([due.handoff])
    return _of(due).select_for_update().exists()


def finish(due: Job) -> None:
    _of(due).delete()


def release(due: Job) -> None:
    """Release a check that failed by itself, for a retry after a pause that grows with each try."""
    row = ModelCheck.objects.filter(pk=due.handoff.pk).first()
    tries = (row.tries if row else 0) + (0 if due.alone else 1)
    leases.release(_of(due), tries, tries=tries)


def end_leases() -> None:
    """Expire all leases. Call where no process with a lease can still exist."""
    leases.renew(ModelCheck.objects.exclude(claim=None), seconds=0)


def postpone(due: Job) -> None:
    """Release the check for as long as it has waited so far. Call while its row is locked."""
    now = timezone.now()
    waited = now - _of(due).get().since
    later = now + min(max(waited, SOONEST_AGAIN), LATEST_AGAIN)
    leases.end(_of(due), at=later, tries=0)


def _of(due: Job) -> "QuerySet[ModelCheck]":
    return leases.held(ModelCheck, due.handoff.pk, due.token)


def count_under_way(kind: CheckKind) -> int:
    """Return the number of checks that are leased or free to lease, without postponed checks."""
    later = Q(claim=None, claim_expires_at__gt=timezone.now())
    return ModelCheck.objects.filter(kind=kind).exclude(later).count()


def count_waiting(most: int) -> int:
    """Return the number of checks without a lease, counted up to `most`."""
    return ModelCheck.objects.filter(leases.free(), tries__lt=settings.LEASE_TRIES)[:most].count()


def park_exhausted() -> int:
    """Park the handoffs whose check used all its tries without a result, and return their number."""
    spent = ModelCheck.objects.filter(leases.exhausted()).order_by("handoff_id")
    return sum(_park(check) for check in spent[:100])


def _park(check: ModelCheck) -> bool:
    with transaction.atomic():
        # Lock the handoff first, as workers that store a verdict do: a handoff with a late verdict must not be parked.
        handoff = Handoff.objects.select_for_update().get(pk=check.handoff_id)
        deleted, _ = leases.held(ModelCheck, check.pk, check.claim).filter(tries=check.tries).delete()
        if not deleted or check.kind != CheckKind.FIRST:
            return False
        transitions.park(handoff, f"{check.tries} tries to have the model check it failed")
    return True
