"""Decisions of reviewers on one handoff or on many, and proposals: first decisions on types that require four eyes.

A decision is refused if the handoff changed since the reviewer saw it (`docs/decisions/0030-deciding-again.md`).
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import approvals, counts, event_log, long_poll, queries, transitions
from handoffaudit.handoffs.models import Event, Handoff, PassedOn, Proposal, ReviewHold, State
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.base import (
    NotApprovable,
    NoteRequired,
    NotReviewable,
    Readable,
    ReviewError,
    Unreadable,
    apply_change,
    check_note,
    end_waiting,
    remark,
)
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.handoffs.verdicts import RESEND
from handoffaudit.policy.kinds import load_config

NOUNS = {"approve": "approval", "decline": "decline"}

WITHDRAWN = "no longer proposed"


def needs_four_eyes(handoff: Handoff) -> bool:
    """Return whether the current policy requires two people to decide this handoff."""
    return load_config(handoff.tenant_id).policy_for(handoff.handoff_type).four_eyes


def find_proposal(handoff: Handoff) -> Proposal | None:
    """Return the current proposal for the handoff, or None if there is no proposal that is still valid."""
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
    """Store the decision as a proposal, which replaces an earlier proposal; call inside a transaction.

    The proposal ends an assignment, because a person has judged the handoff. `withdraw` restores the assignment.
    """
    message = f"{NOUNS[decision]} proposed" + (f": {note}" if note else "")
    before = find_proposal(handoff)
    remark(handoff, actor, f"{message}; a second person decides")
    activity.end_by_proposal(handoff)
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


def withdraw(handoff: Handoff, proposal: Proposal, actor: Actor, ended_at: int) -> None:
    """Withdraw a proposal that was made on version `ended_at`; call inside a transaction.

    A proposal that this proposal replaced, and an assignment that this proposal ended, become current again.
    """
    message, before = f"{NOUNS[proposal.decision]} {WITHDRAWN}", proposal.replaced
    if before:
        message += f"; the {NOUNS[before['decision']]} that {before['actor']} proposed counts again"
    remark(handoff, actor, message)
    activity.restore(handoff, ended_at)
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
    """Return the reason of a decision that two people made, with both names and notes."""
    first, second = _quote(proposal.actor, proposal.note), _quote(actor.name, note)
    return f"proposed by {first}; confirmed by {second}"


def _quote(name: str, note: str) -> str:
    return f"{name}: “{note}”" if note else name


class Decision(StrEnum):
    """An action that a person can take on a waiting handoff.

    `RESEND` declines an unreadable handoff and asks its sender to send it again. `HANDLED` takes an unreadable handoff
    out of the queue without a decision.
    """

    APPROVE = "approve"
    DECLINE = "decline"
    RESEND = "resend"
    HANDLED = "handled"


STATES = {Decision.APPROVE: State.APPROVED, Decision.DECLINE: State.DECLINED, Decision.RESEND: State.DECLINED}


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one of several decisions: the decided handoff, or the error."""

    reference: str
    handoff: Handoff | None
    error: ReviewError | None


