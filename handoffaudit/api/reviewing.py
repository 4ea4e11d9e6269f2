"""Deciding handoffs that wait for a person."""

from enum import StrEnum
from typing import Any, TypedDict

from django.http import HttpRequest, HttpResponse
from ninja import Schema
from pydantic import ConfigDict, Field

from handoffaudit.accounts.models import Person, Scope, Tenant
from handoffaudit.api import shapes
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.handoffs import router
from handoffaudit.api.parameters import Reference
from handoffaudit.api.schemas import HandoffOut, ProblemOut
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import assignments, decide, undo
from handoffaudit.handoffs.review.decide import Decision
from handoffaudit.handoffs.review.errors import NoReviewer
from handoffaudit.handoffs.transitions import Actor

# The one of reading, and not one of its own: an address with two methods must stand in one.
__all__ = ["router"]

EXAMPLES: dict[str, Any] = {
    "approve": {
        "summary": "Approve what was looked at",
        "value": {"decision": "approve", "note": "Checked with the desk.", "seen_version": 2},
    },
    "decline": {"summary": "Decline", "value": {"decision": "decline", "note": "The total is invented."}},
    "reopen": {
        "summary": "Decide again",
        "value": {"decision": "reopen", "note": "The desk found another order.", "seen_version": 3},
    },
    "resend": {
        "summary": "Ask for a resend of what could not be read",
        "value": {"decision": "resend", "note": "It ends in the middle of a text.", "seen_version": 2},
    },
    "handled": {"summary": "Mark as handled what could not be read", "value": {"decision": "handled"}},
    "pass_on": {
        "summary": "Pass on to a reviewer",
        "value": {"decision": "pass_on", "note": "You know this customer.", "to": "ada"},
    },
}


class Step(StrEnum):
    """What can be asked for."""

    APPROVE = "approve"
    DECLINE = "decline"
    RESEND = "resend"
    HANDLED = "handled"
    REOPEN = "reopen"
    PASS_ON = "pass_on"  # noqa: S105 -- no password


class ReviewIn(Schema):
    model_config = ConfigDict(extra="forbid")

    decision: Step = Field(
        description="approve and decline: a held or rejected one. resend: declines one that could not be read and asks "
        "its sender to send it again. handled: takes one that could not be read out of the queue without judging it. "
        "reopen: an approved or declined one waits again. pass_on: out of the queue without judging.",
        examples=["approve"],
    )
    note: str = Field(
        "",
        description="Why. Needed to approve what was rejected, to reopen and to pass on.",
        examples=["Checked with the desk."],
    )
    seen_version: int | None = Field(
        None, description="The `version` that was looked at: a decision on an older one is answered 409.", examples=[3]
    )
    to: str | None = Field(
        None,
        description="With pass_on: the name of a reviewer or an administrator; nobody in particular without.",
        examples=["ada"],
        max_length=150,
    )


@router.post(
    "/handoffs/{reference}/review",
    auth=KeyWith(Scope.REVIEW),
    operation_id="review_handoff",
    summary="Decide a handoff: approve, decline, ask for a resend, mark as handled, reopen or pass on",
    response={200: HandoffOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra={"requestBody": {"content": {"application/json": {"examples": EXAMPLES}}}},
)
def review(request: HttpRequest, reference: Reference, asked: ReviewIn) -> HttpResponse:
    """Where the type needs four eyes, the first decision is a proposal: the state stays, and `awaits_second` is true.
    The same decision by another key or person takes effect."""
    who = caller(request)
    handoff = _taken(who.tenant, reference, asked, who.actor)
    return shapes.answer(shapes.handoff_of(handoff, who.tenant.slug) | shapes.review_of(handoff))


def _taken(tenant: Tenant, reference: str, asked: ReviewIn, actor: Actor) -> Handoff:
    common: _Common = {
        "tenant": tenant,
        "reference": reference,
        "note": asked.note,
        "actor": actor,
        "seen_version": asked.seen_version,
    }
    if asked.decision is Step.REOPEN:
        return undo.reopen(**common)
    if asked.decision is Step.PASS_ON:
        return assignments.reassign(**common, to=_reviewer(tenant, asked.to))
    return decide.decide_handoff(**common, decision=Decision(asked.decision))


class _Common(TypedDict):
    tenant: Tenant
    reference: str
    note: str
    actor: Actor
    seen_version: int | None


def _reviewer(tenant: Tenant, name: str | None) -> Person | None:
    """The member of that name, in any case, as sign-in takes it. Raises `NoReviewer`."""
    if not name:
        return None
    found = next(
        (one for one in assignments.list_reviewers(tenant) if one.get_username().lower() == name.lower()), None
    )
    if found is None:
        raise NoReviewer(name)
    return found
