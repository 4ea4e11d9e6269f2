"""API of finding groups: list and read groups, mute and unmute them."""

from enum import StrEnum
from typing import Annotated, Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Path, Query, Router, Schema
from pydantic import ConfigDict, Field

from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import errors, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import NOTE, Problem
from handoffaudit.api.requests import LIMIT, NEXT, SOURCE, TARGET, check_names
from handoffaudit.api.schemas import HandoffsOut, ProblemOut
from handoffaudit.diagnostics.groups import queries as groups_queries
from handoffaudit.diagnostics.groups import store
from handoffaudit.diagnostics.groups.queries import SORTS, STATUSES, GroupFilters, ListedGroup, list_groups, list_one
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.validation.codes import entry_of

router = Router(tags=["Findings"])

GroupId = Annotated[int, Path(description="The group's `id`.", ge=1, le=10**12 - 1, examples=[12])]

EXAMPLE: Final[dict[str, Any]] = {
    "id": 12,
    "code": "chain.circular",
    "title": "Circular chain",
    "path": "target_agent_id",
    "source_agent_id": "researcher",
    "target_agent_id": "planner",
    "handoffs": 104,
    "waiting": 7,
    "more_wait": False,
    "first_seen": "2026-02-11T08:02:00.000Z",
    "last_seen": "2026-02-15T00:15:00.000Z",
    "signs": ["regressed", "growing"],
    "last_days": [0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 9, 20, 31, 33],
    "muted": None,
    "regressed_at": "2026-02-14T22:40:00.000Z",
    "links": {
        "self": "/api/v1/groups/12",
        "handoffs": "/api/v1/groups/12/handoffs",
        "page": "https://audit.example.com/t/default/groups/12/",
    },
}
MUTING: Final[dict[str, Any]] = {
    "fifth": {"summary": "Until it grew by a fifth", "value": {"note": "Known; the planner is fixed on Monday."}},
    "good": {"summary": "For good", "value": {"until": "good", "note": "These agents may hand back."}},
}


class Until(StrEnum):
    """The growth after which a muted finding group comes back."""

    FIFTH = store.FIFTH
    TEN = "10"
    FIFTY = "50"
    DOUBLE = "double"
    FOR_GOOD = store.FOR_GOOD


