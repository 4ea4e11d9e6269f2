"""Atomic changes of a handoff by a reviewer, and what a change does to proposals and reassignments."""

from collections.abc import Callable

from django.db import transaction

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import long_poll, queries, transitions
from handoffaudit.handoffs.models import Event, Handoff, PassedOn, Proposal
from handoffaudit.handoffs.review.errors import Stale
from handoffaudit.handoffs.transitions import Actor


def apply_change(
    *, tenant: Tenant, reference: str, seen_version: int | None, change: Callable[[Handoff], None]
) -> Handoff:
    """Apply `change` to a handoff in one transaction, if the handoff still has the version `seen_version`.

    None skips the version check. Raises `Handoff.DoesNotExist`, `Stale`, and the errors of `change`.
    """
    try:
        with transaction.atomic():
            handoff = queries.get(tenant, reference)
            if seen_version is not None and handoff.version != seen_version:
                raise stale_error(handoff)
            change(handoff)
    except transitions.VersionConflict:
        raise stale_error(queries.get(tenant, reference)) from None
    long_poll.announce([handoff.pk])
    return handoff


def remark(handoff: Handoff, actor: Actor, reason: str) -> None:
    """Record an event that leaves the state as it is.

    The version of the handoff increases, so that open pages notice the event. The current proposal and reassignment
    move to the new version and stay valid.
    """
    seen = handoff.version
    transitions.record_event(handoff, actor, reason)
    for model in (Proposal, PassedOn):
        kept = model.objects.filter(handoff=handoff.pk, version=seen, over=False)
        kept.update(version=handoff.version)


def end_waiting(handoff: Handoff, seen: int) -> None:
    """End the proposal and the reassignment at version `seen`, because a decision replaced them.

    The rows stay, so that undoing the decision can restore them.
    """
    for model in (Proposal, PassedOn):
        model.objects.filter(handoff=handoff.pk, version=seen, over=False).update(over=True)


def begin_waiting(handoff: Handoff, ended_at: int) -> None:
    """Restore the proposal and the reassignment that a decision on version `ended_at` ended."""
    for model in (Proposal, PassedOn):
        rows = model.objects.filter(handoff=handoff.pk, version=ended_at, over=True)
        rows.update(version=handoff.version, over=False)


def stale_error(handoff: Handoff) -> Stale:
    return Stale(handoff, last_event(handoff))


def last_event(handoff: Handoff) -> Event | None:
    return Event.objects.filter(handoff=handoff.pk).order_by("-id").first()
