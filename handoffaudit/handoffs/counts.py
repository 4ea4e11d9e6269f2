"""Counts per hour and per day of receipt, updated with each change of state, so that pages need not count handoffs."""

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

# This code is not counted: it has a flag of its own, and without an LLM key nearly every strict handoff has it, which
# would double the number of count rows.
UNVERIFIED = "semantic.unavailable"
# The outcomes of final states, in the order of the columns of the daily counts. Reports count a superseded handoff by
# the attempt that superseded it, but it was still handed over.
OUTCOMES: Final[Mapping[str, tuple[State, ...]]] = {
    "accepted": (State.ACCEPTED,),
    "decided": (State.APPROVED,),
    "stopped": (State.REJECTED, State.HELD, State.DECLINED),
    "superseded": (State.SUPERSEDED,),
}


class CountKey(NamedTuple):
    """The tenant, hour, type and route that a handoff is counted under."""

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
    """Return the changes of the counts when a handoff with these rule codes changes state.

    Waiting states are counted live and have no rows here.
    """
    deltas: Deltas = Counter()
    for code in _codes_counted(codes):
        if before and before not in WAITING_STATES:
            deltas[place, before, code] -= 1
        if after not in WAITING_STATES:
            deltas[place, after, code] += 1
    return deltas


def _codes_counted(codes: Iterable[str]) -> Iterator[str]:
    """Yield the empty code, which counts the handoff itself, and each of its counted rule codes."""
    yield ""
    yield from (code for code in codes if code != UNVERIFIED)


def apply(deltas: Deltas) -> None:
    """Apply the changes to the stored counts, always in the same order, so that two workers cannot deadlock."""
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
    """The sums of hourly counts for the other tables. Keys are the key columns of each table."""

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
    """The result of a recount: the number of rows there should be, and how many were wrong, missing or superfluous."""

    rows: int
    wrong: int


def recount(*, repair: bool = True) -> Difference:
    """Count all handoffs again, compare the result with the stored counts, and correct them if `repair` is set."""
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
