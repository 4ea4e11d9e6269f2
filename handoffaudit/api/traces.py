"""API of traces: handoffs in order, routes, and where wrong values were introduced and who carried them on."""

from collections import Counter
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import BeforeValidator, Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import TraceId
from handoffaudit.api.schemas import ProblemOut, SummaryOut
from handoffaudit.api.serializers import Answer, Extended, Nullable, answer, at
from handoffaudit.diagnostics.traces import Trace, Traced, draw_trace, load_trace
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.provenance import Attributed

router = Router()


def _number(step: int) -> int:
    return step + 1


# The number of a handoff in the trace, from its index.
Number = Annotated[int, BeforeValidator(_number)]


class FindingOut(Answer):
    code: str = Field(validation_alias=at("flaw.code"), description="The rule code.")
    severity: str = Field(validation_alias=at("flaw.severity"), description="info, warning, error or critical.")
    field_path: str = Field(validation_alias=at("flaw.path"), description="The place in the document.")
    value: Nullable = Field(
        validation_alias=at("flaw.value"), description="The wrong value, if the finding is about a value."
    )
    caused: bool = Field(description="true: introduced by the source agent. false: inherited.")
    origin: Number = Field(description="The number of the handoff in which the finding first appeared.")
    from_outside: bool = Field(description="The value came from a person or a tool, or was given to the first handoff.")
    carried_by: list[Number] = Field(
        validation_alias="carriers", description="The numbers of the later handoffs with the same value."
    )


class TracedOut(SummaryOut):
    number: int = Field(description="The position in the trace, from 1.")
    seconds_since_previous: float | None = Field(
        validation_alias="seconds", description="Time since the previous handoff arrived; null for the first."
    )
    findings: list[FindingOut] = Field(description="The findings of the handoff.")
    carries: list[str] = Field(description="Ungrounded values of earlier handoffs that the data contains.")


class NodeOut(Answer):
    agent: str = Field(description="The agent.")
    handed_over: int = Field(description="Number of handoffs sent.")
    received: int = Field(description="Number of handoffs received.")


class TraceEdgeOut(Answer):
    source: str = Field(description="The source agent.")
    target: str = Field(description="The target agent.")
    handoffs: list[int] = Field(description="The numbers of the handoffs on this route.")


class LoopOut(Answer):
    number: int = Field(description="The number of the handoff.")
    agent: str = Field(description="The target agent, which had the work earlier.")
    codes: list[str] = Field(description="The findings about the chain.")


class GraphOut(Answer):
    nodes: list[NodeOut] = Field(description="The agents.")
    edges: list[TraceEdgeOut] = Field(description="The routes.")
    loops: list[LoopOut] = Field(description="Handoffs that returned to an earlier agent.")


class OriginOut(Answer):
    value: str = Field(description="The value as written.")
    codes: list[str] = Field(description="The findings about the value.")
    number: Number = Field(
        validation_alias="step", description="The number of the handoff in which the value first appeared."
    )
    agent: str = Field(description="The source agent of that handoff.")
    from_outside: bool = Field(description="The value came from a person or a tool, or was given to the first handoff.")
    flagged: list[Number] = Field(description="The numbers of the handoffs with a finding about the value.")
    carried_by: list[Number] = Field(
        validation_alias="carriers", description="The numbers of the later handoffs with the same value."
    )


class ShareOut(Answer):
    agent: str = Field(description="The agent.")
    caused: int = Field(description="Findings introduced by the agent.")
    passed_on: int = Field(description="Findings that the agent inherited.")


class SuspectOut(Answer):
    number: Number = Field(validation_alias="step", description="The number of the handoff.")
    signs: list[str] = Field(description="value, number, carried, spread, assumed.")
    values: list[str] = Field(description="Inherited ungrounded values.")


class TraceOut(Answer):
    trace_id: str = Field(description="The sender's id of the trace.")
    has_more: bool = Field(description="The trace has more than the first 200 handoffs, which are read.")
    handoffs: list[TracedOut] = Field(description="The handoffs, ordered by step, or by arrival if they have no step.")
    graph: GraphOut = Field(description="Routes between the agents.")
    origins: list[OriginOut] = Field(description="The origin of each wrong value.")
    tainted: list[Number] = Field(description="The handoffs that carry an ungrounded value of an earlier handoff.")
    shares: list[ShareOut] = Field(description="Findings by agent.")
    suspects: list[SuspectOut] = Field(
        description="The most likely origins of the problem, by rules; most likely first."
    )


# This address must come before the address of the trace itself, whose id may contain slashes.
@router.get(
    "/traces/{path:trace_id}/lanes.svg",
    auth=KeyWith(Scope.READ),
    operation_id="get_trace_lanes",
    summary="Draw the timeline of a trace",
    openapi_extra={"responses": {200: {"description": "An image", "content": {"image/svg+xml": {}}}}},
)
def get_trace_lanes(request: HttpRequest, trace_id: TraceId) -> HttpResponse:
    who = caller(request)
    drawing = draw_trace(_trace(request, trace_id), slug=who.tenant.slug, is_folded=False, standalone=True)
    response = HttpResponse(drawing.svg, content_type="image/svg+xml; charset=utf-8")
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    return response


@router.get(
    "/traces/{path:trace_id}",
    auth=KeyWith(Scope.READ),
    operation_id="get_trace",
    summary="Get a trace: handoffs, routes, and the origin of findings",
    response={200: TraceOut, 404: ProblemOut},
)
def get_trace(request: HttpRequest, trace_id: TraceId) -> HttpResponse:
    """Return the first 200 handoffs of a trace, ordered by step, or by arrival if they have no step."""
    trace = _trace(request, trace_id)
    findings: dict[int, list[Attributed]] = {}
    for one in trace.attributed:
        findings.setdefault(one.step, []).append(one)
    handoffs = [
        Extended(
            one.handoff,
            number=one.number,
            seconds=one.seconds,
            findings=findings.get(step, []),
            carries=trace.tainted.get(step, ()),
        )
        for step, one in enumerate(trace.handoffs)
    ]
    origins = [Extended(one, agent=trace.handoffs[one.step].handoff.source_agent_id) for one in trace.origins]
    shown = Extended(
        trace, handoffs=handoffs, graph=_graph(trace.handoffs), origins=origins, tainted=list(trace.tainted)
    )
    return answer(TraceOut, shown, context=caller(request).tenant)


def _trace(request: HttpRequest, trace_id: str) -> Trace:
    found = load_trace(caller(request).tenant, trace_id)
    if found is None:
        raise Handoff.DoesNotExist(f"There is no handoff with the trace {trace_id[:80]!r}.")
    return found


def _graph(handoffs: tuple[Traced, ...]) -> GraphOut:
    pairs: dict[tuple[str, str], list[int]] = {}
    for one in handoffs:
        pairs.setdefault((one.handoff.source_agent_id, one.handoff.target_agent_id), []).append(one.number)
    given = Counter(one.handoff.source_agent_id for one in handoffs)
    received = Counter(one.handoff.target_agent_id for one in handoffs)
    agents = dict.fromkeys(agent for pair in pairs for agent in pair)
    loops = [
        LoopOut(
            number=one.number,
            agent=one.handoff.target_agent_id,
            codes=[code for code in one.handoff.codes if code.startswith("chain.")],
        )
        for one in handoffs
        if one.loops
    ]
    return GraphOut(
        nodes=[NodeOut(agent=agent, handed_over=given[agent], received=received[agent]) for agent in agents],
        edges=[TraceEdgeOut(source=source, target=target, handoffs=found) for (source, target), found in pairs.items()],
        loops=loops,
    )
