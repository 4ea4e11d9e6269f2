"""API of strictness, rules, prompts and schemas, shared code for the APIs of all policies, and published schemas."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import BaseModel, Field, WithJsonSchema

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import SchemaName
from handoffaudit.api.schemas import IssueOut, VerdictOut
from handoffaudit.api.serializers import Answer, Extended, Moment, ProblemOut, answer
from handoffaudit.api.validate import RepairOut
from handoffaudit.policy import kinds
from handoffaudit.policy.prompts import PromptModel
from handoffaudit.policy.rules import example_sets as shipped
from handoffaudit.policy.rules import rule_set_to_plain
from handoffaudit.policy.strictness import StrictnessModel, to_plain
from handoffaudit.policy.values import check_keys
from handoffaudit.policy.versions import Table, Versions
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy
from handoffaudit.validation.formats import SCHEMA_NAMES, schema
from handoffaudit.validation.library.models import RESULT_SCHEMA_NAMES, result_schema
from handoffaudit.validation.prompts.question import Use

R = TypeVar("R")


class PolicyOut(Answer):
    version: int = Field(description="The version; 0 for the shipped policy.", examples=[3])
    changed_by: str = Field(description="Who saved the version; empty for the shipped policy.")
    changed_at: Moment | None = Field(description="When the version was saved; null for the shipped policy.")
    note: str = Field(description="Why the version was saved.")


class PolicyIn(Schema):
    base_version: int = Field(
        description="The `version` that you changed; the answer is 409 if a newer version exists.", examples=[3]
    )
    note: str = Field("", description="Why you save the version, for the history.")


def policy_response(
    schema: type[PolicyOut], versions: Versions[Any], table: Table[Any], **further: Any
) -> HttpResponse:
    """Answer with a version of a policy."""
    return answer(schema, Extended(table, **versions.to_plain(table.rows), **further))


def current_policy(request: HttpRequest, schema: type[PolicyOut], versions: Versions[Any]) -> HttpResponse:
    """Answer with the current policy of the caller's tenant."""
    return policy_response(schema, versions, versions.current(caller(request).tenant))


def refuse_repeated_keys(request: HttpRequest) -> None:
    """Raise `Problem` if an object in the body has a key twice, as a merged schema may have."""
    try:
        check_keys(request.body.decode())
    except ValueError as error:
        raise Problem(422, "The policy is not valid", f"{error} Keep one of them.") from error


def save_policy(
    request: HttpRequest, versions: Versions[R], change: PolicyIn, rows: Iterable[Mapping[str, Any]]
) -> Table[R]:
    """Save plain rows as a new version in the caller's tenant, and return this version.

    If the rows change nothing, save nothing, and return the current version.

    Raise `InvalidPolicy` for rows that cannot be saved, `Stale` if `base_version` is not the current version, and
    `Problem` for a key that an object of the body has twice.
    """
    refuse_repeated_keys(request)
    who = caller(request)
    return versions.save(
        tenant=who.tenant,
        base_version=change.base_version,
        rows=versions.parse(rows),
        actor=who.named,
        note=change.note,
    )


strictness_router = Router(tags=["Strictness"])

STRICTNESS_ROWS = [to_plain(TypePolicy("research_result")), to_plain(TypePolicy(ANY_OTHER_TYPE))]

# The shipped table, with `research_result` in shadow mode. A field that a row leaves out has its default value.
SHADOWED = [
    {"handoff_type": "customer_info"},
    {"handoff_type": "deal_data"},
    {"handoff_type": "delegation", "token_budget": 20_000},
    {"handoff_type": "handoff", "token_budget": 20_000},
    {"handoff_type": "message", "token_budget": 20_000},
    {"handoff_type": "notification", "strictness": "lenient"},
    {"handoff_type": "research_result", "mode": "shadow"},
    {"handoff_type": "status_update", "strictness": "lenient"},
    {"handoff_type": ANY_OTHER_TYPE},
]


# The rows stay plain dicts here: the policy parses them, and reports the errors of all rows in one answer.
StrictnessJson = Annotated[dict[str, Any], WithJsonSchema(StrictnessModel.model_json_schema())]


class TableOut(PolicyOut):
    rows: list[StrictnessJson] = Field(
        description="One row per handoff type, and the row `*` for any other type.", examples=[STRICTNESS_ROWS]
    )


class TableIn(PolicyIn):
    rows: list[StrictnessJson] = Field(
        description="The whole table; the row `*` applies to any other type. A row with `token_budget` and without "
        "`output_token_budget` uses `token_budget` for both.",
        examples=[STRICTNESS_ROWS],
    )


@strictness_router.get(
    "/strictness",
    auth=KeyWith(Scope.READ),
    operation_id="get_strictness",
    summary="Get the strictness table",
    response={200: TableOut},
)
def get_strictness(request: HttpRequest) -> HttpResponse:
    return current_policy(request, TableOut, kinds.strictness)


