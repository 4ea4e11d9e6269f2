"""API of traces: handoffs in order, routes, the origins and carriers of wrong values, timelines, and tool results."""

from collections import Counter
from typing import Annotated, Any

import orjson
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Body, Query, Router
from pydantic import BeforeValidator, Field

from handoffaudit.accounts.keys import record_refusal
from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import NEXT, PageQuery, TraceId, check_names
from handoffaudit.api.schemas import SummaryOut
from handoffaudit.api.serializers import Answer, Extended, Moment, Nullable, ProblemOut, Stored, Text, answer, at
from handoffaudit.diagnostics.traces import Trace, Traced, draw_trace, load_trace
from handoffaudit.handoffs import tool_results
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.filters import parse_cursor
from handoffaudit.handoffs.ingest.prepare import ANOTHER_AGENT, WRONG_RESULTS
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.tool_results import MOST_RESULTS, Storage, ToolResultIn, WrongToolResults
from handoffaudit.validation.provenance import Attributed
from handoffaudit.validation.text import MAX_TEXT, storable
from handoffaudit.validation.tool_results import Grade

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
    from_outside: bool = Field(
        description="Whether a person or a tool supplied the value, or the value is in the context of the handoff in "
        "which it first appeared."
    )
    carried_by: list[Number] = Field(
        validation_alias="carriers", description="The numbers of the later handoffs with the same value."
    )


