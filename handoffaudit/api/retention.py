"""API of retention: how long each kind of data is kept."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import BeforeValidator, Field, WithJsonSchema

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.api.serializers import Answer, Extended, Moment, at
from handoffaudit.diagnostics import retention_run
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.policy import kinds
from handoffaudit.policy.retention import LEAST, MOST, Data, Retention, RetentionModel, warning_of
from handoffaudit.policy.versions import Table

router = Router(tags=["Retention"])

ROWS = [{"name": "logs", "days": 90}, {"name": "model_calls", "days": None}]


class CountOut(Answer):
    number: int = Field(description="Number of items.")
    more: bool = Field(description="The count is a minimum; counting stopped here.")


def _least_days(kind: Data) -> int:
    return LEAST[kind]


class StandingOut(Answer):
    name: str = Field(validation_alias=at("rule.name"), description="The kind of data.", examples=["logs"])
    least_days: Annotated[int, BeforeValidator(_least_days)] = Field(
        validation_alias=at("rule.name"), description="Minimum number of days."
    )
    warning: Annotated[str | None, BeforeValidator(lambda row: warning_of(row) or None)] = Field(
        validation_alias=at("rule"), description="A warning if logs are kept for less than six months; else null."
    )
    there: CountOut = Field(description="Amount stored: lines for logs, rows for others.")
    oldest: Moment | None = Field(description="When the oldest item arrived.")
    next_run: Moment | None = Field(
        validation_alias="next_at", description="When the next run deletes data; null if kept forever."
    )
    goes: CountOut | None = Field(description="The amount that the next run deletes.")
    removed: int = Field(validation_alias=at("last.removed"), description="The amount that all runs have deleted.")
    removed_at: Moment | None = Field(
        validation_alias=at("last.removed_at"), description="When a run last deleted something."
    )
    removed_before: Moment | None = Field(
        validation_alias=at("last.removed_before"), description="That run deleted everything older than this."
    )


RetentionJson = Annotated[dict[str, Any], WithJsonSchema(RetentionModel.model_json_schema())]


class RetentionOut(policies.PolicyOut):
    rows: list[RetentionJson] = Field(description="Days to keep for each kind of data; null: forever.", examples=[ROWS])
    standing: list[StandingOut] = Field(description="The stored amount of each kind, and its next deletion.")


class RetentionIn(policies.PolicyIn):
    rows: list[RetentionJson] = Field(
        description=f"Days to keep for each kind of data, at most {MOST:,}; null: forever. A kind that "
        "is not named keeps the shipped default.",
        examples=[ROWS],
    )


@router.get(
    "/retention",
    auth=KeyWith(Scope.ADMIN),
    operation_id="get_retention",
    summary="Get the retention of each kind of data",
    response={200: RetentionOut},
)
def get_retention(request: HttpRequest) -> HttpResponse:
    """Return how long each kind of data is kept, how much is stored, and what the next run deletes."""
    return _answer(request, kinds.retention.current(caller(request).tenant))


@router.put(
    "/retention",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_retention",
    summary="Save the retention of each kind of data as a new version",
    response={200: RetentionOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Logs of a quarter are enough.", rows=ROWS),
)
def put_retention(request: HttpRequest, change: RetentionIn) -> HttpResponse:
    """Save how long each kind of data is kept.

    Deletion starts an hour later and can't be undone: check `goes` in the answer before then.
    """
    return _answer(request, policies.save_policy(request, kinds.retention, change, change.rows))


def _answer(request: HttpRequest, table: Table[Retention]) -> HttpResponse:
    found = retention_run.list_standings(caller(request).tenant, table)
    standing = [Extended(one, last=one.last or RetentionRun()) for one in found]
    return policies.policy_response(RetentionOut, kinds.retention, table, standing=standing)
