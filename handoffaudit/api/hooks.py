"""API of agent hooks: hook events, and the validation state that an event led to.

`POST /hooks/post-tool-use` answers an event in the terms of the agent host. With a key of the scope `ingest`, the call
is refused only if nothing can be stored, because an agent host ignores any status but 2xx.
"""

import math
from typing import Annotated, Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.keys import KeyIdentity
from handoffaudit.accounts.models import Scope
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import PhaseId, WorkflowId, read_body
from handoffaudit.api.serializers import Answer, ProblemOut, Stored, answer
from handoffaudit.diagnostics.models import RetentionRun
from handoffaudit.handoffs.hooks import handler, status
from handoffaudit.handoffs.hooks.status import Ruling, Status
from handoffaudit.policy.retention import Data

router = Router(tags=["Hooks"])

LONGEST_KEY: Final = 200


class _HookKey(KeyWith):
    """Authentication that also accepts a key over its rate.

    Events over the rate are stored, and answered without waiting for a verdict.
    """

    def count(self, request: HttpRequest, identity: KeyIdentity) -> None:
        try:
            super().count(request, identity)
        except Problem:
            if self.scope not in identity.scopes:
                raise
            request.over_rate = True  # type: ignore[attr-defined]


class RuleResultOut(Answer):
    result_id: str = Field(description="The result's id.")
    rule_id: str = Field(description="The name of the rule.", examples=["semantic_objective_match"])
    rule_type: str = Field(description="The kind of the rule.", examples=["semantic"])
    validated_at: str = Field(description="When the rule was evaluated.")
    status: str = Field(description="passed, failed or skipped.")
    message: str = Field(description="The result of the rule, as a sentence.")
    details: dict[str, Any] = Field(description="Details that depend on the kind of rule.")


class RuleSummaryOut(Answer):
    total_rules_executed: int = Field(description="Number of rules that ran.")
    results_count: int = Field(description="Number of results, with those of skipped rules.")


class ValidationStateOut(Answer):
    workflow_id: str = Field(description="The workflow of the event, or its session.")
    phase_id: str = Field(description="The phase of the workflow.", examples=["semantic_Agent_0f3c9a1e"])
    session_id: str = Field(description="The session of the agent host.")
    validation_status: Status = Field(description="The result of the event.")
    persisted_at: str = Field(description="When the state was stored.")
    summary: Annotated[RuleSummaryOut, Stored] = Field(description="The counts.")
    rule_results: Annotated[list[RuleResultOut], Stored] = Field(description="The result of each rule.")


class PermissionOut(Answer):
    hookEventName: str = Field(description="The event that the answer is for.")  # noqa: N815 -- the agent host's word
    permissionDecision: str = Field(description="deny or ask.")  # noqa: N815
    permissionDecisionReason: str = Field(description="Reason, for the agent and its host.")  # noqa: N815


class HookOut(Answer):
    """The answer to a hook event; an empty object for a kind of event that the hooks do not handle."""

    status: Status | None = Field(None, description="The result of the event.")
    blocked: bool | None = Field(None, description="Whether the host should stop.")
    exit_code: int | None = Field(None, description="1 if blocked, otherwise 0.")
    reason: str | None = Field(None, description="Reason, in words.")
    handoff_id: str | None = Field(None, description="The server's id of the handoff created from the event.")
    validation_state: Annotated[ValidationStateOut | None, Stored] = Field(None, description="The same result in full.")
    tool_result: str | None = Field(
        None,
        description="What the server did with the result of a tool that does not delegate: `stored`, `known`, "
        "`replaced`, `conflict` or `refused`, as for tool results of a trace; `skipped` if the result is not evidence. "
        "Absent if the key has no scope `observe`.",
    )
    decision: str | None = Field(None, description="`block`, only if blocked.")
    hookSpecificOutput: PermissionOut | None = Field(  # noqa: N815
        None, description="For `PreToolUse`, if the answer is deny or ask: the format that the host expects."
    )


