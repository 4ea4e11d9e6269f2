"""Proposals: first decisions on types that require four eyes (`docs/decisions/0030-deciding-again.md`)."""

import uuid
from collections.abc import Iterable
from datetime import datetime

from django.db.models import F, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff, PassedOn, Proposal
from handoffaudit.handoffs.review.base import remark
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.policy.kinds import load_config

NOUNS = {"approve": "approval", "decline": "decline"}


def needs_four_eyes(handoff: Handoff) -> bool:
    """Return whether the current policy requires two people to decide this handoff."""
    return load_config(handoff.tenant_id).policy_for(handoff.handoff_type).four_eyes


def find_proposal(handoff: Handoff) -> Proposal | None:
    """Return the current proposal for the handoff, or None if there is none or a later change ended it."""
    return list_proposals([handoff]).get(handoff.pk)


def list_proposals(handoffs: Iterable[Handoff]) -> dict[uuid.UUID, Proposal]:
    """Return the current proposals for these handoffs, by handoff id."""
    waiting = {one.pk: one.version for one in handoffs if one.state in REVIEWABLE}
    rows = Proposal.objects.filter(handoff__in=waiting, over=False) if waiting else ()
    return {row.handoff_id: row for row in rows if row.version == waiting[row.handoff_id]}


def proposals_in_force(tenant: Tenant) -> "QuerySet[Proposal]":
    """Return the proposals of a tenant that wait for a second person."""
    return Proposal.objects.filter(tenant=tenant, over=False, version=F("handoff__version"))


def is_by(proposal: Proposal, actor: Actor) -> bool:
    return (proposal.actor_kind, proposal.actor) == (actor.kind, actor.name)


def is_the_same(proposal: Proposal, decision: str, note: str, actor: Actor) -> bool:
    """Return whether the actor repeats the proposal, with the same decision and note."""
    return is_by(proposal, actor) and (proposal.decision, proposal.note) == (decision, note)


def propose(handoff: Handoff, decision: str, note: str, actor: Actor) -> None:
    """Store the decision as the first of two, in place of any earlier proposal; call inside a transaction.

    The proposal ends a reassignment, because a person has judged the handoff.
    """
    message = f"{NOUNS[decision]} proposed" + (f": {note}" if note else "")
    before = find_proposal(handoff)
    remark(handoff, actor, f"{message}; a second person decides")
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
    """Withdraw a proposal; call inside a transaction. The proposal that it replaced, if any, becomes current again."""
    message, before = f"{NOUNS[proposal.decision]} no longer proposed", proposal.replaced
    if before:
        message += f"; the {NOUNS[before['decision']]} that {before['actor']} proposed counts again"
    remark(handoff, actor, message)
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
    """Return the reason of a decision that two people made, naming both."""
    first, second = _quote(proposal.actor, proposal.note), _quote(actor.name, note)
    return f"proposed by {first}; confirmed by {second}"


def _quote(name: str, note: str) -> str:
    return f"{name}: “{note}”" if note else name
