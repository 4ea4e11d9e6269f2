"""The traces of a tenant, the one with the newest handoff first, found by walking handoffs and not by reading all."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from django.db.models import Count, QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.filters import Filters, parse_cursor
from handoffaudit.handoffs.models import Finding, Handoff, State
from handoffaudit.handoffs.queries import matching, of_tenant

MOST_COUNTED: Final = 200
# Handoffs that one page walks: with rare filters the next page goes on from there.
MOST_WALKED: Final = 20_000
_AT_ONCE: Final = 500
_MOST_AGENTS: Final = 8
GRAVEST: Final = (
    State.REJECTED,
    State.DECLINED,
    State.HELD,
    State.RECEIVED,
    State.VALIDATING,
    State.APPROVED,
    State.ACCEPTED,
    # Another attempt took its place, and says how the trace stands.
    State.SUPERSEDED,
)


@dataclass(frozen=True, slots=True)
class ListedTrace:
    """A trace as the list shows it, by its first 200 handoffs: `is_longer` says that it has more. `newest_at` is when
    its newest handoff came that fits the filters. `agents` are the first eight, `more_agents` how many there are
    beside them. `findings` counts as the trace's own page does: what the model could not check is none."""

    trace_id: str
    newest_at: datetime
    started_at: datetime
    handoffs: int
    is_longer: bool
    agents: tuple[str, ...]
    more_agents: int
    worst: str
    findings: int


@dataclass(frozen=True, slots=True)
class TracePage:
    """Some traces, and the cursor that the next ones begin at (None: these were the last)."""

    items: list[ListedTrace]
    next: str | None


class _Walked(NamedTuple):
    id: uuid.UUID
    trace_id: str
    received_at: datetime


def list_traces(tenant: Tenant, filters: Filters, *, agent: str = "", cursor: str = "", limit: int = 25) -> TracePage:
    """Those with a handoff that fits the filters; `agent` is its source or its target. A page may hold fewer than
    `limit` and still have a next one. Raises `BadFilter` for a cursor that is none."""
    before = parse_cursor(cursor) if cursor else None
    rows = matching(tenant, filters).exclude(trace_id="")
    walks = [rows.filter(source_agent_id=agent), rows.filter(target_agent_id=agent)] if agent else [rows]
    newest: dict[str, _Walked] = {}
    walked, last = 0, None
    for row in islice(_walk(walks, before), MOST_WALKED):
        if row.trace_id not in newest and len(newest) == limit:
            break
        walked, last = walked + 1, row
        newest.setdefault(row.trace_id, row)
    else:
        last = last if walked == MOST_WALKED else None
    if before:
        for shown in _shown_before(walks, newest, before):
            del newest[shown]
    return TracePage(list(_lines(tenant, newest)), str(last.id) if last else None)


def _walk(walks: Iterable["QuerySet[Handoff]"], before: uuid.UUID | None) -> Iterator[_Walked]:
    """Newest first, one row at a time, read some hundred at once."""
    return merge(*(_steps(rows, before) for rows in walks), key=attrgetter("id"), reverse=True)


def _steps(rows: "QuerySet[Handoff]", before: uuid.UUID | None) -> Iterator[_Walked]:
    while True:
        older = rows.filter(id__lt=before) if before else rows
        found = list(older.order_by("-id").values_list("id", "trace_id", "received_at")[:_AT_ONCE])
        yield from (_Walked(*row) for row in found)
        if len(found) < _AT_ONCE:
            return
        before = found[-1][0]


def _shown_before(walks: Iterable["QuerySet[Handoff]"], newest: Iterable[str], before: uuid.UUID) -> frozenset[str]:
    """Those of the traces that an earlier page has shown, since they have a newer handoff."""
    names = list(newest)
    return frozenset(
        trace_id
        for rows in walks
        for trace_id in rows.filter(trace_id__in=names, id__gte=before)
        .order_by()
        .values_list("trace_id", flat=True)
        .distinct()
    )


def _lines(tenant: Tenant, newest: dict[str, _Walked]) -> Iterator[ListedTrace]:
    if not newest:
        return
    rows = {trace_id: _first_rows(tenant, trace_id) for trace_id in newest}
    found = _findings([row[0] for some in rows.values() for row in some[:MOST_COUNTED]])
    for trace_id, some in rows.items():
        shown = some[:MOST_COUNTED]
        agents = tuple(dict.fromkeys(name for row in shown for name in (row[1], row[2]) if name))
        states = {row[3] for row in shown}
        yield ListedTrace(
            trace_id=trace_id,
            newest_at=newest[trace_id].received_at,
            started_at=shown[0][4],
            handoffs=len(shown),
            is_longer=len(some) > MOST_COUNTED,
            agents=agents[:_MOST_AGENTS],
            more_agents=max(len(agents) - _MOST_AGENTS, 0),
            worst=next(state.value for state in GRAVEST if state in states),
            findings=sum(found[row[0]] for row in shown),
        )


def _first_rows(tenant: Tenant, trace_id: str) -> list[tuple[uuid.UUID, str, str, str, datetime]]:
    rows = of_tenant(tenant).filter(trace_id=trace_id).order_by("id")
    columns = rows.values_list("id", "source_agent_id", "target_agent_id", "state", "received_at")
    return list(columns[: MOST_COUNTED + 1])


def _findings(handoffs: list[uuid.UUID]) -> Counter[uuid.UUID]:
    # By the handoffs alone, which are the tenant's: with the tenant as well SQLite walks through all its findings.
    rows = Finding.objects.filter(handoff__in=handoffs).exclude(code=UNVERIFIED).values_list("handoff")
    return Counter(dict(rows.annotate(Count("id"))))
