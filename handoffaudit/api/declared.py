"""Who is declared to hand to whom, by API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.policy import kinds

router = Router(tags=["Agents"])

ROWS = [{"source": "planner", "targets": ["critic", "writer"]}, {"source": "*", "targets": ["archive"]}]


class DeclaredOut(policies.PolicyOut):
    rows: list[dict[str, Any]] = Field(
        description="Who is meant to hand on, and to whom; * is anybody.", examples=[ROWS]
    )


class DeclaredIn(policies.PolicyIn):
    rows: list[dict[str, Any]] = Field(
        description="All agents that are meant to hand on, and to whom; * is anybody, on either side.", examples=[ROWS]
    )


@router.get(
    "/agents/declared",
    auth=KeyWith(Scope.READ),
    operation_id="get_declared_edges",
    summary="Who is declared to hand to whom",
    response={200: DeclaredOut},
)
def get_declared_edges(request: HttpRequest) -> HttpResponse:
    return policies.answer(request, kinds.agents)


@router.put(
    "/agents/declared",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_declared_edges",
    summary="Save who is declared to hand to whom as a new version",
    response={200: DeclaredOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.saving("The crew as planned.", rows=ROWS),
)
def put_declared_edges(request: HttpRequest, declared: DeclaredIn) -> HttpResponse:
    return policies.save(request, kinds.agents, declared, declared.rows)
