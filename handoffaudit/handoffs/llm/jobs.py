"""Queue of handoffs for the LLM: one row for each handoff, leased one at a time."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.handoffs import db, transitions
from handoffaudit.handoffs.models import CheckKind, Handoff, ModelCheck

CHECKS = ModelCheck._meta.db_table  # noqa: SLF001 -- Django's documented API

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
    late = ModelCheck.objects.filter(claim_expires_at__lt=timezone.now(), tries__lt=settings.CLAIM_TRIES)
    return late.exclude(claim=None).exists()


def _take(condition: str, *, alone: bool) -> Job | None:
    token, now = uuid.uuid4(), timezone.now()
    seconds = CALLS_OF_A_LEASE * settings.MODEL_SECONDS + settings.CLAIM_SECONDS
    picked = f"""
        SELECT handoff_id FROM "{CHECKS}" WHERE {condition} AND tries < %s
        ORDER BY kind, handoff_id LIMIT 1
    """  # noqa: S608
    # PostgreSQL may run a subquery of IN again for other rows and exceed the limit. An array is computed once.
    among = f"= ANY(ARRAY({picked} FOR UPDATE SKIP LOCKED))" if db.is_postgresql() else f"IN ({picked})"
    sql = f"""
        UPDATE "{CHECKS}" SET claim = %s, claim_expires_at = %s, tries = tries + %s
        WHERE handoff_id {among} RETURNING handoff_id, kind
    """  # noqa: S608
    stored = token if db.is_postgresql() else token.hex
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, [stored, now + timedelta(seconds=seconds), int(alone), now, settings.CLAIM_TRIES])
        found = cursor.fetchone()
    if not found:
        return None
    pk = found[0] if isinstance(found[0], uuid.UUID) else uuid.UUID(found[0])
    return Job(token, Handoff.objects.select_related("tenant").get(pk=pk), CheckKind(found[1]), alone)


def lock_if_held(due: Job) -> bool:
    """Return whether the lease is still held, and lock its row until the caller's transaction ends."""
    return _of(due).select_for_update().exists()


def finish(due: Job) -> None:
    _of(due).delete()


def release(due: Job) -> None:
    """Release a check that failed by itself, for a retry after a pause that grows with each try."""
    row = ModelCheck.objects.filter(pk=due.handoff.pk).first()
    tries = (row.tries if row else 0) + (0 if due.alone else 1)
    later = timezone.now() + timedelta(seconds=min(settings.CLAIM_SECONDS, 2**tries))
    _of(due).update(claim=None, claim_expires_at=later, tries=tries)


def end_leases() -> None:
    """Expire all leases. Call where no process with a lease can still exist."""
    ModelCheck.objects.exclude(claim=None).update(claim_expires_at=timezone.now())


def postpone(due: Job) -> None:
    """Release the check for as long as it has waited so far. Call while its row is locked."""
    now = timezone.now()
    waited = now - _of(due).get().since
    later = now + min(max(waited, SOONEST_AGAIN), LATEST_AGAIN)
    _of(due).update(claim=None, claim_expires_at=later, tries=0)


def _of(due: Job) -> "QuerySet[ModelCheck]":
    return ModelCheck.objects.filter(pk=due.handoff.pk, claim=due.token)


def count_under_way(kind: CheckKind) -> int:
    """Return the number of checks that are leased or free to lease, without postponed checks."""
    later = Q(claim=None, claim_expires_at__gt=timezone.now())
    return ModelCheck.objects.filter(kind=kind).exclude(later).count()


def count_waiting(most: int) -> int:
    """Return the number of checks without a lease, counted up to `most`."""
    free = Q(claim_expires_at=None) | Q(claim_expires_at__lt=timezone.now())
    return ModelCheck.objects.filter(free, tries__lt=settings.CLAIM_TRIES)[:most].count()


def park_exhausted() -> int:
    """Park the handoffs whose check used all its tries without a result, and return their number."""
    spent = ModelCheck.objects.filter(claim_expires_at__lt=timezone.now(), tries__gte=settings.CLAIM_TRIES)
    return sum(_park(check) for check in spent.order_by("handoff_id")[:100])


def _park(check: ModelCheck) -> bool:
    with transaction.atomic():
        # Lock the handoff first, as workers that store a verdict do: a handoff with a late verdict must not be parked.
        handoff = Handoff.objects.select_for_update().get(pk=check.handoff_id)
        deleted, _ = ModelCheck.objects.filter(pk=check.pk, claim=check.claim, tries=check.tries).delete()
        if not deleted or check.kind != CheckKind.FIRST:
            return False
        transitions.park(handoff, f"{check.tries} tries to have the model check it failed")
    return True
