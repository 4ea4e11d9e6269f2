"""Comments of people and keys on a handoff: add, edit and remove them, and list them for the activity."""

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import legal_holds, queries
from handoffaudit.handoffs.filters import parse_cursor
from handoffaudit.handoffs.models import Comment, Handoff
from handoffaudit.handoffs.review.base import (
    MAX_NOTE,
    CommentTooLong,
    NoComment,
    NotYourComment,
    TooManyComments,
    UnderLegalHold,
)
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.webhooks import events, worker
from handoffaudit.handoffs.webhooks.subscriptions import EventType
from handoffaudit.validation.text import clean

MOST_COMMENTS = 500

# The same text of the same author within this time is the same comment, sent twice by a double click or a retry.
SAME_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class CommentPage:
    items: list[Comment]
    next: str | None


def add(*, tenant: Tenant, reference: str, text: str, actor: Actor) -> Comment:
    """Add a comment to a handoff. The same comment within a minute is stored once.

    A comment does not change the version of the handoff, so it never refuses a decision that somebody is making. Raise
    `Handoff.DoesNotExist` or a `ReviewError`.
    """
    text = _check_text(text)
    with transaction.atomic():
        handoff = _lock(tenant, reference)
        rows = of_handoff(handoff)
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
        transaction.on_commit(worker.notify_webhook_workers)
    return made


def edit(*, tenant: Tenant, reference: str, comment: uuid.UUID, text: str, actor: Actor) -> Comment:
    """Replace the text of a comment by its author. Raise `Handoff.DoesNotExist` or a `ReviewError`."""
    text = _check_text(text)
    with transaction.atomic():
        found = _get_own(_lock(tenant, reference), comment, actor)
        if found.text != text:
            found.text, found.edited_at = text, timezone.now()
            found.save(update_fields=["text", "edited_at"])
    return found


def remove(*, tenant: Tenant, reference: str, comment: uuid.UUID, actor: Actor) -> Comment:
    """Remove the text of a comment by its author; the row stays. Raise `Handoff.DoesNotExist` or a `ReviewError`."""
    with transaction.atomic():
        found = _get_own(_lock(tenant, reference), comment, actor)
        found.text, found.removed_at = "", timezone.now()
        found.save(update_fields=["text", "removed_at"])
    return found


def is_by(comment: Comment, actor: Actor) -> bool:
    return (comment.actor_kind, comment.actor) == (actor.kind, actor.name)


def of_handoff(handoff: Handoff) -> "QuerySet[Comment]":
    """Return the comments on a handoff, also the removed ones."""
    return Comment.objects.filter(tenant=handoff.tenant_id, handoff=handoff.pk)


def list_page(handoff: Handoff, *, cursor: str, limit: int) -> CommentPage:
    """Return a page of the comments on a handoff, latest first. Raise `FilterError` for a bad cursor."""
    rows = of_handoff(handoff).order_by("-id")
    if cursor:
        rows = rows.filter(id__lt=parse_cursor(cursor))
    found = list(rows[: limit + 1])
    return CommentPage(found[:limit], next=str(found[limit - 1].pk) if len(found) > limit else None)


def mark_of(handoff: Handoff) -> str:
    """Return a text that differs as soon as a comment is added, edited or removed."""
    found = of_handoff(handoff).aggregate(n=Count("id"), edited=Max("edited_at"), removed=Max("removed_at"))
    times = [found[name].timestamp() if found[name] else 0 for name in ("edited", "removed")]
    return f"{found['n']}.{int(max(times) * 1_000_000)}"


def _lock(tenant: Tenant, reference: str) -> Handoff:
    """Return the handoff with its row locked, so that its comments change one after the other."""
    handoff = queries.get(tenant, reference)
    list(Handoff.objects.select_for_update(no_key=True).filter(pk=handoff.pk, tenant=tenant).values_list("pk"))
    handoff.tenant = tenant
    return handoff


def _get_own(handoff: Handoff, pk: uuid.UUID, actor: Actor) -> Comment:
    found = of_handoff(handoff).filter(pk=pk, removed_at=None).first()
    if found is None or not is_by(found, actor):
        raise NotYourComment
    # An edit or a removal would lose the earlier text.
    if legal_holds.of_handoff(handoff) is not None:
        raise UnderLegalHold
    return found


def _check_text(text: str) -> str:
    text = text.replace("\r\n", "\n").strip()
    if len(text) > MAX_NOTE:
        raise CommentTooLong(len(text))
    if not text:
        raise NoComment
    return clean(text, MAX_NOTE)
