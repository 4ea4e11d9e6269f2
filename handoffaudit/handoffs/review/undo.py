"""Undo of review actions: reopening a decided handoff with a note, and undo by the same actor within minutes."""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import approvals, attempts, counts, event_log, transitions
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, State
from handoffaudit.handoffs.queries import decision_events, exclude_undone
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.review.base import (
    WHY_AGAIN,
    DocumentRemoved,
    NoteRequired,
    NothingToUndo,
    NotReopenable,
    ReviewError,
    apply_change,
    begin_waiting,
    check_note,
)
from handoffaudit.handoffs.review.decisions import Result, apply_to_each
from handoffaudit.handoffs.transitions import DECIDED, REVIEWABLE, SYSTEM, Actor
from handoffaudit.handoffs.verdicts import record_of
from handoffaudit.policy.kinds import load_config

UNDO_MINUTES = 10

UNDONE = "undone"

# Nearly every recent change of an actor can be undone, so the search for a change to undo tries only a few.
_MOST_TRIED = 20

# The events without a change of state that undo an assignment or a proposal begin with one of these texts.
_UNDOES = (activity.UNDOES, *(f"{noun} {decisions.WITHDRAWN}" for noun in decisions.NOUNS.values()))


def reopen(*, tenant: Tenant, reference: str, note: str, actor: Actor, seen_version: int | None) -> Handoff:
    """Put an approved or declined handoff back into its state before the decision: held or rejected.

    If the handoff has a later attempt, this attempt then supersedes the handoff, as it would have without the approval.
    A note is required. Raise `Handoff.DoesNotExist` or a `ReviewError`.
    """
    note = check_note(note)
    if not note:
        raise NoteRequired(WHY_AGAIN)
    change = partial(_reopen, actor=actor, reason=note)
    return apply_change(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _reopen(handoff: Handoff, *, actor: Actor, reason: str, is_undo: bool = False) -> None:
    decided = find_decision(handoff)
    if decided is None:
        raise NotReopenable(handoff)
    body = HandoffBody.objects.filter(pk=handoff.pk).first()
    if body is None:
        raise DocumentRemoved
    # A worker that carries an approval over to a retry locks the handoffs before the approval, too.
    attempts.lock([handoff])
    approval = approvals.lock(handoff)
    if approval and approval.used_at:
        if is_undo:
            raise NothingToUndo(f"{approval.used_by} used the approval already. Reopen the handoff with a note.")
        # The approval is deleted below, so the history has to say that it was used.
        at = approval.used_at.isoformat(timespec="seconds")
        transitions.record_event(handoff, SYSTEM, f"the approval was used at {at} by {approval.used_by}")
    columns: dict[str, object] = {}
    if handoff.state == State.APPROVED:
        columns["user_approved"] = _is_approved_by_sender(handoff, body)
    if decided.from_state == State.HELD and handoff.review_due_at is None:
        # A later LLM check cleared the review deadline, so the handoff gets a new deadline.
        limit = load_config(handoff.tenant_id).policy_for(handoff.handoff_type).hold_limit_hours
        columns["review_due_at"] = timezone.now() + timedelta(hours=limit)
    deltas = transitions.change_state_uncounted(handoff, State(decided.from_state), actor, reason, **columns)
    approvals.withdraw([handoff])
    event_log.log_decision(handoff, actor, reason)
    # An attempt that arrived after the approval could not supersede the approved handoff.
    if superseded := attempts.supersede_overtaken([handoff]):
        deltas.update(superseded)
        handoff.refresh_from_db(fields=["state", "version"])
    # If the transaction changed the counts twice, it could deadlock with a transaction that changes the same counts.
    counts.apply(deltas)


def find_decision(handoff: Handoff) -> Event | None:
    """Return the event that approved or declined the handoff, or None if the handoff is not decided."""
    if handoff.state not in DECIDED:
        return None
    made = Event.objects.filter(handoff=handoff.pk, to_state=handoff.state, from_state__in=REVIEWABLE)
    return made.order_by("-id").first()


def _is_approved_by_sender(handoff: Handoff, body: HandoffBody) -> bool:
    """Return whether the document itself says that a user approved the handoff."""
    record = record_of(handoff, body)
    return record is not None and record.user_approved


def find_last_change(handoff: Handoff) -> tuple[Event | None, int]:
    """Return the last event that neither undid a change nor was undone, and the number of later events."""
    undone = 0
    for later, event in enumerate(Event.objects.filter(handoff=handoff.pk).order_by("-id")[: 2 * _MOST_TRIED]):
        if _is_undoing(event):
            undone += 1
        elif undone:
            undone -= 1
        else:
            return event, later
    return None, 0


def _is_undoing(event: Event) -> bool:
    if event.from_state == event.to_state:
        return event.reason.startswith(_UNDOES)
    return event.from_state in DECIDED and event.reason == UNDONE


def undo_changes(*, tenant: Tenant, references: Sequence[tuple[str, int]], actor: Actor) -> list[Result]:
    """Undo the actor's decision, proposal or reassignment on each handoff.

    The change must be the last change of the handoff, leaving out undone changes, and at most `UNDO_MINUTES` old.
    `references` are ids, each with the version of the handoff after the change.
    """

    def one(reference: str, seen_version: int) -> Handoff:
        change = partial(_undo, actor=actor)
        return apply_change(tenant=tenant, reference=reference, seen_version=seen_version, change=change)

    return apply_to_each(references, one)


def undo_last(*, tenant: Tenant, actor: Actor) -> Handoff:
    """Undo the newest change of this actor that can be undone. Each further call undoes the next older change.

    Raise `NothingToUndo`.
    """
    for pk in _find_recent(tenant, actor):
        try:
            return apply_change(tenant=tenant, reference=str(pk), seen_version=None, change=partial(_undo, actor=actor))
        except (ReviewError, Handoff.DoesNotExist):
            continue
    raise NothingToUndo(f"none of your changes in the last {UNDO_MINUTES} minutes can be undone.")


def _find_recent(tenant: Tenant, actor: Actor) -> list[uuid.UUID]:
    """Return the handoffs that the actor recently decided, proposed or reassigned, newest first."""
    since = timezone.now() - timedelta(minutes=UNDO_MINUTES)
    made = decision_events(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    proposed = decisions.proposals_in_force(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    passed = activity.reassignments_in_force(tenant).filter(at__gte=since, by=actor.name)
    found: list[tuple[datetime, Any]] = []
    for rows in (exclude_undone(made).order_by("-id"), proposed.order_by("-at"), passed.order_by("-at")):
        found += rows.values_list("at", "handoff")[:_MOST_TRIED]
    return [pk for _, pk in sorted(found, reverse=True)[:_MOST_TRIED]]


def _undo(handoff: Handoff, *, actor: Actor) -> None:
    last, later = find_last_change(handoff)
    if last is None or (last.actor_kind, last.actor) != (actor.kind, actor.name):
        raise NothingToUndo("the last change of this handoff is not yours.")
    if last.at < timezone.now() - timedelta(minutes=UNDO_MINUTES):
        remedy = " Reopen the handoff with a note." if handoff.state in DECIDED else ""
        raise NothingToUndo(f"your change is more than {UNDO_MINUTES} minutes old.{remedy}")
    # The change and each later event raised the version by 1.
    ended_at = handoff.version - 1 - later
    if last.to_state in DECIDED and last.from_state in REVIEWABLE:
        _reopen(handoff, actor=actor, reason=UNDONE, is_undo=True)
        if handoff.state in REVIEWABLE:
            begin_waiting(handoff, ended_at)
        return
    # An event without a change of state does not name the action. The action is then the reassignment or the
    # proposal that is not older than the event.
    passed, proposal = activity.reassignment_of(handoff), decisions.find_proposal(handoff)
    if passed and passed.by == actor.name and passed.at >= last.at:
        activity.withdraw(handoff, passed, actor)
    elif proposal and decisions.is_by(proposal, actor) and proposal.at >= last.at:
        decisions.withdraw(handoff, proposal, actor, ended_at)
    else:
        raise NothingToUndo("your last action on this handoff cannot be undone; see its history.")
