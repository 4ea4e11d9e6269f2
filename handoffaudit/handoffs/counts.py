"""Tables of stored counts (aggregates): counts of handoffs per hour and per day, and totals for the metrics.

The transaction that changes the state of a handoff also changes the counts, so that pages need not count handoffs.

Totals count since the installation, and all processes add to them. A process collects additions in memory and adds
them to the database some seconds later, in a thread of its own. So no request waits for the totals, and no two
transactions wait for each other's totals. A process that is killed loses its last additions, so totals are good enough
only for charts and alerts.
"""

import atexit
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from functools import cache, cached_property
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import structlog
from django.db import DatabaseError, connections, models, transaction
from django.db.models import Model, QuerySet
from django.db.models.functions import Collate
from django.utils import timezone

from handoffaudit import problem_types
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import (
    WAITING_STATES,
    DailyCount,
    DailyPair,
    Handoff,
    HourlyCount,
    HourlySource,
    HourlyTotal,
    MetricTotal,
    State,
)
from handoffaudit.policy.retention import HOURS_KEPT
from handoffaudit.validation.layers import semantic
from handoffaudit.validation.times import hour_of

if TYPE_CHECKING:
    from handoffaudit.handoffs.ingest.prepare import Receipt

# The counts leave this rule code out, because the flag `unverified` shows the same. During an outage of the LLM, nearly
# every strict handoff has the code, and counting the code would double the number of rows.
UNVERIFIED: Final = semantic.UNAVAILABLE.code
# The outcomes of final states, in the order of the columns of the daily counts. Rates count the final attempt in place
# of a superseded handoff, but numbers of handoffs between agents include superseded handoffs.
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
        hour = hour_of(handoff.at)
        return cls(handoff.tenant_id, hour, handoff.handoff_type, handoff.source_agent_id, handoff.target_agent_id)


_DAY: Final = timedelta(days=1)


def midnight_of(moment: datetime) -> datetime:
    """Return the start of the day (UTC)."""
    return datetime.combine(moment.astimezone(UTC).date(), time(), UTC)


def next_midnight(moment: datetime) -> datetime:
    """Return the moment itself if it is a midnight (UTC), or else the next midnight."""
    floor = midnight_of(moment)
    return floor if floor == moment else floor + _DAY


