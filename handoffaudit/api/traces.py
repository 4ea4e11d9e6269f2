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
    code: str = Field(description="What kind of finding it is.")
    severity: str = Field(description="info, warning, error or critical.")
    field_path: str = Field(description="Where in the document.")
    value: str | None = Field(description="What is wrong, where the finding is about a value.")
    caused: bool = Field(description="It came up with this source; else it was passed on.")
    origin: int = Field(description="The number of the handoff in which it came up first.")
    from_outside: bool = Field(description="A person or a tool brought the value, or its first handoff was given it.")
    carried_by: list[int] = Field(description="The numbers of the handoffs after the origin that have it, too.")


class TracedOut(SummaryOut):
    number: int = Field(description="Its place in the trace, from 1.")
    seconds_since_previous: float | None = Field(description="Since the handoff before it came; null of the first.")
    findings: list[FindingOut] = Field(description="What was found in it.")
    carries: list[str] = Field(description="Ungrounded values of earlier handoffs that its data holds.")


class NodeOut(Schema):
    agent: str = Field(description="The agent.")
    handed_over: int = Field(description="How many handoffs it made.")
    received: int = Field(description="How many it received.")


class TraceEdgeOut(Schema):
    source: str = Field(description="Who handed over.")
    target: str = Field(description="Who received.")
    handoffs: list[int] = Field(description="The numbers of these handoffs.")


class LoopOut(Schema):
    number: int = Field(description="The number of the handoff.")
    agent: str = Field(description="The target, which had the work before.")
    codes: list[str] = Field(description="What was found of its chain.")


class GraphOut(Schema):
    nodes: list[NodeOut] = Field(description="The agents.")
    edges: list[TraceEdgeOut] = Field(description="Who handed to whom.")
    loops: list[LoopOut] = Field(description="Handoffs that came back to an agent.")


class OriginOut(Schema):
    value: str = Field(description="The value, as it stands.")
    codes: list[str] = Field(description="What was found of it.")
    number: int = Field(description="The handoff in which the value stands first.")
    agent: str = Field(description="Who handed it over first.")
    from_outside: bool = Field(description="A person or a tool brought it, or its first handoff was given it.")
    flagged: list[int] = Field(description="The handoffs in which something was found of it.")
    carried_by: list[int] = Field(description="The numbers of the handoffs after it that have it, too.")


class ShareOut(Schema):
    agent: str = Field(description="The agent.")
    caused: int = Field(description="Findings that came up first with it.")
    passed_on: int = Field(description="Findings that came with what it was handed.")


class SuspectOut(Schema):
    number: int = Field(description="The number of the handoff.")
    signs: list[str] = Field(description="value, number, carried, spread, assumed.")
    values: list[str] = Field(description="Ungrounded values that came in with it.")


class TraceOut(Schema):
    trace_id: str = Field(description="The sender's id of the piece of work.")
    has_more: bool = Field(description="There are more handoffs than the first 200, which are read.")
    handoffs: list[TracedOut] = Field(description="In the order in which they came.")
    graph: GraphOut = Field(description="Who hands to whom.")
    origins: list[OriginOut] = Field(description="Where each wrong value came in.")
    tainted: list[int] = Field(description="The handoffs that carry an ungrounded value of an earlier one.")
    shares: list[ShareOut] = Field(description="Agent by agent.")
    suspects: list[SuspectOut] = Field(
        description="Where to look first, by rules: those first that most speaks against."
    )


# This address must come before the address of the trace itself, whose id may contain slashes.
@router.get(
    "/traces/{path:trace_id}/lanes.svg",
    auth=KeyWith(Scope.READ),
    operation_id="get_trace_lanes",
    summary="The handoffs of a trace in time, drawn",
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
    summary="A trace: its handoffs, its graph, and where what is wrong came in",
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
