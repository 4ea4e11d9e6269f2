"""Leases of workers on handoffs to be judged, taken by a conditional UPDATE so that no handoff is judged twice."""

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, db, notify, queries, transitions
from handoffaudit.handoffs.models import WAITING_STATES, Event, Handoff, State
from handoffaudit.handoffs.transitions import SYSTEM, Actor

HANDOFFS = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API

LEASE_EVENT = db.Columns.of(Event, "handoff", "tenant", "at", "actor_kind", "actor", "from_state", "to_state", "reason")


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of one worker on some handoffs, valid until it expires.

    `alone` marks a lease on a handoff whose earlier lease expired or was given back.
    """

    token: uuid.UUID
    handoffs: list[Handoff]
    alone: bool = False


def take_fresh(limit: int) -> Lease | None:
    """Lease up to `limit` handoffs that no worker has tried yet, oldest first; return None if there are none."""
    return _take("claim_expires_at IS NULL AND tries = 0", [], limit)


def take_left_behind() -> Lease | None:
    """Lease one handoff whose lease expired; return None if there are none.

    The caller must judge no other handoff meanwhile. If this handoff kills its worker, no other handoff is affected,
    and no other handoff can be the cause.
    """
    values = [timezone.now(), settings.CLAIM_TRIES]
    return _take("claim_expires_at < %s AND tries <= %s", values, 1, alone=True)


def is_any_left_behind() -> bool:
    """Return whether any lease has expired."""
    late = Handoff.objects.filter(state__in=WAITING_STATES, parked=False, claim_expires_at__lt=timezone.now())
    return late.filter(tries__lte=settings.CLAIM_TRIES).exists()


def _take(condition: str, values: list[object], limit: int, *, alone: bool = False) -> Lease | None:
    token, now = uuid.uuid4(), timezone.now()
    picked = f"""
        SELECT id FROM "{HANDOFFS}"
        WHERE state IN ('received', 'validating') AND NOT parked AND {condition} ORDER BY id LIMIT %s
    """  # noqa: S608
    # PostgreSQL may run a subquery of IN again for other rows, and would then lease more than the limit. An array is
    # computed once.
    among = f"= ANY(ARRAY({picked} FOR UPDATE SKIP LOCKED))" if db.is_postgresql() else f"IN ({picked})"
    sql = f"""
        UPDATE "{HANDOFFS}" SET state = 'validating', claim = %s, claim_expires_at = %s, tries = tries + 1
        WHERE id {among} RETURNING *
    """  # noqa: S608
    expires = now + timedelta(seconds=settings.CLAIM_SECONDS)
    with transaction.atomic():
        if db.is_postgresql():
            with connection.cursor() as cursor:
                # The lease need not survive a power failure: another worker takes it again. So the commit does not wait
                # for the disk.
                cursor.execute("SET LOCAL synchronous_commit = off")
        handoffs = list(Handoff.objects.raw(sql, [_bind_value(token), expires, *values, limit]))
        record_start(handoff for handoff in handoffs if handoff.tries == 1)
    return Lease(token, sorted(handoffs, key=lambda handoff: handoff.pk), alone) if handoffs else None


def record_start(handoffs: Iterable[Handoff]) -> None:
    """Record the event of handoffs that are judged for the first time."""
    event = [timezone.now(), SYSTEM.kind.value, SYSTEM.name, State.RECEIVED.value, State.VALIDATING.value, ""]
    db.insert_rows(LEASE_EVENT, [[handoff.pk, handoff.tenant_id, *event] for handoff in handoffs])


def lock_held(claim: Lease) -> set[uuid.UUID]:
    """Lock the handoffs and their lineages until the transaction ends; return those that this lease still holds."""
    holders = attempts.lock(claim.handoffs)
    return {handoff.pk for handoff in claim.handoffs if holders.get(handoff.pk) == claim.token}


def renew(claim: Lease) -> None:
    """Extend the lease on the handoffs that it still holds."""
    expires = timezone.now() + timedelta(seconds=settings.CLAIM_SECONDS)
    Handoff.objects.filter(pk__in=[handoff.pk for handoff in claim.handoffs], claim=claim.token).update(
        claim_expires_at=expires
    )


def release(claim: Lease, handoff: Handoff) -> None:
    """Give back a handoff whose judging failed, to be tried again alone.

    The delay doubles with each try, up to `CLAIM_SECONDS`.
    """
    later = timezone.now() + timedelta(seconds=min(settings.CLAIM_SECONDS, 2**handoff.tries))
    own = 0 if claim.alone else 1
    Handoff.objects.filter(pk=handoff.pk, claim=claim.token).update(
        claim=None, claim_expires_at=later, tries=F("tries") + own
    )


def park_exhausted() -> int:
    """Park handoffs that failed alone as often as `CLAIM_TRIES` allows; return how many."""
    given_up = Handoff.objects.filter(
        claim_expires_at__lt=timezone.now(),
        state__in=WAITING_STATES,
        parked=False,
        tries__gt=settings.CLAIM_TRIES,
    )
    number = 0
    with transaction.atomic():
        for handoff in given_up.select_for_update(skip_locked=True).order_by("id")[:100]:
            number += transitions.park(handoff, f"{handoff.tries - 1} tries to judge it failed")
    return number


def is_anything_waiting() -> bool:
    """Return whether a worker has work: a fresh handoff or an expired lease.

    A handoff that waits for the LLM has neither.
    """
    return (
        Handoff.objects.filter(state__in=WAITING_STATES, parked=False)
        .filter(Q(claim_expires_at=None, tries=0) | Q(claim_expires_at__lt=timezone.now()))
        .exists()
    )


def _bind_value(value: uuid.UUID) -> object:
    return value if db.is_postgresql() else value.hex


class WorkerLock:
    """A lock that several threads share or one thread holds alone; a thread that waits to be alone goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting_alone = 0
        self._is_alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
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
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting_alone += 1
            self._changed.wait_for(lambda: not self._is_alone and not self._inside)
            self._waiting_alone -= 1
            self._is_alone = True
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()


class NotParked(Exception):
    pass


def retry_parked(*, tenant: Tenant, reference: str, actor: Actor) -> Handoff:
    """Put a parked handoff back into the queue. Raises `Handoff.DoesNotExist` or `NotParked`."""
    with transaction.atomic():
        handoff = queries.get(tenant, reference)
        updated = Handoff.objects.filter(pk=handoff.pk, parked=True).update(
            parked=False, tries=0, state=State.RECEIVED, version=handoff.version + 1
        )
        if not updated:
            raise NotParked(f"Handoff {reference} is not parked.")
        Event.objects.create(
            tenant=tenant,
            handoff=handoff,
            at=timezone.now(),
            actor_kind=actor.kind,
            actor=actor.name,
            from_state=handoff.state,
            to_state=State.RECEIVED,
            reason="another try was asked for",
        )
        transaction.on_commit(notify.notify_workers)
    handoff.refresh_from_db()
    return handoff
