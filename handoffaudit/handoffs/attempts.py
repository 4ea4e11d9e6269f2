"""Attempts at the same handoff, its lineage: a later one takes the place of those before it."""

from collections import Counter
from collections.abc import Iterable
from uuid import UUID

from django.db.models import Max, Q

from handoffaudit.handoffs import counts, transitions
from handoffaudit.handoffs.ingest.prepare import PreparedHandoff
from handoffaudit.handoffs.models import Handoff, State
from handoffaudit.handoffs.transitions import SYSTEM, Actor, may_become

MOST = 32_767


def lineage_of(handoff: Handoff) -> str:
    """What all attempts share: the first one's handoff_id."""
    return handoff.lineage or handoff.handoff_id


def find_lineage(tenant_id: int, handoff_id: str) -> str:
    """The lineage of the handoff with this id, or the one that it begins."""
    rows = Handoff.objects.filter(tenant=tenant_id, handoff_id=handoff_id)
    return rows.values_list("lineage", flat=True).first() or handoff_id


def take_turns(arrivals: list[PreparedHandoff]) -> None:
    """Locks the lineages that these go on with, so that of two retries sent at once each gets a number of its own; call
    inside the transaction that stores them, before they are numbered."""
    named = {arrival.handoff.retry_of for arrival in arrivals if arrival.handoff.retry_of}
    if named:
        tenant_id = arrivals[0].handoff.tenant_id
        rows = Handoff.objects.filter(tenant=tenant_id, handoff_id__in=named).exclude(lineage="")
        _lock(_attempts_of(tenant_id, named.union(rows.values_list("lineage", flat=True))))


def lock(handoffs: Iterable[Handoff]) -> dict[UUID, UUID | None]:
    """Locks them, and with them all attempts of their lineages that may still change; the claim that each is under.

    All at once and in one order: two workers with attempts of one lineage would wait for each other in a circle.
    """
    rows = list(handoffs)
    wanted = {row.pk for row in rows}
    for tenant_id, lineages in _lineages(rows).items():
        wanted |= _attempts_of(tenant_id, lineages)
    return _lock(wanted)


def _attempts_of(tenant_id: int, lineages: set[str]) -> set[UUID]:
    """The first ones, and the later ones that are not superseded."""
    rows = Handoff.objects.filter(tenant=tenant_id)
    first = rows.filter(handoff_id__in=lineages).values_list("pk", flat=True)
    later = rows.filter(lineage__in=lineages).exclude(lineage="").exclude(state=State.SUPERSEDED)
    return {*first, *later.values_list("pk", flat=True)}


def _lock(wanted: Iterable[UUID]) -> dict[UUID, UUID | None]:
    rows = Handoff.objects.filter(pk__in=list(wanted)).select_for_update().order_by("id")
    return dict(rows.values_list("pk", "claim"))


def _lineages(handoffs: Iterable[Handoff]) -> dict[int, set[str]]:
    """By tenant."""
    found: dict[int, set[str]] = {}
    for handoff in handoffs:
        found.setdefault(handoff.tenant_id, set()).add(lineage_of(handoff))
    return found


def number(arrivals: list[PreparedHandoff]) -> None:
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
    rows = Handoff.objects.filter(tenant=tenant_id)
    first = rows.filter(handoff_id__in=lineages, lineage="").values_list("handoff_id", "attempt")
    later = rows.filter(lineage__in=lineages).exclude(lineage="").values_list("lineage").annotate(Max("attempt"))
    return dict(first) | dict(later.order_by())


def supersede(arrivals: list[PreparedHandoff], sender: Actor) -> counts.Deltas:
    """Those whose place is taken become superseded, where their state allows it; what that changes in the counts."""
    retries = [arrival.handoff for arrival in arrivals if arrival.handoff.retry_of]
    newest = {handoff.lineage: (handoff.attempt, handoff.id, handoff.handoff_id) for handoff in retries}
    return _supersede_older(retries[0].tenant_id, newest, sender) if retries else Counter()


def supersede_overtaken(judged: Iterable[Handoff]) -> counts.Deltas:
    """Those of them whose place a later attempt took while they were still to be judged; call after they are stored."""
    deltas: counts.Deltas = Counter()
    for tenant_id, lineages in _lineages(judged).items():
        # What was superseded itself takes nobody's place: what repair made and did not pass, or a later one stands.
        later = Handoff.objects.filter(tenant=tenant_id, lineage__in=lineages).exclude(lineage="")
        later = later.exclude(state=State.SUPERSEDED).order_by("attempt", "id")
        newest = {row[0]: row[1:] for row in later.values_list("lineage", "attempt", "id", "handoff_id")}
        deltas.update(_supersede_older(tenant_id, newest, SYSTEM))
    return deltas


def _supersede_older(tenant_id: int, newest: dict[str, tuple[int, UUID, str]], actor: Actor) -> counts.Deltas:
    """`newest`: of each lineage, the attempt that stands, its key and its handoff_id."""
    deltas: counts.Deltas = Counter()
    if not newest:
        return deltas
    # Two conditions over two indexes; each begins with the tenant.
    wanted = Q(handoff_id__in=newest) | Q(lineage__in=newest) & ~Q(lineage="")
    rows = Handoff.objects.filter(wanted, tenant=tenant_id).exclude(state=State.SUPERSEDED)
    for handoff in rows.select_for_update().order_by("id"):
        attempt, pk, name = newest.get(lineage_of(handoff), (0, handoff.pk, ""))
        # Retries that were here before the first one can have its number, and each other's: the later one stands.
        is_earlier = (bool(handoff.lineage), handoff.attempt, handoff.pk) < (True, attempt, pk)
        if name and is_earlier and may_become(handoff.state, State.SUPERSEDED):
            deltas.update(
                transitions.change_state_uncounted(handoff, State.SUPERSEDED, actor, f"{name} took its place")
            )
    return deltas