_TIMEOUT = {
    "name": "timeout",
    "in": "query",
    "schema": {"type": "number", "minimum": 0, "default": 65},
    "description": "Seconds to wait for the verdict, up to the server's limit.",
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "maxLength": LONGEST_KEY},
    "description": "Identifies the event: an event that is sent again with the same idempotency key gets the same "
    "answer. Without an idempotency key, the session and the id of the tool call identify an event before or after the "
    "call. Other events, events without these ids, and events with phase results are identified by their content.",
}
_EVENT: Final[dict[str, Any]] = {
    "hook_event_name": "PostToolUse",
    "session_id": "0f3c9a1e-5d2b-4c55-9e0e-2b1a7f6d8c90",
    "tool_name": "Agent",
    "tool_use_id": "toolu_01",
    "tool_input": {"prompt": "List the open invoices.", "subagent_type": "bookkeeper", "description": "Open invoices"},
    "tool_response": {
        "agentId": "a1b2c3",
        "status": "completed",
        "content": [{"type": "text", "text": "Two are open: 2026-003 and 2026-007."}],
    },
}
_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"type": "object", "description": "The event, or `{event, phase_results, sent_at}`."},
            "examples": {
                "event": {"summary": "An event as sent by the host", "value": _EVENT},
                "with phase results": {
                    "summary": "An event with the results of the client's phase rules",
                    "value": {
                        "event": _EVENT,
                        "phase_results": {
                            "mode": "hybrid",
                            "rules": [
                                {
                                    "rule_id": "report",
                                    "rule_type": "file_exists",
                                    "rule_config": {"file_path": "report.md"},
                                }
                            ],
                            "results": [
                                {
                                    "result_id": "1",
                                    "rule_id": "report",
                                    "validated_at": "2026-02-15T00:15:00Z",
                                    "status": "passed",
                                }
                            ],
                        },
                    },
                },
            },
        }
    },
}


@router.post(
    "/hooks/post-tool-use",
    auth=_HookKey(Scope.INGEST, stores=True),
    operation_id="post_hook_event",
    summary="Submit a hook event of an agent host",
    response={200: HookOut},
    openapi_extra={"parameters": [_TIMEOUT, _KEY], "requestBody": _BODY},
)
def post_tool_use(request: HttpRequest) -> HttpResponse:
    """Judge a hook event of an agent host, and answer in the terms of the host.

    The event is `PreToolUse`, `PostToolUse`, `SubagentStart` or `SubagentStop` of Claude Code, or a delegation in the
    format of another host. With the scope `ingest`, the status is 200, or 503 if nothing can be stored. An event that
    can't be read is stored as a rejected handoff. A body that is empty, cut off or too large is not stored. In both
    cases, the answer says so.

    If the key also has the scope `observe`, the results of other tools (`PostToolUse`) become evidence for the claims
    of the trace.
    """
    who = caller(request)
    try:
        sent = read_body(request, settings.MAX_BODY_BYTES)
    except Problem as refused:
        ruling = Ruling(Status.NOT_APPLICABLE, f"The event was not checked: {refused.detail}")
        return answer(HookOut, status.make_answer(None, ruling))
    given_key = request.META.get("HTTP_IDEMPOTENCY_KEY", "")
    return answer(HookOut, handler.handle(who.tenant, who.actor, sent, given_key, _seconds(request), who.key.grade))


def _seconds(request: HttpRequest) -> float:
    """Return how many seconds to wait, at most the limit of the server; 0.0 for a request over the key's rate.

    Without a `timeout` that is a number, the limit of the server counts.
    """
    most = float(settings.MAX_HOOK_SECONDS)
    if getattr(request, "over_rate", False):
        return 0.0
    try:
        asked = float(request.GET.get("timeout", most))
    except ValueError:
        return most
    return min(max(asked, 0.0), most) if math.isfinite(asked) else most


@router.get(
    "/validation-state/{path:workflow_id}/{phase_id}",
    auth=KeyWith(Scope.READ),
    operation_id="get_validation_state",
    summary="Get the result of the newest event of a phase",
    response={200: ValidationStateOut, 404: ProblemOut},
)
def get_validation_state(request: HttpRequest, workflow_id: WorkflowId, phase_id: PhaseId) -> HttpResponse:
    """Return the state of the newest event of a phase, with its verdict even if the verdict came after the answer."""
    tenant = caller(request).tenant
    found = status.find_state(tenant, workflow_id, phase_id)
    if found is None:
        said = RetentionRun.removal_message(tenant, Data.HOOK_EVENTS)
        raise Problem(404, "Not found", f"There is no state of phase {phase_id[:80]!r} in {workflow_id[:80]!r}.{said}")
    return answer(ValidationStateOut, found)
