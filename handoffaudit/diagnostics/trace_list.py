"""The list of traces, ordered by their newest or their first matching handoff."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from django.db.models import Count, F, Max, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import TracedHandoff
from handoffaudit.drawing.lanes import GRAVEST
from handoffaudit.filter_fields import Order
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.filters import NEWEST, OLDEST, ORDERS, Filters, parse_cursor
from handoffaudit.handoffs.models import Finding, Handoff
from handoffaudit.handoffs.queries import filter_matching, of_tenant, sort_by_id

MOST_COUNTED: Final = 200

# A page reads at most this many matching handoffs. If they belong to few traces, the page is short, and the next page
# continues after the last of these handoffs.
MOST_WALKED: Final = 20_000

_AT_ONCE: Final = 500

_MOST_AGENTS: Final = 8

_COLUMNS: Final = (
    "id, tenant_id, trace_id, source_agent_id, target_agent_id, state, sent_at, received_at, token_count, version"
)

# The sum of the versions of a trace's first handoffs. The sum grows if one of them changes or another handoff arrives.
_MARK: Final = f"""(SELECT SUM(version) FROM (
    SELECT version FROM handoffs_handoff AS other
    WHERE other.tenant_id = handoffs_handoff.tenant_id AND other.trace_id = handoffs_handoff.trace_id
    ORDER BY other.id LIMIT {MOST_COUNTED + 1}
) AS first)"""  # noqa: S608 -- it holds only a constant

# The time of a handoff, as `Handoff.at`.
_AT: Final = Coalesce("sent_at", "received_at")


@dataclass(frozen=True, slots=True)
class ListedTrace:
    """A trace with the values that the list shows, computed from its first `MOST_COUNTED` handoffs.

    `is_longer` means that the trace has more handoffs. `newest_at` is the time (`Handoff.at`) of the newest handoff
    that matches the filters. `agents` are the first eight agents, `more_agents` counts the others. `findings` does not
    count missing LLM checks, and neither does the page of the trace. `seconds` is the time from the first handoff to
    the last, and `states` are the states of the handoffs in the order of their times. `first` is the id of the first
    handoff. `mark` differs as soon as one of the first `MOST_COUNTED + 1` handoffs changes or another handoff joins
    them. The attribution of findings does not change `mark`, although it can change `findings`.
    """

    trace_id: str
    first: uuid.UUID
    mark: int
    newest_at: datetime
    started_at: datetime
    handoffs: int
    is_longer: bool
    agents: tuple[str, ...]
    more_agents: int
    worst: str
    findings: int
    seconds: float
    tokens: int
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TracePage:
    """A page of traces and the cursor of the next page, which is None on the last page."""

    items: list[ListedTrace]
    next: str | None


class _Walked(NamedTuple):
    id: uuid.UUID
    trace_id: str
    at: datetime


_Walks = Sequence["QuerySet[Handoff]"]
# The first value has, for each trace of a page, the handoff that decides its place. The second value is the handoff
# after which the next page continues, or None if there is no next page.
_Found = tuple[dict[str, _Walked], _Walked | None]


def list_traces(
    tenant: Tenant,
    filters: Filters,
    *,
    agent: str = "",
    cursor: str = "",
    limit: int = 25,
    by_start: bool = False,
) -> TracePage:
    """Return traces with a handoff that matches the filters; `agent` matches the source or the target.

    The traces are ordered by their newest matching handoff or, with `by_start`, by their first. The filters set the
    direction: `newest` or `oldest` first. A page may have fewer than `limit` traces and still have a next page. Raise
    `FilterError` for an invalid cursor.
    """
    after = parse_cursor(cursor) if cursor else None
    order = ORDERS[OLDEST if filters.sort == OLDEST else NEWEST]
    rows = filter_matching(tenant, filters).exclude(trace_id="")
    walks = [rows.filter(source_agent_id=agent), rows.filter(target_agent_id=agent)] if agent else [rows]
    find = _find_met_last if by_start == order.is_descending else _find_met_first
    found, last = find(walks, order, after, limit)
    newest = _find_newest_times(walks, found) if by_start else {name: row.at for name, row in found.items()}
    return TracePage(list(_list_lines(tenant, newest)), str(last.id) if last else None)


def list_changed_traces(tenant: Tenant, marks: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, ListedTrace]:
    """Return the traces that changed, by the ids of their first handoffs.

    `marks` has the marks that the page shows, by the same ids. `newest_at` of a trace is the time of the newest of all
    its handoffs, whatever the filters of the list.
    """
    versions = RawSQL(_MARK, [])  # noqa: S611 -- it has no parameters
    found = of_tenant(tenant).filter(pk__in=marks).exclude(trace_id="").annotate(mark=versions)
    names = [name for pk, name, mark in found.values_list("pk", "trace_id", "mark") if marks[pk] != mark]
    newest = _find_newest_times([of_tenant(tenant)], names) if names else {}
    return {row.first: row for row in _list_lines(tenant, newest)}


def _find_met_first(walks: _Walks, order: Order, after: uuid.UUID | None, limit: int) -> _Found:
    """Place each trace by its handoff that the walk meets first."""
    placed: dict[str, _Walked] = {}
    walked, last = 0, None
    for row in islice(_walk(walks, order, after), MOST_WALKED):
        if row.trace_id not in placed and len(placed) == limit:
            break
        walked, last = walked + 1, row
        placed.setdefault(row.trace_id, row)
    else:
        last = last if walked == MOST_WALKED else None
    if after:
        # An earlier page has listed these traces.
        for shown in _with_more(walks, placed, **{f"id__{'gte' if order.is_descending else 'lte'}": after}):
            del placed[shown]
    return placed, last


def _find_met_last(walks: _Walks, order: Order, after: uuid.UUID | None, limit: int) -> _Found:
    """Place each trace by its handoff that the walk meets last."""
    placed: dict[str, _Walked] = {}
    walked, last, rows = 0, None, _walk(walks, order, after)
    while some := list(islice(rows, min(_AT_ONCE, MOST_WALKED - walked))):
        met = {row.trace_id: row for row in some}
        for name in _with_more(walks, met, **{f"id__{'lt' if order.is_descending else 'gt'}": some[-1].id}):
            del met[name]
        for row in sorted(met.values(), reverse=order.is_descending):
            if len(placed) == limit:
                return placed, last
            placed[row.trace_id] = last = row
        walked, last = walked + len(some), some[-1]
    return placed, last if walked == MOST_WALKED else None


def _find_newest_times(walks: _Walks, names: Iterable[str]) -> dict[str, datetime]:
    """Return the time of the newest matching handoff of each trace, in the order of the names."""
    found: dict[str, datetime] = {}
    for rows in walks:
        times = rows.filter(trace_id__in=list(names)).order_by().values_list("trace_id").annotate(newest_at=Max(_AT))
        found |= {name: max(at, found.get(name, at)) for name, at in times}
    return {name: found[name] for name in names if name in found}


def _walk(walks: _Walks, order: Order, after: uuid.UUID | None) -> Iterator[_Walked]:
    """Yield the rows of all queries after an id, in an order by time. Each query is read in batches."""
    return merge(*(_step_rows(rows, order, after) for rows in walks), key=attrgetter("id"), reverse=order.is_descending)


def _step_rows(rows: "QuerySet[Handoff]", order: Order, after: uuid.UUID | None) -> Iterator[_Walked]:
    while True:
        found = list(sort_by_id(rows, order, after).values_list("id", "trace_id", _AT)[:_AT_ONCE])
        yield from (_Walked(*row) for row in found)
        if len(found) < _AT_ONCE:
            return
        after = found[-1][0]


def _with_more(walks: _Walks, names: Iterable[str], **bound: uuid.UUID) -> set[str]:
    """Return those of the traces that have a matching handoff within the bound, such as `id__gt`."""
    more = (rows.filter(trace_id__in=list(names), **bound).order_by() for rows in walks)
    return {trace_id for rows in more for trace_id in rows.values_list("trace_id", flat=True).distinct()}


def _list_lines(tenant: Tenant, newest: dict[str, datetime]) -> Iterator[ListedTrace]:
    if not newest:
        return
    rows = _first_rows(tenant, list(newest))
    found = _count_findings([row.pk for some in rows.values() for row in some[:MOST_COUNTED]])
    for trace_id, some in rows.items():
        shown = some[:MOST_COUNTED]
        agents = tuple(
            dict.fromkeys(name for row in shown for name in (row.source_agent_id, row.target_agent_id) if name)
        )
        states = {row.state for row in shown}
        times = [row.at for row in shown]
        yield ListedTrace(
            trace_id=trace_id,
            first=some[0].pk,
            mark=sum(row.version for row in some),
            newest_at=newest[trace_id],
            started_at=times[0],
            handoffs=len(shown),
            is_longer=len(some) > MOST_COUNTED,
            agents=agents[:_MOST_AGENTS],
            more_agents=max(len(agents) - _MOST_AGENTS, 0),
            worst=next(state for state in GRAVEST if state in states),
            findings=sum(found[row.pk] for row in shown),
            seconds=(max(times) - min(times)).total_seconds(),
            tokens=sum(row.token_count or 0 for row in shown),
            states=tuple(row.state for row in shown),
        )


def _first_rows(tenant: Tenant, traces: Sequence[str]) -> dict[str, list[Handoff]]:
    """Return the first handoffs of each trace, with one statement that reads each trace through an index."""
    rows = f"SELECT {_COLUMNS} FROM handoffs_handoff WHERE tenant_id = %s AND trace_id = %s ORDER BY id"  # noqa: S608
    each = [f"SELECT * FROM ({rows} LIMIT {MOST_COUNTED + 1}) AS first"] * len(traces)  # noqa: S608
    found: dict[str, list[Handoff]] = {trace_id: [] for trace_id in traces}
    params = [value for trace_id in traces for value in (tenant.pk, trace_id)]
    for row in sorted(Handoff.objects.raw(" UNION ALL ".join(each), params), key=attrgetter("pk")):
        found[row.trace_id].append(row)
    # Retention may have removed a trace since its newest handoff was found.
    return {trace_id: some for trace_id, some in found.items() if some}


def _count_findings(handoffs: list[uuid.UUID]) -> Counter[uuid.UUID]:
    """Count the findings of handoffs as the page of a trace does: a finding counts once for each of its values."""
    # The handoffs already belong to the tenant. A tenant filter would make SQLite read all findings of the tenant.
    traced = TracedHandoff.objects.filter(handoff__in=handoffs).values_list("handoff", F("caused") + F("passed_on"))
    found = Counter(dict(traced))
    # The findings of the newest handoffs may not be attributed yet.
    others = [pk for pk in handoffs if pk not in found]
    rows = Finding.objects.filter(handoff__in=others).exclude(code=UNVERIFIED).values_list("handoff")
    return found + Counter(dict(rows.annotate(Count("id"))))
