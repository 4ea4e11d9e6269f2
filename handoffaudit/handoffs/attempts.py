"""Attempts at the same handoff, its lineage: a later attempt supersedes the earlier ones."""

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
    """Return the key that all attempts of a lineage share: the `handoff_id` of the first attempt."""
    return handoff.lineage or handoff.handoff_id


def find_lineage(tenant_id: int, handoff_id: str) -> str:
    """Return the lineage of the handoff with this id, or the id itself for a first attempt or an unknown id."""
    rows = Handoff.objects.filter(tenant=tenant_id, handoff_id=handoff_id)
    return rows.values_list("lineage", flat=True).first() or handoff_id


def take_turns(handoffs: list[PreparedHandoff]) -> None:
    """Lock the lineages that these retries continue, so that two retries sent at once get different attempt numbers.

    Call inside the transaction that stores the retries, before `number`.
    """
    named = {handoff.retry_of for handoff in handoffs if handoff.retry_of}
    if named:
        tenant_id = handoffs[0].tenant_id
        rows = Handoff.objects.filter(tenant=tenant_id, handoff_id__in=named).exclude(lineage="")
        _lock(_list_attempts(tenant_id, named.union(rows.values_list("lineage", flat=True))))


def lock(handoffs: Iterable[Handoff]) -> dict[UUID, UUID | None]:
    """Lock these handoffs and every attempt of their lineages that may still change; return the lease token of each.

    One statement locks all rows in a fixed order, so that two workers with attempts of one lineage cannot deadlock.
    """
    rows = list(handoffs)
    wanted = {row.pk for row in rows}
    for tenant_id, lineages in _group_lineages(rows).items():
        wanted |= _list_attempts(tenant_id, lineages)
    return _lock(wanted)


def _list_attempts(tenant_id: int, lineages: set[str]) -> set[UUID]:
    """Return the first attempts of these lineages, and the later attempts that are not superseded."""
    rows = Handoff.objects.filter(tenant=tenant_id)
    first = rows.filter(handoff_id__in=lineages).values_list("pk", flat=True)
    later = rows.filter(lineage__in=lineages).exclude(lineage="").exclude(state=State.SUPERSEDED)
    return {*first, *later.values_list("pk", flat=True)}


def _lock(wanted: Iterable[UUID]) -> dict[UUID, UUID | None]:
    rows = Handoff.objects.filter(pk__in=list(wanted)).select_for_update().order_by("id")
    return dict(rows.values_list("pk", "claim"))


def _group_lineages(handoffs: Iterable[Handoff]) -> dict[int, set[str]]:
    """Return the lineages of these handoffs by tenant."""
    found: dict[int, set[str]] = {}
    for handoff in handoffs:
        found.setdefault(handoff.tenant_id, set()).add(lineage_of(handoff))
    return found


def number(handoffs: list[PreparedHandoff]) -> None:
    """Set the attempt number and the lineage of each new handoff; call inside the transaction that stores them.

    `retry_of` may name any attempt of the lineage.
    """
    retries = [handoff for handoff in handoffs if handoff.retry_of]
    if not retries:
        return
    tenant_id = retries[0].tenant_id
    named = Handoff.objects.filter(tenant=tenant_id, handoff_id__in={handoff.retry_of for handoff in retries})
    first = {name: lineage or name for name, lineage in named.values_list("handoff_id", "lineage")}
    last = _find_last_attempts(tenant_id, set(first.values()))
    for handoff in handoffs:
        if handoff.retry_of:
            handoff.lineage = first.get(handoff.retry_of, handoff.retry_of)
            handoff.attempt = min(last.get(handoff.lineage, 0) + 1, MOST)
        lineage = handoff.lineage or handoff.handoff_id
        first.setdefault(handoff.handoff_id, lineage)
        last[lineage] = max(last.get(lineage, 0), handoff.attempt)


def _find_last_attempts(tenant_id: int, lineages: set[str]) -> dict[str, int]:
    rows = Handoff.objects.filter(tenant=tenant_id)
    first = rows.filter(handoff_id__in=lineages, lineage="").values_list("handoff_id", "attempt")
    later = rows.filter(lineage__in=lineages).exclude(lineage="").values_list("lineage").annotate(Max("attempt"))
    return dict(first) | dict(later.order_by())


def supersede(handoffs: list[PreparedHandoff], sender: Actor) -> counts.Deltas:
    """Supersede the attempts that these retries replace, if their state allows it; return the changes of the counts."""
    retries = [handoff for handoff in handoffs if handoff.retry_of]
    newest = {handoff.lineage: (handoff.attempt, handoff.id, handoff.handoff_id) for handoff in retries}
    return _supersede_older(retries[0].tenant_id, newest, sender) if retries else Counter()


def supersede_overtaken(judged: Iterable[Handoff]) -> counts.Deltas:
    """Supersede the handoffs that a later attempt replaced while they were being judged.

    Call after the verdicts on the handoffs are stored. Return the changes of the counts.
    """
    deltas: counts.Deltas = Counter()
    for tenant_id, lineages in _group_lineages(judged).items():
        # A superseded attempt replaces no other attempt: either its repair failed, or a later attempt replaced it.
        later = Handoff.objects.filter(tenant=tenant_id, lineage__in=lineages).exclude(lineage="")
        later = later.exclude(state=State.SUPERSEDED).order_by("attempt", "id")
        newest = {row[0]: row[1:] for row in later.values_list("lineage", "attempt", "id", "handoff_id")}
        deltas.update(_supersede_older(tenant_id, newest, SYSTEM))
    return deltas


def _supersede_older(tenant_id: int, newest: dict[str, tuple[int, UUID, str]], actor: Actor) -> counts.Deltas:
    """Supersede every attempt that is older than the newest of its lineage; return the changes of the counts.

    `newest` maps each lineage to the attempt number, primary key and `handoff_id` of its newest attempt.
    """
    deltas: counts.Deltas = Counter()
    if not newest:
        return deltas
    # Each of the two conditions uses its own index, and both indexes begin with the tenant.
    wanted = Q(handoff_id__in=newest) | Q(lineage__in=newest) & ~Q(lineage="")
    rows = Handoff.objects.filter(wanted, tenant=tenant_id).exclude(state=State.SUPERSEDED)
    for handoff in rows.select_for_update().order_by("id"):
        attempt, pk, name = newest.get(lineage_of(handoff), (0, handoff.pk, ""))
        # Retries that were stored before the first attempt can share a number with it or with each other. Of attempts
        # with the same number, the attempt that was stored last is the newest.
        is_earlier = (bool(handoff.lineage), handoff.attempt, handoff.pk) < (True, attempt, pk)
        if name and is_earlier and may_become(handoff.state, State.SUPERSEDED):
            deltas.update(
                transitions.change_state_uncounted(handoff, State.SUPERSEDED, actor, f"{name} took its place")
            )
    return deltas
