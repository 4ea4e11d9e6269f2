"""API of finding groups: list and read groups, mute and unmute them."""

from enum import StrEnum
from typing import Annotated, Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Path, Query, Router, Schema
from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import errors
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import NOTE, Problem
from handoffaudit.api.requests import NEXT, PageQuery, check_names, with_filters
from handoffaudit.api.schemas import HandoffsOut
from handoffaudit.api.serializers import Answer, Extended, Moment, ProblemOut, Text, answer, at
from handoffaudit.diagnostics import group_members, group_store
from handoffaudit.diagnostics.group_members import MOST_WAITING
from handoffaudit.diagnostics.group_queries import GroupFilters, list_groups, list_one
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.validation.layers import entry_of

router = Router(tags=["Findings"])

GroupId = Annotated[int, Path(description="The group's `id`.", ge=1, le=10**12 - 1, examples=[12])]

EXAMPLE: Final[dict[str, Any]] = {
    "id": 12,
    "code": "chain.circular",
    "title": "Circular chain",
    "path": "target_agent_id",
    "routes": [{"source_agent_id": "researcher", "target_agent_id": "planner", "handoffs": 104}],
    "more_routes": False,
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
    "fifth": {
        "summary": "Until the group has grown by a fifth",
        "value": {"note": "Known; the planner is fixed on Monday."},
    },
    "good": {"summary": "Forever", "value": {"until": "good", "note": "These agents may hand back."}},
}


class Until(StrEnum):
    """The growth after which a muted finding group comes back."""

    FIFTH = group_store.FIFTH
    TEN = "10"
    FIFTY = "50"
    DOUBLE = "double"
    FOR_GOOD = group_store.FOR_GOOD


@with_filters(GroupFilters, "status", "sort", "code", "source", "target")
class GroupsQuery(PageQuery):
    pass


class GroupHandoffsQuery(PageQuery):
    pass


class MuteOut(Answer):
    at: Moment = Field(validation_alias="muted_at", description="When the group was muted.")
    by: str = Field(validation_alias="muted_by", description="Who muted the group.")
    note: str = Field(validation_alias="muted_note", description="Why the group was muted.")
    until: int | None = Field(
        validation_alias="muted_until",
        description="Number of handoffs at which the group returns; null if growth does not end the mute.",
    )


def _keep_if_muted(group: FindingGroup) -> FindingGroup | None:
    return group if group.muted_at else None


def _title(code: str) -> str:
    return entry_of(code).title


class GroupLinksOut(Answer):
    self: str = Field(description="The address of the group.")
    handoffs: str = Field(description="The address of the group's handoffs.")
    page: str = Field(description="The web page of the group.")


def _links(pk: int, info: ValidationInfo) -> dict[str, str]:
    tenant: Any = info.context
    address = f"/api/v1/groups/{pk}"
    page = f"{settings.PUBLIC_URL}/t/{tenant.slug}/groups/{pk}/"
    return {"self": address, "handoffs": f"{address}/handoffs", "page": page}


class RouteOut(Answer):
    source_agent_id: str = Field(description="The source agent.")
    target_agent_id: str = Field(description="The target agent.")
    handoffs: int = Field(description="Number of the group's handoffs on the route.")


