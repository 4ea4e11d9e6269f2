"""The published JSON Schemas of formats and results. No key: they say nothing about anybody."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import BaseModel

from handoffaudit.api import shapes
from handoffaudit.api.parameters import SchemaName
from handoffaudit.api.problems import Problem
from handoffaudit.api.schemas import ProblemOut, RepairOut
from handoffaudit.api.verdict_schemas import IssueOut, VerdictOut
from handoffaudit.validation.formats import SCHEMA_NAMES, schema
from handoffaudit.validation.library.published import RESULT_SCHEMA_NAMES, result_schema

router = Router(tags=["Schemas"])

RESULTS: dict[str, type[BaseModel]] = {
    "verdict": VerdictOut,
    "issue": IssueOut,
    "repair": RepairOut,
}
NAMES = (*SCHEMA_NAMES, *RESULT_SCHEMA_NAMES, *RESULTS)


@router.get(
    "/schemas/{name}.json",
    auth=None,
    operation_id="get_schema",
    summary="A JSON Schema",
    description=f"Names: {', '.join(NAMES)}.",
    response={200: dict[str, Any], 404: ProblemOut},
)
def get_schema(request: HttpRequest, name: SchemaName) -> HttpResponse:
    if name in SCHEMA_NAMES:
        return shapes.answer(schema(name))
    if name in RESULT_SCHEMA_NAMES:
        return shapes.answer(result_schema(name))
    if name in RESULTS:
        return shapes.answer(RESULTS[name].model_json_schema())
    raise Problem(404, "No such schema", f"There is no schema {name[:80]!r}; there are {', '.join(NAMES)}.")
