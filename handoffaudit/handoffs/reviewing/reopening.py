"""Deciding again: a decision is taken back, with a note by anybody who may decide, without one by who made it just now.

The history stays whole: what is taken back is one more event (`docs/decisions/0030-deciding-again.md`).
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import changing, own_events
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.decisions import decisions, standing
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State
from handoffaudit.handoffs.reviewing import passing, proposing
from handoffaudit.handoffs.reviewing.changes import begin_waiting, changed, last_event
from handoffaudit.handoffs.reviewing.deciding import Result, each
from handoffaudit.handoffs.reviewing.errors import (
    WHY_AGAIN,
    DocumentRemoved,
    NoteRequired,
    NothingToUndo,
    NotReopenable,
    ReviewError,
    checked_note,
)
from handoffaudit.handoffs.rows import record_of
from handoffaudit.handoffs.states import DECIDED, REVIEWABLE
from handoffaudit.policy.load import load

UNDO_MINUTES = 10
UNDONE = "undone"
# So many are tried: of what one did last, nearly all can be taken back.
_MOST_TRIED = 20


def reopen(*, tenant: Tenant, reference: str, note: str, actor: Actor, seen_version: int | None) -> Handoff:
    """An approved or declined handoff waits again, as it did before: held or rejected.

    Raises `Handoff.DoesNotExist` or a `ReviewError`: a note is needed."""
    note = checked_note(note)
    if not note:
        raise NoteRequired(WHY_AGAIN)
    change = partial(_reopen, actor=actor, reason=note)
    return changed(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _reopen(handoff: Handoff, *, actor: Actor, reason: str) -> None:
    decided = _decision_on(handoff) if handoff.state in DECIDED else None
    if decided is None:
        raise NotReopenable(handoff)
    body = HandoffBody.objects.filter(pk=handoff.pk).first()
    if body is None:
        raise DocumentRemoved
    columns: dict[str, object] = {}
    if handoff.state == State.APPROVED:
        columns["user_approved"] = _approved_by_sender(handoff, body)
    if decided.from_state == State.HELD and handoff.review_due_at is None:
        # The model's later check took the time that was left.
        limit = load(handoff.tenant_id).policy_for(handoff.handoff_type).hold_limit_hours
        columns["review_due_at"] = timezone.now() + timedelta(hours=limit)
    changing.change(handoff, State(decided.from_state), actor, reason, **columns)
    own_events.decided(handoff, actor, reason)


def _decision_on(handoff: Handoff) -> Event | None:
    """The event that made it approved or declined."""
    made = Event.objects.filter(handoff=handoff.pk, to_state=handoff.state, from_state__in=REVIEWABLE)
    return made.order_by("-id").first()


def _approved_by_sender(handoff: Handoff, body: HandoffBody) -> bool:
    """What its document says, as judging read it."""
    record = record_of(handoff, body)
    return record is not None and record.user_approved


def undo(*, tenant: Tenant, references: Sequence[tuple[str, int]], actor: Actor) -> list[Result]:
    """Takes back what the actor did to each as the last of all and within `UNDO_MINUTES`: a decision, a proposal or
    passing on. `references`: ids with the version that it led to."""

    def one(reference: str, seen_version: int) -> Handoff:
        change = partial(_undo, actor=actor)
        return changed(tenant=tenant, reference=reference, seen_version=seen_version, change=change)

    return each(references, one)


def undo_last(*, tenant: Tenant, actor: Actor) -> Handoff:
    """Takes back the newest thing that `undo` takes back of this actor's: called again, the one before. Raises
    `NothingToUndo`."""
    for pk in _done_lately(tenant, actor):
        try:
            return changed(tenant=tenant, reference=str(pk), seen_version=None, change=partial(_undo, actor=actor))
        except (ReviewError, Handoff.DoesNotExist):
            continue
    raise NothingToUndo(f"you have done nothing in the last {UNDO_MINUTES} minutes that can still be taken back.")


def _done_lately(tenant: Tenant, actor: Actor) -> list[uuid.UUID]:
    """What the actor decided, proposed and passed on, the newest first."""
    since = timezone.now() - timedelta(minutes=UNDO_MINUTES)
    made = decisions(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    proposed = proposing.in_force(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    passed = passing.in_force(tenant).filter(at__gte=since, by=actor.name)
    found: list[tuple[datetime, Any]] = []
    for rows in (standing(made).order_by("-id"), proposed.order_by("-at"), passed.order_by("-at")):
        found += rows.values_list("at", "handoff")[:_MOST_TRIED]
    return [pk for _, pk in sorted(found, reverse=True)[:_MOST_TRIED]]


def _undo(handoff: Handoff, *, actor: Actor) -> None:
    last = last_event(handoff)
    if last is None or (last.actor_kind, last.actor) != (actor.kind, actor.name):
        raise NothingToUndo("somebody else was the last to do something here.")
    if last.at < timezone.now() - timedelta(minutes=UNDO_MINUTES):
        raise NothingToUndo(f"that was more than {UNDO_MINUTES} minutes ago. Open it again, with a note.")
    if last.to_state in DECIDED and last.from_state in REVIEWABLE:
        ended_at = handoff.version - 1
        _reopen(handoff, actor=actor, reason=UNDONE)
        begin_waiting(handoff, ended_at)
        return
    # Of what stays in its state, the row that is as old as the event tells what it was.
    passed, proposal = passing.passed_on_of(handoff), proposing.proposal_of(handoff)
    if passed and passed.by == actor.name and passed.at >= last.at:
        passing.put_back(handoff, actor=actor)
    elif proposal and proposing.is_by(proposal, actor) and proposal.at >= last.at:
        proposing.withdraw(handoff, proposal, actor)
    else:
        raise NothingToUndo("your last step here can't be undone; see its history.")
