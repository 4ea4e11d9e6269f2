"""API of JSON Schemas: the schemas of handoff types, and the published schemas of formats and results."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import BaseModel, Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies, serializers
from handoffaudit.api.auth import KeyWith
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import SchemaName
from handoffaudit.api.schemas import IssueOut, ProblemOut, RepairOut, VerdictOut
from handoffaudit.policy import kinds
from handoffaudit.validation.formats import SCHEMA_NAMES, schema
from handoffaudit.validation.library.published import RESULT_SCHEMA_NAMES, result_schema

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
    rows: list[dict[str, Any]] = Field(
        description="The handoff types that have a schema or claim fields.", examples=[ROWS]
    )


class SchemasIn(policies.PolicyIn):
    rows: list[dict[str, Any]] = Field(
        description="All types with a schema (draft 2020-12: an object, true or false) or claim fields; null if a "
        "type lacks either. `assert_formats` also checks `format`; default false.",
        examples=[ROWS],
    )


@router.get(
    "/schemas",
    auth=KeyWith(Scope.READ),
    operation_id="get_schemas",
    summary="List the schemas by type",
    response={200: SchemasOut},
)
def get_schemas(request: HttpRequest) -> HttpResponse:
    return policies.policy_response(request, kinds.schemas)


@router.put(
    "/schemas",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_schemas",
    summary="Save the schemas by type as a new version",
    response={200: SchemasOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Amounts are numbers.", rows=ROWS),
)
def put_schemas(request: HttpRequest, schemas: SchemasIn) -> HttpResponse:
    return policies.save_policy(request, kinds.schemas, schemas, schemas.rows)


published_router = Router(tags=["Schemas"])

RESULTS: dict[str, type[BaseModel]] = {
    "verdict": VerdictOut,
    "issue": IssueOut,
    "repair": RepairOut,
}

NAMES = (*SCHEMA_NAMES, *RESULT_SCHEMA_NAMES, *RESULTS)


@published_router.get(
    "/schemas/{name}.json",
    auth=None,
    operation_id="get_schema",
    summary="Get a JSON Schema",
    description=f"Names: {', '.join(NAMES)}.",
    response={200: dict[str, Any], 404: ProblemOut},
)
def get_schema(request: HttpRequest, name: SchemaName) -> HttpResponse:
    if name in SCHEMA_NAMES:
        return serializers.json_response(schema(name))
    if name in RESULT_SCHEMA_NAMES:
        return serializers.json_response(result_schema(name))
    if name in RESULTS:
        return serializers.json_response(RESULTS[name].model_json_schema())
    raise Problem(404, "No such schema", f"There is no schema {name[:80]!r}; there are {', '.join(NAMES)}.")
