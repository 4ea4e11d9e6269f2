"""Business rules by API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import policies
from handoffaudit.api.auth import KeyWith
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.policy import kinds
from handoffaudit.policy.rule_sets import examples, to_plain

router = Router(tags=["Rules"])

SETS = [to_plain(one) for one in examples()]


class RulesOut(policies.PolicyOut):
    sets: list[dict[str, Any]] = Field(examples=[SETS])


class RulesIn(policies.PolicyIn):
    sets: list[dict[str, Any]] = Field(
        description="All sets. The product counts the `version` of each that changes.", examples=[SETS]
    )


@router.get(
    "/rules", auth=KeyWith(Scope.READ), operation_id="get_rules", summary="The rules in force", response={200: RulesOut}
)
def get_rules(request: HttpRequest) -> HttpResponse:
    return policies.answer(request, kinds.rules)


@router.put(
    "/rules",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_rules",
    summary="Save all rules as a new version",
    response={200: RulesOut, 409: ProblemOut, 422: ProblemOut},
)
def put_rules(request: HttpRequest, rules: RulesIn) -> HttpResponse:
    return policies.save(request, kinds.rules, rules, rules.sets)
