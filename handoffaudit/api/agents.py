"""API of agents: the routes of a period, and the declared routes."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, policies, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.reports import WindowQuery
from handoffaudit.api.requests import SOURCE, TARGET, check_names
from handoffaudit.api.schemas import ProblemOut
from handoffaudit.diagnostics.agents import Agent, AgentRoute, Agents, load_agents
from handoffaudit.diagnostics.periods import window_of
from handoffaudit.handoffs.rates import ACCEPTANCE_RATE, OutcomeCounts
from handoffaudit.policy import kinds

router = Router(tags=["Agents"])

MOST_LISTED: Final = 1_000


class CountedOut(Schema):
    accepted: int = Field(description="Handoffs accepted without a person.")
    judged: int = Field(description="Settled final attempts: accepted, approved and blocked.")
    percent: float | None = Field(description=f"The acceptance rate. {ACCEPTANCE_RATE} Null if the total is 0.")
    median_seconds: float | None = Field(description="Median time from receiving work to the handoff; null if unknown.")
    caused: int = Field(description="Findings introduced by the source agent.")
    passed_on: int = Field(description="Findings that the source agent inherited.")


class EdgeOut(CountedOut):
    source: str = Field(description=SOURCE)
    target: str = Field(description=TARGET)
    handoffs: int = Field(description="Number of judged handoffs on this route.")
    declared: bool | None = Field(description="Whether the route is declared; null if no routes are declared.")


class AgentOut(CountedOut):
    name: str = Field(description="The agent's name in handoffs.")
    handed_on: int = Field(description="Number of handoffs sent.")
    received: int = Field(description="Number of handoffs received.")
    known: bool | None = Field(description="Whether the agent is declared or a skill; null if no agents are known.")
    nearest: str | None = Field(description="The known name closest to an unknown name.")


class WayOut(Schema):
    source: str = Field(description="The declared source agent; `*` for any agent.")
    target: str = Field(description="The declared target agent; `*` for any agent.")


class AgentsOut(Schema):
    period: str | None = Field(description="The requested period; null if `since` and `until` were given.")
    since: str = Field(description="Start of the period, in whole hours.")
    until: str = Field(description="End of the period (exclusive).")
    edges: list[EdgeOut] = Field(description="Agents with the most handoffs first, at most 1,000.")
    agents: list[AgentOut] = Field(description="Routes with the most handoffs first, at most 1,000.")
    never_seen: list[WayOut] = Field(description="Declared routes without handoffs in the period; at most 1,000.")
    nameless: int = Field(description="Number of handoffs that did not name both agents.")
    sampled: bool = Field(description="Times and findings cover the newest handoffs only.")
    more: bool = Field(description="More agents or routes exist than are listed.")
    declared_version: int = Field(description="Version of the declared routes; 0 before the first save.")


@router.get(
    "/agents",
    auth=KeyWith(Scope.READ),
    operation_id="get_agents",
    summary="Routes: declared and seen",
    response={200: AgentsOut, 400: ProblemOut},
)
def get_agents(request: HttpRequest, query: Query[WindowQuery]) -> HttpResponse:
    check_names(request, WindowQuery)
    window = window_of(query.dict(), timezone.now())
    found = load_agents(caller(request).tenant, window.since, window.until)
    nearest = {one.agent.name: one.nearest for one in found.unknown}
    lists = (found.edges.listed, found.agents, found.never_seen)
    shown = {
        "period": window.period or None,
        **window.bounds,
        "edges": [_edge(found, edge) for edge in found.edges.listed[:MOST_LISTED]],
        "agents": [_agent(found, agent, nearest) for agent in found.agents[:MOST_LISTED]],
        "never_seen": [{"source": source, "target": target} for source, target in found.never_seen[:MOST_LISTED]],
        "nameless": found.edges.nameless,
        "sampled": found.edges.sampled,
        "more": found.edges.more or any(len(one) > MOST_LISTED for one in lists),
        "declared_version": found.declared.version,
    }
    return serializers.json_response(shown)


def _edge(found: Agents, edge: AgentRoute) -> dict[str, Any]:
    return {
        "source": edge.source,
        "target": edge.target,
        "handoffs": edge.number,
        "declared": found.is_declared(edge.source, edge.target),
        **_counts_json(edge.judged, edge),
    }


def _agent(found: Agents, agent: Agent, nearest: dict[str, str]) -> dict[str, Any]:
    return {
        "name": agent.name,
        "handed_on": agent.handed_on,
        "received": agent.received,
        "known": agent.name not in nearest if found.knows else None,
        "nearest": nearest.get(agent.name) or None,
        **_counts_json(agent.judged, agent),
    }


def _counts_json(judged: OutcomeCounts, one: AgentRoute | Agent) -> dict[str, Any]:
    told = one.told
    return {
        "accepted": judged.accepted,
        "judged": judged.total,
        "percent": judged.share.percent,
        "median_seconds": told.median_seconds,
        "caused": told.caused,
        "passed_on": told.passed_on,
    }


declared_router = Router(tags=["Agents"])

DECLARED_ROWS = [{"source": "planner", "targets": ["critic", "writer"]}, {"source": "*", "targets": ["archive"]}]


class DeclaredOut(policies.PolicyOut):
    rows: list[dict[str, Any]] = Field(
        description="The declared routes, from source to target; `*` is any agent.", examples=[DECLARED_ROWS]
    )


class DeclaredIn(policies.PolicyIn):
    rows: list[dict[str, Any]] = Field(
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
    return policies.policy_response(request, kinds.agents)


@declared_router.put(
    "/agents/declared",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_declared_edges",
    summary="Save the declared routes as a new version",
    response={200: DeclaredOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("The crew as planned.", rows=DECLARED_ROWS),
)
def put_declared_edges(request: HttpRequest, declared: DeclaredIn) -> HttpResponse:
    return policies.save_policy(request, kinds.agents, declared, declared.rows)
