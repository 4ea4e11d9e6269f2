"""What the box to decide in needs to know beside the handoff, on whichever page it stands."""

from dataclasses import dataclass, field

from handoffaudit.accounts.models import Person, Role
from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.reviewing import told
from handoffaudit.handoffs.models import Event, Handoff, PassedOn, Proposal, State
from handoffaudit.handoffs.review import assignments, proposals
from handoffaudit.handoffs.review.decide import Decision
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor


@dataclass(frozen=True, slots=True)
class Box:
    """`proposal` is in force; `last` is what happened last; `people` can have it passed on to them. `proposes_*`: the
    decision is only proposed, for somebody else to agree to. `needs_note`: it is not approved without one."""

    waits: bool
    is_decided: bool
    last: Event | None = None
    may_undo: bool = False
    passed: PassedOn | None = None
    proposal: Proposal | None = None
    is_own_proposal: bool = False
    needs_two: bool = False
    proposes_approve: bool = False
    proposes_decline: bool = False
    needs_note: bool = False
    people: list[Person] = field(default_factory=list)

    @property
    def is_shown(self) -> bool:
        return self.waits or self.is_decided


def box_of(who: Who, handoff: Handoff) -> Box:
    waits = handoff.state in REVIEWABLE
    if not waits:
        is_decided = handoff.state in (State.APPROVED, State.DECLINED)
        last = told.last_event(handoff) if is_decided else None
        return Box(waits, is_decided, last, may_undo=is_decided and told.may_undo(who, handoff))
    proposal, passed = proposals.find_proposal(handoff), assignments.reassignment_of(handoff)
    people = assignments.list_reviewers(who.tenant) if who.may(Role.REVIEWER) else []
    is_own = bool(proposal and proposals.is_by(proposal, Actor.person(who.person)))
    needs_two = proposals.needs_four_eyes(handoff)
    agreed_to = proposal if proposal and not is_own else None
    agrees = agreed_to.decision if agreed_to else ""
    is_explained = bool(agreed_to and agrees == Decision.APPROVE and agreed_to.note)
    return Box(
        waits,
        is_decided=False,
        may_undo=bool(passed or proposal) and told.may_undo(who, handoff),
        passed=passed,
        proposal=proposal,
        is_own_proposal=is_own,
        needs_two=needs_two,
        proposes_approve=needs_two and agrees != Decision.APPROVE,
        proposes_decline=needs_two and agrees != Decision.DECLINE,
        needs_note=handoff.state == State.REJECTED and handoff.may_be_approved and not is_explained,
        people=[person for person in people if person.pk != who.person.pk],
    )
