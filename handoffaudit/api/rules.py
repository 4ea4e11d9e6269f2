"""Business rules by API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.policy import kinds
from handoffaudit.policy.rule_sets import examples as shipped
from handoffaudit.policy.rule_sets import to_plain

router = Router(tags=["Rules"])

SETS = [to_plain(one) for one in shipped()]
OFFERS = {
    "set_id": "offers",
    "name": "Offers",
    "rules": [
        {
            "rule_id": "price_limit",
            "name": "Offers stay below 1,000",
            "rule_type": "range",
            "field": "price",
            "operator": "lt",
            "threshold": 1000,
            "output_types": ["supplier_offer"],
        }
    ],
}


class RulesOut(policies.PolicyOut):
    sets: list[dict[str, Any]] = Field(
        description="All sets with their rules. A rule with `when` applies only where that condition is met.",
        examples=[SETS],
    )


class RulesIn(policies.PolicyIn):
    sets: list[dict[str, Any]] = Field(
        description="All sets. The product counts the `version` of each that changes. A rule applies always, or only "
        "where its `when` is met: `{field, operator, threshold}` or `{field, operator, compare_field}`, or a list of "
        "them under `all` or `any`.",
        examples=[SETS],
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
    openapi_extra=examples.saving("Offers stay below 1,000.", sets=[OFFERS]),
)
def put_rules(request: HttpRequest, rules: RulesIn) -> HttpResponse:
    return policies.save(request, kinds.rules, rules, rules.sets)
