"""API of traces: handoffs in order, routes, and where wrong values were introduced and who carried them on."""

from collections import Counter
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import TraceId
from handoffaudit.api.schemas import ProblemOut, SummaryOut
from handoffaudit.diagnostics.traces import Trace, Traced, draw_trace, load_trace
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.provenance import Attributed, Origin

router = Router()


class FindingOut(Schema):
    code: str = Field(description="The rule code.")
    severity: str = Field(description="info, warning, error or critical.")
    field_path: str = Field(description="The place in the document.")
    value: str | None = Field(description="The wrong value, if the finding is about a value.")
    caused: bool = Field(description="true: introduced by the source agent. false: inherited.")
    origin: int = Field(description="The number of the handoff in which the finding first appeared.")
    from_outside: bool = Field(description="The value came from a person or a tool, or was given to the first handoff.")
    carried_by: list[int] = Field(description="The numbers of the later handoffs with the same value.")


class TracedOut(SummaryOut):
    number: int = Field(description="The position in the trace, from 1.")
    seconds_since_previous: float | None = Field(
        description="Time since the previous handoff arrived; null for the first."
    )
    findings: list[FindingOut] = Field(description="The findings of the handoff.")
    carries: list[str] = Field(description="Ungrounded values of earlier handoffs that the data contains.")


class NodeOut(Schema):
    agent: str = Field(description="The agent.")
    handed_over: int = Field(description="Number of handoffs sent.")
    received: int = Field(description="Number of handoffs received.")


class TraceEdgeOut(Schema):
    source: str = Field(description="The source agent.")
    target: str = Field(description="The target agent.")
    handoffs: list[int] = Field(description="The numbers of the handoffs on this route.")


class LoopOut(Schema):
    number: int = Field(description="The number of the handoff.")
    agent: str = Field(description="The target agent, which had the work earlier.")
    codes: list[str] = Field(description="The findings about the chain.")


class GraphOut(Schema):
    nodes: list[NodeOut] = Field(description="The agents.")
    edges: list[TraceEdgeOut] = Field(description="The routes.")
    loops: list[LoopOut] = Field(description="Handoffs that returned to an earlier agent.")


class OriginOut(Schema):
    value: str = Field(description="The value as written.")
    codes: list[str] = Field(description="The findings about the value.")
    number: int = Field(description="The number of the handoff in which the value first appeared.")
    agent: str = Field(description="The source agent of that handoff.")
    from_outside: bool = Field(description="The value came from a person or a tool, or was given to the first handoff.")
    flagged: list[int] = Field(description="The numbers of the handoffs with a finding about the value.")
    carried_by: list[int] = Field(description="The numbers of the later handoffs with the same value.")


class ShareOut(Schema):
    agent: str = Field(description="The agent.")
    caused: int = Field(description="Findings introduced by the agent.")
    passed_on: int = Field(description="Findings that the agent inherited.")


class SuspectOut(Schema):
    number: int = Field(description="The number of the handoff.")
    signs: list[str] = Field(description="value, number, carried, spread, assumed.")
    values: list[str] = Field(description="Inherited ungrounded values.")


class TraceOut(Schema):
    trace_id: str = Field(description="The sender's id of the trace.")
    has_more: bool = Field(description="The trace has more than the first 200 handoffs, which are read.")
    handoffs: list[TracedOut] = Field(description="The handoffs, ordered by step, or by arrival if they have no step.")
    graph: GraphOut = Field(description="Routes between the agents.")
    origins: list[OriginOut] = Field(description="The origin of each wrong value.")
    tainted: list[int] = Field(description="The handoffs that carry an ungrounded value of an earlier handoff.")
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
    slug = caller(request).tenant.slug
    findings: dict[int, list[dict[str, Any]]] = {}
    for one in trace.attributed:
        findings.setdefault(one.step, []).append(_finding(one))
    return serializers.json_response(
        {
            "trace_id": trace.trace_id,
            "has_more": trace.has_more,
            "handoffs": [
                {
                    **serializers.handoff_of(one.handoff, slug),
                    "number": one.number,
                    "seconds_since_previous": one.seconds,
                    "findings": findings.get(at, []),
                    "carries": list(trace.tainted.get(at, ())),
                }
                for at, one in enumerate(trace.handoffs)
            ],
            "graph": _graph(trace.handoffs),
            "origins": [_origin(trace, one) for one in trace.origins],
            "tainted": _numbers(trace.tainted),
            "shares": [{"agent": one.agent, "caused": one.caused, "passed_on": one.passed_on} for one in trace.shares],
            "suspects": [
                {"number": one.step + 1, "signs": [sign.value for sign in one.signs], "values": list(one.values)}
                for one in trace.suspects
            ],
        }
    )


def _trace(request: HttpRequest, trace_id: str) -> Trace:
    found = load_trace(caller(request).tenant, trace_id)
    if found is None:
        raise Handoff.DoesNotExist(f"There is no handoff with the trace {trace_id[:80]!r}.")
    return found


def _numbers(steps: Any) -> list[int]:
    return [at + 1 for at in steps]


def _finding(one: Attributed) -> dict[str, Any]:
    return {
        "code": one.flaw.code,
        "severity": one.flaw.severity,
        "field_path": one.flaw.path,
        "value": one.flaw.value or None,
        "caused": one.caused,
        "origin": one.origin + 1,
        "from_outside": one.from_outside,
        "carried_by": _numbers(one.carriers),
    }


def _origin(trace: Trace, one: Origin) -> dict[str, Any]:
    return {
        "value": one.value,
        "codes": list(one.codes),
        "number": one.step + 1,
        "agent": trace.handoffs[one.step].handoff.source_agent_id,
        "from_outside": one.from_outside,
        "flagged": _numbers(one.flagged),
        "carried_by": _numbers(one.carriers),
    }


def _graph(handoffs: tuple[Traced, ...]) -> dict[str, Any]:
    pairs: dict[tuple[str, str], list[int]] = {}
    for one in handoffs:
        pairs.setdefault((one.handoff.source_agent_id, one.handoff.target_agent_id), []).append(one.number)
    given = Counter(one.handoff.source_agent_id for one in handoffs)
    received = Counter(one.handoff.target_agent_id for one in handoffs)
    agents = dict.fromkeys(agent for pair in pairs for agent in pair)
    return {
        "nodes": [{"agent": agent, "handed_over": given[agent], "received": received[agent]} for agent in agents],
        "edges": [
            {"source": source, "target": target, "handoffs": numbers} for (source, target), numbers in pairs.items()
        ],
        "loops": [
            {
                "number": one.number,
                "agent": one.handoff.target_agent_id,
                "codes": [code for code in one.handoff.codes if code.startswith("chain.")],
            }
            for one in handoffs
            if one.loops
        ],
    }
