"""API of agents: the routes of a period, the declared routes, and the roles of agents."""

from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router
from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.reports import WindowQuery
from handoffaudit.api.requests import check_names
from handoffaudit.api.serializers import Answer, Extended, Nullable, ProblemOut, Second, answer, at
from handoffaudit.diagnostics.agents import load_agents, load_roles
from handoffaudit.handoffs.filters import SOURCE, TARGET
from handoffaudit.handoffs.periods import window_of
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import DeclaredRoleModel, DeclaredRoutesModel
from handoffaudit.validation.agents import AgentRole

router = Router(tags=["Agents"])

MOST_LISTED: Final = 1_000


class CountedOut(Answer):
    accepted: int = Field(
        validation_alias=at("judged.accepted"), description="Number of handoffs that were accepted without a person."
    )
    judged: int = Field(
        validation_alias=at("judged.total"),
        description="Number of final attempts with a verdict: accepted, approved or blocked.",
    )
    percent: float | None = Field(
        validation_alias=at("judged.share.percent"),
        description=f"The acceptance rate. {ACCEPTANCE_RATE} Null if `judged` is 0.",
    )
    median_seconds: float | None = Field(
        validation_alias=at("stats.median_seconds"),
        description="Median time from receiving work to the handoff; null if unknown.",
    )
    caused: int = Field(
        validation_alias=at("stats.caused"), description="Number of findings that the source agent introduced."
    )
    passed_on: int = Field(
        validation_alias=at("stats.passed_on"), description="Number of findings that the source agent inherited."
    )


def _is_declared(target: str, info: ValidationInfo) -> Any:
    found: Any = info.context
    return found.is_declared(info.data["source"], target)


def _is_known(name: str, info: ValidationInfo) -> bool | None:
    found: Any = info.context
    return name not in found.nearest if found.knows else None


def _nearest(name: str, info: ValidationInfo) -> Any:
    found: Any = info.context
    return found.nearest.get(name) or None


def _role(name: str, info: ValidationInfo) -> AgentRole:
    found: Any = info.context
    role: AgentRole = found.roles[name].role
    return role


def _is_role_declared(name: str, info: ValidationInfo) -> bool:
    found: Any = info.context
    return bool(found.roles[name].is_declared)


class EdgeOut(CountedOut):
    source: str = Field(description=SOURCE)
    target: str = Field(description=TARGET)
    handoffs: int = Field(
        validation_alias="number", description="Number of judged handoffs on this route, including superseded attempts."
    )
    declared: Annotated[bool | None, BeforeValidator(_is_declared)] = Field(
        validation_alias="target", description="Whether the route is declared; null if no routes are declared."
    )


class AgentOut(CountedOut):
    name: str = Field(description="The agent's name in handoffs.")
    handed_on: int = Field(description="Number of handoffs sent.")
    received: int = Field(description="Number of handoffs received.")
    known: Annotated[bool | None, BeforeValidator(_is_known)] = Field(
        validation_alias="name",
        description="Whether the agent is in a declared route, or is a skill in the folder that `HANDOFFAUDIT_SKILLS` "
        "names; null if there are neither declared routes nor skills.",
    )
    nearest: Annotated[str | None, BeforeValidator(_nearest)] = Field(
        validation_alias="name",
        description="For an unknown agent, the most similar known name; null for a known agent, or if no known name is "
        "similar.",
    )

    role: Annotated[AgentRole, BeforeValidator(_role)] = Field(
        validation_alias="name", description="The role of the agent: `worker`, `observer` or `person`."
    )
    role_declared: Annotated[bool, BeforeValidator(_is_role_declared)] = Field(
        validation_alias="name", description="Whether the role is declared; else it is guessed."
    )


class WayOut(Answer):
    source: str = Field(description="The declared source agent; `*` for any agent.")
    target: str = Field(description="The declared target agent; `*` for any agent.")


class AgentsOut(Answer):
    period: Nullable = Field(
        validation_alias=at("window.period"),
        description="The requested period; null if `since` or `until` was given.",
    )
    since: Second = Field(validation_alias=at("window.since"), description="Start of the period, always a full hour.")
    until: Second = Field(validation_alias=at("window.until"), description="End of the period (exclusive).")
    edges: list[EdgeOut] = Field(
        validation_alias="listed", description=f"Routes with the most handoffs first, at most {MOST_LISTED:,}."
    )
    agents: list[AgentOut] = Field(description=f"Agents with the most handoffs first, at most {MOST_LISTED:,}.")
    never_seen: list[WayOut] = Field(description="Declared routes without handoffs in the period; at most 1,000.")
    nameless: int = Field(
        validation_alias=at("edges.nameless"),
        description="Number of judged handoffs in which the source agent, the target agent or both are missing.",
    )
    sampled: bool = Field(
        validation_alias=at("edges.sampled"), description="Whether times and findings cover only the newest handoffs."
    )
    more: bool = Field(description="Whether there are more agents or routes than are listed.")
    declared_version: int = Field(
        validation_alias=at("declared.version"),
        description="Version of the declared routes; 0 before the first save.",
    )


