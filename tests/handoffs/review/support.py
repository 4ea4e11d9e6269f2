"""Helpers that act as a reviewer."""

from typing import Any

from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.review import undo as review_undo
from handoffaudit.handoffs.review.decisions import Decision, Result
from handoffaudit.handoffs.transitions import Actor


def colleague(tenant: Tenant, name: str, role: Role = Role.REVIEWER) -> Person:
    person = Person.objects.create_user(username=name)
    Membership.objects.create(tenant=tenant, person=person, role=role)
    return person


def decide(handoff: Handoff, person: Person, decision: str = "approve", note: str = "seen", **more: Any) -> Handoff:
    return decisions.decide_handoff(**_about(handoff, person, note, **more), decision=Decision(decision))


def reopen(handoff: Handoff, person: Person, note: str = "again", **more: Any) -> Handoff:
    return review_undo.reopen(**_about(handoff, person, note, **more))


def pass_on(handoff: Handoff, person: Person, to: Person | None = None, note: str = "yours", **more: Any) -> Handoff:
    return activity.reassign(**_about(handoff, person, note, **more), to=to)


def take_back(handoff: Handoff, person: Person, *, seen: int | None = None) -> Handoff:
    return activity.return_to_queue(
        tenant=handoff.tenant, reference=str(handoff.pk), actor=Actor.person(person), seen_version=seen
    )


def undo(person: Person, *handoffs: Handoff) -> list[Result]:
    references = [(str(one.pk), one.version) for one in handoffs]
    return review_undo.undo_changes(tenant=handoffs[0].tenant, references=references, actor=Actor.person(person))


def undo_last(tenant: Tenant, person: Person) -> Handoff:
    return review_undo.undo_last(tenant=tenant, actor=Actor.person(person))


def now(handoff: Handoff) -> Handoff:
    """Return the handoff as it is stored now."""
    return queries.get(handoff.tenant, str(handoff.pk))


def told(handoff: Handoff) -> list[tuple[str, str, str, str]]:
    """Return the history after the verdict: actor, both states, and reason."""
    events = [one for one in queries.events(handoff) if one.actor_kind != "system"][1:]
    return [(one.actor, one.from_state, one.to_state, one.reason) for one in events]


def _about(handoff: Handoff, person: Person, note: str, *, seen: int | None = None) -> dict[str, Any]:
    about = {"tenant": handoff.tenant, "reference": str(handoff.pk), "note": note, "actor": Actor.person(person)}
    return about | {"seen_version": seen}
