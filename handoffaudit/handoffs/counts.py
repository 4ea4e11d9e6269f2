"""Counts per hour of receipt, kept in the transaction that changes a state, so that pages about rates count nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connection, transaction

from handoffaudit.handoffs import bulk
from handoffaudit.handoffs.models import WAITING_STATES, Finding, Handoff, HourlyCount, HourlyTotal

# It has a flag of its own, and without a key nearly every strict handoff has it: a second row for each of their counts.
UNVERIFIED = "semantic.unavailable"


class Place(NamedTuple):
    """What a handoff is counted under."""

    tenant_id: int
    hour: datetime
    handoff_type: str
    source_agent_id: str
    target_agent_id: str

    @classmethod
    def of(cls, handoff: Handoff) -> "Place":
        hour = handoff.received_at.replace(minute=0, second=0, microsecond=0)
        return cls(handoff.tenant_id, hour, handoff.handoff_type, handoff.source_agent_id, handoff.target_agent_id)


Deltas = Counter[tuple[Place, str, str]]

_COUNT = bulk.Columns.of(
    HourlyCount, "tenant", "hour", "handoff_type", "source_agent_id", "target_agent_id", "state", "code", "number"
)
_TOTAL = bulk.Columns.of(HourlyTotal, "tenant", "hour", "state", "code", "number")


def moved(place: Place, codes: Iterable[str], before: str, after: str) -> Deltas:
    """A handoff with these codes goes from one state to another. Waiting states are counted live and not here."""
    deltas: Deltas = Counter()
    for code in _counted_under(codes):
        if before and before not in WAITING_STATES:
            deltas[place, before, code] -= 1
        if after not in WAITING_STATES:
            deltas[place, after, code] += 1
    return deltas


def _counted_under(codes: Iterable[str]) -> Iterator[str]:
    """Once by itself, and once for each code."""
    yield ""
    yield from (code for code in codes if code != UNVERIFIED)


def apply(deltas: Deltas) -> None:
    """Adds to the counts, always in the same order, so that two workers never wait for each other in a circle."""
    changes = sorted((key, number) for key, number in deltas.items() if number)
    if not changes:
        return
    totals: Counter[tuple[int, datetime, str, str]] = Counter()
    for (place, state, code), number in changes:
        totals[place.tenant_id, place.hour, str(state), code] += number
    bulk.add(_COUNT, [[*place, str(state), code, number] for (place, state, code), number in changes])
    bulk.add(_TOTAL, [[*key, number] for key, number in sorted(totals.items()) if number])


@dataclass(frozen=True, slots=True)
class Difference:
    """What a recount found: rows of counts that were there, and how many of them were wrong, missing or too many."""

    rows: int
    wrong: int


def recount(*, repair: bool = True) -> Difference:
    """Counts all handoffs again, compares, and puts right what differs."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f'LOCK TABLE "{_COUNT.table}", "{_TOTAL.table}" IN EXCLUSIVE MODE')
        kept = {tuple(row[:-1]): row[-1] for row in HourlyCount.objects.values_list(*_COUNT_FIELDS) if row[-1]}
        kept_totals = {tuple(row[:-1]): row[-1] for row in HourlyTotal.objects.values_list(*_TOTAL_FIELDS) if row[-1]}
        true, true_totals = _counted()
        wrong = _differing(kept, true) + _differing(kept_totals, true_totals)
        if wrong and repair:
            HourlyCount.objects.all().delete()
            HourlyTotal.objects.all().delete()
            bulk.insert(_COUNT, [[*key, number] for key, number in sorted(true.items())])
            bulk.insert(_TOTAL, [[*key, number] for key, number in sorted(true_totals.items())])
    return Difference(rows=len(true) + len(true_totals), wrong=wrong)


_COUNT_FIELDS = ("tenant", "hour", "handoff_type", "source_agent_id", "target_agent_id", "state", "code", "number")
_TOTAL_FIELDS = ("tenant", "hour", "state", "code", "number")


def _counted() -> tuple[Counter[tuple[object, ...]], Counter[tuple[object, ...]]]:
    counts: Counter[tuple[object, ...]] = Counter()
    totals: Counter[tuple[object, ...]] = Counter()
    codes: dict[object, set[str]] = {}
    for pk, code in Finding.objects.values_list("handoff_id", "code").iterator(chunk_size=10_000):
        codes.setdefault(pk, set()).add(code)
    settled = Handoff.objects.exclude(state__in=WAITING_STATES).only(
        "id", "tenant_id", "received_at", "handoff_type", "source_agent_id", "target_agent_id", "state"
    )
    for handoff in settled.iterator(chunk_size=10_000):
        place = Place.of(handoff)
        for code in _counted_under(codes.get(handoff.pk, ())):
            counts[*place, handoff.state, code] += 1
            totals[place.tenant_id, place.hour, handoff.state, code] += 1
    return counts, totals


def _differing(kept: dict[tuple[object, ...], int], true: Counter[tuple[object, ...]]) -> int:
    return sum(1 for key in kept.keys() | true.keys() if kept.get(key, 0) != true.get(key, 0))
