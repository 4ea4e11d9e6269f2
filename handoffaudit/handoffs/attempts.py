"""Attempts at the same handoff: a later one takes the place of the one it names in `retry_of`."""

from handoffaudit.handoffs import changing
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.arrivals import Arrival
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.handoffs.states import may_become


def number(arrivals: list[Arrival]) -> None:
    """Sets which try each one is; call inside the transaction that stores them."""
    retries = [arrival.handoff for arrival in arrivals if arrival.handoff.retry_of]
    if not retries:
        return
    names = {handoff.retry_of for handoff in retries}
    before = dict(
        Handoff.objects.filter(tenant=retries[0].tenant_id, handoff_id__in=names).values_list("handoff_id", "attempt")
    )
    for handoff in retries:
        handoff.attempt = min(before.get(handoff.retry_of, 0) + 1, 32_767)


def supersede(arrivals: list[Arrival], sender: Actor) -> None:
    """Those whose place is taken become superseded, where their state allows it."""
    later = {arrival.handoff.retry_of: arrival.handoff for arrival in arrivals if arrival.handoff.retry_of}
    if not later:
        return
    tenant_id = next(iter(later.values())).tenant_id
    Handoff.objects.bulk_update([arrival.handoff for arrival in arrivals if arrival.handoff.retry_of], ["attempt"])
    for handoff in Handoff.objects.filter(tenant=tenant_id, handoff_id__in=later).select_for_update().order_by("id"):
        if may_become(handoff.state, State.SUPERSEDED):
            changing.change(handoff, State.SUPERSEDED, sender, f"{later[handoff.handoff_id].handoff_id} took its place")
