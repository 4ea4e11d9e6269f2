"""The strictness table by API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.policy import kinds
from handoffaudit.policy.parsing import to_plain
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy

router = Router(tags=["Strictness"])

ROWS = [to_plain(TypePolicy("research_result")), to_plain(TypePolicy(ANY_OTHER_TYPE))]
# The table as shipped, with one change: what a row leaves out is as shipped.
SHADOWED = [
    {"handoff_type": "customer_info"},
    {"handoff_type": "deal_data"},
    {"handoff_type": "delegation", "token_budget": 20_000},
    {"handoff_type": "handoff", "token_budget": 20_000},
    {"handoff_type": "message", "token_budget": 20_000},
    {"handoff_type": "notification", "strictness": "lenient"},
    {"handoff_type": "research_result", "mode": "shadow"},
    {"handoff_type": "status_update", "strictness": "lenient"},
    {"handoff_type": ANY_OTHER_TYPE},
]


class TableOut(policies.PolicyOut):
    rows: list[dict[str, Any]] = Field(
        description="One row for each type, and the row `*` for any other type.", examples=[ROWS]
    )


class TableIn(policies.PolicyIn):
    rows: list[dict[str, Any]] = Field(
        description="The whole table; the row `*` stands for any other type.", examples=[ROWS]
    )


@router.get(
    "/strictness",
    auth=KeyWith(Scope.READ),
    operation_id="get_strictness",
    summary="The table",
    response={200: TableOut},
)
def get_strictness(request: HttpRequest) -> HttpResponse:
    return policies.answer(request, kinds.strictness)


@router.put(
    "/strictness",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_strictness",
    summary="Save the table as a new version",
    response={200: TableOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.saving("Try it first.", rows=SHADOWED),
)
def put_strictness(request: HttpRequest, table: TableIn) -> HttpResponse:
    return policies.save(request, kinds.strictness, table, table.rows)