@router.get(
    "/agents",
    auth=KeyWith(Scope.READ),
    operation_id="get_agents",
    summary="Get the agents, the routes with handoffs, and the declared routes without handoffs",
    response={200: AgentsOut, 400: ProblemOut},
)
def get_agents(request: HttpRequest, query: Query[WindowQuery]) -> HttpResponse:
    check_names(request, WindowQuery)
    window = window_of(query.dict(), timezone.now())
    found = load_agents(caller(request).tenant, window.since, window.until)
    lists = (found.edges.listed, found.agents, found.never_seen)
    shown = Extended(
        found,
        window=window,
        listed=found.edges.listed[:MOST_LISTED],
        agents=found.agents[:MOST_LISTED],
        never_seen=[{"source": source, "target": target} for source, target in found.never_seen[:MOST_LISTED]],
        more=found.edges.more or any(len(one) > MOST_LISTED for one in lists),
        nearest={one.agent.name: one.nearest for one in found.unknown},
        roles=load_roles(caller(request).tenant, (agent.name for agent in found.agents[:MOST_LISTED])),
    )
    return answer(AgentsOut, shown, context=shown)


declared_router = Router(tags=["Agents"])

DECLARED_ROWS = [{"source": "planner", "targets": ["critic", "writer"]}, {"source": "*", "targets": ["archive"]}]


DeclaredJson = Annotated[dict[str, Any], WithJsonSchema(DeclaredRoutesModel.model_json_schema())]


class DeclaredOut(policies.PolicyOut):
    rows: list[DeclaredJson] = Field(
        description="The declared routes, from source to target; `*` is any agent.", examples=[DECLARED_ROWS]
    )


class DeclaredIn(policies.PolicyIn):
    rows: list[DeclaredJson] = Field(
        description="All declared routes, from source to target; `*` is any agent on either side.",
        examples=[DECLARED_ROWS],
    )


@declared_router.get(
    "/agents/declared",
    auth=KeyWith(Scope.READ),
    operation_id="get_declared_edges",
    summary="List the declared routes",
    response={200: DeclaredOut},
)
def get_declared_edges(request: HttpRequest) -> HttpResponse:
    return policies.current_policy(request, DeclaredOut, kinds.agents)


@declared_router.put(
    "/agents/declared",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_declared_edges",
    summary="Save the declared routes as a new version",
    response={200: DeclaredOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("The crew as planned.", rows=DECLARED_ROWS),
)
def put_declared_edges(request: HttpRequest, declared: DeclaredIn) -> HttpResponse:
    saved = policies.save_policy(request, kinds.agents, declared, declared.rows)
    return policies.policy_response(DeclaredOut, kinds.agents, saved)


ROLE_ROWS = [{"agent": "web_surfer", "role": "observer"}, {"agent": "writer", "role": "worker"}]

RoleJson = Annotated[dict[str, Any], WithJsonSchema(DeclaredRoleModel.model_json_schema())]


class RolesOut(policies.PolicyOut):
    rows: list[RoleJson] = Field(
        description="The declared roles. An agent without a row has a guessed role, which `GET /agents` shows.",
        examples=[ROLE_ROWS],
    )


class RolesIn(policies.PolicyIn):
    rows: list[RoleJson] = Field(
        description="All declared roles. The server sets `declared_by` and `declared_at`.", examples=[ROLE_ROWS]
    )


@declared_router.get(
    "/agents/roles",
    auth=KeyWith(Scope.READ),
    operation_id="get_agent_roles",
    summary="List the declared roles",
    response={200: RolesOut},
)
def get_agent_roles(request: HttpRequest) -> HttpResponse:
    return policies.current_policy(request, RolesOut, kinds.roles)


@declared_router.put(
    "/agents/roles",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_agent_roles",
    summary="Save the declared roles as a new version",
    response={200: RolesOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("The browser only reads.", rows=ROLE_ROWS),
)
def put_agent_roles(request: HttpRequest, declared: RolesIn) -> HttpResponse:
    who = caller(request)
    saved = kinds.roles.save(
        tenant=who.tenant,
        base_version=declared.base_version,
        rows=kinds.stamp_roles(who.tenant, kinds.roles.parse(declared.rows), who.named),
        actor=who.named,
        note=declared.note,
    )
    return policies.policy_response(RolesOut, kinds.roles, saved)
