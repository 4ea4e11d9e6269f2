"""API of erasures: a value, such as an e-mail, is counted, and after a confirmation replaced everywhere."""

import uuid
from collections.abc import Callable
from typing import Annotated, Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Path, Router, Schema
from pydantic import ConfigDict, Field

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Scope
from handoffaudit.api import errors, examples
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.api.serializers import Answer, Moment, answer
from handoffaudit.diagnostics import erasure
from handoffaudit.diagnostics.models import Erasure

router = Router(tags=["Retention"])

COUNTS = {"documents": 3, "verdicts": 3, "names": 1}
EXAMPLE: dict[str, Any] = {
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
    counted_at: Moment | None = Field(description="When all rows were counted.")
    confirmed_by: str = Field(description="Who confirmed the erasure; empty before that.")
    confirmed_at: Moment | None = Field(description="When the erasure was confirmed.")
    finished_at: Moment | None = Field(description="When the erasure ended. The value itself is no longer stored.")

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})


class ErasuresOut(Answer):
    items: list[ErasureOut] = Field(description="The newest 50 erasures, newest first.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [EXAMPLE]}]})


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
def list_all(request: HttpRequest) -> HttpResponse:
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
    """Count the rows with a value. Nothing is changed before the erasure is confirmed."""
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
    """Replace the value in every row. It can't be undone. A confirmed erasure does not change."""
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
