"""Attempts at the same handoff: a later one takes the place of the one it names in `retry_of`."""

from collections import Counter
from collections.abc import Iterable

from handoffaudit.handoffs import changing, counts
from handoffaudit.handoffs.actors import SYSTEM, Actor
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
    for handoff in (arrival.handoff for arrival in arrivals):
        if handoff.retry_of:
            handoff.attempt = min(before.get(handoff.retry_of, 0) + 1, 32_767)
        before.setdefault(handoff.handoff_id, handoff.attempt)


def supersede(arrivals: list[Arrival], sender: Actor) -> counts.Deltas:
    """Those whose place is taken become superseded, where their state allows it; what that changes in the counts."""
    deltas: counts.Deltas = Counter()
    retries = [arrival.handoff for arrival in arrivals if arrival.handoff.retry_of]
    later = {handoff.retry_of: handoff for handoff in retries if handoff.retry_of != handoff.handoff_id}
    if not later:
        return deltas
    tenant_id = next(iter(later.values())).tenant_id
    return _superseded(tenant_id, {before: handoff.handoff_id for before, handoff in later.items()}, sender)


def supersede_overtaken(judged: Iterable[Handoff]) -> counts.Deltas:
    """Those of them whose place a later attempt took while they were still to be judged; call after they are stored."""
    deltas: counts.Deltas = Counter()
    by_tenant: dict[int, list[str]] = {}
    for handoff in judged:
        by_tenant.setdefault(handoff.tenant_id, []).append(handoff.handoff_id)
    for tenant_id, names in by_tenant.items():
        retries = Handoff.objects.filter(tenant=tenant_id, retry_of__in=names).exclude(retry_of="")
        later = {before: name for before, name in retries.values_list("retry_of", "handoff_id") if before != name}
        deltas.update(_superseded(tenant_id, later, SYSTEM))
    return deltas


def _superseded(tenant_id: int, later: dict[str, str], actor: Actor) -> counts.Deltas:
    deltas: counts.Deltas = Counter()
    if not later:
        return deltas
    rows = Handoff.objects.filter(tenant=tenant_id, handoff_id__in=later)
    for handoff in rows.select_for_update().order_by("id"):
        if may_become(handoff.state, State.SUPERSEDED):
            reason = f"{later[handoff.handoff_id]} took its place"
            deltas.update(changing.move(handoff, State.SUPERSEDED, actor, reason))
    return deltas
