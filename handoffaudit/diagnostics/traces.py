"""Traces: the list of traces, one trace with its handoffs and findings in order, and its drawing."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import accumulate, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

import orjson
from django.db.models import Count, QuerySet
from django.db.models.functions import Coalesce

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.agents import declared_roles
from handoffaudit.drawing.lanes import Arrow, draw_lanes
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs.counts import UNVERIFIED
from handoffaudit.handoffs.filters import Filters, is_of_trace, parse_cursor
from handoffaudit.handoffs.models import Finding, Handoff, HandoffBody, State, Verdict
from handoffaudit.handoffs.queries import matching, of_tenant
from handoffaudit.handoffs.verdicts import record_of
from handoffaudit.validation.agents import SourceRole
from handoffaudit.validation.layers import chain
from handoffaudit.validation.origins import Origin, Share, Suspect, first_wrong, notes_values, origins, shares, suspects
from handoffaudit.validation.provenance import Attributed, Step, attribute, flaws_of, step_of, tainted
from handoffaudit.validation.text import pluralize

MOST_HANDOFFS: Final = 200

# A page reads more handoffs as long as all of them together are no larger.
MOST_ON_A_PAGE: Final = 1_000

MOST_BYTES: Final = 16 * 2**20

_BODIES_AT_ONCE: Final = 25

_LOOPS: Final = frozenset(
    one.code for one in (chain.CIRCULAR, chain.CIRCULAR_WITH_REASON, chain.SELF_HANDOFF, chain.REPEATS_WITHOUT_PROGRESS)
)


@dataclass(frozen=True, slots=True)
class Traced:
    """One handoff of a trace.

    `number` counts from 1. `seconds` is the time since the arrival of the previous handoff of the trace, None for the
    first. `loops` says that the chain returns to an earlier agent without progress. `long` says that the chain is
    longer than recommended, `over` that it is longer than allowed without approval. `calls` counts the tool results
    since the handoff before, where they were read.
    """

    number: int
    handoff: Handoff
    issues: tuple[dict[str, Any], ...]
    seconds: float | None
    loops: bool
    long: bool
    over: bool
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """The first handoffs of a trace; `has_more` means that the trace has more handoffs."""

    trace_id: str
    handoffs: tuple[Traced, ...]
    has_more: bool
    steps: tuple[Step, ...]
    attributed: tuple[Attributed, ...]
    origins: tuple[Origin, ...]
    shares: tuple[Share, ...]
    tainted: dict[int, tuple[str, ...]]
    first: Attributed | None
    suspects: tuple[Suspect, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the agents in the order of their first appearance."""
        named = (name for one in self.handoffs for name in (one.handoff.source_agent_id, one.handoff.target_agent_id))
        return tuple(dict.fromkeys(named))

    @property
    def origin_steps(self) -> frozenset[int]:
        """Return the steps in which wrong values appeared first, except values that came from outside the trace."""
        return frozenset(one.step for one in self.origins if not one.from_outside)


def load_trace(tenant: Tenant, trace_id: str, most: int = MOST_HANDOFFS) -> Trace | None:
    """Return the first handoffs of a trace, or None if no handoff of the tenant has this trace id.

    More than `MOST_HANDOFFS` handoffs are read only while their documents together have at most `MOST_BYTES`.
    """
    found = trace_rows(tenant, trace_id, most + 1)
    if not found:
        return None
    sizes = accumulate(row.size_bytes for row in found)
    fitting = sum(size <= MOST_BYTES for size in sizes)
    rows = found[: min(most, max(fitting, MOST_HANDOFFS))]
    has_more = len(found) > len(rows)
    verdicts = _load_verdicts(tenant, rows)
    handoffs = tuple(_make_traced(sort_by_step(rows), verdicts))
    steps = _make_steps(handoffs)
    attributed = attribute(steps)
    return Trace(
        trace_id=trace_id,
        handoffs=handoffs,
        has_more=has_more,
        steps=tuple(steps),
        attributed=tuple(attributed),
        origins=tuple(origins(attributed)),
        shares=tuple(shares(steps, attributed)),
        tainted=tainted(steps, attributed),
        first=first_wrong(attributed),
        suspects=tuple(suspects(steps, attributed)),
    )


def trace_rows(tenant: Tenant, trace_id: str, most: int) -> list[Handoff]:
    """Return the first handoffs of a trace in the order of their times."""
    if not trace_id or "\x00" in trace_id:
        return []
    return list(of_tenant(tenant).filter(is_of_trace(trace_id)).order_by("id")[:most])


