"""API of legal holds, which keep a handoff, a trace or a whole tenant from every removal."""

from enum import StrEnum
from typing import Annotated, Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Path, Query, Router, Schema
from pydantic import ConfigDict, Field

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Scope
from handoffaudit.api import errors, examples
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.api.serializers import Answer, Moment, answer
from handoffaudit.handoffs import legal_holds
from handoffaudit.handoffs.models import LegalHold

router = Router(tags=["Retention"])

NOT_STORED = "The hold can't be placed"
EXAMPLE: dict[str, Any] = {
    "id": 7,
    "scope": "trace",
    "key": "run-42",
    "name": "run-42",
    "reason": "Case 2026-117",
    "placed_by": "ada",
    "placed_at": "2026-02-14T12:00:00Z",
    "lifted_by": "",
    "lifted_at": None,
}


HoldId = Annotated[int, Path(description="The `id` of the hold.", examples=[7])]


class HoldScope(StrEnum):
    HANDOFF = "handoff"
    TRACE = "trace"
    TENANT = "tenant"


class HoldOut(Answer):
    id: int = Field(description="The number of the hold.")
    scope: str = Field(description="handoff, trace or tenant.")
    key: str = Field(description="The id of the handoff in this product, or of the trace; empty for the tenant.")
    name: str = Field(description="The handoff_id, the id of the trace, or the name of the tenant.")
    reason: str = Field(description="Why the data is held.")
    placed_by: str = Field(description="Who placed the hold.")
    placed_at: Moment = Field(description="When the hold was placed.")
    lifted_by: str = Field(description="Who lifted the hold; empty while it is active.")
    lifted_at: Moment | None = Field(description="When the hold was lifted; null while it is active.")

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})


class HoldsOut(Answer):
    items: list[HoldOut] = Field(description="Active and lifted holds, newest first.")
    next: int | None = Field(description="The value of `before` for the next page; null on the last page.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [EXAMPLE], "next": None}]})


class HoldsQuery(Schema):
    before: int | None = Field(None, ge=1, le=2**63 - 1, description="Only holds with a smaller number.")
    limit: int = Field(50, ge=1, le=100, description="Number of holds.")


class HoldIn(Schema):
    model_config = ConfigDict(extra="forbid")

    scope: HoldScope = Field(description="handoff, trace or tenant.", examples=["trace"])
    key: str = Field("", description="The id of the handoff or of the trace.", examples=["run-42"])
    reason: str = Field(description="Why the data is held.", examples=["Case 2026-117"])


class LiftIn(Schema):
    model_config = ConfigDict(extra="forbid")

    reason: str = Field(description="Why the hold is lifted, for the audit log.", examples=["The case is closed."])


@router.get(
    "/legal-holds",
    auth=KeyWith(Scope.ADMIN),
    operation_id="list_legal_holds",
    summary="List legal holds, newest first",
    response={200: HoldsOut, 400: ProblemOut},
)
def list_all(request: HttpRequest, query: Query[HoldsQuery]) -> HttpResponse:
    check_names(request, HoldsQuery)
    found = legal_holds.list_holds(caller(request).tenant, before=query.before, limit=query.limit + 1)
    page = found[: query.limit]
    return answer(HoldsOut, {"items": page, "next": page[-1].pk if len(found) > query.limit else None})


@router.post(
    "/legal-holds",
    auth=KeyWith(Scope.ADMIN),
    operation_id="place_legal_hold",
    summary="Place a legal hold",
    response={201: HoldOut, 422: ProblemOut},
    openapi_extra=examples.body_example("All data is needed.", {"scope": "tenant", "reason": "Case 2026-117"}),
)
def place(request: HttpRequest, asked: HoldIn) -> HttpResponse:
    """Keep a handoff, a trace or everything from removal, until the hold is lifted.

    An active hold on the same thing is returned as it is.
    """
    who = caller(request)
    try:
        made = legal_holds.place(
            tenant=who.tenant, scope=asked.scope.value, key=asked.key, reason=asked.reason, actor=who.named
        )
    except Refused as refused:
        raise Problem(422, NOT_STORED, refused.message, **errors.change_members(request, refused)) from None
    return answer(HoldOut, made, 201)


@router.post(
    "/legal-holds/{hold}/lift",
    auth=KeyWith(Scope.ADMIN),
    operation_id="lift_legal_hold",
    summary="Lift a legal hold",
    response={200: HoldOut, 404: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.body_example("The case is over.", {"reason": "The case is closed."}),
)
def lift(request: HttpRequest, hold: HoldId, asked: LiftIn) -> HttpResponse:
    """Lift a hold. What it kept is removed by the next run whose term has passed. A lifted hold does not change."""
    who = caller(request)
    if not 0 < hold < 2**63:
        raise Http404(f"There is no legal hold {hold}.")
    try:
        return answer(HoldOut, legal_holds.lift(tenant=who.tenant, hold=hold, reason=asked.reason, actor=who.named))
    except LegalHold.DoesNotExist:
        raise Http404(f"There is no legal hold {hold}.") from None
    except Refused as refused:
        raise Problem(
            422, "The hold can't be lifted", refused.message, **errors.change_members(request, refused)
        ) from None