class GroupsQuery(Schema):
    status: str = Field("open", description=f"{', '.join(STATUSES)}.", examples=["regressed"])
    sort: str = Field("newest", description=f"{', '.join(SORTS)}; the last two list only matching groups.")
    code: str = Field("", description="Only this rule code.", examples=["chain.circular"])
    source: str = Field("", description=SOURCE)
    target: str = Field("", description=TARGET)
    agent: str = Field("", description="Only groups with this source or target agent.")
    since: str = Field("", description="Seen since: a date, a date and time, or 24h, 7d, 30d ago.", examples=["7d"])
    until: str = Field("", description="First seen before this time.")
    cursor: str = Field("", description="The `next` of the previous page.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)


class GroupHandoffsQuery(Schema):
    cursor: str = Field("", description="The `next` of the previous page.")
    limit: int = Field(50, ge=1, le=200, description=LIMIT)


class MuteOut(Schema):
    at: str = Field(description="When the group was muted.")
    by: str = Field(description="Who muted the group.")
    note: str = Field(description="Why the group was muted.")
    until: int | None = Field(description="Number of handoffs at which the group returns; null: never.")


class GroupLinksOut(Schema):
    self: str = Field(description="The address of the group.")
    handoffs: str = Field(description="The address of its handoffs.")
    page: str = Field(description="The web page of the group.")


class GroupOut(Schema):
    id: int = Field(description="The id of the group.")
    code: str = Field(description="The rule code of all findings in the group.")
    title: str = Field(description="The title of the rule code.")
    path: str = Field(description="The kind of place in the document; empty for the whole document.")
    source_agent_id: str = Field(description="The source agent.")
    target_agent_id: str = Field(description="The target agent.")
    handoffs: int = Field(description="Number of handoffs in the group.")
    waiting: int = Field(description="Number of these handoffs that wait for review.")
    more_wait: bool = Field(
        description="`waiting` is a minimum: only the newest 10,000 handoffs of each state are counted."
    )
    first_seen: str = Field(description="When the first handoff arrived.")
    last_seen: str = Field(description="When the last handoff arrived.")
    signs: list[str] = Field(description="muted, regressed, new, growing.")
    last_days: list[int] = Field(description="Handoffs per day (UTC) of the last 14 days, today last.")
    muted: MuteOut | None = Field(description="Who muted the group and until when; null if not muted.")
    regressed_at: str | None = Field(description="When the group returned; null once a person has opened it.")
    links: GroupLinksOut = Field(description="Addresses of the group.")

    model_config = {"json_schema_extra": {"examples": [EXAMPLE]}}


class GroupsOut(Schema):
    items: list[GroupOut] = Field(description="Returned groups first, then in the order of `sort`.")
    next: str | None = Field(description=NEXT)

    model_config = {"json_schema_extra": {"examples": [{"items": [EXAMPLE], "next": None}]}}


class DayOut(Schema):
    day: str = Field(description="The day (UTC).")
    handoffs: int = Field(description="Number of handoffs.")


class GroupInFullOut(GroupOut):
    trend: list[DayOut] = Field(
        description="The last 30 days (UTC), today last.", examples=[[{"day": "2026-02-15", "handoffs": 33}]]
    )


class MuteIn(Schema):
    model_config = ConfigDict(extra="forbid")

    until: Until = Field(
        Until.FIFTH,
        description="When the group returns: fifth (a fifth more, at least 10), 10, 50, double, or good: never.",
        examples=["fifth"],
    )
    note: str = Field(
        description="Reason, shown to those who open the group later.", examples=["Known; fixed on Monday."]
    )


@router.get(
    "/groups",
    auth=KeyWith(Scope.READ),
    operation_id="list_groups",
    summary="List finding groups: returned groups first",
    response={200: GroupsOut, 400: ProblemOut},
)
def list_all(request: HttpRequest, query: Query[GroupsQuery]) -> HttpResponse:
    check_names(request, GroupsQuery)
    tenant = caller(request).tenant
    found = list_groups(tenant, GroupFilters.from_query(request.GET), cursor=query.cursor, limit=query.limit)
    return serializers.json_response({"items": [_group_json(tenant, one) for one in found.items], "next": found.next})


@router.get(
    "/groups/{group}",
    auth=KeyWith(Scope.READ),
    operation_id="get_group",
    summary="Get one finding group with its trend",
    response={200: GroupInFullOut, 404: ProblemOut},
)
def get_group(request: HttpRequest, group: GroupId) -> HttpResponse:
    tenant = caller(request).tenant
    return _answer(tenant, _get_group(tenant, group))


@router.get(
    "/groups/{group}/handoffs",
    auth=KeyWith(Scope.READ),
    operation_id="list_group_handoffs",
    summary="List the handoffs of a finding group, newest first",
    response={200: HandoffsOut, 400: ProblemOut, 404: ProblemOut},
)
def list_handoffs(request: HttpRequest, group: GroupId, query: Query[GroupHandoffsQuery]) -> HttpResponse:
    """List the handoffs of a finding group; `GET /handoffs?group=` accepts more filters."""
    check_names(request, GroupHandoffsQuery)
    tenant = caller(request).tenant
    filters = Filters(group=str(_get_group(tenant, group).pk))
    page = queries.list_handoffs(tenant, filters, cursor=query.cursor, limit=query.limit)
    return serializers.json_response(
        {"items": [serializers.handoff_of(one, tenant.slug) for one in page.items], "next": page.next}
    )


@router.post(
    "/groups/{group}/mute",
    auth=KeyWith(Scope.REVIEW),
    operation_id="mute_group",
    summary="Mute a finding group until it grows",
    response={200: GroupInFullOut, 404: ProblemOut, 422: ProblemOut},
    openapi_extra={"requestBody": {"content": {"application/json": {"examples": MUTING}}}},
)
def mute(request: HttpRequest, group: GroupId, asked: MuteIn) -> HttpResponse:
    """Mute a finding group, which takes its rejected handoffs out of the review queue.

    If the group is muted already, the new limit and note replace the old limit and note.
    """
    who = caller(request)
    pk = _get_group(who.tenant, group).pk
    try:
        found = store.mute_group(tenant=who.tenant, group=pk, until=asked.until, note=asked.note, actor=who.named)
    except Refused as refused:
        members = errors.change_members(request, refused)
        title = NOTE if refused.field == "note" else "The request can't be read"
        raise Problem(422, title, refused.message, **members) from None
    return _answer(who.tenant, found)


@router.post(
    "/groups/{group}/unmute",
    auth=KeyWith(Scope.REVIEW),
    operation_id="unmute_group",
    summary="Unmute a finding group",
    response={200: GroupInFullOut, 404: ProblemOut},
)
def unmute(request: HttpRequest, group: GroupId) -> HttpResponse:
    """Unmute a finding group; a group that is not muted does not change."""
    who = caller(request)
    pk = _get_group(who.tenant, group).pk
    return _answer(who.tenant, store.unmute_group(tenant=who.tenant, group=pk, actor=who.named))


def _get_group(tenant: Tenant, group: int) -> FindingGroup:
    try:
        return groups_queries.get_group(tenant, group)
    except FindingGroup.DoesNotExist:
        raise Http404(f"There is no finding group {group}.") from None


def _answer(tenant: Tenant, group: FindingGroup) -> HttpResponse:
    trend = [{"day": day.isoformat(), "handoffs": number} for day, number in groups_queries.trend(group)]
    return serializers.json_response(_group_json(tenant, list_one(tenant, group)) | {"trend": trend})


def _group_json(tenant: Tenant, listed: ListedGroup) -> dict[str, Any]:
    group = listed.group
    address = f"/api/v1/groups/{group.pk}"
    muted = {
        "at": serializers.moment(group.muted_at),
        "by": group.muted_by,
        "note": group.muted_note,
        "until": group.muted_until,
    }
    return {
        "id": group.pk,
        "code": group.code,
        "title": entry_of(group.code).title,
        "path": group.path_shape,
        "source_agent_id": group.source_agent_id,
        "target_agent_id": group.target_agent_id,
        "handoffs": group.number,
        "waiting": listed.waiting,
        "more_wait": listed.more_wait,
        "first_seen": serializers.moment(group.first_seen),
        "last_seen": serializers.moment(group.last_seen),
        "signs": list(listed.signs),
        "last_days": list(listed.days),
        "muted": muted if group.muted_at else None,
        "regressed_at": serializers.moment(group.regressed_at),
        "links": {
            "self": address,
            "handoffs": f"{address}/handoffs",
            "page": f"{settings.PUBLIC_URL}/t/{tenant.slug}/groups/{group.pk}/",
        },
    }