@strictness_router.put(
    "/strictness",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_strictness",
    summary="Save the strictness table as a new version",
    response={200: TableOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Try it first.", rows=SHADOWED),
)
def put_strictness(request: HttpRequest, table: TableIn) -> HttpResponse:
    return policy_response(TableOut, kinds.strictness, save_policy(request, kinds.strictness, table, table.rows))


rules_router = Router(tags=["Rules"])

SETS = [rule_set_to_plain(one) for one in shipped()]

OFFERS = {
    "set_id": "offers",
    "name": "Offers",
    "rules": [
        {
            "rule_id": "price_limit",
            "name": "Offers stay below 1,000",
            "rule_type": "range",
            "field": "price",
            "operator": "lt",
            "threshold": 1000,
            "output_types": ["supplier_offer"],
        }
    ],
}


class RulesOut(PolicyOut):
    sets: list[dict[str, Any]] = Field(
        description="All rule sets. A rule with `when` applies only if the condition is met.",
        examples=[SETS],
    )


class RulesIn(PolicyIn):
    sets: list[dict[str, Any]] = Field(
        description="All rule sets. The server increments the `version` of each set that changes. A rule applies "
        "always, or only if its `when` is met: `{field, operator, threshold}` or `{field, operator, "
        "compare_field}`, or a list of these under `all` or `any`.",
        examples=[SETS],
    )


@rules_router.get(
    "/rules",
    auth=KeyWith(Scope.READ),
    operation_id="get_rules",
    summary="Get the current rules",
    response={200: RulesOut},
)
def get_rules(request: HttpRequest) -> HttpResponse:
    return current_policy(request, RulesOut, kinds.rules)


@rules_router.put(
    "/rules",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_rules",
    summary="Save all rules as a new version",
    response={200: RulesOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Offers stay below 1,000.", sets=[OFFERS]),
)
def put_rules(request: HttpRequest, rules: RulesIn) -> HttpResponse:
    return policy_response(RulesOut, kinds.rules, save_policy(request, kinds.rules, rules, rules.sets))


prompts_router = Router(tags=["Prompts"])

PROMPT_ROWS = [
    {
        "use": Use.GROUNDING.value,
        "handoff_type": "deal_data",
        "workflow": None,
        "text": "You check offers before they are sent. Is every amount one of the price list in the context?",
    }
]


PromptJson = Annotated[dict[str, Any], WithJsonSchema(PromptModel.model_json_schema())]


class PromptsOut(PolicyOut):
    rows: list[PromptJson] = Field(description="The prompts that replace shipped prompts.", examples=[PROMPT_ROWS])


class PromptsIn(PolicyIn):
    rows: list[PromptJson] = Field(
        description=f"All prompts that replace a shipped prompt. `use`: {', '.join(Use)}. Each applies to a "
        "`handoff_type`, to a `workflow`, or to all handoffs if both are null.",
        examples=[PROMPT_ROWS],
    )


@prompts_router.get(
    "/prompts",
    auth=KeyWith(Scope.READ),
    operation_id="get_prompts",
    summary="Get the current prompts",
    response={200: PromptsOut},
)
def get_prompts(request: HttpRequest) -> HttpResponse:
    return current_policy(request, PromptsOut, kinds.prompts)


@prompts_router.put(
    "/prompts",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_prompts",
    summary="Save all prompts as a new version",
    response={200: PromptsOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Prices are in the list.", rows=PROMPT_ROWS),
)
def put_prompts(request: HttpRequest, prompts: PromptsIn) -> HttpResponse:
    return policy_response(PromptsOut, kinds.prompts, save_policy(request, kinds.prompts, prompts, prompts.rows))


schemas_router = Router(tags=["Schemas"])

SCHEMA_ROWS = [
    {
        "handoff_type": "deal_data",
        "schema": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
        "assert_formats": False,
        "claim_fields": ["summary", "layers.*.key_findings"],
    },
    {"handoff_type": "research_result", "schema": None, "assert_formats": False, "claim_fields": ["findings"]},
]


class SchemasOut(PolicyOut):
    rows: list[dict[str, Any]] = Field(
        description="The handoff types that have a schema or claim fields.", examples=[SCHEMA_ROWS]
    )


class SchemasIn(PolicyIn):
    rows: list[dict[str, Any]] = Field(
        description="All types with a schema (draft 2020-12: an object, true or false) or claim fields; the field that "
        "a type lacks is null. `assert_formats` also checks `format`; default false.",
        examples=[SCHEMA_ROWS],
    )


@schemas_router.get(
    "/schemas",
    auth=KeyWith(Scope.READ),
    operation_id="get_schemas",
    summary="List the schemas by type",
    response={200: SchemasOut},
)
def get_schemas(request: HttpRequest) -> HttpResponse:
    return current_policy(request, SchemasOut, kinds.schemas)


@schemas_router.put(
    "/schemas",
    auth=KeyWith(Scope.ADMIN),
    operation_id="put_schemas",
    summary="Save the schemas by type as a new version",
    response={200: SchemasOut, 409: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.policy_example("Amounts are numbers.", rows=SCHEMA_ROWS),
)
def put_schemas(request: HttpRequest, schemas: SchemasIn) -> HttpResponse:
    return policy_response(SchemasOut, kinds.schemas, save_policy(request, kinds.schemas, schemas, schemas.rows))


published_router = Router(tags=["Schemas"])

PUBLISHED_RESULTS: dict[str, type[BaseModel]] = {
    "verdict": VerdictOut,
    "issue": IssueOut,
    "repair": RepairOut,
}

PUBLISHED_NAMES = (*SCHEMA_NAMES, *RESULT_SCHEMA_NAMES, *PUBLISHED_RESULTS)


@published_router.get(
    "/schemas/{name}.json",
    auth=None,
    operation_id="get_schema",
    summary="Get a JSON Schema",
    description=f"Names: {', '.join(PUBLISHED_NAMES)}.",
    response={200: dict[str, Any], 404: ProblemOut},
)
def get_schema(request: HttpRequest, name: SchemaName) -> HttpResponse:
    if name in SCHEMA_NAMES:
        return serializers.json_response(schema(name))
    if name in RESULT_SCHEMA_NAMES:
        return serializers.json_response(result_schema(name))
    if name in PUBLISHED_RESULTS:
        return serializers.json_response(PUBLISHED_RESULTS[name].model_json_schema())
    raise Problem(404, "No such schema", f"There is no schema {name[:80]!r}; there are {', '.join(PUBLISHED_NAMES)}.")
