"""The activity of people on a handoff: assignments, reservations while a reviewer reads the handoff, and comments."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Membership, Person, Tenant
from handoffaudit.handoffs import legal_holds, queries
from handoffaudit.handoffs.filters import parse_cursor
from handoffaudit.handoffs.models import Comment, Handoff, PassedOn, ReviewHold
from handoffaudit.handoffs.review.base import (
    MAX_NOTE,
    MAY_DECIDE,
    WHAT_TO_KNOW,
    CommentTooLong,
    NoComment,
    NoReviewer,
    NoteRequired,
    NotPassedOn,
    NotReviewable,
    NotYourComment,
    Readable,
    TooManyComments,
    UnderLegalHold,
    apply_change,
    check_note,
    remark,
)
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.handoffs.webhooks import delivery, events
from handoffaudit.handoffs.webhooks.subscriptions import EventType
from handoffaudit.validation.text import clean, trim

# The condition for assignments that are still valid: no decision or proposal has ended them, and `to` may still decide.
# Without the check of the membership, handoffs assigned to a person who left the tenant, or who may no longer decide,
# would be in nobody's queue.
_LASTS = Q(over=False) & (
    Q(to=None) | Exists(Membership.objects.filter(MAY_DECIDE, tenant=OuterRef("tenant"), person=OuterRef("to")))
)

PUT_BACK = "put back into the queue"

UNASSIGNED = "assigned to nobody"

# The event of an undone assignment begins with this text.
UNDOES = "undone: "

HANDLED = "Marked as handled"


def reassign(
    *, tenant: Tenant, reference: str, note: str, actor: Actor, to: Person | None, seen_version: int | None
) -> Handoff:
    """Assign a handoff to a person, or set a waiting handoff aside for nobody in particular.

    An assigned handoff leaves the queue, and keeps its state and its review deadline. The assignment ends with the next
    decision, proposal, verdict or later attempt, and when `to` may no longer decide in the tenant. `to` must be allowed
    to decide. A note is required to set a handoff aside. Raise `Handoff.DoesNotExist` or a `ReviewError`.
    """
    note = check_note(note)
    if to is None and not note:
        raise NoteRequired(WHAT_TO_KNOW)
    if to is not None and not Membership.objects.filter(MAY_DECIDE, tenant=tenant, person=to).exists():
        raise NoReviewer(to.get_username())
    change = partial(_reassign, note=note, actor=actor, to=to)
    return apply_change(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _reassign(handoff: Handoff, *, note: str, actor: Actor, to: Person | None) -> None:
    if to is None and handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    text = f"assigned to {to.get_username()}" if to else "set aside"
    _set_aside(handoff, f"{text}: {note}" if note else text, note, actor, to)
    _announce(handoff, actor, to, note)


def assign(
    *, tenant: Tenant, reference: str, note: str, actor: Actor, to: Person | None, seen_version: int | None
) -> Handoff:
    """Assign a handoff to a person, or to nobody, which returns a waiting handoff to the queue.

    Without a note, a repeated call changes nothing. With a note and without `to`, the handoff must be assigned: the
    event that ends the assignment holds the note. Raise `Handoff.DoesNotExist` or a `ReviewError`.
    """
    note = check_note(note)
    handoff = queries.get(tenant, reference)
    now = reassignment_of(handoff)
    is_same = now is None if to is None else now is not None and now.to_id == to.pk
    if is_same and not note:
        return handoff
    if to is not None:
        return reassign(tenant=tenant, reference=reference, note=note, actor=actor, to=to, seen_version=seen_version)
    change = partial(put_back, actor=actor, note=note)
    return apply_change(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _announce(handoff: Handoff, actor: Actor, to: Person | None, note: str) -> None:
    """Store the webhook event of an assignment; call inside the transaction of the assignment."""
    content = events.assignment_payload(handoff, actor, to.get_username() if to else None, note)
    about = f"assignment:{handoff.pk}:{handoff.version}"
    events.add_event(handoff.tenant_id, EventType.ASSIGNMENT, about, timezone.now(), content)
    transaction.on_commit(delivery.notify_webhook_workers)


def mark_handled(handoff: Handoff, *, note: str, actor: Actor) -> None:
    """Take an unreadable handoff out of the queue without a decision; call inside a transaction.

    Marking a handoff again changes nothing, unless the note is new. Raise `NotReviewable`, or `Readable` if the handoff
    is not unreadable.
    """
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    if not handoff.is_unreadable:
        raise Readable
    reason = f"{HANDLED}: {note}" if note else HANDLED
    before = reassignment_of(handoff)
    if before and is_handled(before) and reason in (HANDLED, before.note):
        return
    _set_aside(handoff, reason, reason, actor, None)


def is_handled(passed: PassedOn) -> bool:
    return passed.to_id is None and passed.note.startswith(HANDLED)


def _set_aside(handoff: Handoff, event: str, note: str, actor: Actor, to: Person | None) -> None:
    before = reassignment_of(handoff)
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
            "replaced": _describe(before) if before else None,
        },
    )
    ReviewHold.objects.filter(handoff=handoff).delete()


def _describe(passed: PassedOn) -> dict[str, Any]:
    return {"by": passed.by, "to": passed.to_id, "note": passed.note, "at": passed.at.isoformat()}


def withdraw(handoff: Handoff, passed: PassedOn, actor: Actor) -> None:
    """Undo an assignment; call inside a transaction.

    If the assignment replaced another assignment, the replaced assignment is current again. Otherwise, the handoff is
    put back. Raise `NotPassedOn` if there is nothing to put back.
    """
    before = passed.replaced
    if before is None:
        put_back(handoff, actor=actor, prefix=UNDOES)
        return
    to = Person.objects.filter(pk=before["to"]).first()
    remark(handoff, actor, UNDOES + (f"assigned to {to.get_username()} again" if to else "set aside again"))
    at = datetime.fromisoformat(before["at"])
    PassedOn.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id).update(
        by=before["by"], to=to, note=before["note"], at=at, replaced=None
    )
    _announce(handoff, actor, to, before["note"])


def end_by_proposal(handoff: Handoff) -> None:
    """End the assignment because somebody proposed a decision.

    Call after the event of the proposal is recorded, in the same transaction. The row stays at the version before the
    proposal, so that `restore` finds the row if the proposal is withdrawn.
    """
    rows = PassedOn.objects.filter(handoff=handoff.pk, version=handoff.version, over=False)
    rows.update(version=handoff.version - 1, over=True)


def restore(handoff: Handoff, ended_at: int) -> None:
    """Restore the assignment that the proposal on version `ended_at` ended, if any; call inside a transaction."""
    rows = PassedOn.objects.filter(handoff=handoff.pk, version=ended_at, over=True)
    rows.update(version=handoff.version, over=False)


def return_to_queue(*, tenant: Tenant, reference: str, actor: Actor, seen_version: int | None) -> Handoff:
    """Return an assigned handoff to the queue. Raise `Handoff.DoesNotExist`, `NotPassedOn` or `Stale`."""
    change = partial(put_back, actor=actor)
    return apply_change(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def put_back(handoff: Handoff, *, actor: Actor, note: str = "", prefix: str = "") -> None:
    """End the assignment of a handoff; call inside a transaction. Raise `NotPassedOn`."""
    if reassignment_of(handoff) is None:
        raise NotPassedOn
    text = prefix + (PUT_BACK if handoff.state in REVIEWABLE else UNASSIGNED)
    remark(handoff, actor, f"{text}: {note}" if note else text)
    PassedOn.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id).delete()
    _announce(handoff, actor, None, note)


def reassignment_of(handoff: Handoff) -> PassedOn | None:
    """Return the current assignment of the handoff, or None."""
    return list_reassignments([handoff]).get(handoff.pk)


def list_reassignments(handoffs: Iterable[Handoff]) -> dict[uuid.UUID, PassedOn]:
    """Return the current assignments of these handoffs by handoff id, with `to` loaded."""
    versions = {one.pk: one.version for one in handoffs}
    rows = PassedOn.objects.filter(_LASTS, handoff__in=versions).select_related("to") if versions else ()
    return {row.handoff_id: row for row in rows if row.version == versions[row.handoff_id]}


def reassignments_in_force_of(handoff: OuterRef, version: OuterRef) -> "QuerySet[PassedOn]":
    """Return the current assignment of an outer query's handoff, for use in a subquery."""
    return PassedOn.objects.filter(_LASTS, handoff=handoff, version=version)


