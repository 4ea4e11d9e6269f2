"""What a person decides. A decision on an old view is told; nothing is overwritten."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db import transaction

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import changing, listening, queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import ActorKind, Event, Handoff, ReviewHold, State
from handoffaudit.handoffs.states import REVIEWABLE

MAX_NOTE = 5000


class Decision(StrEnum):
    APPROVE = "approve"
    DECLINE = "decline"


STATES = {Decision.APPROVE: State.APPROVED, Decision.DECLINE: State.DECLINED}


class ReviewError(Exception):
    """A decision that can't be taken; `message` says why and what can be done."""

    @property
    def message(self) -> str:
        return str(self)


class Stale(ReviewError):
    """The handoff changed since it was seen. `last_event` is what happened."""

    def __init__(self, handoff: Handoff, last_event: Event | None) -> None:
        what = f"It is {handoff.state} now."
        if last_event:
            what = f"{last_event.actor} made it {last_event.to_state}."
            said = "The reason" if last_event.actor_kind == ActorKind.SYSTEM else "The note"
            what += f" {said}: “{last_event.reason}”" if last_event.reason else ""
        super().__init__(f"This handoff changed since you opened it; nothing was overwritten. {what}")
        self.handoff = handoff
        self.last_event = last_event


class NotReviewable(ReviewError):
    def __init__(self, handoff: Handoff) -> None:
        super().__init__(f"This handoff is {handoff.state}; only held and rejected ones can be decided.")
        self.state = handoff.state


class NoteRequired(ReviewError):
    def __init__(self) -> None:
        super().__init__("Say in the note why you approve what was rejected.")


class NoteTooLong(ReviewError):
    def __init__(self, length: int) -> None:
        super().__init__(f"The note has {length:,} characters; {MAX_NOTE:,} are the most.")


class NotApprovable(ReviewError):
    def __init__(self) -> None:
        super().__init__(
            "An agent handing over to itself can't be approved. Decline it; the sender has to name another target."
        )


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

    Raises `Handoff.DoesNotExist` or a `ReviewError`.
    """
    note = note.strip().replace("\x00", "")
    if len(note) > MAX_NOTE:
        raise NoteTooLong(len(note))
    try:
        with transaction.atomic():
            handoff = _decided(tenant, reference, decision, note, actor, seen_version)
    except changing.Changed:
        raise _stale(queries.get(tenant, reference)) from None
    listening.announce([handoff.pk])
    return handoff


def _decided(
    tenant: Tenant, reference: str, decision: Decision, note: str, actor: Actor, seen_version: int | None
) -> Handoff:
    handoff = queries.get(tenant, reference)
    if seen_version is not None and handoff.version != seen_version:
        raise _stale(handoff)
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    approves = decision is Decision.APPROVE
    if approves and not handoff.approvable:
        raise NotApprovable
    if approves and handoff.state == State.REJECTED and not note:
        raise NoteRequired
    columns = {"user_approved": True} if approves else {}
    changing.change(handoff, STATES[decision], actor, note, **columns)
    ReviewHold.objects.filter(handoff=handoff).delete()
    return handoff


def decide_many(
    *, tenant: Tenant, references: Sequence[tuple[str, int]], decision: Decision, note: str, actor: Actor
) -> list[Result]:
    """Decides each by itself: what can't be decided says why and stops none of the others."""
    results = []
    for reference, seen_version in references:
        try:
            handoff = decide(
                tenant=tenant, reference=reference, decision=decision, note=note, actor=actor, seen_version=seen_version
            )
        except ReviewError as error:
            results.append(Result(reference, None, error))
        except Handoff.DoesNotExist as error:
            results.append(Result(reference, None, ReviewError(str(error))))
        else:
            results.append(Result(reference, handoff, None))
    return results


def _stale(handoff: Handoff) -> Stale:
    return Stale(handoff, Event.objects.filter(handoff=handoff.pk).order_by("-id").first())
