"""API that reads handoffs with their verdicts, events, attempts and chains."""

from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import HandoffsQuery, Reference, check_names, seconds_to_wait
from handoffaudit.api.schemas import AttemptsOut, EventsOut, HandoffOut, HandoffsOut, ProblemOut, VerdictsOut
from handoffaudit.api.submit import router
from handoffaudit.drawing.chain import Chain, chain
from handoffaudit.handoffs import compare, long_poll, queries, remediation
from handoffaudit.handoffs.filters import FLAGS, Filters
from handoffaudit.handoffs.models import WAITING_STATES, State

# This module uses the router of `submit`: both methods of an address must be on the same router, and `/handoffs/batch`
# must come before `/handoffs/{reference}`.
__all__ = ["router"]

READ = KeyWith(Scope.READ)


class ListQuery(HandoffsQuery):
    state: str = Field("", description="One state, or several separated by commas.", examples=["held,rejected"])
    handoff_id: str = Field("", description="The sender's id; use this for an id with a `/`.", examples=["run/7"])
    quality_min: str = Field("", description="Minimum quality score, 0.0 to 1.0.", examples=["0.8"])
    quality_max: str = Field("", description="Maximum quality score.")
    flag: str = Field("", description=f"One of {', '.join(FLAGS)}.")
    decided_by: str = Field(
        "", description="Only handoffs with a decision by this person or key in effect.", examples=["ada"]
    )


@router.get(
    "/handoffs",
    auth=READ,
    operation_id="list_handoffs",
    summary="List handoffs, newest first",
    response={200: HandoffsOut, 400: ProblemOut},
)
def list_handoffs(request: HttpRequest, query: Query[ListQuery]) -> HttpResponse:
    who = caller(request)
    check_names(request, ListQuery)
    filters = Filters.from_query(request.GET)
    page = queries.list_handoffs(who.tenant, filters, cursor=query.cursor, limit=query.limit)
    items = [serializers.handoff_of(handoff, who.tenant.slug) for handoff in page.items]
    return serializers.json_response({"items": items, "next": page.next})


@router.get(
    "/handoffs/{reference}",
    auth=READ,
    operation_id="get_handoff",
    summary="Get one handoff with its document and verdict",
    response={200: HandoffOut, 404: ProblemOut},
    openapi_extra=examples.READ_ONE,
)
def get_handoff(request: HttpRequest, reference: Reference) -> HttpResponse:
    """Return a handoff with its document and verdict.

    With `Prefer: wait=N` the answer waits up to N seconds for the verdict and, if the handoff is held, for the decision
    of a reviewer.
    """
    who = caller(request)
    handoff = queries.get(who.tenant, reference)
    seconds = seconds_to_wait(request)
    if seconds and not long_poll.are_too_many(who.tenant.pk):
        pending = (*WAITING_STATES, State.HELD)
        handoff = long_poll.wait_while(lambda: queries.get(who.tenant, str(handoff.pk)), pending, seconds)
    shown = serializers.handoff_of(handoff, who.tenant.slug) | serializers.replacement_of(handoff, who.tenant.slug)
    shown |= serializers.review_of(handoff)
    shown |= {"verdict": queries.current_verdict(handoff)} | serializers.documents_of(handoff)
    return serializers.json_response(shown)


@router.get(
    "/handoffs/{reference}/verdicts",
    auth=READ,
    operation_id="list_verdicts",
    summary="List the verdicts on a handoff, newest first",
    response={200: VerdictsOut, 404: ProblemOut},
)
def list_verdicts(request: HttpRequest, reference: Reference) -> HttpResponse:
    handoff = queries.get(caller(request).tenant, reference)
    items = [
        queries.current_verdict(handoff) if row.pk == handoff.verdict else orjson.Fragment(row.content)
        for row in queries.verdicts(handoff)
    ]
    return serializers.json_response({"items": items, "next": None})


@router.get(
    "/handoffs/{reference}/events",
    auth=READ,
    operation_id="list_events",
    summary="List every change of state, oldest first",
    response={200: EventsOut, 404: ProblemOut},
)
def list_events(request: HttpRequest, reference: Reference) -> HttpResponse:
    handoff = queries.get(caller(request).tenant, reference)
    return serializers.json_response(
        {"items": [serializers.event_of(event) for event in queries.events(handoff)], "next": None}
    )


@router.get(
    "/handoffs/{reference}/attempts",
    auth=READ,
    operation_id="list_attempts",
    summary="List the attempts of a handoff and their changes, oldest first",
    response={200: AttemptsOut, 404: ProblemOut},
)
def list_attempts(request: HttpRequest, reference: Reference) -> HttpResponse:
    """List the newest 20 attempts of the handoff's lineage, with the lineage's remediation so far."""
    who = caller(request)
    handoff = queries.get(who.tenant, reference)
    items = [serializers.attempt_of(attempt, who.tenant.slug) for attempt in compare.compare_attempts(handoff)]
    record = remediation.load_record(handoff)
    return serializers.json_response(
        {"items": items, "next": None, "remediation": record.to_dict() if record else None}
    )


@router.get(
    "/handoffs/{reference}/chain.svg",
    auth=READ,
    operation_id="get_chain",
    summary="Draw the chain of a handoff",
    openapi_extra={"responses": {200: {"description": "An image", "content": {"image/svg+xml": {}}}}},
)
def get_chain(request: HttpRequest, reference: Reference) -> HttpResponse:
    handoff = queries.get(caller(request).tenant, reference)
    verdict: dict[str, Any] = queries.current_verdict(handoff) or {}
    facts = verdict.get("chain")
    known = Chain.of_verdict(facts) if facts else Chain((handoff.source_agent_id,), handoff.target_agent_id)
    drawing = chain(known, standalone=True)
    response = HttpResponse(drawing.svg, content_type="image/svg+xml; charset=utf-8")
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    return response