def reassignments_in_force(tenant: Tenant) -> "QuerySet[PassedOn]":
    """Return the current assignments of a tenant."""
    return PassedOn.objects.filter(_LASTS, tenant=tenant, version=F("handoff__version"))


@dataclass(frozen=True, slots=True)
class Holder:
    person: Person
    until: datetime
    mine: bool


def hold(handoff: Handoff, person: Person) -> Holder:
    """Reserve the handoff for this person, unless another person holds it; return the current holder."""
    now = timezone.now()
    until = now + timedelta(seconds=settings.REVIEW_HOLD_SECONDS)
    with transaction.atomic():
        held, _ = ReviewHold.objects.select_for_update().get_or_create(
            handoff=handoff, defaults={"person": person, "until": until}
        )
        if held.person_id == person.pk or held.until <= now:
            held.person, held.until = person, until
            held.save()
    return Holder(held.person, held.until, mine=held.person_id == person.pk)


def release_other_holds(handoff: Handoff, person: Person) -> None:
    """Release all holds of this person in the tenant, except the hold on this handoff."""
    ReviewHold.objects.filter(person=person, handoff__tenant=handoff.tenant_id).exclude(handoff=handoff).delete()


def list_holders(handoffs: Iterable[Handoff]) -> dict[uuid.UUID, ReviewHold]:
    """Return the unexpired holds on these handoffs, by handoff id."""
    rows = ReviewHold.objects.filter(handoff__in=[handoff.pk for handoff in handoffs], until__gt=timezone.now())
    return {row.handoff_id: row for row in rows.select_related("person")}


