"""Parked handoffs: what could not be judged again and again, until somebody asks for another try."""

from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries, waking
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.models import Event, Handoff, State


class NotParked(Exception):
    pass


def retry_parked(*, tenant: Tenant, reference: str, actor: Actor) -> Handoff:
    """Puts it back into the queue. Raises `Handoff.DoesNotExist` or `NotParked`."""
    with transaction.atomic():
        handoff = queries.get(tenant, reference)
        updated = Handoff.objects.filter(pk=handoff.pk, parked=True).update(
            parked=False, tries=0, state=State.RECEIVED, version=handoff.version + 1
        )
        if not updated:
            raise NotParked(f"Handoff {reference} is not parked.")
        Event.objects.create(
            tenant=tenant,
            handoff=handoff,
            at=timezone.now(),
            actor_kind=actor.kind,
            actor=actor.name,
            from_state=handoff.state,
            to_state=State.RECEIVED,
            reason="another try was asked for",
        )
        transaction.on_commit(waking.wake)
    handoff.refresh_from_db()
    return handoff
