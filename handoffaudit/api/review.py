"""API of review: the queue of handoffs that wait for a person, decisions, assignments and comments."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, TypedDict

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import BeforeValidator, ConfigDict, Field

from handoffaudit.accounts.models import Person, Scope, Tenant
from handoffaudit.api import examples
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.handoffs import router
from handoffaudit.api.requests import NEXT, HandoffsQuery, Reference, check_names
from handoffaudit.api.schemas import HandoffOut, PassedOnOut, ProposalOut, ReviewedOut, SummaryOut, is_there
from handoffaudit.api.serializers import Answer, Extended, Moment, ProblemOut, Text, answer, at
from handoffaudit.diagnostics import group_members
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import activity, decisions, queue, undo
from handoffaudit.handoffs.review.base import MAX_NOTE, find_reviewer
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor

# This module uses the router of `handoffs`: all methods of an address must be on the same router.
__all__ = ["router"]

EXAMPLES: dict[str, Any] = {
    "approve": {
        "summary": "Approve a handoff",
        "value": {"decision": "approve", "note": "Checked with the desk.", "seen_version": 2},
    },
    "decline": {"summary": "Decline", "value": {"decision": "decline", "note": "The total is invented."}},
    "reopen": {
        "summary": "Reopen a decision",
        "value": {"decision": "reopen", "note": "The desk found another order.", "seen_version": 3},
    },
    "resend": {
        "summary": "Request a resend of an unreadable handoff",
        "value": {"decision": "resend", "note": "It ends in the middle of a text.", "seen_version": 2},
    },
    "handled": {"summary": "Mark an unreadable handoff as handled", "value": {"decision": "handled"}},
    "pass_on": {
        "summary": "Reassign to a reviewer",
        "value": {"decision": "pass_on", "note": "You know this customer.", "to": "ada"},
    },
}


class Step(StrEnum):
    """The decision or other step that the caller asks for."""

    APPROVE = "approve"
    DECLINE = "decline"
    RESEND = "resend"
    HANDLED = "handled"
    REOPEN = "reopen"
    PASS_ON = "pass_on"  # noqa: S105 -- no password


class ReviewIn(Schema):
    model_config = ConfigDict(extra="forbid")

    decision: Step = Field(
        description="approve, decline: for a held or rejected handoff. resend: declines an unreadable handoff and "
        "asks its sender to send it again. handled: removes an unreadable handoff from the queue without a "
        "decision. reopen: returns an approved or declined handoff to the queue. pass_on: reassigns the handoff "
        "without a decision.",
        examples=["approve"],
    )
    note: str = Field(
        "",
        description="The reason. Required to approve a rejected handoff, to reopen, and to reassign to nobody.",
        examples=["Checked with the desk."],
    )
    seen_version: int | None = Field(
        None,
        description="The `version` that you reviewed; a decision on an older version is answered 409.",
        examples=[3],
    )
    to: str | None = Field(
        None,
        description="For pass_on: the name of a reviewer or an administrator; omit to name nobody.",
        examples=["ada"],
        max_length=150,
    )


@router.post(
    "/handoffs/{reference}/review",
    auth=KeyWith(Scope.REVIEW),
    operation_id="review_handoff",
    summary="Decide a handoff, request a resend, mark as handled, reopen or reassign",
    response={200: HandoffOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra={"requestBody": {"content": {"application/json": {"examples": EXAMPLES}}}},
)
def review(request: HttpRequest, reference: Reference, asked: ReviewIn) -> HttpResponse:
    """Decide a handoff, or take another step such as reopening or reassigning the handoff.

    If the handoff's type needs two reviewers, the first decision is a proposal: the state does not change, and
    `awaits_second` is true. The same decision by another key or person takes effect.
    """
    who = caller(request)
    return _answer_reviewed(_decide(who.tenant, reference, asked, who.actor), who.tenant)


def _answer_reviewed(handoff: Handoff, tenant: Tenant) -> HttpResponse:
    proposal, passed_on = decisions.find_proposal(handoff), activity.reassignment_of(handoff)
    return answer(ReviewedOut, Extended(handoff, proposal=proposal, passed_on=passed_on), context=tenant)


def _decide(tenant: Tenant, reference: str, asked: ReviewIn, actor: Actor) -> Handoff:
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
        return activity.reassign(**common, to=_reviewer(tenant, asked.to))
    return decisions.decide_handoff(**common, decision=Decision(asked.decision))


class _Common(TypedDict):
    tenant: Tenant
    reference: str
    note: str
    actor: Actor
    seen_version: int | None


def _reviewer(tenant: Tenant, name: str | None) -> Person | None:
    return find_reviewer(tenant, name) if name else None


class AssignmentIn(Schema):
    model_config = ConfigDict(extra="forbid")

    to: str | None = Field(
        description="The name of a reviewer or an administrator; null for nobody, which returns a waiting handoff to "
        "the queue.",
        examples=["ada"],
        max_length=150,
    )
    note: str = Field(
        "",
        description="The reason. Optional. If `to` is null, a note is only possible for an assigned handoff.",
        examples=["You know this customer."],
    )
    seen_version: int | None = Field(
        None, description="The `version` that you saw; an assignment of an older version is answered 409.", examples=[3]
    )


@router.post(
    "/handoffs/{reference}/assign",
    auth=KeyWith(Scope.REVIEW),
    operation_id="assign_handoff",
    summary="Assign a handoff to a reviewer or to nobody",
    response={200: HandoffOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.body_example("To a reviewer", {"to": "ada", "note": "You know this customer."}),
)
def assign(request: HttpRequest, reference: Reference, asked: AssignmentIn) -> HttpResponse:
    """Assign a handoff in any state. An assigned handoff leaves the queue, and its state does not change.

    The assignment ends with the next proposal or change of the state, and when the assigned person may no longer decide
    in the tenant. Repeating the call without a note changes nothing. If `to` is null, the note is stored with the event
    that ends the assignment. A handoff that is not assigned has no such event, so the answer to a note is 409.
    """
    who = caller(request)
    handoff = activity.assign(
        tenant=who.tenant,
        reference=reference,
        note=asked.note,
        actor=who.actor,
        to=_reviewer(who.tenant, asked.to),
        seen_version=asked.seen_version,
    )
    return _answer_reviewed(handoff, who.tenant)


class CommentIn(Schema):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(
        description=f"The comment as plain text, at most {MAX_NOTE:,} characters.", examples=["Checked with the desk."]
    )


class CommentOut(Answer):
    id: Text = Field(description="The comment's id.")
    actor: dict[str, str] = Field(
        validation_alias="author",
        description="Who wrote the comment: `kind` (person or key) and `name`.",
        examples=[{"kind": "person", "name": "ada"}],
    )
    text: str = Field(description="The comment as plain text; empty if it was removed.")
    at: Moment = Field(description="When the comment was added.", examples=["2026-02-15T00:20:00Z"])
    edited_at: Moment | None = Field(description="When the author last changed the text; null if never.")
    removed_at: Moment | None = Field(description="When the author removed the text; null if the text is still there.")


class CommentsOut(Answer):
    items: list[CommentOut] = Field(description="The comments, newest first.")
    next: str | None = Field(description=NEXT)


class CommentsQuery(Schema):
    cursor: str = Field("", description="`next` of the page before.", examples=["019c5f1e-6f2f-7a77-9f3a-0123456789ab"])
    limit: int = Field(50, ge=1, le=100, description="The number of comments on a page.", examples=[50])


@router.get(
    "/handoffs/{reference}/comments",
    auth=KeyWith(Scope.READ),
    operation_id="list_comments",
    summary="List the comments on a handoff, newest first",
    response={200: CommentsOut, 400: ProblemOut, 404: ProblemOut},
)
def list_comments(request: HttpRequest, reference: Reference, query: Query[CommentsQuery]) -> HttpResponse:
    check_names(request, CommentsQuery)
    handoff = queries.get(caller(request).tenant, reference)
    found = activity.list_comments(handoff, cursor=query.cursor, limit=query.limit)
    return answer(CommentsOut, found)


@router.post(
    "/handoffs/{reference}/comments",
    auth=KeyWith(Scope.REVIEW),
    operation_id="add_comment",
    summary="Comment on a handoff",
    response={201: CommentOut, 404: ProblemOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.body_example("A comment", {"text": "Checked with the desk."}),
)
def add_comment(request: HttpRequest, reference: Reference, asked: CommentIn) -> HttpResponse:
    """Add a comment. A comment changes neither the state nor the `version` of the handoff.

    If the same caller sends the same text again within a minute, the text is stored once.
    """
    who = caller(request)
    made = activity.add_comment(tenant=who.tenant, reference=reference, text=asked.text, actor=who.actor)
    return answer(CommentOut, made, 201)


queue_router = Router(tags=["Review"])

# The views `mine` and `proposed` belong to a person, and a key is not a person.
VIEWS: Final = tuple(view for view in queue.VIEWS if view not in ("mine", "proposed"))


class QueueQuery(HandoffsQuery):
    view: str = Field(
        "all",
        description="all: waiting handoffs that are neither reassigned nor muted; with `group`, also muted handoffs. "
        "escalated, held, rejected: one part of `all`. passed_on: reassigned handoffs. second: handoffs with a "
        "proposed decision, which wait for a second reviewer. muted: rejected handoffs that are not escalated and "
        "whose errors (or, without errors, warnings) are all muted.",
        examples=["second"],
    )
    state: str = Field("", description="held or rejected; default: both.", examples=["held"])


class HeldByOut(Answer):
    name: str = Field(validation_alias=at("person.username"), description="Who has the handoff open.", examples=["ada"])
    until: Moment = Field(
        description="When the reservation ends, unless a decision ends it earlier.", examples=["2026-02-15T00:25:00Z"]
    )


class WaitingOut(SummaryOut):
    awaits_second: Annotated[bool, BeforeValidator(is_there)] = Field(
        validation_alias="proposal", description="Whether a decision is proposed and waits for a second reviewer."
    )
    proposal: ProposalOut | None = Field(description="The proposed decision and the reviewer who proposed it.")
    passed_on: PassedOnOut | None = Field(
        description="The reassignment, or the record that a person marked the handoff as handled; else null."
    )
    held_by: HeldByOut | None = Field(description="The reviewer who has the handoff open; null if nobody has.")


class QueueOut(Answer):
    items: list[WaitingOut] = Field(description="The handoffs in the order of review.")
    next: str | None = Field(description=NEXT)


@queue_router.get(
    "/review",
    auth=KeyWith(Scope.READ),
    operation_id="list_review_queue",
    summary="List the review queue: escalated, then held, oldest first; then rejected, newest first",
    response={200: QueueOut, 400: ProblemOut},
)
def list_queue(request: HttpRequest, query: Query[QueueQuery]) -> HttpResponse:
    """List the handoffs that wait for review.

    `POST /handoffs/{reference}/review` decides a handoff. The queue also has handoffs that can't be approved:
    unreadable handoffs and self-handoffs.
    """
    check_names(request, QueueQuery)
    tenant = caller(request).tenant
    if query.view not in VIEWS:
        raise FilterError("view", query.view[:40], f"use one of {', '.join(VIEWS)}.")
    filters = Filters.from_query(request.GET)
    for state in filters.state:
        if state not in REVIEWABLE:
            raise FilterError("state", state, f"only these wait for review: {', '.join(REVIEWABLE)}.")
    page = queue.list_queue(
        tenant,
        None,
        view=query.view,
        cursor=query.cursor,
        limit=query.limit,
        filters=filters,
        left_out=group_members.muted_handoffs(tenant),
    )
    return answer(QueueOut, {"items": _with_reviewers(page.items), "next": page.next}, context=tenant)


def _with_reviewers(handoffs: Sequence[Handoff]) -> list[Extended]:
    proposals, passed, held = (
        decisions.list_proposals(handoffs),
        activity.list_reassignments(handoffs),
        activity.list_holders(handoffs),
    )
    return [
        Extended(one, proposal=proposals.get(one.pk), passed_on=passed.get(one.pk), held_by=held.get(one.pk))
        for one in handoffs
    ]
