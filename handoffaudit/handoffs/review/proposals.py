"""Proposals: the first of two decisions, where a type needs four eyes (`docs/decisions/0030-deciding-again.md`)."""

import uuid
from collections.abc import Iterable
from datetime import datetime

from django.db.models import F, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff, PassedOn, Proposal
from handoffaudit.handoffs.review.base import remark
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.policy.load import load

NOUNS = {"approve": "approval", "decline": "decline"}


def needs_four_eyes(handoff: Handoff) -> bool:
    """By the policy in force now."""
    return load(handoff.tenant_id).policy_for(handoff.handoff_type).four_eyes


def find_proposal(handoff: Handoff) -> Proposal | None:
    """The proposal in force: nothing happened to the handoff since that would end it."""
    return list_proposals([handoff]).get(handoff.pk)


def list_proposals(handoffs: Iterable[Handoff]) -> dict[uuid.UUID, Proposal]:
    """The proposals in force, by handoff."""
    waiting = {one.pk: one.version for one in handoffs if one.state in REVIEWABLE}
    rows = Proposal.objects.filter(handoff__in=waiting, over=False) if waiting else ()
    return {row.handoff_id: row for row in rows if row.version == waiting[row.handoff_id]}


def proposals_in_force(tenant: Tenant) -> "QuerySet[Proposal]":
    """All of a tenant that wait for a second person."""
    return Proposal.objects.filter(tenant=tenant, over=False, version=F("handoff__version"))


def is_by(proposal: Proposal, actor: Actor) -> bool:
    return (proposal.actor_kind, proposal.actor) == (actor.kind, actor.name)


def is_the_same(proposal: Proposal, decision: str, note: str, actor: Actor) -> bool:
    """Whether somebody says once more what they have proposed."""
    return is_by(proposal, actor) and (proposal.decision, proposal.note) == (decision, note)


def propose(handoff: Handoff, decision: str, note: str, actor: Actor) -> None:
    """Keeps the decision as the first of two, in place of another proposal; call inside a transaction. It is no longer
    passed on: somebody judged it."""
    said = f"{NOUNS[decision]} proposed" + (f": {note}" if note else "")
    before = find_proposal(handoff)
    remark(handoff, actor, f"{said}; a second person decides")
    Proposal.objects.update_or_create(
        handoff=handoff,
        defaults={
            "tenant_id": handoff.tenant_id,
            "decision": decision,
            "note": note,
            "actor_kind": actor.kind,
            "actor": actor.name,
            "version": handoff.version,
            "over": False,
            "at": timezone.now(),
            "replaced": _describe(before) if before else None,
        },
    )
    PassedOn.objects.filter(handoff=handoff.pk).delete()


def withdraw(handoff: Handoff, proposal: Proposal, actor: Actor) -> None:
    """Takes a proposal back; call inside a transaction. The one that it replaced, where there was one, counts again."""
    said, before = f"{NOUNS[proposal.decision]} no longer proposed", proposal.replaced
    if before:
        said += f"; the {NOUNS[before['decision']]} that {before['actor']} proposed counts again"
    remark(handoff, actor, said)
    rows = Proposal.objects.filter(handoff=handoff.pk)
    if before:
        at = datetime.fromisoformat(before["at"])
        rows.update(**before | {"at": at}, version=handoff.version, over=False, replaced=None)
    else:
        rows.delete()


def _describe(proposal: Proposal) -> dict[str, str]:
    kept = {name: getattr(proposal, name) for name in ("decision", "note", "actor_kind", "actor")}
    return kept | {"at": proposal.at.isoformat()}


def describe_agreement(proposal: Proposal, note: str, actor: Actor) -> str:
    """The reason of a decision that two have made, naming both."""
    first, second = _quote(proposal.actor, proposal.note), _quote(actor.name, note)
    return f"proposed by {first}; confirmed by {second}"


def _quote(name: str, note: str) -> str:
    return f"{name}: “{note}”" if note else name