MOST_COMMENTS = 500

# The same text of the same author within this time is the same comment, sent twice by a double click or a retry.
SAME_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class CommentPage:
    items: list[Comment]
    next: str | None


def add_comment(*, tenant: Tenant, reference: str, text: str, actor: Actor) -> Comment:
    """Add a comment to a handoff. The same comment within a minute is stored once.

    A comment does not change the version of the handoff, so no decision that somebody is making is refused because of
    it. Raise `Handoff.DoesNotExist` or a `ReviewError`.
    """
    text = _check_comment(text)
    with transaction.atomic():
        handoff = _lock_handoff(tenant, reference)
        rows = comments_of(handoff)
        now = timezone.now()
        own = rows.filter(actor_kind=actor.kind, actor=actor.name, removed_at=None, at__gt=now - SAME_WITHIN)
        if repeated := own.filter(text=text).first():
            return repeated
        if rows.count() >= MOST_COMMENTS:
            raise TooManyComments(MOST_COMMENTS)
        made = Comment.objects.create(
            tenant=tenant, handoff=handoff, actor_kind=actor.kind, actor=actor.name, text=text, at=now
        )
        content = events.comment_payload(handoff, actor, made)
        events.add_event(tenant.pk, EventType.COMMENT, f"comment:{made.pk}", now, content)
        transaction.on_commit(delivery.notify_webhook_workers)
    return made


def edit_comment(*, tenant: Tenant, reference: str, comment: uuid.UUID, text: str, actor: Actor) -> Comment:
    """Replace the text of a comment that the actor wrote. Raise `Handoff.DoesNotExist` or a `ReviewError`."""
    text = _check_comment(text)
    with transaction.atomic():
        legal_holds.share(tenant)
        found = _get_own_comment(_lock_handoff(tenant, reference), comment, actor)
        if found.text != text:
            found.text, found.edited_at = text, timezone.now()
            found.save(update_fields=["text", "edited_at"])
    return found


def remove_comment(*, tenant: Tenant, reference: str, comment: uuid.UUID, actor: Actor) -> Comment:
    """Remove the text of a comment that the actor wrote; the row stays.

    Raise `Handoff.DoesNotExist` or a `ReviewError`.
    """
    with transaction.atomic():
        legal_holds.share(tenant)
        found = _get_own_comment(_lock_handoff(tenant, reference), comment, actor)
        found.text, found.removed_at = "", timezone.now()
        found.save(update_fields=["text", "removed_at"])
    return found


def is_comment_by(comment: Comment, actor: Actor) -> bool:
    return (comment.actor_kind, comment.actor) == (actor.kind, actor.name)


def comments_of(handoff: Handoff) -> "QuerySet[Comment]":
    """Return the comments on a handoff, including removed comments."""
    return Comment.objects.filter(tenant=handoff.tenant_id, handoff=handoff.pk)


def list_comments(handoff: Handoff, *, cursor: str, limit: int) -> CommentPage:
    """Return a page of the comments on a handoff, latest first. Raise `FilterError` for a bad cursor."""
    rows = comments_of(handoff).order_by("-id")
    if cursor:
        rows = rows.filter(id__lt=parse_cursor(cursor))
    found = list(rows[: limit + 1])
    return CommentPage(found[:limit], next=str(found[limit - 1].pk) if len(found) > limit else None)


def mark_of_comments(handoff: Handoff) -> str:
    """Return a text that changes when a comment is added, edited or removed."""
    found = comments_of(handoff).aggregate(n=Count("id"), edited=Max("edited_at"), removed=Max("removed_at"))
    times = [found[name].timestamp() if found[name] else 0 for name in ("edited", "removed")]
    return f"{found['n']}.{int(max(times) * 1_000_000)}"


def _lock_handoff(tenant: Tenant, reference: str) -> Handoff:
    """Return the handoff with its row locked, so that its comments change one after the other."""
    handoff = queries.get(tenant, reference)
    list(Handoff.objects.select_for_update(no_key=True).filter(pk=handoff.pk, tenant=tenant).values_list("pk"))
    handoff.tenant = tenant
    return handoff


def _get_own_comment(handoff: Handoff, pk: uuid.UUID, actor: Actor) -> Comment:
    """Return a comment that the actor may change. Raise `NotYourComment` or `UnderLegalHold`.

    Call after `legal_holds.share`, so that no hold is placed before the change.
    """
    found = comments_of(handoff).filter(pk=pk, removed_at=None).first()
    if found is None or not is_comment_by(found, actor):
        raise NotYourComment
    # An edit or a removal would lose the earlier text.
    if legal_holds.of_handoff(handoff) is not None:
        raise UnderLegalHold
    return found


def _check_comment(text: str) -> str:
    text = trim(text)
    if len(text) > MAX_NOTE:
        raise CommentTooLong(len(text))
    if not text:
        raise NoComment
    return clean(text, MAX_NOTE)