def sort_by_step(rows: Iterable[Handoff]) -> list[Handoff]:
    """Return the handoffs ordered by step. A handoff without a step follows the handoff that arrived before it."""
    step, placed = 0, []
    for row in sorted(rows, key=lambda row: row.pk):
        step = row.step if row.step is not None else step
        placed.append((step, row.pk, row))
    return [row for _, _, row in sorted(placed, key=lambda one: one[:2])]


def _load_verdicts(tenant: Tenant, rows: Iterable[Handoff]) -> dict[object, dict[str, Any]]:
    wanted = [row.verdict for row in rows if row.verdict]
    found = Verdict.objects.filter(tenant=tenant, pk__in=wanted).values_list("handoff_id", "content")
    return {handoff: orjson.loads(content) for handoff, content in found}


def _make_traced(rows: Sequence[Handoff], verdicts: dict[object, dict[str, Any]]) -> Iterable[Traced]:
    before = None
    for number, row in enumerate(rows, 1):
        verdict = verdicts.get(row.pk) or {}
        issues = tuple(verdict.get("issues") or ())
        codes = {issue.get("code") for issue in issues}
        yield Traced(
            number=number,
            handoff=row,
            issues=issues,
            seconds=None if before is None else (row.at - before.at).total_seconds(),
            loops=not codes.isdisjoint(_LOOPS),
            long=chain.OVER_RECOMMENDED.code in codes,
            over=chain.NEEDS_APPROVAL.code in codes,
        )
        before = row


def _make_steps(handoffs: Sequence[Traced]) -> list[Step]:
    """Return the steps of a trace. A few bodies are read at a time, because all bodies of a trace may be large."""
    steps: list[Step] = []
    roles = declared_roles(handoffs[0].handoff.tenant_id) if handoffs else {}
    for start in range(0, len(handoffs), _BODIES_AT_ONCE):
        some = handoffs[start : start + _BODIES_AT_ONCE]
        bodies = HandoffBody.objects.in_bulk([one.handoff.pk for one in some])
        steps += [_make_step(one, bodies.get(one.handoff.pk), roles) for one in some]
    return steps


def _make_step(one: Traced, body: HandoffBody | None, roles: Mapping[str, SourceRole]) -> Step:
    row = one.handoff
    flaws = flaws_of(one.issues)
    record = record_of(row, body) if body else None
    if record is None:
        return Step(str(row.pk), row.source_agent_id, row.target_agent_id, "", "", flaws)
    role = roles.get(row.source_agent_id)
    return step_of(str(row.pk), record, flaws, role, is_noted=notes_values(one.issues))


MOST_COUNTED: Final = 200

# A page reads at most this many handoffs. If few of them match, the next page continues from there.
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
    # A superseded handoff comes last, because the attempt that replaced it decides the state of the trace.
    State.SUPERSEDED,
)


@dataclass(frozen=True, slots=True)
class ListedTrace:
    """A trace with the values that the list shows, computed from its first `MOST_COUNTED` handoffs.

    `is_longer` means that the trace has more handoffs. `newest_at` is the time of receipt of the newest handoff that
    matches the filters. `agents` are the first eight agents, `more_agents` counts the others. `findings` does not count
    missing LLM checks, as on the page of the trace. `seconds` is the time from the first handoff to the last, and
    `states` are the states of the handoffs in the order of their times.
    """

    trace_id: str
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


# The time of a handoff, as `Handoff.at`.
_AT: Final = Coalesce("sent_at", "received_at")


class _Walked(NamedTuple):
    id: uuid.UUID
    trace_id: str
    at: datetime


def list_traces(tenant: Tenant, filters: Filters, *, agent: str = "", cursor: str = "", limit: int = 25) -> TracePage:
    """Return traces with a handoff that matches the filters; `agent` matches the source or the target.

    A page may have fewer than `limit` traces and still have a next page. Raise `FilterError` for an invalid cursor.
    """
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
        for shown in _earlier_traces(walks, newest, before):
            del newest[shown]
    return TracePage(list(_list_lines(tenant, newest)), str(last.id) if last else None)


def _walk(walks: Iterable["QuerySet[Handoff]"], before: uuid.UUID | None) -> Iterator[_Walked]:
    """Yield the rows of all queries, newest first. Each query is read in batches."""
    return merge(*(_step_rows(rows, before) for rows in walks), key=attrgetter("id"), reverse=True)


