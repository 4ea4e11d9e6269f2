"""Who judges what: rows are claimed by a conditional UPDATE, so that a doubled or late message finds nothing.

A handoff is taken together with others first. Where their worker dies, nobody knows which of them it was: each is
judged alone next, and only what happens then counts against it. So `tries` is 1 for the first claim, and one more for
each failure that was the handoff's own.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from handoffaudit.handoffs import attempts, bulk, changing
from handoffaudit.handoffs.actors import SYSTEM
from handoffaudit.handoffs.models import WAITING_STATES, Event, Handoff, State

HANDOFFS = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
CLAIM_EVENT = bulk.Columns.of(
    Event, "handoff", "tenant", "at", "actor_kind", "actor", "from_state", "to_state", "reason"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Some handoffs that one worker may judge until the claim runs out. `alone`: one that was left behind."""

    token: uuid.UUID
    handoffs: list[Handoff]
    alone: bool = False


def fresh(limit: int) -> Claim | None:
    """Takes up to `limit` handoffs that nobody has tried yet, oldest first; None where there are none."""
    return _claim("claim_expires_at IS NULL AND tries = 0", [], limit)


def left_behind() -> Claim | None:
    """Take one whose claim ran out; None where there is none.

    The caller judges nothing else meanwhile: were it what kills its worker, it would take nothing along, and nothing
    else would be blamed on it.
    """
    values = [timezone.now(), settings.CLAIM_TRIES]
    return _claim("claim_expires_at < %s AND tries <= %s", values, 1, alone=True)


def is_any_left_behind() -> bool:
    """Return whether a claim ran out."""
    late = Handoff.objects.filter(state__in=WAITING_STATES, parked=False, claim_expires_at__lt=timezone.now())
    return late.filter(tries__lte=settings.CLAIM_TRIES).exists()


def _claim(condition: str, values: list[object], limit: int, *, alone: bool = False) -> Claim | None:
    token, now = uuid.uuid4(), timezone.now()
    picked = f"""
        SELECT id FROM "{HANDOFFS}"
        WHERE state IN ('received', 'validating') AND NOT parked AND {condition} ORDER BY id LIMIT %s
    """  # noqa: S608
    # As an array, because PostgreSQL may run a subquery of IN again for other rows, and then take more than its limit.
    among = f"= ANY(ARRAY({picked} FOR UPDATE SKIP LOCKED))" if bulk.on_postgresql() else f"IN ({picked})"
    sql = f"""
        UPDATE "{HANDOFFS}" SET state = 'validating', claim = %s, claim_expires_at = %s, tries = tries + 1
        WHERE id {among} RETURNING *
    """  # noqa: S608
    expires = now + timedelta(seconds=settings.CLAIM_SECONDS)
    with transaction.atomic():
        if bulk.on_postgresql():
            with connection.cursor() as cursor:
                # A claim lost with the power is claimed again; nothing waits for the disk here.
                cursor.execute("SET LOCAL synchronous_commit = off")
        handoffs = list(Handoff.objects.raw(sql, [_stored(token), expires, *values, limit]))
        taken(handoff for handoff in handoffs if handoff.tries == 1)
    return Claim(token, sorted(handoffs, key=lambda handoff: handoff.pk), alone) if handoffs else None


def taken(handoffs: Iterable[Handoff]) -> None:
    """Writes the event of those that are judged now for the first time."""
    event = [timezone.now(), SYSTEM.kind.value, SYSTEM.name, State.RECEIVED.value, State.VALIDATING.value, ""]
    bulk.insert(CLAIM_EVENT, [[handoff.pk, handoff.tenant_id, *event] for handoff in handoffs])


def still_held(claim: Claim) -> set[uuid.UUID]:
    """Which of them this claim still holds; locks them and their lineages until the end of the caller's transaction."""
    holders = attempts.lock(claim.handoffs)
    return {handoff.pk for handoff in claim.handoffs if holders.get(handoff.pk) == claim.token}


def renew(claim: Claim) -> None:
    """Begins the time of what it still holds anew."""
    expires = timezone.now() + timedelta(seconds=settings.CLAIM_SECONDS)
    Handoff.objects.filter(pk__in=[handoff.pk for handoff in claim.handoffs], claim=claim.token).update(
        claim_expires_at=expires
    )


def release(claim: Claim, handoff: Handoff) -> None:
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
            number += changing.park(handoff, f"{handoff.tries - 1} tries to judge it failed")
    return number


def anything_waits() -> bool:
    """Whether a worker should be woken: something fresh, or a claim that ran out. What waits for the model has none."""
    return (
        Handoff.objects.filter(state__in=WAITING_STATES, parked=False)
        .filter(Q(claim_expires_at=None, tries=0) | Q(claim_expires_at__lt=timezone.now()))
        .exists()
    )


def _stored(value: uuid.UUID) -> object:
    return value if bulk.on_postgresql() else value.hex
