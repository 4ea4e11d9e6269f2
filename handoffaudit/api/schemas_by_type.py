"""JSON Schemas and claim fields of single types by API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.policy import kinds

router = Router(tags=["Schemas"])

ROWS = [
    {
        "handoff_type": "deal_data",
        "schema": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
        "assert_formats": False,
        "claim_fields": ["summary", "layers.*.key_findings"],
    },
    {"handoff_type": "research_result", "schema": None, "assert_formats": False, "claim_fields": ["findings"]},
]


class SchemasOut(policies.PolicyOut):
    rows: list[dict[str, Any]] = Field(description="The types that have a schema or claim fields.", examples=[ROWS])


class SchemasIn(policies.PolicyIn):
    rows: list[dict[str, Any]] = Field(
        description="All types that have a schema (draft 2020-12: an object, true or false) or claim fields; null "
        "where a type has no such. `assert_formats`: `format` is checked, too; default false.",
        examples=[ROWS],
    )


@router.get(
    "/schemas",
    auth=KeyWith(Scope.READ),
    operation_id="get_schemas",
    summary="The schemas by type",
    response={200: SchemasOut},
)
def get_schemas(request: HttpRequest) -> HttpResponse:
    return policies.answer(request, kinds.schemas)


@router.put(
    "/schemas",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_schemas",
    summary="Save the schemas by type as a new version",
    response={200: SchemasOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.saving("Amounts are numbers.", rows=ROWS),
)
def put_schemas(request: HttpRequest, schemas: SchemasIn) -> HttpResponse:
    return policies.save(request, kinds.schemas, schemas, schemas.rows)
