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
    """Some handoffs that one worker may judge until the claim runs out. `alone`: one that was left behind."""

    token: uuid.UUID
    handoffs: list[Handoff]
    alone: bool = False


def take_fresh(limit: int) -> Lease | None:
    """Takes up to `limit` handoffs that nobody has tried yet, oldest first; None where there are none."""
    return _take("claim_expires_at IS NULL AND tries = 0", [], limit)


def take_left_behind() -> Lease | None:
    """Take one whose claim ran out; None where there is none.

    The caller judges nothing else meanwhile: were it what kills its worker, it would take nothing along, and nothing
    else would be blamed on it.
    """
    values = [timezone.now(), settings.CLAIM_TRIES]
    return _take("claim_expires_at < %s AND tries <= %s", values, 1, alone=True)


def is_any_left_behind() -> bool:
    """Return whether a claim ran out."""
    late = Handoff.objects.filter(state__in=WAITING_STATES, parked=False, claim_expires_at__lt=timezone.now())
    return late.filter(tries__lte=settings.CLAIM_TRIES).exists()


def _take(condition: str, values: list[object], limit: int, *, alone: bool = False) -> Lease | None:
    token, now = uuid.uuid4(), timezone.now()
    picked = f"""
        SELECT id FROM "{HANDOFFS}"
        WHERE state IN ('received', 'validating') AND NOT parked AND {condition} ORDER BY id LIMIT %s
    """  # noqa: S608
    # As an array, because PostgreSQL may run a subquery of IN again for other rows, and then take more than its limit.
    among = f"= ANY(ARRAY({picked} FOR UPDATE SKIP LOCKED))" if db.is_postgresql() else f"IN ({picked})"
    sql = f"""
        UPDATE "{HANDOFFS}" SET state = 'validating', claim = %s, claim_expires_at = %s, tries = tries + 1
        WHERE id {among} RETURNING *
    """  # noqa: S608
    expires = now + timedelta(seconds=settings.CLAIM_SECONDS)
    with transaction.atomic():
        if db.is_postgresql():
            with connection.cursor() as cursor:
                # A claim lost with the power is claimed again; nothing waits for the disk here.
                cursor.execute("SET LOCAL synchronous_commit = off")
        handoffs = list(Handoff.objects.raw(sql, [_bind_value(token), expires, *values, limit]))
        record_start(handoff for handoff in handoffs if handoff.tries == 1)
    return Lease(token, sorted(handoffs, key=lambda handoff: handoff.pk), alone) if handoffs else None


def record_start(handoffs: Iterable[Handoff]) -> None:
    """Writes the event of those that are judged now for the first time."""
    event = [timezone.now(), SYSTEM.kind.value, SYSTEM.name, State.RECEIVED.value, State.VALIDATING.value, ""]
    db.insert_rows(LEASE_EVENT, [[handoff.pk, handoff.tenant_id, *event] for handoff in handoffs])


def lock_held(claim: Lease) -> set[uuid.UUID]:
    """Which of them this claim still holds; locks them and their lineages until the end of the caller's transaction."""
    holders = attempts.lock(claim.handoffs)
    return {handoff.pk for handoff in claim.handoffs if holders.get(handoff.pk) == claim.token}


def renew(claim: Lease) -> None:
    """Begins the time of what it still holds anew."""
    expires = timezone.now() + timedelta(seconds=settings.CLAIM_SECONDS)
    Handoff.objects.filter(pk__in=[handoff.pk for handoff in claim.handoffs], claim=claim.token).update(
        claim_expires_at=expires
    )


def release(claim: Lease, handoff: Handoff) -> None:
    """Give back one that failed by itself, to be tried again alone after a while that grows with each try."""
    later = timezone.now() + timedelta(seconds=min(settings.CLAIM_SECONDS, 2**handoff.tries))
    own = 0 if claim.alone else 1
    Handoff.objects.filter(pk=handoff.pk, claim=claim.token).update(
        claim=None, claim_expires_at=later, tries=F("tries") + own
    )


def park_exhausted() -> int:
    """Park what failed alone as often as allowed; return how many there were."""
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
    """Whether a worker should be woken: something fresh, or a claim that ran out. What waits for the model has none."""
    return (
        Handoff.objects.filter(state__in=WAITING_STATES, parked=False)
        .filter(Q(claim_expires_at=None, tries=0) | Q(claim_expires_at__lt=timezone.now()))
        .exists()
    )


def _bind_value(value: uuid.UUID) -> object:
    return value if db.is_postgresql() else value.hex


class WorkerLock:
    """A lock that several threads share, or that one has alone; who waits to be alone goes before who would share."""

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
    """Puts it back into the queue. Raises `Handoff.DoesNotExist` or `NotParked`."""
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
