"""API of retention: how long each kind of data is kept."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import BeforeValidator, Field, WithJsonSchema

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.requests import check_names
from handoffaudit.api.serializers import Answer, Extended, Moment, ProblemOut, answer, at
from handoffaudit.diagnostics import retention_run
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.policy import kinds, values
from handoffaudit.policy.retention import LEAST, MOST, Data, Retention, RetentionModel, parse_row, warning_of
from handoffaudit.policy.versions import Table

router = Router(tags=["Retention"])

ROWS = [{"name": "logs", "days": 90}, {"name": "model_calls", "days": None}]


class CountOut(Answer):
    number: int = Field(description="Number of items.")
    more: bool = Field(description="Whether counting stopped at `number`; if so, there may be more.")


def _least_days(kind: Data) -> int:
    return LEAST[kind]


class StandingOut(Answer):
    name: str = Field(validation_alias=at("rule.name"), description="The kind of data.", examples=["logs"])
    least_days: Annotated[int, BeforeValidator(_least_days)] = Field(
        validation_alias=at("rule.name"), description="Minimum number of days."
    )
    warning: Annotated[str | None, BeforeValidator(lambda row: warning_of(row) or None)] = Field(
        validation_alias=at("rule"),
        description="A warning if this data is kept for less than six months and counts as logs; else null.",
    )
    there: CountOut = Field(description="Amount stored: lines for logs, rows for all other kinds.")
    oldest: Moment | None = Field(description="The time of the oldest item; null if nothing is stored.")
    next_run: Moment | None = Field(
        validation_alias="next_at", description="When the next run deletes data; null if kept forever."
    )
    goes: CountOut | None = Field(description="The amount that the next run deletes; null if kept forever.")
    removed: int = Field(validation_alias=at("last.removed"), description="The amount that all runs have deleted.")
    removed_at: Moment | None = Field(
        validation_alias=at("last.removed_at"), description="When a run last deleted something; null if no run did."
    )
    removed_before: Moment | None = Field(
        validation_alias=at("last.removed_before"),
        description="The run at `removed_at` deleted what was older than this time, except what a legal hold kept.",
    )


class RetentionPreviewOut(Answer):
    name: str = Field(description="The kind of data.", examples=["logs"])
    goes: CountOut = Field(
        description="The amount that the first run would delete, by default an hour after the rows are saved."
    )


class RetentionPreviewsOut(Answer):
    items: list[RetentionPreviewOut] = Field(description="The effect of each row that was sent.")


class RetentionRunOut(Answer):
    ended_at: Moment = Field(validation_alias="at", description="When the run ended.")
    name: str = Field(validation_alias="target", description="The kind of data.", examples=["logs"])
    removed: int = Field(validation_alias=at("detail.removed"), description="The amount that the run deleted.")
    report: dict[str, Any] = Field(
        validation_alias="detail",
        description="The rule of the run, what it deleted, how long it took, and in `held` what a legal hold kept.",
        examples=[{"removed": 120, "kept_days": 90, "before": "2025-11-16T12:00:00+00:00", "seconds": 1.2}],
    )


class RetentionRunsOut(Answer):
    items: list[RetentionRunOut] = Field(description="Runs that deleted something, newest first.")
    next: int | None = Field(description="The value of `before` for the next page; null on the last page.")


class RunsQuery(Schema):
    before: int | None = Field(None, ge=1, le=2**31 - 1, description="Only audit entries before this number.")
    limit: int = Field(
        50, ge=1, le=100, description="Number of audit entries about retention to read; only reports are returned."
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


class RetentionPreviewIn(Schema):
    rows: list[RetentionJson] = Field(
        max_length=len(Data), description="The rows to try, as in `PUT /retention`.", examples=[ROWS]
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

    By default, deletion starts an hour later. It can't be undone: check `goes` in the answer before then.
    """
    return _answer(request, policies.save_policy(request, kinds.retention, change, change.rows))


@router.post(
    "/retention/preview",
    auth=KeyWith(Scope.ADMIN),
    operation_id="preview_retention",
    summary="Count what rules would delete, without saving them",
    response={200: RetentionPreviewsOut, 422: ProblemOut},
    openapi_extra=examples.body_example("Other terms.", {"rows": ROWS}),
)
def preview_retention(request: HttpRequest, asked: RetentionPreviewIn) -> HttpResponse:
    """Count what the first run would delete if these rows were saved. Data under a legal hold is not counted."""
    tenant = caller(request).tenant
    rows = values.read_all(asked.rows, parse_row)
    begins = timezone.now() + retention_run.first_after()
    items = [{"name": row.name.value, "goes": retention_run.count_going(tenant, row, begins)} for row in rows]
    return answer(RetentionPreviewsOut, {"items": items})


@router.get(
    "/retention/runs",
    auth=KeyWith(Scope.ADMIN),
    operation_id="list_retention_runs",
    summary="List the reports of deletion runs, newest first",
    response={200: RetentionRunsOut, 400: ProblemOut},
)
def list_runs(request: HttpRequest, query: Query[RunsQuery]) -> HttpResponse:
    """List the reports of runs that deleted something, from the audit log. A page can have fewer items than `limit`."""
    check_names(request, RunsQuery)
    found = audit.list_entries(caller(request).tenant, kind="retention", before=query.before, limit=query.limit)
    runs = [entry for entry in found.items if entry.action == retention_run.REMOVED]
    return answer(RetentionRunsOut, {"items": runs, "next": found.before})


def _answer(request: HttpRequest, table: Table[Retention]) -> HttpResponse:
    found = retention_run.list_standings(caller(request).tenant, table)
    standing = [Extended(one, last=one.last or RetentionRun()) for one in found]
    return policies.policy_response(RetentionOut, kinds.retention, table, standing=standing)
