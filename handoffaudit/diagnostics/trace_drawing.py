"""A trace as a drawing of lanes, for its page and for the API."""

from handoffaudit.diagnostics.tracing import Trace, Traced
from handoffaudit.drawing.drawing import Drawing
from handoffaudit.drawing.lanes import Arrow, lanes
from handoffaudit.validation.provenance import Origin
from handoffaudit.validation.text import counted


def drawing_of(
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
    """`origin`: the wrong value that is marked, None for all. `href` opens what is folded."""
    counts = [0] * len(trace.handoffs)
    for one in trace.attributed:
        counts[one.step] += 1
    came_in, carried = (
        (trace.origin_steps, trace.tainted.keys())
        if origin is None
        else (frozenset([origin.step]), frozenset(origin.carriers))
    )
    arrows = [
        _arrow(one, counts[at], slug, is_origin=at in came_in, carries=at in carried)
        for at, one in enumerate(trace.handoffs)
    ]
    return lanes(arrows, is_folded=is_folded, href=href, width=width, prefix=prefix, standalone=standalone)


def _arrow(one: Traced, findings: int, slug: str, *, is_origin: bool, carries: bool) -> Arrow:
    return Arrow(
        number=one.number,
        source=one.handoff.source_agent_id,
        target=one.handoff.target_agent_id,
        state=one.handoff.state,
        # From there, previous and next go on along the trace.
        href=f"/t/{slug}/handoffs/{one.handoff.pk}/?in=trace",
        at=f"{one.handoff.received_at:%Y-%m-%d %H:%M:%S} UTC",
        told=counted(findings, "finding") if findings else "",
        is_origin=is_origin,
        carries=carries,
        loops=one.loops,
        long=one.long,
        over=one.over,
    )
