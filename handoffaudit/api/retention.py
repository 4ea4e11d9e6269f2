"""API of retention: how long each kind of data is kept."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.diagnostics.retention import run
from handoffaudit.diagnostics.retention.run import Count, Standing
from handoffaudit.policy import kinds
from handoffaudit.policy.retention import LEAST, MOST

router = Router(tags=["Retention"])

ROWS = [{"name": "logs", "days": 90}, {"name": "model_calls", "days": None}]


class CountOut(Schema):
    number: int = Field(description="How many.")
    more: bool = Field(description="Counting stopped there: there are more.")


class StandingOut(Schema):
    name: str = Field(description="The kind of data.", examples=["logs"])
    least_days: int = Field(description="No fewer days can be set.")
    there: CountOut = Field(description="How much there is: lines of logs, else rows.")
    oldest: str | None = Field(description="When the oldest of it came.")
    next_run: str | None = Field(description="Null where it is kept for good.")
    goes: CountOut | None = Field(description="What goes in the next run.")
    removed: int = Field(description="What all runs together have removed.")
    removed_at: str | None = Field(description="When a run removed something last.")
    removed_before: str | None = Field(description="What is older than this was removed then.")


class RetentionOut(policies.PolicyOut):
    rows: list[dict[str, Any]] = Field(
        description="Each kind of data with the days that it is kept; null: for good.", examples=[ROWS]
    )
    standing: list[StandingOut] = Field(description="How much there is of each, and what goes next.")


class RetentionIn(policies.PolicyIn):
    rows: list[dict[str, Any]] = Field(
        description=f"Each kind of data with the days that it is kept, at most {MOST:,}; null: for good. A kind that "
        "is not named is kept as shipped.",
        examples=[ROWS],
    )


@router.get(
    "/retention",
    auth=KeyWith(Scope.ADMIN),
    operation_id="get_retention",
    summary="For how long each kind of data is kept",
    response={200: RetentionOut},
)
def get_retention(request: HttpRequest) -> HttpResponse:
    """Return how long each kind of data is kept, how much is stored, and what the next run deletes."""
    return _answer(request)


@router.put(
    "/retention",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_retention",
    summary="Save for how long each kind of data is kept as a new version",
    response={200: RetentionOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Logs of a quarter are enough.", rows=ROWS),
)
def put_retention(request: HttpRequest, change: RetentionIn) -> HttpResponse:
    """Save how long each kind of data is kept.

    Deletion starts an hour later and can't be undone: check `goes` in the answer before then.
    """
    policies.save_policy(request, kinds.retention, change, change.rows)
    return _answer(request)


def _answer(request: HttpRequest) -> HttpResponse:
    tenant = caller(request).tenant
    table = kinds.retention.current(tenant)
    standing = [_standing(one) for one in run.list_standings(tenant, table)]
    return serializers.json_response(policies.version_json(kinds.retention, table) | {"standing": standing})


def _standing(one: Standing) -> dict[str, Any]:
    last = one.last
    return {
        "name": one.rule.name.value,
        "least_days": LEAST[one.rule.name],
        "there": _count(one.there),
        "oldest": serializers.moment(one.oldest),
        "next_run": serializers.moment(one.next_at),
        "goes": _count(one.goes) if one.goes is not None else None,
        "removed": last.removed if last else 0,
        "removed_at": serializers.moment(last.removed_at) if last else None,
        "removed_before": serializers.moment(last.removed_before) if last else None,
    }


def _count(count: Count) -> dict[str, Any]:
    return {"number": count.number, "more": count.more}
