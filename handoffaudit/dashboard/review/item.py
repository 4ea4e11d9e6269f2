"""One handoff in review: its findings, the decision box, and the notice about the last action."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.text import Truncator

from handoffaudit.accounts.models import Person, Role
from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.handoffs import sections
from handoffaudit.dashboard.handoffs.activity import MOST_IN_REVIEW, activity_context
from handoffaudit.dashboard.handoffs.claims import claims_of
from handoffaudit.dashboard.handoffs.sections import choose_document
from handoffaudit.dashboard.handoffs.verdict_findings import Finding, fold
from handoffaudit.handoffs import compare, queries
from handoffaudit.handoffs.models import ActorKind, Event, Handoff, PassedOn, Proposal, State
from handoffaudit.handoffs.review import activity, decisions, queue, undo
from handoffaudit.handoffs.review.base import list_reviewers
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import DECIDED, REVIEWABLE, Actor
from handoffaudit.handoffs.verdicts import RESEND

# A reviewer can take in this many findings at a glance; the page folds the others.
FIRST_ISSUES = 3

MOST_ISSUES = 12

# An entry has the findings of one rule code, and lists this many of them; the handoff's page lists all.
MOST_OF_EACH = 20

# The shortcut keys 1, 2 and 3 each copy the note of one precedent.
MOST_SIMILAR = 3


def open_by(who: TenantMembership, handoff: Handoff) -> activity.Holder | None:
    """Open the handoff for this person, and return who has the handoff open.

    Opening a handoff releases the other handoffs that the person had open. A viewer opens a handoff without
    reserving it.
    """
    if who.may(Role.REVIEWER):
        activity.release_other_holds(handoff, who.person)
        return activity.hold(handoff, who.person)
    return find_holder(handoff, who)


def find_holder(handoff: Handoff, who: TenantMembership) -> activity.Holder | None:
    """Return who has the handoff open now, without opening it for this person."""
    held = activity.list_holders([handoff]).get(handoff.pk)
    return activity.Holder(held.person, held.until, mine=held.person_id == who.person.pk) if held else None


def item_context(who: TenantMembership, handoff: Handoff) -> dict[str, Any]:
    verdict = queries.current_verdict(handoff)
    body = sections.body_of(handoff)
    document = choose_document(body, verdict)
    found = document.found
    entries = fold([issue for issue in found if issue.is_counted])
    address = reverse("dashboard:handoff", args=[who.tenant.slug, handoff.pk])
    return {
        "handoff": handoff,
        "handoff_url": address,
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, handoff.pk]),
        "verdict": verdict,
        "found": entries[:FIRST_ISSUES],
        "found_folded": entries[FIRST_ISSUES:MOST_ISSUES],
        "found_hidden": max(0, len(entries) - MOST_ISSUES),
        "most_of_each": MOST_OF_EACH,
        "is_about_chain": _is_about_chain(found),
        "chain": sections.chain_in_pane((verdict or {}).get("chain"), f"{address}?chain=full#chain"),
        "tree": sections.document_tree(document.value, found) if document.value is not None else None,
        "is_lifted": document.is_lifted,
        "removed": queries.removal_of(handoff) if document.value is None else None,
        "claims": claims_of(
            verdict, document.value, sections.evidence_of(handoff, body), results=sections.results_of(handoff, verdict)
        ),
        "lineage": compare.compare_attempts(handoff),
        "in_review": True,
        **activity_context(who, handoff, limit=MOST_IN_REVIEW),
        "similar": queue.list_precedents(handoff, limit=MOST_SIMILAR) if handoff.state in REVIEWABLE else [],
    }


def _is_about_chain(found: Sequence[Finding]) -> bool:
    """Return whether a deciding finding is about the chain; the page then draws the chain above the document."""
    return any(issue.decides and issue.code.startswith("chain.") for issue in found)


PARAMETER = "done"

MOST_OF_A_NOTE = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """A message about the last change to a handoff, or about a refused change.

    `tone` is the tone of a page message. `may_undo` is true for a few minutes, for the person who made the
    change. `handoff` is None if nothing was changed.
    """

    handoff: Handoff | None
    text: str
    tone: str = "success"
    may_undo: bool = False


def find_notice(request: HttpRequest, who: TenantMembership) -> Notice | None:
    """Return the notice about the handoff that the parameter `done` of the address names."""
    try:
        done = queries.get(who.tenant, str(uuid.UUID(request.GET.get(PARAMETER, ""))))
    except (ValueError, Handoff.DoesNotExist):
        return None
    return notice_of(who, done)


def notice_of(who: TenantMembership, handoff: Handoff) -> Notice:
    what, is_own = _what(who, handoff, last_event(handoff))
    return Notice(handoff, what, may_undo=is_own and _may_undo(who, undo.find_last_change(handoff)[0]))


def _may_undo(who: TenantMembership, last: Event | None) -> bool:
    """Return whether this person made the change `last`, at most `undo.UNDO_MINUTES` ago."""
    if last is None or last.actor_kind != ActorKind.PERSON or last.actor != who.person.get_username():
        return False
    return last.at > timezone.now() - timedelta(minutes=undo.UNDO_MINUTES)


def last_event(handoff: Handoff) -> Event | None:
    return Event.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id).order_by("-id").first()


def _what(who: TenantMembership, handoff: Handoff, last: Event | None) -> tuple[str, bool]:
    """Return a description of the last change, and False if this person cannot undo the change.

    For a decision, return True without a check: the caller checks who decided.
    """
    passed = activity.reassignment_of(handoff)
    if handoff.state in DECIDED and not passed:
        is_asked = handoff.is_unreadable and last is not None and RESEND in last.reason
        return f"{handoff.state}{', and its sender is asked to send it again' if is_asked else ''}.", True
    if passed and activity.is_handled(passed):
        return "marked as handled, without a decision.", passed.by == who.person.get_username()
    if passed:
        done = f"assigned to {passed.to.get_username()}." if passed.to else "set aside."
        waits = " It still waits for a decision." if handoff.state in REVIEWABLE else ""
        return done + waits, passed.by == who.person.get_username()
    proposal = decisions.find_proposal(handoff)
    if proposal:
        what = "approval" if proposal.decision == decisions.Decision.APPROVE else "decline"
        return f"{what} proposed. A second person decides.", decisions.is_by(proposal, Actor.person(who.person))
    if handoff.state not in REVIEWABLE:
        return f"{handoff.state}{f': {last.reason}' if last and last.reason else ''}.", False
    return _why_it_waits(handoff, last), False


def _why_it_waits(handoff: Handoff, last: Event | None) -> str:
    as_before = f"It waits again, {handoff.state} as before."
    if last and last.from_state in DECIDED and last.reason == undo.UNDONE:
        return f"the decision is undone. {as_before}"
    if last and last.from_state in DECIDED:
        return f"reopened: “{Truncator(last.reason).chars(MOST_OF_A_NOTE)}” {as_before}"
    put_back = (activity.PUT_BACK, activity.UNDOES + activity.PUT_BACK)
    if last and last.from_state == last.to_state and last.reason.startswith(put_back):
        return f"back in the queue. {as_before}"
    return f"it waits for a decision, {handoff.state} as before."


@dataclass(frozen=True, slots=True)
class Box:
    """The decision box of a handoff.

    `proposal` is the proposal that waits for a second person, and `last` the event of the decision, or None while the
    handoff waits. `people` are the reviewers to whom this person can reassign the handoff. `proposes_approve` and
    `proposes_decline` are true if this person's decision is only a proposal that somebody else must confirm.
    `needs_note` is true if an approval needs a note.
    """

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


def box_of(who: TenantMembership, handoff: Handoff) -> Box:
    waits = handoff.state in REVIEWABLE
    if not waits:
        # The undo button of the box stands below the decision, so it is offered only if it undoes the decision.
        last = undo.find_decision(handoff)
        may_undo = _may_undo(who, last) and last == undo.find_last_change(handoff)[0]
        return Box(waits, handoff.state in DECIDED, last, may_undo=may_undo)
    proposal, passed = decisions.find_proposal(handoff), activity.reassignment_of(handoff)
    people = list_reviewers(who.tenant) if who.may(Role.REVIEWER) else []
    is_own = bool(proposal and decisions.is_by(proposal, Actor.person(who.person)))
    needs_two = decisions.needs_four_eyes(handoff)
    agreed_to = proposal if proposal and not is_own else None
    agrees = agreed_to.decision if agreed_to else ""
    is_explained = bool(agreed_to and agrees == Decision.APPROVE and agreed_to.note)
    return Box(
        waits,
        is_decided=False,
        may_undo=bool(passed or proposal) and _may_undo(who, undo.find_last_change(handoff)[0]),
        passed=passed,
        proposal=proposal,
        is_own_proposal=is_own,
        needs_two=needs_two,
        proposes_approve=needs_two and agrees != Decision.APPROVE,
        proposes_decline=needs_two and agrees != Decision.DECLINE,
        needs_note=handoff.state == State.REJECTED and handoff.may_be_approved and not is_explained,
        people=[person for person in people if person.pk != who.person.pk],
    )
