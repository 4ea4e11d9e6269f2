"""API of removal: legal holds, which keep data from every removal, and erasures of a value such as an e-mail."""

import uuid
from collections.abc import Callable
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
from handoffaudit.api.serializers import Answer, Moment, ProblemOut, answer
from handoffaudit.diagnostics import erasure
from handoffaudit.diagnostics.models import Erasure
from handoffaudit.handoffs import legal_holds
from handoffaudit.handoffs.models import HoldScope, LegalHold

router = Router(tags=["Retention"])

HOLD: dict[str, Any] = {
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


class HoldOut(Answer):
    id: int = Field(description="The number of the hold.")
    scope: str = Field(description="handoff, trace or tenant.")
    key: str = Field(description="The server's id of the handoff, or the id of the trace; empty for the tenant.")
    name: str = Field(description="The handoff_id, the id of the trace, or the slug of the tenant.")
    reason: str = Field(description="Why the data is held.")
    placed_by: str = Field(description="Who placed the hold.")
    placed_at: Moment = Field(description="When the hold was placed.")
    lifted_by: str = Field(description="Who lifted the hold; empty while it is active.")
    lifted_at: Moment | None = Field(description="When the hold was lifted; null while it is active.")

    model_config = ConfigDict(json_schema_extra={"examples": [HOLD]})


class HoldsOut(Answer):
    items: list[HoldOut] = Field(description="Active and lifted holds, newest first.")
    next: int | None = Field(description="The value of `before` for the next page; null on the last page.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [HOLD], "next": None}]})


class HoldsQuery(Schema):
    before: int | None = Field(None, ge=1, le=2**63 - 1, description="Only holds with a smaller number.")
    limit: int = Field(50, ge=1, le=100, description="Number of holds.")


class HoldIn(Schema):
    model_config = ConfigDict(extra="forbid")

    scope: HoldScope = Field(description="handoff, trace or tenant.", examples=["trace"])
    key: str = Field(
        "", description="The id of the handoff or of the trace; empty for the tenant.", examples=["run-42"]
    )
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
def list_holds(request: HttpRequest, query: Query[HoldsQuery]) -> HttpResponse:
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
    """Protect a handoff, a trace or all data of the tenant from removal, until the hold is lifted.

    If there is an active hold on the same handoff, trace or tenant, the answer is that hold, unchanged.
    """
    who = caller(request)
    try:
        made = legal_holds.place(
            tenant=who.tenant, scope=asked.scope.value, key=asked.key, reason=asked.reason, actor=who.named
        )
    except Refused as refused:
        members = errors.change_members(request, refused)
        raise Problem(422, "The hold can't be placed", refused.message, **members) from None
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
    """Lift a hold. The next deletion removes the data that the hold kept, if its retention period has ended.

    A hold that is already lifted does not change.
    """
    who = caller(request)
    if not 0 < hold < 2**63:
        raise Http404(f"There is no legal hold {hold}.")
    try:
        return answer(HoldOut, legal_holds.lift(tenant=who.tenant, hold=hold, reason=asked.reason, actor=who.named))
    except LegalHold.DoesNotExist:
        raise Http404(f"There is no legal hold {hold}.") from None
    except Refused as refused:
        members = errors.change_members(request, refused)
        raise Problem(422, "The hold can't be lifted", refused.message, **members) from None


COUNTS = {"documents": 3, "verdicts": 3, "names": 1}
ERASURE: dict[str, Any] = {
    "id": "019c5d3e-7a10-7c3e-8d1f-0a2b3c4d5e6f",
    "digest": "9f2c4a0be1d73f58",
    "reason": "Request of 14 February",
    "state": "done",
    "found": COUNTS,
    "erased": {"documents": 3, "verdicts": 3},
    "held": {},
    "requested_by": "ada",
    "requested_at": "2026-02-14T12:00:00Z",
    "counted_at": "2026-02-14T12:00:04Z",
    "confirmed_by": "ada",
    "confirmed_at": "2026-02-14T12:03:00Z",
    "finished_at": "2026-02-14T12:03:05Z",
}


ErasureId = Annotated[uuid.UUID, Path(description="The `id` of the erasure.")]


class ErasureOut(Answer):
    id: uuid.UUID = Field(description="The id of the erasure.")
    digest: str = Field(description="HMAC of the value with the secret key of the server, as a receipt.")
    reason: str = Field(description="Why the value is erased.")
    state: str = Field(description="counting, counted (waits for a confirmation), erasing, done or cancelled.")
    found: dict[str, int] = Field(description="Number of rows with the value, by kind of row.")
    erased: dict[str, int] = Field(description="Number of changed rows, by kind of row.")
    held: dict[str, int] = Field(description="Number of rows that a legal hold keeps unchanged, by kind of row.")
    requested_by: str = Field(description="Who asked for the erasure.")
    requested_at: Moment = Field(description="When the erasure was asked for.")
    counted_at: Moment | None = Field(description="When all rows were counted; null before that.")
    confirmed_by: str = Field(description="Who confirmed the erasure; empty before that.")
    confirmed_at: Moment | None = Field(description="When the erasure was confirmed; null before that.")
    finished_at: Moment | None = Field(
        description="When the erasure ended; null before that. Afterwards, the value itself is no longer stored."
    )

    model_config = ConfigDict(json_schema_extra={"examples": [ERASURE]})


class ErasuresOut(Answer):
    items: list[ErasureOut] = Field(description="The newest 50 erasures, newest first.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [ERASURE]}]})


class ErasureIn(Schema):
    model_config = ConfigDict(extra="forbid")

    value: str = Field(
        description=f"The value, with {erasure.SHORTEST} to {erasure.LONGEST} characters.",
        examples=["ada.lovelace@example.com"],
    )
    reason: str = Field(description="Why the value is erased.", examples=["Request of 14 February"])


@router.get(
    "/erasures",
    auth=KeyWith(Scope.ADMIN),
    operation_id="list_erasures",
    summary="List erasures and their receipts",
    response={200: ErasuresOut},
)
def list_erasures(request: HttpRequest) -> HttpResponse:
    return answer(ErasuresOut, {"items": erasure.list_erasures(caller(request).tenant)})


@router.post(
    "/erasures",
    auth=KeyWith(Scope.ADMIN),
    operation_id="request_erasure",
    summary="Count the rows with a value, to erase it",
    response={202: ErasureOut, 422: ProblemOut},
    openapi_extra=examples.body_example(
        "A person asks for it.", {"value": "ada.lovelace@example.com", "reason": "Request of 14 February"}
    ),
)
def request_erasure(request: HttpRequest, asked: ErasureIn) -> HttpResponse:
    """Count the rows with a value. Nothing is changed before the erasure is confirmed.

    If an erasure of the value is unfinished, the answer is that erasure.
    """
    who = caller(request)
    try:
        made = erasure.request(tenant=who.tenant, value=asked.value, reason=asked.reason, actor=who.named)
    except Refused as refused:
        members = errors.change_members(request, refused)
        raise Problem(422, "The value can't be erased", refused.message, **members) from None
    return answer(ErasureOut, made, 202)


@router.get(
    "/erasures/{erasure_id}",
    auth=KeyWith(Scope.ADMIN),
    operation_id="get_erasure",
    summary="Get one erasure",
    response={200: ErasureOut, 404: ProblemOut},
)
def get_erasure(request: HttpRequest, erasure_id: ErasureId) -> HttpResponse:
    found = Erasure.objects.filter(tenant=caller(request).tenant, pk=erasure_id).first()
    if found is None:
        raise Http404(f"There is no erasure {erasure_id}.")
    return answer(ErasureOut, found)


@router.post(
    "/erasures/{erasure_id}/confirm",
    auth=KeyWith(Scope.ADMIN),
    operation_id="confirm_erasure",
    summary="Erase a counted value",
    response={202: ErasureOut, 404: ProblemOut, 409: ProblemOut},
)
def confirm(request: HttpRequest, erasure_id: ErasureId) -> HttpResponse:
    """Begin to replace the value in every row, except rows under a legal hold.

    The replacement can't be undone. Confirming again changes nothing.
    """
    return answer(ErasureOut, _change(request, erasure_id, erasure.confirm), 202)


@router.post(
    "/erasures/{erasure_id}/cancel",
    auth=KeyWith(Scope.ADMIN),
    operation_id="cancel_erasure",
    summary="Cancel an erasure before it is confirmed",
    response={200: ErasureOut, 404: ProblemOut, 409: ProblemOut},
)
def cancel(request: HttpRequest, erasure_id: ErasureId) -> HttpResponse:
    return answer(ErasureOut, _change(request, erasure_id, erasure.cancel))


def _change(request: HttpRequest, pk: uuid.UUID, change: Callable[..., Erasure]) -> Erasure:
    who = caller(request)
    try:
        return change(tenant=who.tenant, erasure=pk, actor=who.named)
    except Erasure.DoesNotExist:
        raise Http404(f"There is no erasure {pk}.") from None
    except Refused as refused:
        raise Problem(409, "The erasure is in another state", refused.message) from None