class TracedOut(SummaryOut):
    number: int = Field(description="The position in the trace, from 1.")
    seconds_since_previous: float | None = Field(
        validation_alias="seconds",
        description="Seconds between the previous handoff and this handoff; null for the first handoff.",
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
    agent: str = Field(description="The target agent.")
    codes: list[str] = Field(description="The rule codes of the findings about the chain.")


class GraphOut(Answer):
    nodes: list[NodeOut] = Field(description="The agents.")
    edges: list[TraceEdgeOut] = Field(description="The routes.")
    loops: list[LoopOut] = Field(
        description="Handoffs that returned to an earlier agent or to the source itself, or that repeated work without "
        "progress."
    )


class OriginOut(Answer):
    value: str = Field(description="The value as written.")
    codes: list[str] = Field(description="The rule codes of the findings about the value.")
    number: Number = Field(
        validation_alias="step", description="The number of the handoff in which the value first appeared."
    )
    agent: str = Field(description="The source agent of that handoff.")
    from_outside: bool = Field(
        description="Whether a person or a tool supplied the value, or the value is in the context of the handoff in "
        "which it first appeared."
    )
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
    signs: list[str] = Field(
        description="The signs of a mistake. `value`: the handoff introduced a value without a source. `warned`: the "
        "finding about such a value is a warning or worse. `failed`: the answer to the handoff reports an error or an "
        "empty result. `assumed`, `by_hand`: the handoff is the first in the trace to say that its data is assumed, or "
        "that something is done by hand."
    )
    values: list[str] = Field(description="Ungrounded values that the handoff introduced.")


class TraceOut(Answer):
    trace_id: str = Field(description="The sender's id of the trace.")
    has_more: bool = Field(description="Whether the trace has more than 200 handoffs; the answer covers the first 200.")
    handoffs: list[TracedOut] = Field(
        description="The handoffs, ordered by step. A handoff without a step follows the handoff before it in time."
    )
    graph: GraphOut = Field(description="Routes between the agents.")
    origins: list[OriginOut] = Field(description="The origin of each wrong value.")
    tainted: list[Number] = Field(
        description="The numbers of the handoffs that carry an ungrounded value of an earlier handoff."
    )
    shares: list[ShareOut] = Field(description="Findings by agent.")
    suspects: list[SuspectOut] = Field(
        description="The most likely origins of the problem, by rules; most likely first."
    )


class ToolResultOut(Answer):
    id: Text = Field(description="The server's id of the result.")
    tool: str = Field(description="The name of the tool.")
    call_id: str = Field(description="The sender's id of the call.")
    agent: str = Field(description="The agent that called the tool; empty if unknown.")
    at: Moment = Field(description="When the tool returned.")
    grade: Grade = Field(
        description="Where the result was captured, as set for the sender's key: `outside` the sender's process, "
        "`in_process`, or `said` by a sender, which is not evidence."
    )
    sender: str = Field(description="The name of the key that sent the result.")
    sha256: str = Field(description="The SHA-256 of the whole result as canonical JSON.")
    is_cut: bool = Field(description="Whether `result` is only the beginning of the text of a longer result.")
    result: Annotated[Any, Stored] = Field(description="The result with its secrets masked, cut at 16 KiB.")


class ToolResultsOut(Answer):
    items: list[ToolResultOut] = Field(description="The results, in the order of their arrival.")
    next: str | None = Field(description=NEXT)


class StoredResultOut(Answer):
    call_id: str = Field(description="The id of the call.")
    status: Storage = Field(
        description="`stored`; `known`: the same result was stored before; `replaced`: the result replaced "
        "a result of a lower grade; `conflict`: the call has another result, which stays; `refused`: a legal hold "
        "keeps the results of the trace, and the new result does not fit beside them."
    )


class StoredResultsOut(Answer):
    trace_id: str = Field(description="The trace.")
    grade: Grade = Field(description="The grade of the results, set by the key.")
    items: list[StoredResultOut] = Field(description="What the server did with each result, in the order sent.")
    totals: dict[str, int] = Field(description="Number of results by status.", examples=[{"stored": 2, "known": 1}])


# The addresses below the trace must come before the trace itself, whose id may contain slashes.
@router.post(
    "/traces/{path:trace_id}/tool-results",
    auth=KeyWith(Scope.OBSERVE, Scope.INGEST, stores=True),
    operation_id="send_tool_results",
    summary="Send the tool results of a trace",
    response={200: StoredResultsOut, 413: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.body_example("The result of one call", [examples.TOOL_RESULT]),
)
def send_tool_results(
    request: HttpRequest,
    trace_id: TraceId,
    results: Body[Annotated[list[ToolResultIn], Field(max_length=MOST_RESULTS)]],
) -> HttpResponse:
    """Store up to 200 tool results of a trace, at any time: before, with or after its handoffs.

    The key sets the grade. Results sent with a key that has the scope `observe` are evidence. Each handoff of the trace
    is judged against the results that tools returned before it. A handoff that had no source, or whose verdict has
    ungrounded or reported values, is judged again if evidence arrives later. A trace keeps up to 1 MiB: results that
    are no evidence are removed first, then evidence, the oldest first.
    """
    who, now = caller(request), timezone.now()
    try:
        tool_results.check_nesting(request.body)
    except WrongToolResults as error:
        raise Problem(422, WRONG_RESULTS, str(error)) from error
    if len(trace_id) > MAX_TEXT or not storable(trace_id):
        raise Problem(422, WRONG_RESULTS, f"The trace id is not text of at most {MAX_TEXT} characters.")
    for agent in dict.fromkeys(one.agent for one in results if one.agent):
        if not who.key.agents.allows(agent):
            record_refusal(who.tenant, who.key.agents, agent)
            raise Problem(403, ANOTHER_AGENT, who.key.agents.describe_refusal(agent, "A tool result"))
    rows = tool_results.make_rows(who.tenant.pk, trace_id, results, now)
    with write_turn(), transaction.atomic():
        statuses = tool_results.store(rows, who.key.name, who.key.grade, now)
    shown = {
        "trace_id": trace_id,
        "grade": who.key.grade,
        "items": [{"call_id": row.call_id, "status": status} for row, status in zip(rows, statuses, strict=True)],
        "totals": Counter(statuses),
    }
    return answer(StoredResultsOut, shown)


@router.get(
    "/traces/{path:trace_id}/tool-results",
    auth=KeyWith(Scope.READ),
    operation_id="list_tool_results",
    summary="List the tool results of a trace",
    response={200: ToolResultsOut, 400: ProblemOut},
)
def list_tool_results(request: HttpRequest, trace_id: TraceId, query: Query[PageQuery]) -> HttpResponse:
    """Return the tool results of every grade in a trace, in the order of their arrival."""
    check_names(request, PageQuery)
    after = parse_cursor(query.cursor) if query.cursor else None
    found = tool_results.list_results(caller(request).tenant.pk, trace_id, after=after, limit=query.limit + 1)
    rows = found[: query.limit]
    shown = {
        "items": [Extended(row, result=orjson.Fragment(row.content)) for row in rows],
        "next": str(rows[-1].pk) if len(found) > len(rows) else None,
    }
    return answer(ToolResultsOut, shown)


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
    """Return the first 200 handoffs of a trace, ordered by step.

    A handoff without a step follows the handoff before it in time.
    """
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