def _step_rows(rows: "QuerySet[Handoff]", before: uuid.UUID | None) -> Iterator[_Walked]:
    while True:
        older = rows.filter(id__lt=before) if before else rows
        found = list(older.order_by("-id").values_list("id", "trace_id", _AT)[:_AT_ONCE])
        yield from (_Walked(*row) for row in found)
        if len(found) < _AT_ONCE:
            return
        before = found[-1][0]


def _earlier_traces(walks: Iterable["QuerySet[Handoff]"], newest: Iterable[str], before: uuid.UUID) -> frozenset[str]:
    """Return the traces that an earlier page has listed, because they have a newer handoff that matches."""
    names = list(newest)
    return frozenset(
        trace_id
        for rows in walks
        for trace_id in rows.filter(trace_id__in=names, id__gte=before)
        .order_by()
        .values_list("trace_id", flat=True)
        .distinct()
    )


def _list_lines(tenant: Tenant, newest: dict[str, _Walked]) -> Iterator[ListedTrace]:
    if not newest:
        return
    rows = {trace_id: _first_rows(tenant, trace_id) for trace_id in newest}
    found = _count_findings([row[0] for some in rows.values() for row in some[:MOST_COUNTED]])
    for trace_id, some in rows.items():
        shown = some[:MOST_COUNTED]
        agents = tuple(dict.fromkeys(name for row in shown for name in (row[1], row[2]) if name))
        states = {row[3] for row in shown}
        times = [row[4] for row in shown]
        yield ListedTrace(
            trace_id=trace_id,
            newest_at=newest[trace_id].at,
            started_at=shown[0][4],
            handoffs=len(shown),
            is_longer=len(some) > MOST_COUNTED,
            agents=agents[:_MOST_AGENTS],
            more_agents=max(len(agents) - _MOST_AGENTS, 0),
            worst=next(state.value for state in GRAVEST if state in states),
            findings=sum(found[row[0]] for row in shown),
            seconds=(max(times) - min(times)).total_seconds(),
            tokens=sum(row[5] or 0 for row in shown),
            states=tuple(row[3] for row in shown),
        )


def _first_rows(tenant: Tenant, trace_id: str) -> list[tuple[uuid.UUID, str, str, str, datetime, int | None]]:
    rows = of_tenant(tenant).filter(trace_id=trace_id).order_by("id")
    columns = rows.values_list("id", "source_agent_id", "target_agent_id", "state", _AT, "token_count")
    return list(columns[: MOST_COUNTED + 1])


def _count_findings(handoffs: list[uuid.UUID]) -> Counter[uuid.UUID]:
    # The handoffs already belong to the tenant. A tenant filter would make SQLite read all findings of the tenant.
    rows = Finding.objects.filter(handoff__in=handoffs).exclude(code=UNVERIFIED).values_list("handoff")
    return Counter(dict(rows.annotate(Count("id"))))


def draw_trace(
    trace: Trace,
    *,
    slug: str,
    origin: Origin | None = None,
    href: str = "",
    width: int = 1040,
    is_folded: bool = True,
    prefix: str = "lanes",
    standalone: bool = False,
) -> Drawing:
    """Return the drawing of a trace. `origin` is the wrong value to mark (None: all); `href` opens folded parts."""
    counts = [0] * len(trace.handoffs)
    for one in trace.attributed:
        counts[one.step] += 1
    came_in, carried = (
        (trace.origin_steps, trace.tainted.keys())
        if origin is None
        else (frozenset([origin.step]), frozenset(origin.carriers))
    )
    arrows = [
        _make_arrow(one, counts[at], slug, is_origin=at in came_in, carries=at in carried)
        for at, one in enumerate(trace.handoffs)
    ]
    return draw_lanes(arrows, is_folded=is_folded, href=href, width=width, prefix=prefix, standalone=standalone)


def _make_arrow(one: Traced, findings: int, slug: str, *, is_origin: bool, carries: bool) -> Arrow:
    return Arrow(
        number=one.number,
        source=one.handoff.source_agent_id,
        target=one.handoff.target_agent_id,
        state=one.handoff.state,
        # With this parameter, the links to the previous and the next handoff stay in the trace.
        href=f"/t/{slug}/handoffs/{one.handoff.pk}/?in=trace",
        at=f"{one.handoff.at:%Y-%m-%d %H:%M:%S} UTC",
        note=pluralize(findings, "finding") if findings else "",
        is_origin=is_origin,
        carries=carries,
        loops=one.loops,
        long=one.long,
        over=one.over,
        calls=one.calls,
    )