def decide_handoff(
    *, tenant: Tenant, reference: str, decision: Decision, note: str, actor: Actor, seen_version: int | None
) -> Handoff:
    """Decide a held or rejected handoff, if it still has the version `seen_version`; None skips that check.

    If the type of the handoff requires four eyes, the first decision becomes a proposal (`find_proposal`) and
    the state stays the same. The same decision by a second person takes effect. Raise `Handoff.DoesNotExist` or a
    `ReviewError`.
    """
    change = partial(_decide_locked, decision=decision, note=check_note(note), actor=actor)
    return apply_change(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _decide_locked(handoff: Handoff, *, decision: Decision, note: str, actor: Actor) -> None:
    if decision is Decision.HANDLED:
        activity.mark_handled(handoff, note=note, actor=actor)
        return
    decision, note = resolve_resend(handoff, decision, note)
    proposal = find_proposal(handoff)
    four_eyes = needs_four_eyes(handoff)
    reason = reason_of(handoff, proposal, decision, note, actor, four_eyes=four_eyes)
    if reason is not None:
        _take_effect(handoff, decision, reason, actor)
    elif not (proposal and is_the_same(proposal, decision, note, actor)):
        propose(handoff, decision, note, actor)
    ReviewHold.objects.filter(handoff=handoff).delete()


def resolve_resend(handoff: Handoff, decision: Decision, note: str) -> tuple[Decision, str]:
    """Return the decision and its note. Turn `RESEND` into a decline whose note asks for a resend.

    Raise `ReviewError`.
    """
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
    """Return the reason stored with the decision, or None if a second person must confirm the decision.

    Raise `ReviewError`.
    """
    if handoff.state not in REVIEWABLE:
        raise NotReviewable(handoff)
    approves = decision is Decision.APPROVE
    if approves and handoff.is_unreadable:
        raise Unreadable
    if approves and not handoff.approvable:
        raise NotApprovable
    agrees = proposal is not None and proposal.decision == decision and not is_by(proposal, actor)
    if approves and handoff.state == State.REJECTED and not (note or (agrees and proposal and proposal.note)):
        raise NoteRequired
    if proposal and agrees:
        return describe_agreement(proposal, note, actor)
    return None if four_eyes else note


def _take_effect(handoff: Handoff, decision: Decision, reason: str, actor: Actor) -> None:
    seen, columns = handoff.version, changed_columns(decision)
    transitions.change_state(handoff, columns.pop("state"), actor, reason, **columns)
    if decision is Decision.APPROVE:
        approvals.grant([handoff])
    end_waiting(handoff, seen)
    event_log.log_decision(handoff, actor, reason)


def changed_columns(decision: Decision) -> dict[str, Any]:
    """Return the columns of the handoff that a decision changes, with their new values."""
    approved = {"user_approved": True} if decision is Decision.APPROVE else {}
    return {"state": STATES[decision], **approved}


def apply_to_each(references: Sequence[tuple[str, int]], change: Callable[[str, int], Handoff]) -> list[Result]:
    """Apply a change to each handoff on its own and return one result per handoff."""
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


# The number of rows that one transaction locks. A small number keeps the waits of other reviewers short.
PART = 100

Reference = tuple[str, int]


def decide_many(
    *, tenant: Tenant, references: Sequence[Reference], decision: Decision, note: str, actor: Actor
) -> list[Result]:
    """Decide each handoff on its own, as `decide_handoff` does, and return one result per handoff.

    A handoff that cannot be decided gets an error in its result and does not stop the others. `references` are ids,
    each with the version that the reviewer saw. Raise `NoteTooLong`.
    """
    note = check_note(note)
    results: list[Result] = []
    once = list(dict(references).items())
    for at in range(0, len(once), PART):
        part = once[at : at + PART]
        done = _decide_together(tenant, part, decision, note, actor)
        long_poll.announce([one.handoff.pk for one in done.values() if one.handoff])

        def one(reference: str, seen_version: int) -> Handoff:
            return decide_handoff(
                tenant=tenant, reference=reference, decision=decision, note=note, actor=actor, seen_version=seen_version
            )

        alone = {one.reference: one for one in apply_to_each([pair for pair in part if pair[0] not in done], one)}
        results += [(done | alone)[reference] for reference, _ in part]
    return results


def _decide_together(
    tenant: Tenant, references: Sequence[Reference], decision: Decision, note: str, actor: Actor
) -> dict[str, Result]:
    """Decide handoffs in one transaction, and return the results by reference.

    Unknown handoffs, handoffs that changed, and handoffs that need a second person are missing from the results. The
    caller decides these handoffs one by one. For `HANDLED`, the results are empty.
    """
    results: dict[str, Result] = {}
    reasons: list[tuple[Handoff, str]] = []
    if decision is Decision.HANDLED:
        return results
    with transaction.atomic():
        rows = _lock_unchanged(tenant, references)
        found, policies = list_proposals(rows.values()), load_config(tenant.pk)
        for reference, handoff in rows.items():
            four_eyes = policies.policy_for(handoff.handoff_type).four_eyes
            try:
                taken, resolved_note = resolve_resend(handoff, decision, note)
                reason = reason_of(handoff, found.get(handoff.pk), taken, resolved_note, actor, four_eyes=four_eyes)
            except ReviewError as error:
                results[reference] = Result(reference, None, error)
                continue
            if reason is not None:
                results[reference] = Result(reference, handoff, None)
                reasons.append((handoff, reason))
        _take_effect_together(reasons, decision, actor)
    return results


def _lock_unchanged(tenant: Tenant, references: Sequence[Reference]) -> dict[str, Handoff]:
    """Lock and return the handoffs that still have the version that the reviewer saw.

    Every caller locks in the order of the primary keys, so that two callers cannot deadlock.
    """
    seen = dict(_ids(references))
    rows = queries.of_tenant(tenant).filter(pk__in=seen).order_by("pk").select_for_update(no_key=True)
    return {seen[row.pk][0]: row for row in rows if row.version == seen[row.pk][1]}


def _ids(references: Sequence[Reference]) -> Iterator[tuple[UUID, Reference]]:
    for reference, version in references:
        try:
            yield UUID(reference), (reference, version)
        except ValueError:
            continue


def _take_effect_together(reasons: Sequence[tuple[Handoff, str]], decision: Decision, actor: Actor) -> None:
    """Apply the decision to all of these handoffs with few statements. The rows must be locked.

    The effect on each handoff is the effect of `_take_effect`: a new version, an event, counts, and the end of its
    proposal, reassignment and hold.
    """
    if not reasons:
        return
    pks, now, deltas = [handoff.pk for handoff, _ in reasons], timezone.now(), counts.Deltas()
    events = []
    for model in (Proposal, PassedOn):
        model.objects.filter(handoff__in=pks, version=F("handoff__version"), over=False).update(over=True)
    columns = changed_columns(decision)
    Handoff.objects.filter(pk__in=pks).update(version=F("version") + 1, **columns)
    for handoff, reason in reasons:
        before = handoff.state
        for name, value in (columns | {"version": handoff.version + 1}).items():
            setattr(handoff, name, value)
        deltas.update(counts.count_transition(counts.CountKey.of(handoff), handoff.codes, before, handoff.state))
        event_log.log_decision(handoff, actor, reason)
        events.append(
            Event(
                tenant_id=handoff.tenant_id,
                handoff_id=handoff.pk,
                at=now,
                actor_kind=actor.kind,
                actor=actor.name,
                from_state=before,
                to_state=handoff.state,
                reason=reason,
            )
        )
    Event.objects.bulk_create(events)
    if decision is Decision.APPROVE:
        approvals.grant([handoff for handoff, _ in reasons])
    ReviewHold.objects.filter(handoff__in=pks).delete()
    counts.apply(deltas)
