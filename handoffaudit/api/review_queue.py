"""The review queue by API: what waits for a person, in the order in which it is to be decided."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import shapes
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.parameters import HandoffsQuery
from handoffaudit.api.reading_requests import check_names
from handoffaudit.api.schemas import PassedOnOut, ProblemOut, ProposalOut, SummaryOut
from handoffaudit.diagnostics import groups
from handoffaudit.handoffs.filters import FilterError, Filters
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import assignments, queue
from handoffaudit.handoffs.review import proposals as review_proposals
from handoffaudit.handoffs.transitions import REVIEWABLE

router = Router(tags=["Review"])

# These are a person's, and a key is none.
VIEWS: Final = tuple(view for view in queue.VIEWS if view not in ("mine", "proposed"))


class QueueQuery(HandoffsQuery):
    view: str = Field(
        "all",
        description="all: what waits for anybody. passed_on: what somebody passed on. second: what is proposed and "
        "waits for a second person. muted: what is nothing but muted findings, and is left out of all.",
        examples=["second"],
    )
    state: str = Field("", description="held, rejected or both.", examples=["held"])


class HeldByOut(Schema):
    name: str = Field(description="Who.", examples=["ada"])
    until: str = Field(description="When it is free again, if nothing is done", examples=["2026-02-15T00:25:00Z"])


class WaitingOut(SummaryOut):
    awaits_second: bool = Field(description="A decision is proposed, and a second person makes it.")
    proposal: ProposalOut | None = Field(description="What is proposed, and by whom.")
    passed_on: PassedOnOut | None = Field(description="Out of the queue without being judged.")
    held_by: HeldByOut | None = Field(description="Who has it open")


class QueueOut(Schema):
    items: list[WaitingOut] = Field(description="In the order in which they are to be decided.")
    next: str | None = Field(description="The cursor of the next page; null on the last one")


@router.get(
    "/review",
    auth=KeyWith(Scope.READ),
    operation_id="list_review_queue",
    summary="What waits for a person: escalated, then held, oldest first; then rejected, newest first",
    response={200: QueueOut, 400: ProblemOut},
)
def list_queue(request: HttpRequest, query: Query[QueueQuery]) -> HttpResponse:
    """`POST /handoffs/{reference}/review` decides one. What can't be approved does not wait."""
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
        left_out=groups.muted_handoffs(tenant),
    )
    return shapes.answer({"items": _shown(tenant, page.items), "next": page.next})


def _shown(tenant: Tenant, handoffs: Sequence[Handoff]) -> list[dict[str, Any]]:
    proposals, passed, held = (
        review_proposals.list_proposals(handoffs),
        assignments.list_reassignments(handoffs),
        assignments.list_holders(handoffs),
    )
    return [
        shapes.handoff_of(one, tenant.slug)
        | shapes.review_as(proposals.get(one.pk), passed.get(one.pk))
        | {
            "held_by": {"name": hold.person.get_username(), "until": shapes.moment(hold.until)}
            if (hold := held.get(one.pk))
            else None
        }
        for one in handoffs
    ]
