"""Counts per hour and per day of receipt, kept with each change of a state, so that pages about rates count nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db import connection, transaction
from django.db.models import Model

from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import (
    WAITING_STATES,
    DailyCount,
    DailyPair,
    Finding,
    Handoff,
    HourlyCount,
    HourlyTotal,
    State,
)

# It has a flag of its own, and without a key nearly every strict handoff has it: a second row for each of their counts.
UNVERIFIED = "semantic.unavailable"
# What settled states came to, in the order of the daily counts' columns. A superseded one counts in reports by the
# attempt that took its place, and still was handed over.
OUTCOMES: Final[Mapping[str, tuple[State, ...]]] = {
    "accepted": (State.ACCEPTED,),
    "decided": (State.APPROVED,),
    "stopped": (State.REJECTED, State.HELD, State.DECLINED),
    "superseded": (State.SUPERSEDED,),
}


class CountKey(NamedTuple):
    """What a handoff is counted under."""

    tenant_id: int
    hour: datetime
    handoff_type: str
    source_agent_id: str
    target_agent_id: str

    @classmethod
    def of(cls, handoff: Handoff) -> "CountKey":
        hour = handoff.received_at.replace(minute=0, second=0, microsecond=0)
        return cls(handoff.tenant_id, hour, handoff.handoff_type, handoff.source_agent_id, handoff.target_agent_id)


Deltas = Counter[tuple[CountKey, str, str]]

_COUNT = db.Columns.of(
    HourlyCount, "tenant", "hour", "handoff_type", "source_agent_id", "target_agent_id", "state", "code", "number"
)
_TOTAL = db.Columns.of(HourlyTotal, "tenant", "hour", "state", "code", "number")
_DAILY = db.Columns.of(DailyCount, "tenant", "code", "day", "source_agent_id", "handoff_type", *OUTCOMES)
_PAIR = db.Columns.of(DailyPair, "tenant", "day", "source_agent_id", "target_agent_id", *OUTCOMES)
_PLACE_OF_STATE: Final = {str(state): at for at, states in enumerate(OUTCOMES.values()) for state in states}


def count_transition(place: CountKey, codes: Iterable[str], before: str, after: str) -> Deltas:
    """A handoff with these codes goes from one state to another. Waiting states are counted live and not here."""
    deltas: Deltas = Counter()
    for code in _codes_counted(codes):
        if before and before not in WAITING_STATES:
            deltas[place, before, code] -= 1
        if after not in WAITING_STATES:
            deltas[place, after, code] += 1
    return deltas


def _codes_counted(codes: Iterable[str]) -> Iterator[str]:
    """Once by itself, and once for each code."""
    yield ""
    yield from (code for code in codes if code != UNVERIFIED)


def apply(deltas: Deltas) -> None:
    """Adds to the counts, always in the same order, so that two workers never wait for each other in a circle."""
    changes = sorted((key, number) for key, number in deltas.items() if number)
    if not changes:
        return
    keys = {(*place, str(state), code): number for (place, state, code), number in changes}
    db.add_to_counts(_COUNT, [[*key, number] for key, number in keys.items()])
    folded = _Folded()
    for key, number in keys.items():
        folded.add(key, number)
    db.add_to_counts(_PAIR, _nonzero(folded.pairs), len(OUTCOMES))
    db.add_to_counts(_DAILY, _nonzero(folded.daily), len(OUTCOMES))
    db.add_to_counts(_TOTAL, [[*key, number] for key, number in sorted(folded.totals.items()) if number])


_Key = tuple[Any, ...]
_Outcomes = dict[_Key, list[int]]


class _Folded:
    """The hourly counts as the other tables have them. Keys are those of the tables, without their numbers."""

    def __init__(self) -> None:
        self.totals: Counter[_Key] = Counter()
        self.daily: _Outcomes = {}
        self.pairs: _Outcomes = {}

    def add(self, key: _Key, number: int) -> None:
        tenant, hour, handoff_type, source, target, state, code = key
        self.totals[tenant, hour, state, code] += number
        day, at = hour.date(), _PLACE_OF_STATE[state]
        self.daily.setdefault((tenant, code, day, source, handoff_type), [0] * len(OUTCOMES))[at] += number
        if not code:
            self.pairs.setdefault((tenant, day, source, target), [0] * len(OUTCOMES))[at] += number


def _nonzero(outcomes: _Outcomes) -> list[list[Any]]:
    return [[*key, *numbers] for key, numbers in sorted(outcomes.items()) if any(numbers)]


@dataclass(frozen=True, slots=True)
class Difference:
    """What a recount found: rows of counts that were there, and how many of them were wrong, missing or too many."""

    rows: int
    wrong: int


def recount(*, repair: bool = True) -> Difference:
    """Counts all handoffs again, compares, and puts right what differs."""
    rows = wrong = 0
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                names = ", ".join(f'"{columns.table}"' for _, columns, _ in _TABLES)
                cursor.execute(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
        true = _count_all()
        for model, columns, numbers in _TABLES:
            found = true[model]
            differing = _compare(_read_stored(model, columns, numbers), found)
            if differing and repair:
                model._default_manager.all().delete()  # noqa: SLF001 -- Django's documented API
                db.insert_rows(columns, [[*key, *found[key]] for key in sorted(found)])
            rows, wrong = rows + len(found), wrong + differing
    return Difference(rows, wrong)


_TABLES: Final[tuple[tuple[type[Model], db.Columns, int], ...]] = (
    (HourlyCount, _COUNT, 1),
    (DailyPair, _PAIR, len(OUTCOMES)),
    (DailyCount, _DAILY, len(OUTCOMES)),
    (HourlyTotal, _TOTAL, 1),
)
_Numbers = dict[_Key, tuple[int, ...]]


def _read_stored(model: type[Model], columns: db.Columns, numbers: int) -> _Numbers:
    rows = model._default_manager.values_list(*columns.names)  # noqa: SLF001 -- Django's documented API
    return {tuple(row[:-numbers]): tuple(row[-numbers:]) for row in rows if any(row[-numbers:])}


def _count_all() -> dict[type[Model], _Numbers]:
    counts: Counter[_Key] = Counter()
    codes: dict[object, set[str]] = {}
    for pk, code in Finding.objects.values_list("handoff_id", "code").iterator(chunk_size=10_000):
        codes.setdefault(pk, set()).add(code)
    settled = Handoff.objects.exclude(state__in=WAITING_STATES).only(
        "id", "tenant_id", "received_at", "handoff_type", "source_agent_id", "target_agent_id", "state"
    )
    for handoff in settled.iterator(chunk_size=10_000):
        place = CountKey.of(handoff)
        for code in _codes_counted(codes.get(handoff.pk, ())):
            counts[*place, handoff.state, code] += 1
    folded = _Folded()
    for key, number in counts.items():
        folded.add(key, number)
    return {
        HourlyCount: {key: (number,) for key, number in counts.items()},
        DailyPair: {key: tuple(numbers) for key, numbers in folded.pairs.items()},
        DailyCount: {key: tuple(numbers) for key, numbers in folded.daily.items()},
        HourlyTotal: {key: (number,) for key, number in folded.totals.items()},
    }


def _compare(kept: _Numbers, true: _Numbers) -> int:
    return sum(1 for key in kept.keys() | true.keys() if kept.get(key) != true.get(key))
