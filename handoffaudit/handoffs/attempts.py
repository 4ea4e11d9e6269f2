"""Attempts at the same handoff, its lineage: a later one takes the place of those before it."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import Q

from handoffaudit.handoffs import changing, counts
from handoffaudit.handoffs.actors import SYSTEM, Actor
from handoffaudit.handoffs.arrivals import Arrival
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.handoffs.states import may_become

MOST = 32_767


def lineage_of(handoff: Handoff) -> str:
    """What all attempts share: the first one's handoff_id."""
    return handoff.lineage or handoff.handoff_id


def number(arrivals: list[Arrival]) -> None:
    """Sets which try each one is, and of which lineage, whichever of its attempts it names in `retry_of`; call inside
    the transaction that stores them."""
    retries = [arrival.handoff for arrival in arrivals if arrival.handoff.retry_of]
    if not retries:
        return
    tenant_id = retries[0].tenant_id
    named = Handoff.objects.filter(tenant=tenant_id, handoff_id__in={handoff.retry_of for handoff in retries})
    first = {name: lineage or name for name, lineage in named.values_list("handoff_id", "lineage")}
    last = _last_attempts(tenant_id, set(first.values()))
    for handoff in (arrival.handoff for arrival in arrivals):
        if handoff.retry_of:
            handoff.lineage = first.get(handoff.retry_of, handoff.retry_of)
            handoff.attempt = min(last.get(handoff.lineage, 0) + 1, MOST)
        lineage = handoff.lineage or handoff.handoff_id
        first.setdefault(handoff.handoff_id, lineage)
        last[lineage] = max(last.get(lineage, 0), handoff.attempt)


def _last_attempts(tenant_id: int, lineages: set[str]) -> dict[str, int]:
    last: dict[str, int] = {}
    for handoff_id, lineage, attempt in _of_lineages(tenant_id, lineages):
        last[lineage or handoff_id] = max(last.get(lineage or handoff_id, 0), attempt)
    return last


def _of_lineages(tenant_id: int, lineages: set[str]) -> Iterable[tuple[str, str, int]]:
    rows = Handoff.objects.filter(tenant=tenant_id)
    columns = ("handoff_id", "lineage", "attempt")
    yield from rows.filter(handoff_id__in=lineages, lineage="").values_list(*columns)
    yield from rows.filter(lineage__in=lineages).exclude(lineage="").values_list(*columns)


def supersede(arrivals: list[Arrival], sender: Actor) -> counts.Deltas:
    """Those whose place is taken become superseded, where their state allows it; what that changes in the counts."""
    retries = [arrival.handoff for arrival in arrivals if arrival.handoff.retry_of]
    newest = {handoff.lineage: (handoff.attempt, handoff.handoff_id) for handoff in retries}
    return _superseded(retries[0].tenant_id, newest, sender) if retries else Counter()


def supersede_overtaken(judged: Iterable[Handoff]) -> counts.Deltas:
    """Those of them whose place a later attempt took while they were still to be judged; call after they are stored."""
    deltas: counts.Deltas = Counter()
    by_tenant: dict[int, set[str]] = {}
    for handoff in judged:
        by_tenant.setdefault(handoff.tenant_id, set()).add(lineage_of(handoff))
    for tenant_id, lineages in by_tenant.items():
        # What repair made and did not pass takes nobody's place.
        later = Handoff.objects.filter(tenant=tenant_id, lineage__in=lineages).exclude(lineage="")
        later = later.exclude(repaired=True, state=State.SUPERSEDED).order_by("attempt")
        newest = {row[0]: row[1:] for row in later.values_list("lineage", "attempt", "handoff_id")}
        deltas.update(_superseded(tenant_id, newest, SYSTEM))
    return deltas


def _superseded(tenant_id: int, newest: dict[str, tuple[int, str]], actor: Actor) -> counts.Deltas:
    """`newest`: of each lineage, the attempt that stands and its handoff_id."""
    deltas: counts.Deltas = Counter()
    if not newest:
        return deltas
    # Two conditions over two indexes; each begins with the tenant.
    wanted = Q(handoff_id__in=newest) | Q(lineage__in=newest) & ~Q(lineage="")
    rows = Handoff.objects.filter(wanted, tenant=tenant_id).exclude(state=State.SUPERSEDED)
    for handoff in rows.select_for_update().order_by("id"):
        attempt, name = newest.get(lineage_of(handoff), (0, ""))
        if handoff.attempt < attempt and may_become(handoff.state, State.SUPERSEDED):
            deltas.update(changing.move(handoff, State.SUPERSEDED, actor, f"{name} took its place"))
    return deltas
