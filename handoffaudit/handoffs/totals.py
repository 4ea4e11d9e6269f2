"""Totals since the installation for the metrics of the product, which all its processes add to.

A process collects additions in memory and adds them to the database some seconds later, in a thread of its own. So no
request waits for the totals, and no two transactions wait for each other's totals. A process that is killed loses its
last additions, so totals are for charts and alerts, and the counts of pages come from `counts.py`.
"""

import atexit
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import structlog
from django.db import DatabaseError, connections, models, transaction

from handoffaudit import problem_types
from handoffaudit.handoffs.counts import Aggregate
from handoffaudit.handoffs.models import MetricTotal

if TYPE_CHECKING:
    from handoffaudit.handoffs.ingest.prepare import Receipt

log = structlog.get_logger(__name__)

FLUSH_SECONDS: Final = 5.0
# The upper bounds of the buckets of the histogram, in seconds.
BOUNDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
OVER: Final = "+Inf"
# Labels come from fixed lists of the product. This limit keeps the table small if such a list is wrong.
MOST_LABELS: Final = 500


class Total(StrEnum):
    """The totals. The label is in brackets."""

    SUBMISSIONS = "submissions"  # (result)
    REFUSALS = "refusals"  # (reason)
    VERDICTS = "verdicts"  # (outcome)
    VERDICT_TIMES = "verdict_times"  # (upper bound of the bucket)
    VERDICT_MILLISECONDS = "verdict_ms"
    LLM_CALLS = "llm_calls"  # (outcome)
    LLM_MICRODOLLARS = "llm_microdollars"
    DELIVERIES = "deliveries"  # (outcome)


_AGGREGATE: Final[Aggregate[models.Model]] = Aggregate(MetricTotal, ("name", "label"))

_lock = threading.Lock()
_pending: Counter[tuple[str, str]] = Counter()
_is_scheduled = False


def add(total: Total, label: str = "", number: int = 1) -> None:
    """Add to a total. The database has the addition after `FLUSH_SECONDS`."""
    if number:
        _add({(total.value, label): number})


# The results of stored submissions by the status of the receipt.
_STORED: Final = {202: "new", 200: "known", 422: "unreadable"}


def add_receipts(receipts: "Iterable[Receipt]", *, with_refusals: bool = False) -> None:
    """Count submissions. The API counts the refusal of a single submission with its answer, others `with_refusals`."""
    found: Counter[tuple[str, str]] = Counter()
    for receipt in receipts:
        if receipt.status in _STORED:
            found[Total.SUBMISSIONS.value, _STORED[receipt.status]] += 1
        elif with_refusals:
            found[Total.REFUSALS.value, problem_types.name_of(receipt.title, receipt.status)] += 1
    _add(found)


def add_verdicts(verdicts: Iterable[tuple[str, timedelta]]) -> None:
    """Count verdicts, each with its outcome and the time from receipt to verdict."""
    found: Counter[tuple[str, str]] = Counter()
    for outcome, taken in verdicts:
        # The clock of the worker may be behind the clock of the web process.
        seconds = max(0.0, taken.total_seconds())
        at = bisect_left(BOUNDS, seconds)
        found[Total.VERDICTS.value, outcome] += 1
        found[Total.VERDICT_TIMES.value, str(BOUNDS[at]) if at < len(BOUNDS) else OVER] += 1
        found[Total.VERDICT_MILLISECONDS.value, ""] += round(1000 * seconds)
    _add(found)


def _add(numbers: dict[tuple[str, str], int]) -> None:
    if not numbers:
        return
    with _lock:
        for key, number in numbers.items():
            if key in _pending or len(_pending) < MOST_LABELS:
                _pending[key] += number
        schedule()


def schedule() -> None:
    """Start the thread that flushes, if none waits. Call with the lock held."""
    global _is_scheduled  # noqa: PLW0603 -- one for the process
    if not _is_scheduled:
        _is_scheduled = True
        _flush_at_exit()
        timer = threading.Timer(FLUSH_SECONDS, _flush_in_thread)
        timer.daemon = True
        timer.start()


def _flush_in_thread() -> None:
    global _is_scheduled  # noqa: PLW0603 -- one for the process
    with _lock:
        _is_scheduled = False
    try:
        flush()
    except DatabaseError as error:
        log.warning("totals for the metrics wait: the database can't be reached", error=str(error))
        with _lock:
            schedule()
    finally:
        connections.close_all()


@cache
def _flush_at_exit() -> None:
    """Flush when this process ends, because a command can end before its first flush."""
    atexit.register(_flush_quietly)


def _flush_quietly() -> None:
    with suppress(DatabaseError):
        flush()


def flush() -> None:
    """Add what this process has collected to the database. If the database fails, the additions stay collected."""
    with _lock:
        numbers = dict(_pending)
        _pending.clear()
    if not numbers:
        return
    try:
        with transaction.atomic():
            _AGGREGATE.add({key: [number] for key, number in numbers.items()})
    except BaseException:
        with _lock:
            _pending.update(numbers)
        raise


def read() -> dict[Total, dict[str, int]]:
    """Return all totals by label, for all processes."""
    found: dict[Total, dict[str, int]] = {total: {} for total in Total}
    known = {total.value: total for total in Total}
    for name, label, number in MetricTotal.objects.values_list("name", "label", "number")[: MOST_LABELS * len(Total)]:
        if name in known:
            found[known[name]][label] = number
    return found
