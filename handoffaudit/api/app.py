"""The API and its OpenAPI document, which also lists the error responses that many calls share."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI, Router
from ninja.openapi.schema import OpenAPISchema

from handoffaudit.api import (
    agents,
    batch,
    errors,
    file_reports,
    groups,
    handoffs,
    hooks,
    llm_health,
    logs,
    policies,
    policy_set,
    removal,
    reports,
    retention,
    review,
    telemetry,
    traces,
    validate,
    webhooks,
)
from handoffaudit.api.requests import StrictParser

_PROBLEM: Final = {"application/json": {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}

_PROBLEM_TYPE: Final = "application/problem+json"

_METHODS: Final = ("get", "put", "post", "delete", "patch")

# A parameter whose schema has only these members, and the type `string`, accepts every text. With any other member, a
# request can be invalid.
_PLAIN: Final = {"type", "title", "description", "default", "examples", "example"}

# Error responses of calls that need a key, and of calls with a body.
_KEYED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)

_WITH_BODY: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)

# Any call can fail because of the server.
_OURS: Final = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)

# The call that is refused only because of the key, or if nothing can be stored. An agent host ignores the body of any
# other status than 2xx, so the call answers every other problem with 200.
NEVER_REFUSED: Final = "post_hook_event"


class DescribedAPI(NinjaAPI):
    """API whose OpenAPI document lists the error responses that all calls of a kind share."""

    def create_temporal_response(self, request: HttpRequest) -> HttpResponse:
        """Return nothing: ninja makes a response before each call, but every view returns its own response."""
        return None  # type: ignore[return-value]

    def get_openapi_schema(self, **given: Any) -> OpenAPISchema:
        described = super().get_openapi_schema(**given)
        for methods in described["paths"].values():
            for method, operation in methods.items():
                if method in _METHODS:
                    _add_refusals(operation)
                    _name_problem_type(operation)
                    if operation["operationId"] == telemetry.OPERATION:
                        telemetry.describe_answers(operation["responses"])
        return described


def _add_refusals(operation: dict[str, Any]) -> None:
    answers: dict[Any, Any] = operation["responses"]
    known = {str(status) for status in answers}
    for status in _refusals(operation):
        if str(status.value) not in known:
            answers[status.value] = {"description": status.phrase, "content": _PROBLEM}
    operation["responses"] = dict(sorted(answers.items(), key=lambda pair: str(pair[0])))


def _name_problem_type(operation: Mapping[str, Any]) -> None:
    """Document error responses as problem documents; ninja knows only one content type for all responses."""
    for status, answer in operation["responses"].items():
        content = answer.get("content", {})
        if int(status) >= HTTPStatus.BAD_REQUEST and "application/json" in content:
            answer["content"] = {_PROBLEM_TYPE: content["application/json"]}


def _refusals(operation: Mapping[str, Any]) -> Iterator[HTTPStatus]:
    """Yield the error statuses of an operation that follow from its key, body and parameters."""
    yield from _OURS
    if operation["operationId"] == NEVER_REFUSED:
        yield from _KEYED
        return
    if operation.get("security"):
        yield from _KEYED
    if "requestBody" in operation:
        yield from _WITH_BODY
    if any(one["in"] == "path" for one in operation["parameters"]):
        yield HTTPStatus.NOT_FOUND
    if any(set(one["schema"]) - _PLAIN or one["schema"].get("type") != "string" for one in operation["parameters"]):
        yield HTTPStatus.UNPROCESSABLE_ENTITY


diagnostics_router = Router(tags=["Diagnostics"])

for part in (
    llm_health.alerts_router,
    file_reports.router,
    logs.router,
    llm_health.router,
    reports.router,
    traces.router,
):
    diagnostics_router.add_router("", part)

api = DescribedAPI(
    title="handoffaudit",
    version="1",
    urls_namespace="api",
    docs_url="/docs",
    parser=StrictParser(),
    description=(
        "Submit handoffs between agents, read their findings, decide held handoffs. Every error is a "
        "problem document (RFC 9457), except at the address for OTLP traces, where it is a `google.rpc.Status`. "
        "Most lists answer `items` and `next`, and take `cursor` and `limit`."
    ),
)

errors.install_handlers(api)

for router in (
    # `/handoffs/batch` must come before `/handoffs/{reference}`.
    batch.router,
    telemetry.router,
    # The router of `handoffs` also has the calls that submit and review handoffs.
    handoffs.router,
    review.queue_router,
    validate.router,
    hooks.router,
    policies.strictness_router,
    policies.rules_router,
    policies.schemas_router,
    policies.prompts_router,
    policy_set.router,
    groups.router,
    agents.router,
    agents.declared_router,
    diagnostics_router,
    retention.router,
    reports.evidence_router,
    removal.router,
    webhooks.router,
    policies.published_router,
):
    api.add_router("", router)
