"""The strictness table by API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import shapes
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.policy import strictness
from handoffaudit.policy.parsing import parse_rows, to_plain
from handoffaudit.policy.strictness import Table

router = Router(tags=["Strictness"])

ROW = {
    "handoff_type": "research_result",
    "strictness": "strict",
    "mode": "enforce",
    "layers": {"tokens": True, "chain": True, "references": True, "consistency": True},
    "token_budget": 2000,
    "approval_length": 5,
    "recommended_length": 10,
    "circular_policy": "hold",
    "confidence_floor": 0.5,
    "hold_limit_hours": 24,
}


class TableOut(Schema):
    version: int = Field(examples=[3])
    rows: list[dict[str, Any]] = Field(examples=[[ROW, ROW | {"handoff_type": "*"}]])
    changed_by: str
    changed_at: str | None
    note: str


class TableIn(Schema):
    base_version: int = Field(description="The version that the change was made on.", examples=[3])
    rows: list[dict[str, Any]] = Field(
        description="The whole table; the row `*` stands for any other type.",
        examples=[[ROW, ROW | {"handoff_type": "*"}]],
    )
    note: str = ""


@router.get(
    "/strictness",
    auth=KeyWith(Scope.READ),
    operation_id="get_strictness",
    summary="The table",
    response={200: TableOut},
)
def get_strictness(request: HttpRequest) -> HttpResponse:
    return shapes.answer(_shown(strictness.current(caller(request).tenant)))


@router.put(
    "/strictness",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_strictness",
    summary="Save the table as a new version",
    response={200: TableOut, 409: ProblemOut, 422: ProblemOut},
)
def put_strictness(request: HttpRequest, table: TableIn) -> HttpResponse:
    who = caller(request)
    saved = strictness.save(
        tenant=who.tenant,
        base_version=table.base_version,
        rows=parse_rows(table.rows),
        actor=f"key {who.key.name}",
        note=table.note,
    )
    return shapes.answer(_shown(saved))


def _shown(table: Table) -> dict[str, Any]:
    return {
        "version": table.version,
        "rows": [to_plain(row) for row in table.rows],
        "changed_by": table.changed_by,
        "changed_at": shapes.moment(table.changed_at),
        "note": table.note,
    }