def widen_to_days(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Return the ends of a period. Move an end that is older than `HOURS_KEPT` outward to a midnight (UTC)."""
    edge = timezone.now() - HOURS_KEPT
    since = midnight_of(since) if since is not None and since < edge else since
    return since, next_midnight(until) if until is not None and until < edge else until


Deltas = Counter[tuple[CountKey, str, str]]

Key = tuple[Any, ...]
Numbers = Mapping[Key, Sequence[int]]
_Row = TypeVar("_Row", bound=Model)


@dataclass(frozen=True)
class Aggregate(Generic[_Row]):
    """A table of stored counts, which the transactions that change the counted rows keep up to date.

    `key` names the columns of the table's unique constraint, `numbers` the columns with the counts. With `is_watched`,
    each change also rewrites the row whose rule code (the last column of the key) is empty. This happens even if the
    number in this row stays the same. `ClosedDays` reads only such rows, and must notice a recheck that changes only
    rule codes.
    """

    model: type[_Row]
    key: tuple[str, ...]
    numbers: tuple[str, ...] = ("number",)
    is_watched: bool = False

    def add(self, changes: Numbers) -> None:
        """Add to the numbers of each key; call inside the transaction that changes the counted rows.

        The rows are changed in the order of their keys, so that two workers cannot deadlock.
        """
        found: dict[Key, Sequence[int]] = {(*key[:-1], ""): (0,) for key in changes} if self.is_watched else {}
        found |= {key: numbers for key, numbers in changes.items() if any(numbers)}
        db.upsert_rows(self._columns, [[*key, *found[key]] for key in sorted(found)], len(self.key), adds=True)

    def read(
        self, tenant: Tenant, since: datetime | None = None, until: datetime | None = None, **only: Any
    ) -> "QuerySet[_Row]":
        """Return the rows of a tenant, for whole hours or days from `since` to before `until`.

        Old hourly counts are returned for whole days, because retention may have added up the hours of those days.
        """
        since, until = widen_to_days(since, until) if self._time == "hour" else (since, until)
        bounds = {f"{self._time}__gte": since, f"{self._time}__lt": until}
        only |= {name: bound for name, bound in bounds.items() if bound is not None}
        return self.model._default_manager.filter(tenant=tenant, **only)  # noqa: SLF001 -- Django's documented API

    @property
    def table(self) -> str:
        return self._columns.table

    @cached_property
    def _columns(self) -> db.Columns:
        return db.Columns.of(self.model, *self.key, *self.numbers)

    @cached_property
    def _time(self) -> str:
        return "hour" if "hour" in self.key else "day"


HOURLY_COUNTS: Final = Aggregate(HourlyCount, ("tenant", *CountKey._fields[1:], "state", "code"))
HOURLY_SOURCES: Final = Aggregate(HourlySource, ("tenant", "hour", "source_agent_id"), tuple(OUTCOMES))
HOURLY_TOTALS: Final = Aggregate(HourlyTotal, ("tenant", "hour", "state", "code"), is_watched=True)
DAILY_COUNTS: Final = Aggregate(
    DailyCount, ("tenant", "code", "day", "source_agent_id", "handoff_type"), tuple(OUTCOMES)
)
DAILY_PAIRS: Final = Aggregate(DailyPair, ("tenant", "day", "source_agent_id", "target_agent_id"), tuple(OUTCOMES))
_PLACE_OF_STATE: Final = {str(state): at for at, states in enumerate(OUTCOMES.values()) for state in states}


def _build_fold(aggregate: Aggregate[Any]) -> Callable[[Mapping[Key, int]], Numbers]:
    """Return a function that turns hourly counts by key into the numbers of this aggregate by its own key.

    An aggregate without the column `code` takes only the rows that count handoffs, not the rows that count findings.
    """
    of_hour = (*HOURLY_COUNTS.key, "day")
    pick = itemgetter(*(of_hour.index(name) for name in aggregate.key))
    length, with_codes = len(aggregate.numbers), "code" in aggregate.key
    places = _PLACE_OF_STATE if length > 1 else dict.fromkeys(_PLACE_OF_STATE, 0)

    def fold(counts: Mapping[Key, int]) -> Numbers:
        folded: dict[Key, list[int]] = {}
        for key, number in counts.items():
            if with_codes or not key[-1]:
                place = pick((*key, key[1].date()))
                if place not in folded:
                    folded[place] = [0] * length
                folded[place][places[key[-2]]] += number
        return folded

    return fold


# Every transaction changes the tables in this order, so that two workers cannot deadlock. The reason for several tables
# is in `docs/decisions/0048-four-tables-of-counts.md`.
_TABLES: Final[tuple[Aggregate[Any], ...]] = (HOURLY_COUNTS, DAILY_PAIRS, DAILY_COUNTS, HOURLY_SOURCES, HOURLY_TOTALS)
AGGREGATES: Final = {aggregate: _build_fold(aggregate) for aggregate in _TABLES}


def count_transition(place: CountKey, codes: Iterable[str], before: str, after: str) -> Deltas:
    """Return the changes of the counts when a handoff with these rule codes changes state.

    Handoffs in a waiting state have no stored counts. They are counted when somebody needs their number.
    """
    deltas: Deltas = Counter()
    for code in _list_counted_codes(codes):
        if before and before not in WAITING_STATES:
            deltas[place, before, code] -= 1
        if after not in WAITING_STATES:
            deltas[place, after, code] += 1
    return deltas


def _list_counted_codes(codes: Iterable[str]) -> Iterator[str]:
    """Yield the empty code, which counts the handoff itself, and each of its counted rule codes."""
    yield ""
    yield from (code for code in codes if code != UNVERIFIED)


def apply(deltas: Deltas) -> None:
    """Apply the changes to the stored counts in a fixed order, so that two workers cannot deadlock."""
    changes = sorted((key, number) for key, number in deltas.items() if number)
    if not changes:
        return
    counts = {(*place, str(state), code): number for (place, state, code), number in changes}
    for aggregate, fold in AGGREGATES.items():
        aggregate.add(fold(counts))


ROLLED_UP_AT_ONCE: Final = 20_000


def roll_up(tenant: Tenant, moment: datetime) -> int:
    """Add the hourly counts of a day to its first hour; return the number of deleted rows of `HourlyCount`.

    Call inside a transaction. One call deletes at most `ROLLED_UP_AT_ONCE` rows of each table.
    """
    first, gone = midnight_of(moment), 0
    for aggregate in (HOURLY_COUNTS, HOURLY_SOURCES, HOURLY_TOTALS):
        length = len(aggregate.numbers)
        # Transactions that count handoffs change the rows in the same order, so no deadlock is possible. Those
        # transactions sort the keys in Python, so this query must not sort texts by the collation of the database.
        texts = [Collate(name, "C" if db.is_postgresql() else "BINARY") for name in aggregate.key[2:]]
        of_day = aggregate.read(tenant, first, first + _DAY).select_for_update().order_by("hour", *texts)
        list(of_day.filter(hour=first).values_list("pk"))
        rows = of_day.exclude(hour=first).values_list("pk", *aggregate.key, *aggregate.numbers)
        later = list(rows[:ROLLED_UP_AT_ONCE])
        sums: dict[Key, list[int]] = {}
        for _, of_tenant, _, *rest in later:
            known = sums.setdefault((of_tenant, first, *rest[:-length]), [0] * length)
            known[:] = map(add, known, rest[-length:])
        aggregate.model._default_manager.filter(pk__in=[row[0] for row in later]).delete()  # noqa: SLF001 -- Django's documented API
        aggregate.add(sums)
        gone += len(later) if aggregate is HOURLY_COUNTS else 0
    return gone


log = structlog.get_logger(__name__)

FLUSH_SECONDS: Final = 5.0
# The upper bounds of the buckets of the histogram, in seconds.
TIME_BOUNDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
OVER_BOUNDS: Final = "+Inf"
# Labels come from fixed lists of the product. This limit bounds the memory if such a list is wrong.
MOST_LABELS: Final = 500


class Total(StrEnum):
    """The names of the totals. The comment beside a name says what its label is."""

    SUBMISSIONS = "submissions"  # (result)
    REFUSALS = "refusals"  # (reason)
    VERDICTS = "verdicts"  # (outcome)
    VERDICT_TIMES = "verdict_times"  # (upper bound of the bucket)
    VERDICT_MILLISECONDS = "verdict_ms"
    LLM_CALLS = "llm_calls"  # (outcome)
    LLM_MICRODOLLARS = "llm_microdollars"
    DELIVERIES = "deliveries"  # (outcome)


_AGGREGATE: Final[Aggregate[models.Model]] = Aggregate(MetricTotal, ("name", "label"))

_totals_lock = threading.Lock()
_pending_totals: Counter[tuple[str, str]] = Counter()
_is_scheduled = False


def add_total(total: Total, label: str = "", number: int = 1) -> None:
    """Add to a total. The database has the addition after `FLUSH_SECONDS`."""
    if number:
        _add_totals({(total.value, label): number})


_SUBMITTED: Final = Total.SUBMISSIONS.value
# The results of stored submissions by the status of the receipt.
_STORED: Final = {202: "new", 200: "known", 422: "unreadable"}


def add_receipt_totals(receipts: "Iterable[Receipt]", *, with_refusals: bool = False) -> None:
    """Count submissions by their receipts, also refused submissions if `with_refusals` is set.

    The API itself counts the refusal of a single submission.
    """
    found: Counter[tuple[str, str]] = Counter()
    for receipt in receipts:
        if receipt.id and receipt.status in _STORED:
            found[_SUBMITTED, _STORED[receipt.status]] += 1
        elif with_refusals:
            found[Total.REFUSALS.value, problem_types.name_of(receipt.title, receipt.status)] += 1
    _add_totals(found)


def add_verdict_totals(verdicts: Iterable[tuple[str, timedelta]]) -> None:
    """Count verdicts, each with its outcome and the time from receipt to verdict."""
    found: Counter[tuple[str, str]] = Counter()
    for outcome, taken in verdicts:
        # The clock of the worker may be behind the clock of the web process.
        seconds = max(0.0, taken.total_seconds())
        at = bisect_left(TIME_BOUNDS, seconds)
        found[Total.VERDICTS.value, outcome] += 1
        found[Total.VERDICT_TIMES.value, str(TIME_BOUNDS[at]) if at < len(TIME_BOUNDS) else OVER_BOUNDS] += 1
        found[Total.VERDICT_MILLISECONDS.value, ""] += round(1000 * seconds)
    _add_totals(found)


def _add_totals(numbers: dict[tuple[str, str], int]) -> None:
    if not numbers:
        return
    with _totals_lock:
        for key, number in numbers.items():
            if key in _pending_totals or len(_pending_totals) < MOST_LABELS:
                _pending_totals[key] += number
        _schedule()


def _schedule() -> None:
    """Start the flush thread unless one is started already. Call with the lock held."""
    global _is_scheduled  # noqa: PLW0603 -- one for the process
    if not _is_scheduled:
        _is_scheduled = True
        _flush_at_exit()
        timer = threading.Timer(FLUSH_SECONDS, _flush_in_thread)
        timer.daemon = True
        timer.start()


def _flush_in_thread() -> None:
    global _is_scheduled  # noqa: PLW0603 -- one for the process
    with _totals_lock:
        _is_scheduled = False
    try:
        flush_totals()
    except DatabaseError as error:
        log.warning("totals for the metrics wait: the database can't be reached", error=str(error))
        with _totals_lock:
            _schedule()
    finally:
        connections.close_all()


@cache
def _flush_at_exit() -> None:
    """Flush when this process ends, because a command can end before its first flush."""
    atexit.register(_flush_quietly)


def _flush_quietly() -> None:
    with suppress(DatabaseError):
        flush_totals()


def flush_totals() -> None:
    """Add the additions of this process to the database. If this fails, keep them in memory and raise the error."""
    with _totals_lock:
        numbers = dict(_pending_totals)
        _pending_totals.clear()
    if not numbers:
        return
    try:
        with transaction.atomic():
            if db.is_postgresql():
                # If a commit waited for a standby in vain, the commit would raise an error, although the additions are
                # stored. The next flush would then add them a second time.
                db.fetch_rows("SELECT set_config('synchronous_commit', 'off', TRUE)", [])
            _AGGREGATE.add({key: [number] for key, number in numbers.items()})
    except BaseException:
        with _totals_lock:
            _pending_totals.update(numbers)
        raise


def read_totals() -> dict[Total, dict[str, int]]:
    """Return all totals by label, for all processes."""
    found: dict[Total, dict[str, int]] = {total: {} for total in Total}
    known = {total.value: total for total in Total}
    for name, label, number in MetricTotal.objects.values_list("name", "label", "number")[: MOST_LABELS * len(Total)]:
        if name in known:
            found[known[name]][label] = number
    return found
