"""Many decisions in few statements: what simply takes effect does so together, the rest one by one."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import counts, listening, own_events, queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Event, Handoff, PassedOn, Proposal, ReviewHold
from handoffaudit.handoffs.reviewing import proposing
from handoffaudit.handoffs.reviewing.deciding import Decision, Result, columns_of, decide, each, plain, reason_of
from handoffaudit.handoffs.reviewing.errors import ReviewError, checked_note
from handoffaudit.policy.load import load

# Their rows are locked together: others who decide wait for so many at most.
PART = 100

Reference = tuple[str, int]


def decide_many(
    *, tenant: Tenant, references: Sequence[Reference], decision: Decision, note: str, actor: Actor
) -> list[Result]:
    """Decides each by itself, as `decide` does: what can't be decided says why and stops none of the others.
    `references`: ids with the version seen."""
    note = checked_note(note)
    results: list[Result] = []
    once = list(dict(references).items())
    for at in range(0, len(once), PART):
        part = once[at : at + PART]
        done = _together(tenant, part, decision, note, actor)
        listening.announce([one.handoff.pk for one in done.values() if one.handoff])

        def one(reference: str, seen_version: int) -> Handoff:
            return decide(
                tenant=tenant, reference=reference, decision=decision, note=note, actor=actor, seen_version=seen_version
            )

        alone = {one.reference: one for one in each([pair for pair in part if pair[0] not in done], one)}
        results += [(done | alone)[reference] for reference, _ in part]
    return results


def _together(
    tenant: Tenant, references: Sequence[Reference], decision: Decision, note: str, actor: Actor
) -> dict[str, Result]:
    """What became of those that are as they were seen and need no other person, by reference. The others are not told:
    each is looked at by itself."""
    results: dict[str, Result] = {}
    reasons: list[tuple[Handoff, str]] = []
    if decision is Decision.HANDLED:
        return results
    with transaction.atomic():
        rows = _locked(tenant, references)
        proposals, policies = proposing.proposals(rows.values()), load(tenant.pk)
        for reference, handoff in rows.items():
            four_eyes = policies.policy_for(handoff.handoff_type).four_eyes
            try:
                taken, said = plain(handoff, decision, note)
                reason = reason_of(handoff, proposals.get(handoff.pk), taken, said, actor, four_eyes=four_eyes)
            except ReviewError as error:
                results[reference] = Result(reference, None, error)
                continue
            if reason is not None:
                results[reference] = Result(reference, handoff, None)
                reasons.append((handoff, reason))
        _take_effect(reasons, decision, actor)
    return results


def _locked(tenant: Tenant, references: Sequence[Reference]) -> dict[str, Handoff]:
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


def _take_effect(reasons: Sequence[tuple[Handoff, str]], decision: Decision, actor: Actor) -> None:
    """As one by one: a new version, an event, the counts, what waited for it over. The rows are locked."""
    if not reasons:
        return
    pks, now, deltas = [handoff.pk for handoff, _ in reasons], timezone.now(), counts.Deltas()
    events = []
    for model in (Proposal, PassedOn):
        model.objects.filter(handoff__in=pks, version=F("handoff__version"), over=False).update(over=True)
    columns = columns_of(decision)
    Handoff.objects.filter(pk__in=pks).update(version=F("version") + 1, **columns)
    for handoff, reason in reasons:
        before = handoff.state
        for name, value in (columns | {"version": handoff.version + 1}).items():
            setattr(handoff, name, value)
        deltas.update(counts.moved(counts.Place.of(handoff), handoff.codes, before, handoff.state))
        own_events.decided(handoff, actor, reason)
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
