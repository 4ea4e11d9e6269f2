"""What a person decides. A decision on an old view is told; nothing is overwritten."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import changing, own_events
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Handoff, Proposal, ReviewHold, State
from handoffaudit.handoffs.reviewing import passing, proposing
from handoffaudit.handoffs.reviewing.changes import changed, end_waiting
from handoffaudit.handoffs.reviewing.errors import (
    NotApprovable,
    NoteRequired,
    NotReviewable,
    Readable,
    ReviewError,
    Unreadable,
    checked_note,
)
from handoffaudit.handoffs.states import REVIEWABLE
from handoffaudit.handoffs.unread import RESEND


class Decision(StrEnum):
    """What a person can do with a waiting handoff. `RESEND` declines one that could not be read and asks its sender to
    send it again; `HANDLED` takes one that could not be read out of the queue without judging it."""

    APPROVE = "approve"
    DECLINE = "decline"
    RESEND = "resend"
    HANDLED = "handled"


STATES = {Decision.APPROVE: State.APPROVED, Decision.DECLINE: State.DECLINED, Decision.RESEND: State.DECLINED}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one of several decisions."""

    reference: str
    handoff: Handoff | None
    error: ReviewError | None


def decide(
    *, tenant: Tenant, reference: str, decision: Decision, note: str, actor: Actor, seen_version: int | None
) -> Handoff:
    """Decide a held or rejected handoff. With `seen_version`, only if it has not changed since.

    Where its type needs four eyes, the first decision is kept as a proposal (`proposal_of`) and the state stays; the
    same decision by somebody else takes effect. Raises `Handoff.DoesNotExist` or a `ReviewError`.
    """
    change = partial(_decide, decision=decision, note=checked_note(note), actor=actor)
    return changed(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _decide(handoff: Handoff, *, decision: Decision, note: str, actor: Actor) -> None:
    if decision is Decision.HANDLED:
        passing.mark_handled(handoff, note=note, actor=actor)
        return
    decision, note = plain(handoff, decision, note)
    proposal = proposing.proposal_of(handoff)
    four_eyes = proposing.needs_four_eyes(handoff)
    reason = reason_of(handoff, proposal, decision, note, actor, four_eyes=four_eyes)
    if reason is not None:
        _take_effect(handoff, decision, reason, actor)
    elif not (proposal and proposing.is_the_same(proposal, decision, note, actor)):
        proposing.propose(handoff, decision, note, actor)
    ReviewHold.objects.filter(handoff=handoff).delete()


def plain(handoff: Handoff, decision: Decision, note: str) -> tuple[Decision, str]:
    """Return a request to send again as what it is: a decline whose note asks for it. Raises `ReviewError`."""
    if decision is not Decision.RESEND:
        return decision, note
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    if not handoff.is_unreadable:
        raise Readable
    return Decision.DECLINE, f"{RESEND} {note}".strip()


def reason_of(
    handoff: Handoff, proposal: Proposal | None, decision: Decision, note: str, actor: Actor, *, four_eyes: bool
) -> str | None:
    """The reason with which the decision takes effect; None where it is the first of two. Raises `ReviewError`."""
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    approves = decision is Decision.APPROVE
    if approves and handoff.is_unreadable:
        raise Unreadable
    if approves and not handoff.approvable:
        raise NotApprovable
    agrees = proposal is not None and proposal.decision == decision and not proposing.is_by(proposal, actor)
    if approves and handoff.state == State.REJECTED and not (note or (agrees and proposal and proposal.note)):
        raise NoteRequired
    if proposal and agrees:
        return proposing.agreed(proposal, note, actor)
    return None if four_eyes else note


def _take_effect(handoff: Handoff, decision: Decision, reason: str, actor: Actor) -> None:
    seen, columns = handoff.version, columns_of(decision)
    changing.change(handoff, columns.pop("state"), actor, reason, **columns)
    end_waiting(handoff, seen)
    own_events.decided(handoff, actor, reason)


def columns_of(decision: Decision) -> dict[str, Any]:
    """What of a handoff a decision changes."""
    approved = {"user_approved": True} if decision is Decision.APPROVE else {}
    return {"state": STATES[decision], **approved}


def each(references: Sequence[tuple[str, int]], change: Callable[[str, int], Handoff]) -> list[Result]:
    """What became of each, by itself."""
    results = []
    for reference, seen_version in references:
        try:
            handoff = change(reference, seen_version)
        except ReviewError as error:
            results.append(Result(reference, None, error))
        except Handoff.DoesNotExist as error:
            results.append(Result(reference, None, ReviewError(str(error))))
        else:
            results.append(Result(reference, handoff, None))
    return results
