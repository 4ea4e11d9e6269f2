"""What a person did last in the queue, and whether it can be undone: read from the rows, so that a page may be loaded
again, and nothing is kept for it."""

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import Truncator

from handoffaudit.dashboard.access import Who
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import ActorKind, Event, Handoff
from handoffaudit.handoffs.review import assignments, decide, proposals, undo
from handoffaudit.handoffs.transitions import DECIDED, Actor
from handoffaudit.handoffs.verdicts import RESEND

PARAMETER = "done"
MOST_OF_A_NOTE = 200


@dataclass(frozen=True, slots=True)
class Told:
    """`tone` is that of a message; `may_undo`: for a few minutes, by who did it. Without a handoff nothing was done."""

    handoff: Handoff | None
    text: str
    tone: str = "success"
    may_undo: bool = False


def told_of(request: HttpRequest, who: Who) -> Told | None:
    """What the address says was done."""
    try:
        done = queries.get(who.tenant, str(uuid.UUID(request.GET.get(PARAMETER, ""))))
    except (ValueError, Handoff.DoesNotExist):
        return None
    return told(who, done)


def told(who: Who, handoff: Handoff) -> Told:
    last = last_event(handoff)
    what, is_own = _what(who, handoff, last)
    return Told(handoff, what, may_undo=is_own and _may_undo(who, last))


def may_undo(who: Who, handoff: Handoff) -> bool:
    """Whether the last thing that happened to it was done by this person, a few minutes ago at most."""
    return _may_undo(who, last_event(handoff))


def _may_undo(who: Who, last: Event | None) -> bool:
    if last is None or last.actor_kind != ActorKind.PERSON or last.actor != who.person.get_username():
        return False
    return last.at > timezone.now() - timedelta(minutes=undo.UNDO_MINUTES)


def last_event(handoff: Handoff) -> Event | None:
    return Event.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id).order_by("-id").first()


def _what(who: Who, handoff: Handoff, last: Event | None) -> tuple[str, bool]:
    """In words, and whether it is something that can be undone."""
    if handoff.state in DECIDED:
        is_asked = handoff.is_unreadable and last is not None and RESEND in last.reason
        return f"{handoff.state}{', and its sender is asked to send it again' if is_asked else ''}.", True
    passed = assignments.reassignment_of(handoff)
    if passed and assignments.is_handled(passed):
        return "marked as handled. Nothing was judged.", passed.by == who.person.get_username()
    if passed:
        to = f" to {passed.to.get_username()}" if passed.to else ""
        return f"passed on{to}. It waits, and nothing was judged.", passed.by == who.person.get_username()
    proposal = proposals.find_proposal(handoff)
    if proposal:
        what = "approval" if proposal.decision == decide.Decision.APPROVE else "decline"
        return f"{what} proposed. A second person decides.", proposals.is_by(proposal, Actor.person(who.person))
    return _why_it_waits(handoff, last), False


def _why_it_waits(handoff: Handoff, last: Event | None) -> str:
    as_before = f"It waits again, {handoff.state} as before."
    if last and last.from_state in DECIDED and last.reason == undo.UNDONE:
        return f"the decision is undone. {as_before}"
    if last and last.from_state in DECIDED:
        return f"reopened: “{Truncator(last.reason).chars(MOST_OF_A_NOTE)}” {as_before}"
    if last and last.from_state == last.to_state and last.reason == assignments.PUT_BACK:
        return f"back in the queue. {as_before}"
    return f"it waits for a decision, {handoff.state} as before."
