"""One trace: its handoffs and findings in order, the origins of its wrong values, and its drawing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final
from uuid import UUID

import msgspec
from django.db.models import QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.agents import declared_roles
from handoffaudit.drawing.lanes import Arrow, draw_lanes
from handoffaudit.drawing.svg import Drawing
from handoffaudit.handoffs.filters import is_of_trace
from handoffaudit.handoffs.models import Handoff, HandoffBody, Verdict
from handoffaudit.handoffs.queries import of_tenant
from handoffaudit.handoffs.verdicts import record_of
from handoffaudit.validation.agents import SourceRole
from handoffaudit.validation.layers import chain
from handoffaudit.validation.origins import Origin, Share, Suspect, first_wrong, notes_values, origins, shares, suspects
from handoffaudit.validation.provenance import Attributed, Flaw, Step, attribute, find_tainted, flaws_of, step_of
from handoffaudit.validation.text import pluralize

MOST_HANDOFFS: Final = 200
# A page reads more than `MOST_HANDOFFS` handoffs, up to this many, if their documents have at most `MOST_BYTES`
# together.
MOST_ON_A_PAGE: Final = 1_000
MOST_BYTES: Final = 16 * 2**20
_BODIES_AT_ONCE: Final = 25
_LOOPS: Final = frozenset(
    one.code for one in (chain.CIRCULAR, chain.CIRCULAR_WITH_REASON, chain.SELF_HANDOFF, chain.REPEATS_WITHOUT_PROGRESS)
)


@dataclass(frozen=True, slots=True)
class Traced:
    """One handoff of a trace.

    `number` counts from 1. `flaws` are the findings, and `is_noted` means the same as in `Step`. `seconds` is the time
    since the previous handoff of the trace, by `Handoff.at`; None for the first handoff. `loops` is true if the chain
    returns to an earlier agent or to the source itself, or if the work repeats without progress. `long` is true if the
    chain is longer than recommended, `over` if it is longer than allowed without approval. `calls` counts the tool
    results since the previous handoff, and is 0 if they were not read.
    """

    number: int
    handoff: Handoff
    flaws: tuple[Flaw, ...]
    is_noted: bool
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
        return tuple(dict.fromkeys(name for name in named if name))

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
    handoffs = tuple(_make_traced(sort_by_step(rows), _load_findings(tenant, rows)))
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
        tainted=find_tainted(steps, attributed),
        first=first_wrong(attributed),
        suspects=tuple(suspects(steps, attributed)),
    )


def trace_rows(tenant: Tenant, trace_id: str, most: int) -> list[Handoff]:
    """Return the first handoffs of a trace in the order of `Handoff.at`, at most `most`."""
    return list(_first_rows(tenant, trace_id, most))


def list_versions(tenant: Tenant, trace_id: str, most: int) -> dict[UUID, int]:
    """Return the versions of the handoffs that `trace_rows` returns, by id."""
    return dict(_first_rows(tenant, trace_id, most).values_list("pk", "version"))


def _first_rows(tenant: Tenant, trace_id: str, most: int) -> "QuerySet[Handoff]":
    if not trace_id or "\x00" in trace_id:
        return Handoff.objects.none()
    return of_tenant(tenant).filter(is_of_trace(trace_id)).order_by("id")[:most]


def sort_by_step(rows: Iterable[Handoff]) -> list[Handoff]:
    """Return the handoffs ordered by step. A handoff without a step follows the handoff before it in time."""
    step, placed = 0, []
    for row in sorted(rows, key=lambda row: row.pk):
        step = row.step if row.step is not None else step
        placed.append((step, row.pk, row))
    return [row for _, _, row in sorted(placed, key=lambda one: one[:2])]


class _Issues(msgspec.Struct):
    """The part of a verdict that a trace needs. The claims of a verdict can take many times the memory of this part."""

    issues: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class _Findings:
    """The findings of a verdict, and all its rule codes."""

    flaws: tuple[Flaw, ...] = ()
    is_noted: bool = False
    codes: frozenset[str] = frozenset()


_read_issues: Final = msgspec.json.Decoder(_Issues).decode


def _load_findings(tenant: Tenant, rows: Iterable[Handoff]) -> dict[UUID, _Findings]:
    """Return the findings by handoff. A few verdicts are read at a time, because all of them may be large."""
    wanted = [row.verdict for row in rows if row.verdict]
    found = Verdict.objects.filter(tenant=tenant, pk__in=wanted).values_list("handoff_id", "content")
    return {handoff: _make_findings(content) for handoff, content in found.iterator(chunk_size=_BODIES_AT_ONCE)}


def _make_findings(content: str) -> _Findings:
    issues = _read_issues(content).issues or ()
    return _Findings(flaws_of(issues), notes_values(issues), frozenset(str(issue.get("code")) for issue in issues))


def _make_traced(rows: Sequence[Handoff], findings: Mapping[UUID, _Findings]) -> Iterable[Traced]:
    before, nothing = None, _Findings()
    for number, row in enumerate(rows, 1):
        found = findings.get(row.pk, nothing)
        yield Traced(
            number=number,
            handoff=row,
            flaws=found.flaws,
            is_noted=found.is_noted,
            seconds=None if before is None else (row.at - before.at).total_seconds(),
            loops=not found.codes.isdisjoint(_LOOPS),
            long=chain.OVER_RECOMMENDED.code in found.codes,
            over=chain.NEEDS_APPROVAL.code in found.codes,
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
    record = record_of(row, body) if body else None
    if record is None:
        return Step(str(row.pk), row.source_agent_id, row.target_agent_id, "", "", one.flaws)
    role = roles.get(row.source_agent_id)
    return step_of(str(row.pk), record, one.flaws, role, is_noted=one.is_noted)


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
