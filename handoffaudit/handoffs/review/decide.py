"""Decisions of reviewers, one by one or many in few statements. A decision on an old view is refused."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import counts, event_log, long_poll, queries, transitions
from handoffaudit.handoffs.models import Event, Handoff, PassedOn, Proposal, ReviewHold, State
from handoffaudit.handoffs.review import assignments, proposals
from handoffaudit.handoffs.review import proposals as review_proposals
from handoffaudit.handoffs.review.base import apply_change, end_waiting
from handoffaudit.handoffs.review.errors import (
    NotApprovable,
    NoteRequired,
    NotReviewable,
    Readable,
    ReviewError,
    Unreadable,
    check_note,
)
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.handoffs.verdicts import RESEND
from handoffaudit.policy.load import load


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


def decide_handoff(
    *, tenant: Tenant, reference: str, decision: Decision, note: str, actor: Actor, seen_version: int | None
) -> Handoff:
    """Decide a held or rejected handoff. With `seen_version`, only if it has not changed since.

    Where its type needs four eyes, the first decision is kept as a proposal (`proposal_of`) and the state stays; the
    same decision by somebody else takes effect. Raises `Handoff.DoesNotExist` or a `ReviewError`.
    """
    change = partial(_decide_locked, decision=decision, note=check_note(note), actor=actor)
    return apply_change(tenant=tenant, reference=reference, seen_version=seen_version, change=change)


def _decide_locked(handoff: Handoff, *, decision: Decision, note: str, actor: Actor) -> None:
    if decision is Decision.HANDLED:
        assignments.mark_handled(handoff, note=note, actor=actor)
        return
    decision, note = resolve_resend(handoff, decision, note)
    proposal = proposals.find_proposal(handoff)
    four_eyes = proposals.needs_four_eyes(handoff)
    reason = reason_of(handoff, proposal, decision, note, actor, four_eyes=four_eyes)
    if reason is not None:
        _take_effect(handoff, decision, reason, actor)
    elif not (proposal and proposals.is_the_same(proposal, decision, note, actor)):
        proposals.propose(handoff, decision, note, actor)
    ReviewHold.objects.filter(handoff=handoff).delete()


def resolve_resend(handoff: Handoff, decision: Decision, note: str) -> tuple[Decision, str]:
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
    agrees = proposal is not None and proposal.decision == decision and not proposals.is_by(proposal, actor)
    if approves and handoff.state == State.REJECTED and not (note or (agrees and proposal and proposal.note)):
        raise NoteRequired
    if proposal and agrees:
        return proposals.describe_agreement(proposal, note, actor)
    return None if four_eyes else note


def _take_effect(handoff: Handoff, decision: Decision, reason: str, actor: Actor) -> None:
    seen, columns = handoff.version, changed_columns(decision)
    transitions.change_state(handoff, columns.pop("state"), actor, reason, **columns)
    end_waiting(handoff, seen)
    event_log.log_decision(handoff, actor, reason)


def changed_columns(decision: Decision) -> dict[str, Any]:
    """What of a handoff a decision changes."""
    approved = {"user_approved": True} if decision is Decision.APPROVE else {}
    return {"state": STATES[decision], **approved}


def apply_to_each(references: Sequence[tuple[str, int]], change: Callable[[str, int], Handoff]) -> list[Result]:
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


# Their rows are locked together: others who decide wait for so many at most.
PART = 100

Reference = tuple[str, int]


def decide_many(
    *, tenant: Tenant, references: Sequence[Reference], decision: Decision, note: str, actor: Actor
) -> list[Result]:
    """Decides each by itself, as `decide` does: what can't be decided says why and stops none of the others.
    `references`: ids with the version seen."""
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
    """What became of those that are as they were seen and need no other person, by reference. The others are not told:
    each is looked at by itself."""
    results: dict[str, Result] = {}
    reasons: list[tuple[Handoff, str]] = []
    if decision is Decision.HANDLED:
        return results
    with transaction.atomic():
        rows = _lock_unchanged(tenant, references)
        proposals, policies = review_proposals.list_proposals(rows.values()), load(tenant.pk)
        for reference, handoff in rows.items():
            four_eyes = policies.policy_for(handoff.handoff_type).four_eyes
            try:
                taken, said = resolve_resend(handoff, decision, note)
                reason = reason_of(handoff, proposals.get(handoff.pk), taken, said, actor, four_eyes=four_eyes)
            except ReviewError as error:
                results[reference] = Result(reference, None, error)
                continue
            if reason is not None:
                results[reference] = Result(reference, handoff, None)
                reasons.append((handoff, reason))
        _take_effect_together(reasons, decision, actor)
    return results


def _lock_unchanged(tenant: Tenant, references: Sequence[Reference]) -> dict[str, Handoff]:
    """Those at the version that was seen, in the order that all lock in."""
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
    """As one by one: a new version, an event, the counts, what waited for it over. The rows are locked."""
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
    ReviewHold.objects.filter(handoff__in=pks).delete()
    counts.apply(deltas)
