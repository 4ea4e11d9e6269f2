"""The queue of handoffs that the LLM is to be asked about: one row each, leased one at a time."""

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

# One handoff may ask for the check, the critique and a repair, whose candidate is checked and criticised in its turn.
CALLS_OF_A_LEASE = 5

# What never gets an answer of its own, though the model answers others, is asked again after at least and at most this.
SOONEST_AGAIN = timedelta(minutes=1)

LATEST_AGAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Job:
    """One check that one thread may make until the claim runs out. `alone`: its last worker died with it in hand."""

    token: uuid.UUID
    handoff: Handoff
    kind: CheckKind
    alone: bool = False


def enqueue(handoffs: Sequence[Handoff], kind: CheckKind) -> None:
    """Queues them; call inside the transaction that stores why."""
    now = timezone.now()
    db.insert_rows(CHECK, [[handoff.pk, handoff.tenant_id, kind.value, now, 0] for handoff in handoffs])


def take() -> Job | None:
    """Take the oldest check that nobody makes, first ones before those made again; None where there is none.

    A try is counted where it fails by itself: of several checks that a worker died with, nobody knows which it was.
    """
    return _take("(claim_expires_at IS NULL OR (claim_expires_at < %s AND claim IS NULL))", alone=False)


def take_left_behind() -> Job | None:
    """Take a check that a worker died with; None where there is none. The caller makes no other one meanwhile, and the
    try counts."""
    return _take("claim_expires_at < %s AND claim IS NOT NULL", alone=True)


def is_any_left_behind() -> bool:
    """Return whether a worker died with a check in hand."""
    late = ModelCheck.objects.filter(claim_expires_at__lt=timezone.now(), tries__lt=settings.CLAIM_TRIES)
    return late.exclude(claim=None).exists()


def _take(condition: str, *, alone: bool) -> Job | None:
    token, now = uuid.uuid4(), timezone.now()
    seconds = CALLS_OF_A_LEASE * settings.MODEL_SECONDS + settings.CLAIM_SECONDS
    picked = f"""
        SELECT handoff_id FROM "{CHECKS}" WHERE {condition} AND tries < %s
        ORDER BY kind, handoff_id LIMIT 1
    """  # noqa: S608
    # As an array, because PostgreSQL may run a subquery of IN again for other rows, and then take more than its limit.
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
    """Whether the claim stands; locks its row until the end of the caller's transaction."""
    return _of(due).select_for_update().exists()


def finish(due: Job) -> None:
    _of(due).delete()


def release(due: Job) -> None:
    """Give back one that failed by itself, to be tried again after a while that grows with each try."""
    row = ModelCheck.objects.filter(pk=due.handoff.pk).first()
    tries = (row.tries if row else 0) + (0 if due.alone else 1)
    later = timezone.now() + timedelta(seconds=min(settings.CLAIM_SECONDS, 2**tries))
    _of(due).update(claim=None, claim_expires_at=later, tries=tries)


def end_leases() -> None:
    """Lets what is claimed be taken at once; call where no process that claimed anything can still be there."""
    ModelCheck.objects.exclude(claim=None).update(claim_expires_at=timezone.now())


def postpone(due: Job) -> None:
    """Gives it back for as long again as it has waited so far; call while its row is locked."""
    now = timezone.now()
    waited = now - _of(due).get().since
    later = now + min(max(waited, SOONEST_AGAIN), LATEST_AGAIN)
    _of(due).update(claim=None, claim_expires_at=later, tries=0)


def _of(due: Job) -> "QuerySet[ModelCheck]":
    return ModelCheck.objects.filter(pk=due.handoff.pk, claim=due.token)


def count_under_way(kind: CheckKind) -> int:
    """How many are claimed or may be claimed now; not those that were given back for later."""
    later = Q(claim=None, claim_expires_at__gt=timezone.now())
    return ModelCheck.objects.filter(kind=kind).exclude(later).count()


def count_waiting(most: int) -> int:
    """How many nobody makes, counted up to `most`."""
    free = Q(claim_expires_at=None) | Q(claim_expires_at__lt=timezone.now())
    return ModelCheck.objects.filter(free, tries__lt=settings.CLAIM_TRIES)[:most].count()


def park_exhausted() -> int:
    """Parks the handoffs whose check was begun as often as allowed and never ended; how many there were."""
    spent = ModelCheck.objects.filter(claim_expires_at__lt=timezone.now(), tries__gte=settings.CLAIM_TRIES)
    return sum(_park(check) for check in spent.order_by("handoff_id")[:100])


def _park(check: ModelCheck) -> bool:
    with transaction.atomic():
        # The handoff first, as who stores a verdict does: one that comes after all must not be parked.
        handoff = Handoff.objects.select_for_update().get(pk=check.handoff_id)
        deleted, _ = ModelCheck.objects.filter(pk=check.pk, claim=check.claim, tries=check.tries).delete()
        if not deleted or check.kind != CheckKind.FIRST:
            return False
        transitions.park(handoff, f"{check.tries} tries to have the model check it failed")
    return True
