"""Shadow mode: how many handoffs each row of the strictness table blocked or would have blocked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.counts import HOURLY_COUNTS, HOURLY_TOTALS, OUTCOMES
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import WAITING_STATES, Finding, Handoff, State
from handoffaudit.handoffs.periods import HOUR
from handoffaudit.handoffs.rates import OutcomeCounts, Share, sum_outcomes
from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.layers import entry_of
from handoffaudit.validation.times import hour_of

PERIOD = timedelta(days=7)

MOST_COUNTED = 30_000

MOST_READ = 5_000

MOST_EXPLAINED = 500

MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class BlockStats:
    """The outcomes of the final attempts of a row since `since`.

    `would_reject` and `would_hold` count the handoffs that were accepted only in shadow mode. `attempts` includes
    superseded attempts.
    """

    since: datetime
    judged: OutcomeCounts = field(default_factory=OutcomeCounts)
    attempts: int = 0
    would_reject: int = 0
    would_hold: int = 0

    @property
    def total(self) -> int:
        return self.judged.total

    @property
    def stopped(self) -> int:
        return self.judged.stopped

    @property
    def would_stop(self) -> int:
        return self.would_reject + self.would_hold

    @property
    def would_share(self) -> Share:
        return Share(self.would_stop, self.total)


@dataclass(frozen=True, slots=True)
class Reasons:
    """The reasons why handoffs of a row would be blocked, each list with the most frequent entry first.

    `codes` counts the decisive rule codes of the newest `explained` handoffs. `sources` and `types` count all handoffs
    by source agent and by type.
    """

    explained: int = 0
    codes: Sequence[tuple[str, int]] = ()
    sources: Sequence[tuple[str, int]] = ()
    types: Sequence[tuple[str, int]] = ()


@dataclass(slots=True)
class _Sums:
    states: Counter[str] = field(default_factory=Counter)
    would: Counter[str] = field(default_factory=Counter)

    def since(self, since: datetime) -> BlockStats:
        return BlockStats(
            since,
            OutcomeCounts.of_states(self.states),
            self.states.total(),
            self.would[State.REJECTED],
            self.would[State.HELD],
        )


def find_start(tenant: Tenant, now: datetime | None = None) -> datetime:
    """Return the hour from which handoffs are counted: the last week in whole hours, or less for a busy tenant.

    The current hour is included. A busy tenant gets as many hours as the limits of rows to read allow.
    """
    hour = hour_of(now or timezone.now())
    week = hour + HOUR - PERIOD
    return min(hour, max(_limit_counted(tenant, week), _limit_shadowed(tenant, week)))


def _limit_counted(tenant: Tenant, since: datetime) -> datetime:
    # The hourly totals have few rows. A busy tenant has too many counts by type and agent to read.
    hours = HOURLY_TOTALS.read(tenant, since, code="").values_list("hour")
    counted = 0
    for hour, number in hours.annotate(sum=Sum("number")).order_by("-hour"):
        counted += number
        if counted > MOST_COUNTED:
            after: datetime = hour + HOUR
            return after
    return since


def _limit_shadowed(tenant: Tenant, since: datetime) -> datetime:
    newest = _filter_shadowed(tenant, since).order_by("-id").values_list(Coalesce("sent_at", "received_at"), flat=True)
    # The database finds this row with the index of handoffs in shadow mode, without reading the other handoffs.
    edge = next(iter(newest[MOST_READ : MOST_READ + 1]), None)
    return since if edge is None else hour_of(edge) + HOUR


def count_by_row(tenant: Tenant, rows: Sequence[str], since: datetime) -> Mapping[str, BlockStats]:
    """Return the outcomes by row of the table. Types without their own row count for the row "any other type"."""
    sums = {row: _Sums() for row in rows}
    # These numbers are by outcome and not by state. Any state of an outcome can stand for the outcome.
    for (handoff_type,), outcomes in sum_outcomes(tenant, since, timezone.now(), "handoff_type").items():
        row = handoff_type if handoff_type in sums else ANY_OTHER_TYPE
        numbers = zip(OUTCOMES.values(), outcomes, strict=True)
        _add(sums, ((row, states[0], number) for states, number in numbers))
    shadowed = _sum_by_row(_exclude_superseded(_filter_shadowed(tenant, since)).order_by(), rows)
    _add_would(sums, shadowed.values_list("row", "would_decide").annotate(sum=Count("id")))
    return {row: found.since(since) for row, found in sums.items()}


def count_in_shadow(tenant: Tenant, starts: Mapping[str, datetime], rows: Sequence[str]) -> Mapping[str, BlockStats]:
    """Return the outcomes of the rows in shadow mode, each since its start in `starts`.

    In the hour in which shadow mode began, the handoffs are counted one by one. The stored counts of that hour include
    handoffs from before shadow mode.
    """
    if not starts:
        return {}
    begun = {row: hour_of(start) + HOUR for row, start in starts.items()}
    sums = {row: _Sums() for row in starts}
    counted = HOURLY_COUNTS.read(tenant, min(begun.values()), code="").order_by()
    by_hour = _sum_by_row(counted, rows).values_list("row", "hour", "state").annotate(sum=Sum("number"))
    _add(sums, ((row, state, number) for row, hour, state, number in by_hour if row in begun and hour >= begun[row]))
    windows = {row: (first_id_at(start), first_id_at(begun[row])) for row, start in starts.items()}
    _add(sums, _count_within(tenant, windows, rows))
    shadowed = _sum_by_row(
        _exclude_superseded(_filter_shadowed(tenant, min(starts.values()))).order_by(), rows
    ).values_list("row", "would_decide", "id")
    _add_would(sums, ((row, would, 1) for row, would, pk in shadowed if row in windows and windows[row][0] <= pk))
    return {row: sums[row].since(start) for row, start in starts.items()}


def _count_within(
    tenant: Tenant, windows: Mapping[str, tuple[UUID, UUID]], rows: Sequence[str]
) -> Iterator[tuple[str, str, int]]:
    """Count the handoffs of each row between its two IDs, by state.

    The windows overlap, so the query counts disjoint pieces of them.
    """
    pieces = list(pairwise(sorted({edge for window in windows.values() for edge in window})))
    piece = Case(*(When(id__gte=first, id__lt=end, then=number) for number, (first, end) in enumerate(pieces)))
    within = reduce(or_, (Q(id__gte=first, id__lt=end) for first, end in set(windows.values())))
    came = Handoff.objects.filter(within, tenant=tenant).exclude(state__in=WAITING_STATES).order_by()
    by_piece = _sum_by_row(came.annotate(piece=piece), rows).values_list("row", "state", "piece")
    for row, state, at, number in by_piece.annotate(number=Count("id")):
        if row in windows and windows[row][0] <= pieces[at][0] and pieces[at][1] <= windows[row][1]:
            yield row, state, number


def list_reasons(tenant: Tenant, row: str, rows: Sequence[str], since: datetime) -> Reasons:
    """Return why handoffs of the row would be blocked."""
    of_row = list(_list_of_row(tenant, row, rows, since))
    explained = [one[0] for one in of_row[:MOST_EXPLAINED]]
    # The handoffs already belong to the tenant. A tenant filter would make SQLite read all findings of the tenant.
    found = Finding.objects.filter(handoff__in=explained).values_list("handoff_id", "code", "severity")
    deciding = {(pk, code) for pk, code, severity in found if _is_decisive(code, severity)}
    return Reasons(
        explained=len(explained),
        codes=Counter(code for _, code in deciding).most_common(MOST_NAMED),
        sources=Counter(one[2] for one in of_row).most_common(MOST_NAMED),
        types=Counter(one[1] for one in of_row).most_common(MOST_NAMED),
    )


def _is_decisive(code: str, severity: str) -> bool:
    return severity in ("error", "critical") or entry_of(code).holds


def _filter_shadowed(tenant: Tenant, since: datetime) -> "QuerySet[Handoff]":
    return Handoff.objects.filter(tenant=tenant, id__gte=first_id_at(since)).exclude(would_decide="")


def _exclude_superseded(rows: "QuerySet[Handoff]") -> "QuerySet[Handoff]":
    return rows.exclude(state=State.SUPERSEDED)


def _sum_by_row(counted: "QuerySet[Any]", rows: Sequence[str]) -> Any:
    own = [row for row in rows if row != ANY_OTHER_TYPE]
    return counted.annotate(row=Case(When(handoff_type__in=own, then=F("handoff_type")), default=Value(ANY_OTHER_TYPE)))


def _add(sums: Mapping[str, _Sums], counted: Iterable[tuple[str, str, int]]) -> None:
    for row, state, number in counted:
        sums[row].states[state] += number


def _add_would(sums: Mapping[str, _Sums], shadowed: Iterable[tuple[str, str, int]]) -> None:
    for row, would, number in shadowed:
        sums[row].would[would] += number


def _list_of_row(tenant: Tenant, row: str, rows: Sequence[str], since: datetime) -> Iterator[tuple[Any, str, str]]:
    # A type filter in the query would make the database use the index of types and read every handoff of the type.
    newest = (
        _exclude_superseded(_filter_shadowed(tenant, since))
        .order_by("-id")
        .values_list("id", "handoff_type", "source_agent_id")
    )
    own = set(rows) - {ANY_OTHER_TYPE}
    for one in newest[:MOST_READ]:
        if one[1] == row or (row == ANY_OTHER_TYPE and one[1] not in own):
            yield one
