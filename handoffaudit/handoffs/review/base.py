"""One change of one handoff by a reviewer who saw it: whole or not at all."""

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
    """Applies `change`, with `seen_version` only if the handoff has not changed since.

    Raises `Handoff.DoesNotExist`, `Stale`, and what `change` raises."""
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
    """An event that leaves the state as it is. The version moves on, so that who looks at it is told; what was proposed
    and passed on before stays so."""
    seen = handoff.version
    transitions.record_event(handoff, actor, reason)
    for model in (Proposal, PassedOn):
        kept = model.objects.filter(handoff=handoff.pk, version=seen, over=False)
        kept.update(version=handoff.version)


def end_waiting(handoff: Handoff, seen: int) -> None:
    """What was proposed and passed on at the version `seen` is over: a decision took its place. The rows stay, for who
    undoes the decision."""
    for model in (Proposal, PassedOn):
        model.objects.filter(handoff=handoff.pk, version=seen, over=False).update(over=True)


def begin_waiting(handoff: Handoff, ended_at: int) -> None:
    """What a decision on the version `ended_at` ended holds again."""
    for model in (Proposal, PassedOn):
        rows = model.objects.filter(handoff=handoff.pk, version=ended_at, over=True)
        rows.update(version=handoff.version, over=False)


def stale_error(handoff: Handoff) -> Stale:
    return Stale(handoff, last_event(handoff))


def last_event(handoff: Handoff) -> Event | None:
    return Event.objects.filter(handoff=handoff.pk).order_by("-id").first()