class GroupOut(Answer):
    id: int = Field(validation_alias=at("group.pk"), description="The id of the group.")
    code: str = Field(validation_alias=at("group.code"), description="The rule code of all findings in the group.")
    title: Annotated[str, BeforeValidator(_title)] = Field(
        validation_alias=at("group.code"), description="The title of the rule code."
    )
    path: str = Field(
        validation_alias=at("group.path_shape"),
        description="The kind of place: the path, with `*` for positions in lists and for keys such as numbers, dates "
        "and ids; empty for the whole document.",
    )
    routes: list[RouteOut] = Field(
        validation_alias=at("routes.items"), description="At most 10 routes, those with the most handoffs first."
    )
    more_routes: bool = Field(
        validation_alias=at("routes.more"), description="Whether the group has more routes than are listed."
    )
    handoffs: int = Field(validation_alias=at("group.number"), description="Number of handoffs in the group.")
    waiting: int = Field(description="Number of these handoffs that wait for review.")
    more_wait: bool = Field(
        description=f"Whether `waiting` is a minimum, because only the newest {MOST_WAITING:,} handoffs of each state "
        "are counted."
    )
    first_seen: Moment = Field(validation_alias=at("group.first_seen"), description="When the first handoff arrived.")
    last_seen: Moment = Field(validation_alias=at("group.last_seen"), description="When the last handoff arrived.")
    signs: list[str] = Field(
        description="`muted`; `regressed` (grew to the limit of its mute); `new` (first seen in the last 24 hours); "
        "`growing` (at least 10 handoffs in the last 7 days, and at least 1.5 times as many as in the 7 days before)."
    )
    last_days: list[int] = Field(
        validation_alias="days", description="Handoffs per day (UTC) of the last 14 days, today last."
    )
    muted: Annotated[MuteOut | None, BeforeValidator(_keep_if_muted)] = Field(
        validation_alias="group", description="Who muted the group, and until how many handoffs; null if not muted."
    )
    regressed_at: Moment | None = Field(
        validation_alias=at("group.regressed_at"),
        description="When the group returned; null if it never did, or once a person has acknowledged it.",
    )
    links: Annotated[GroupLinksOut, BeforeValidator(_links)] = Field(
        validation_alias=at("group.pk"), description="Addresses of the group."
    )

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})


class GroupsOut(Answer):
    items: list[GroupOut] = Field(description="Regressed groups first, then in the order of `sort`.")
    next: str | None = Field(description=NEXT)

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [EXAMPLE], "next": None}]})


class DayOut(Answer):
    day: Text = Field(description="The day (UTC).")
    handoffs: int = Field(description="Number of handoffs.")


class GroupInFullOut(GroupOut):
    trend: list[DayOut] = Field(
        description="The last 30 days (UTC), today last.", examples=[[{"day": "2026-02-15", "handoffs": 33}]]
    )


class MuteIn(Schema):
    model_config = ConfigDict(extra="forbid")

    until: Until = Field(
        Until.FIFTH,
        description="When the group returns: after a fifth more handoffs, at least 10 (`fifth`), after 10 or 50 more "
        "(`10`, `50`), when their number has doubled (`double`), or never (`good`).",
        examples=["fifth"],
    )
    note: str = Field(
        description="Reason, shown to people who open the group later.", examples=["Known; fixed on Monday."]
    )


@router.get(
    "/groups",
    auth=KeyWith(Scope.READ),
    operation_id="list_groups",
    summary="List finding groups: regressed groups first",
    response={200: GroupsOut, 400: ProblemOut},
)
def list_all(request: HttpRequest, query: Query[GroupsQuery]) -> HttpResponse:
    check_names(request, GroupsQuery)
    tenant = caller(request).tenant
    found = list_groups(tenant, GroupFilters.from_query(request.GET), cursor=query.cursor, limit=query.limit)
    return answer(GroupsOut, found, context=tenant)


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
    return answer(HandoffsOut, page, context=tenant)


@router.post(
    "/groups/{group}/mute",
    auth=KeyWith(Scope.REVIEW),
    operation_id="mute_group",
    summary="Mute a finding group until it grows",
    response={200: GroupInFullOut, 404: ProblemOut, 422: ProblemOut},
    openapi_extra={"requestBody": {"content": {"application/json": {"examples": MUTING}}}},
)
def mute(request: HttpRequest, group: GroupId, asked: MuteIn) -> HttpResponse:
    """Mute a finding group.

    A rejected handoff whose errors (or, without errors, warnings) are all muted leaves the review queue, unless it is
    escalated. If the group is muted already, the new limit and note replace the old limit and note.
    """
    who = caller(request)
    pk = _get_group(who.tenant, group).pk
    try:
        found = group_store.mute_group(tenant=who.tenant, group=pk, until=asked.until, note=asked.note, actor=who.named)
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
    return _answer(who.tenant, group_store.unmute_group(tenant=who.tenant, group=pk, actor=who.named))


def _get_group(tenant: Tenant, group: int) -> FindingGroup:
    try:
        return group_members.get_group(tenant, group)
    except FindingGroup.DoesNotExist:
        raise Http404(f"There is no finding group {group}.") from None


def _answer(tenant: Tenant, group: FindingGroup) -> HttpResponse:
    trend = [{"day": day, "handoffs": number} for day, number in group_members.trend(group)]
    return answer(GroupInFullOut, Extended(list_one(tenant, group), trend=trend), context=tenant)
