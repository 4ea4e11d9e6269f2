"""One trace: its handoffs in order, what was found in each, where that first came up and who carried it on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff, HandoffBody, Verdict
from handoffaudit.handoffs.queries import of_tenant, of_trace
from handoffaudit.handoffs.verdicts import record_of
from handoffaudit.validation.provenance import (
    Attributed,
    Origin,
    Share,
    Step,
    Suspect,
    attribute,
    first_wrong,
    flaws_of,
    origins,
    shares,
    step_of,
    suspects,
    tainted,
)

MOST_HANDOFFS: Final = 200
_BODIES_AT_ONCE: Final = 25
_LOOPS: Final = frozenset(
    {"chain.circular", "chain.circular_with_reason", "chain.self_handoff", "chain.repeats_without_progress"}
)


@dataclass(frozen=True, slots=True)
class Traced:
    """One handoff of a trace. `number` counts from 1. `seconds` since the one before it came, None for the first.
    `loops`: its chain was found to come back to where it was. `long` and `over`: its chain is longer than is
    recommended, than passes without approval."""

    number: int
    handoff: Handoff
    issues: tuple[dict[str, Any], ...]
    seconds: float | None
    loops: bool
    long: bool
    over: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as far as it is read: its first 200 handoffs; `has_more` says that there are others."""

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
        """In the order in which they came in."""
        named = (name for one in self.handoffs for name in (one.handoff.source_agent_id, one.handoff.target_agent_id))
        return tuple(dict.fromkeys(named))

    @property
    def origin_steps(self) -> frozenset[int]:
        """Where wrong values came in that nobody outside brought."""
        return frozenset(one.step for one in self.origins if not one.from_outside)


def traced(tenant: Tenant, trace_id: str) -> Trace | None:
    """None where no handoff of the tenant has that trace."""
    rows = rows_of(tenant, trace_id, MOST_HANDOFFS + 1)
    if not rows:
        return None
    rows, has_more = rows[:MOST_HANDOFFS], len(rows) > MOST_HANDOFFS
    verdicts = _verdicts(tenant, rows)
    handoffs = tuple(_each(in_order(rows), verdicts))
    steps = _steps(handoffs)
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


def rows_of(tenant: Tenant, trace_id: str, most: int) -> list[Handoff]:
    """The first handoffs of a trace, as they came."""
    if not trace_id or "\x00" in trace_id:
        return []
    return list(of_tenant(tenant).filter(of_trace(trace_id)).order_by("id")[:most])


def in_order(rows: Iterable[Handoff]) -> list[Handoff]:
    """By their steps; one without a step stays behind the one that came before it."""
    step, placed = 0, []
    for row in sorted(rows, key=lambda row: row.pk):
        step = row.step if row.step is not None else step
        placed.append((step, row.pk, row))
    return [row for _, _, row in sorted(placed, key=lambda one: one[:2])]


def _verdicts(tenant: Tenant, rows: Iterable[Handoff]) -> dict[object, dict[str, Any]]:
    wanted = [row.verdict for row in rows if row.verdict]
    found = Verdict.objects.filter(tenant=tenant, pk__in=wanted).values_list("handoff_id", "content")
    return {handoff: orjson.loads(content) for handoff, content in found}


def _each(rows: Sequence[Handoff], verdicts: dict[object, dict[str, Any]]) -> Iterable[Traced]:
    before = None
    for number, row in enumerate(rows, 1):
        verdict = verdicts.get(row.pk) or {}
        issues = tuple(verdict.get("issues") or ())
        codes = {issue.get("code") for issue in issues}
        yield Traced(
            number=number,
            handoff=row,
            issues=issues,
            seconds=None if before is None else (row.received_at - before.received_at).total_seconds(),
            loops=not codes.isdisjoint(_LOOPS),
            long="chain.over_recommended" in codes,
            over="chain.needs_approval" in codes,
        )
        before = row


def _steps(handoffs: Sequence[Traced]) -> list[Step]:
    """Bodies are read some at a time: those of a whole trace may be large."""
    steps: list[Step] = []
    for start in range(0, len(handoffs), _BODIES_AT_ONCE):
        some = handoffs[start : start + _BODIES_AT_ONCE]
        bodies = HandoffBody.objects.in_bulk([one.handoff.pk for one in some])
        steps += [_step(one, bodies.get(one.handoff.pk)) for one in some]
    return steps


def _step(one: Traced, body: HandoffBody | None) -> Step:
    row = one.handoff
    flaws = flaws_of(one.issues)
    record = record_of(row, body) if body else None
    if record is None:
        return Step(str(row.pk), row.source_agent_id, row.target_agent_id, "", "", flaws)
    return step_of(str(row.pk), record, flaws)
