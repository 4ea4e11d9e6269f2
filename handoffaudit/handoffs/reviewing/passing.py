"""Out of the queue without judging, to one person or to nobody in particular; and into the queue again."""

import uuid
from collections.abc import Iterable
from functools import partial

from django.db.models import F, OuterRef, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Handoff, PassedOn, ReviewHold
from handoffaudit.handoffs.reviewing.changes import changed, remark
from handoffaudit.handoffs.reviewing.errors import (
    WHAT_TO_KNOW,
    NoReviewer,
    NoteRequired,
    NotPassedOn,
    NotReviewable,
    Readable,
    checked_note,
)
from handoffaudit.handoffs.states import REVIEWABLE

DECIDING = (Role.REVIEWER, Role.ADMIN)
MOST_REVIEWERS = 500
PUT_BACK = "put back into the queue"
HANDLED = "Marked as handled"


def pass_on(
    *, tenant: Tenant, reference: str, note: str, actor: Actor, to: Person | None, seen_version: int | None
) -> Handoff:
    """Takes a waiting handoff out of the queue. It stays in its state and becomes overdue as before; a decision or a
    new verdict ends it. Raises `Handoff.DoesNotExist` or a `ReviewError`: a note is needed, and `to` must be able to
    decide."""
    note = checked_note(note)
    if not note:
        raise NoteRequired(WHAT_TO_KNOW)
    if to is not None and not Membership.objects.filter(tenant=tenant, person=to, role__in=DECIDING).exists():
        raise NoReviewer(to.get_username())
    change = partial(_pass_on, note=note, actor=actor, to=to)
    return changed(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _pass_on(handoff: Handoff, *, note: str, actor: Actor, to: Person | None) -> None:
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    _set_aside(handoff, f"passed on{f' to {to.get_username()}' if to else ''}: {note}", note, actor, to)


def mark_handled(handoff: Handoff, *, note: str, actor: Actor) -> None:
    """Take an unreadable handoff out of the queue without judging it; call inside a transaction.

    Marking it again changes nothing, unless there is something new in the note.
    """
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    if not handoff.is_unreadable:
        raise Readable
    said = f"{HANDLED}: {note}" if note else HANDLED
    before = passed_on_of(handoff)
    if before and is_handled(before) and said in (HANDLED, before.note):
        return
    _set_aside(handoff, said, said, actor, None)


def is_handled(passed: PassedOn) -> bool:
    return passed.to_id is None and passed.note.startswith(HANDLED)


def _set_aside(handoff: Handoff, event: str, note: str, actor: Actor, to: Person | None) -> None:
    remark(handoff, actor, event)
    PassedOn.objects.update_or_create(
        handoff=handoff,
        defaults={
            "tenant_id": handoff.tenant_id,
            "by": actor.name,
            "to": to,
            "note": note,
            "version": handoff.version,
            "over": False,
            "at": timezone.now(),
        },
    )
    ReviewHold.objects.filter(handoff=handoff).delete()


def take_back(*, tenant: Tenant, reference: str, actor: Actor) -> Handoff:
    """Into the queue again. Raises `Handoff.DoesNotExist` or `NotPassedOn`."""
    return changed(tenant=tenant, reference=reference, seen_version=None, change=partial(put_back, actor=actor))


def put_back(handoff: Handoff, *, actor: Actor) -> None:
    """The same inside a transaction."""
    if passed_on_of(handoff) is None:
        raise NotPassedOn
    remark(handoff, actor, PUT_BACK)
    PassedOn.objects.filter(handoff=handoff.pk).delete()


def passed_on_of(handoff: Handoff) -> PassedOn | None:
    """How it is passed on now; None where it is in the queue or no longer waits."""
    return passed_on([handoff]).get(handoff.pk)


def passed_on(handoffs: Iterable[Handoff]) -> dict[uuid.UUID, PassedOn]:
    """Those of them that are passed on, with `to`, by handoff."""
    waiting = {one.pk: one.version for one in handoffs if one.state in REVIEWABLE}
    rows = PassedOn.objects.filter(handoff__in=waiting, over=False).select_related("to") if waiting else ()
    return {row.handoff_id: row for row in rows if row.version == waiting[row.handoff_id]}


def in_force_of(handoff: OuterRef, version: OuterRef) -> "QuerySet[PassedOn]":
    """For a subquery on handoffs: how each is passed on."""
    return PassedOn.objects.filter(handoff=handoff, version=version, over=False)


def in_force(tenant: Tenant) -> "QuerySet[PassedOn]":
    """All of a tenant that are passed on."""
    return PassedOn.objects.filter(tenant=tenant, over=False, version=F("handoff__version"))


def reviewers(tenant: Tenant) -> list[Person]:
    """Who something can be passed to, by name."""
    rows = Person.objects.filter(membership__tenant=tenant, membership__role__in=DECIDING, is_active=True)
    return list(rows.order_by("username")[:MOST_REVIEWERS])
