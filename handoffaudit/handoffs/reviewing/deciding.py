"""What a person decides. A decision on an old view is told; nothing is overwritten."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import changing, own_events
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Handoff, ReviewHold, State
from handoffaudit.handoffs.reviewing import proposing
from handoffaudit.handoffs.reviewing.changes import changed, end_waiting
from handoffaudit.handoffs.reviewing.errors import (
    NotApprovable,
    NoteRequired,
    NotReviewable,
    ReviewError,
    checked_note,
)
from handoffaudit.handoffs.states import REVIEWABLE


class Decision(StrEnum):
    APPROVE = "approve"
    DECLINE = "decline"


STATES = {Decision.APPROVE: State.APPROVED, Decision.DECLINE: State.DECLINED}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one of several decisions."""

    reference: str
    handoff: Handoff | None
    error: ReviewError | None


def decide(
    *, tenant: Tenant, reference: str, decision: Decision, note: str, actor: Actor, seen_version: int | None
) -> Handoff:
    """Approves or declines a held or rejected handoff. With `seen_version`, only if it has not changed since.

    Where its type needs four eyes, the first decision is kept as a proposal (`proposal_of`) and the state stays; the
    same decision by somebody else takes effect. Raises `Handoff.DoesNotExist` or a `ReviewError`.
    """
    change = partial(_decide, decision=decision, note=checked_note(note), actor=actor)
    return changed(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _decide(handoff: Handoff, *, decision: Decision, note: str, actor: Actor) -> None:
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    approves = decision is Decision.APPROVE
    if approves and not handoff.approvable:
        raise NotApprovable
    proposal = proposing.proposal_of(handoff)
    agrees = proposal is not None and proposal.decision == decision and not proposing.is_by(proposal, actor)
    if approves and handoff.state == State.REJECTED and not (note or (agrees and proposal and proposal.note)):
        raise NoteRequired
    if proposal and agrees:
        _take_effect(handoff, decision, proposing.agreed(proposal, note, actor), actor)
    elif not proposing.needs_four_eyes(handoff):
        _take_effect(handoff, decision, note, actor)
    elif not (proposal and proposing.is_the_same(proposal, decision, note, actor)):
        proposing.propose(handoff, decision, note, actor)
    ReviewHold.objects.filter(handoff=handoff).delete()


def _take_effect(handoff: Handoff, decision: Decision, reason: str, actor: Actor) -> None:
    seen = handoff.version
    columns = {"user_approved": True} if decision is Decision.APPROVE else {}
    changing.change(handoff, STATES[decision], actor, reason, **columns)
    end_waiting(handoff, seen)
    own_events.decided(handoff, actor, reason)


def decide_many(
    *, tenant: Tenant, references: Sequence[tuple[str, int]], decision: Decision, note: str, actor: Actor
) -> list[Result]:
    """Decides each by itself: what can't be decided says why and stops none of the others."""

    def one(reference: str, seen_version: int) -> Handoff:
        return decide(
            tenant=tenant, reference=reference, decision=decision, note=note, actor=actor, seen_version=seen_version
        )

    return each(references, one)


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
