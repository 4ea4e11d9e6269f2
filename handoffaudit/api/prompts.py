"""Prompts of users by API."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.policy import kinds
from handoffaudit.validation.asking.question import Use

router = Router(tags=["Prompts"])

ROWS = [
    {
        "use": Use.GROUNDING.value,
        "handoff_type": "deal_data",
        "workflow": None,
        "text": "You check offers before they are sent. Is every amount one of the price list in the context?",
    }
]


class PromptsOut(policies.PolicyOut):
    rows: list[dict[str, Any]] = Field(description="The prompts that replace a shipped one.", examples=[ROWS])


class PromptsIn(policies.PolicyIn):
    rows: list[dict[str, Any]] = Field(
        description=f"All prompts that replace a shipped one. `use`: {', '.join(Use)}. Each is for a `handoff_type`, "
        "for a `workflow`, or, where both are null, for all handoffs.",
        examples=[ROWS],
    )


@router.get(
    "/prompts",
    auth=KeyWith(Scope.READ),
    operation_id="get_prompts",
    summary="The prompts in force",
    response={200: PromptsOut},
)
def get_prompts(request: HttpRequest) -> HttpResponse:
    return policies.answer(request, kinds.prompts)


@router.put(
    "/prompts",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_prompts",
    summary="Save all prompts as a new version",
    response={200: PromptsOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.saving("Prices are in the list.", rows=ROWS),
)
def put_prompts(request: HttpRequest, prompts: PromptsIn) -> HttpResponse:
    return policies.save(request, kinds.prompts, prompts, prompts.rows)
