"""API that submits handoffs, and reads them with their verdicts, events, attempts and chains."""

from typing import Annotated, Any

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from ninja.decorators import decorate_view
from pydantic import BeforeValidator, Field

from handoffaudit.accounts.keys import record_refusal
from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import examples, serializers
from handoffaudit.api.auth import Caller, KeyWith, caller
from handoffaudit.api.batch import FORMAT, INGEST, NAMED, BatchOut, answer_receipts, check_number
from handoffaudit.api.errors import Problem, problem_response
from handoffaudit.api.requests import (
    HandoffsQuery,
    Reference,
    check_names,
    read_body,
    seconds_to_wait,
    skip_parameters,
    with_filters,
)
from handoffaudit.api.schemas import (
    ApprovalOut,
    ChangeOut,
    HandoffOut,
    HandoffsOut,
    JudgedOut,
    ReceiptOut,
    RejectedOut,
    RemediationOut,
    SummaryOut,
    VerdictsOut,
)
from handoffaudit.api.serializers import Answer, Extended, Moment, Nullable, ProblemOut, Text, answer
from handoffaudit.drawing.chain import Chain, draw_chain
from handoffaudit.handoffs import approvals, attempts, compare, long_poll, notify, queries, repairs
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.prepare import ANOTHER_AGENT, Receipt, expand, read_submission
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, State
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.policy.kinds import load_config
from handoffaudit.validation.diff import Difference
from handoffaudit.validation.submission import Submission

router = Router(tags=["Handoffs"])


@router.post(
    "/handoffs",
    auth=INGEST,
    operation_id="submit_handoff",
    summary="Submit one handoff",
    response={
        200: HandoffOut | ReceiptOut | BatchOut,
        202: ReceiptOut,
        409: ProblemOut,
        413: ProblemOut,
        422: RejectedOut | ProblemOut,
    },
    openapi_extra=examples.SUBMIT,
)
@decorate_view(skip_parameters(declared_format=None, handoff_id=None))
def submit(request: HttpRequest, declared_format: str | None = FORMAT, handoff_id: str | None = NAMED) -> HttpResponse:
    """Store a handoff, and answer with a receipt or with the verdict.

    The handoff is stored before the call is answered. With `Prefer: wait=N` (seconds, up to 60) the answer is 200 with
    the verdict if the verdict is ready in time. The same `handoff_id` with the same content is answered 200; with other
    content 409, unless the stored handoff with this id could not be read. A trace export with several handoffs is
    answered as a batch is.
    """
    who = caller(request)
    sent = read_body(request, settings.MAX_BODY_BYTES, may_be_empty=True)
    parts = expand(read_submission(sent, declared_format, handoff_id))
    if len(parts) > 1:
        check_number(len(parts))
        return answer_receipts(request, store.accept_many(who.tenant, who.actor, parts, who.key.grade))
    seconds = seconds_to_wait(request)
    if seconds and len(sent) <= MOST_JUDGED_HERE:
        receipt = _accept_and_judge(who, parts[0])
    else:
        receipt = store.accept(who.tenant, who.actor, parts[0], who.key.grade)
    if seconds and receipt.status in (200, 202):
        with long_poll.tolerate_faults():
            return _wait_for_verdict(who.tenant, receipt, seconds)
    return _receipt_response(receipt, who.tenant.slug)


# The judging of a larger document would keep a thread of the web process from other requests.
MOST_JUDGED_HERE = 32 * 1024


def _accept_and_judge(who: Caller, submission: Submission) -> Receipt:
    """Store a submission whose sender waits, and judge it in this process if one of the few places to judge is free."""
    # Only senders that wait need the module, which loads everything that workers need.
    from handoffaudit.handoffs import tasks  # noqa: PLC0415

    with tasks.reserve_judging() as reserved:
        receipt = store.accept(who.tenant, who.actor, submission, who.key.grade, wakes=not reserved)
        if reserved and receipt.status == 202 and not tasks.judge_one(receipt.id):
            notify.notify_workers()
        return receipt


def _receipt_response(receipt: Receipt, slug: str) -> HttpResponse:
    shown = _receipt_json(receipt, slug)
    if receipt.status in (200, 202):
        return serializers.json_response(shown, receipt.status, Location=shown["links"]["self"])
    if receipt.status == 422 and receipt.id:
        said = " ".join(issue.message for issue in receipt.issues)
        return problem_response(
            422, "Rejected: it can't be read", f"{said} The document is stored as rejected.", **shown
        )
    return problem_response(receipt.status, receipt.title, receipt.detail, **(shown if receipt.id else {}))


def _receipt_json(receipt: Receipt, slug: str) -> dict[str, Any]:
    return serializers.receipt_of(receipt) | ({"links": serializers.links(receipt.id, slug)} if receipt.id else {})


def _wait_for_verdict(tenant: Tenant, receipt: Receipt, seconds: int) -> HttpResponse:
    if long_poll.are_too_many(tenant.pk):
        return _receipt_response(receipt, tenant.slug)
    handoff = long_poll.wait_while(lambda: queries.get(tenant, receipt.id), WAITING_STATES, seconds)
    if handoff.state in WAITING_STATES:
        return _receipt_response(receipt, tenant.slug)
    shown = Extended(
        handoff,
        approval=approvals.state_of(handoff) if handoff.state == State.APPROVED else None,
        superseded_by=_later_attempt(handoff),
        verdict=queries.current_verdict(handoff),
    )
    address = serializers.links(receipt.id, tenant.slug)["self"]
    return answer(JudgedOut, shown, context=tenant, Preference_Applied=f"wait={seconds}", Location=address)


READ = KeyWith(Scope.READ)


@with_filters(Filters, "state", "handoff_id", "quality_min", "quality_max")
class ListQuery(HandoffsQuery):
    pass


_USE_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string"},
    "description": "A key of your own for this use. The call can then be repeated: the same key gets the same answer.",
}


def _changes(changed: Difference | None) -> list[dict[str, Any]] | None:
    return None if changed is None else [change.to_dict() for change in changed.changes]


def _is_complete(changed: Difference | None) -> bool:
    return changed is not None and changed.complete


class AttemptOut(SummaryOut):
    changes: Annotated[list[ChangeOut] | None, BeforeValidator(_changes)] = Field(
        validation_alias="changed",
        description="Changes since the previous attempt; null for the first in the list, and if `not_compared` has a "
        "reason.",
    )
    changes_complete: Annotated[bool, BeforeValidator(_is_complete)] = Field(
        validation_alias="changed", description="Whether the list of changes is complete."
    )
    not_compared: Nullable = Field(
        validation_alias="why", description="Why the documents were not compared; otherwise null."
    )


class AttemptsOut(Answer):
    items: list[AttemptOut] = Field(description="The newest 20 attempts of the lineage, oldest first.")
    next: str | None = Field(description="Always null: the list has one page.")
    remediation: RemediationOut | None = Field(description="Remediation of the lineage so far.")


class EventOut(Answer):
    at: Moment = Field(description="When the event happened.")
    actor: dict[str, str] = Field(
        validation_alias="author",
        description="Who caused the event: `kind` (person, key or system) and `name`.",
        examples=[{"kind": "person", "name": "ada"}],
    )
    from_state: Nullable = Field(description="The state before; null for the first event.")
    to_state: str = Field(description="The state after.")
    reason: str = Field(description="The reason.")


class EventsOut(Answer):
    items: list[EventOut] = Field(description="The first 500 events, oldest first.")
    next: str | None = Field(description="Always null: the list has one page.")


@router.get(
    "/handoffs",
    auth=READ,
    operation_id="list_handoffs",
    summary="List handoffs",
    response={200: HandoffsOut, 400: ProblemOut},
)
def list_handoffs(request: HttpRequest, query: Query[ListQuery]) -> HttpResponse:
    who = caller(request)
    check_names(request, ListQuery)
    filters = Filters.from_query(request.GET)
    page = queries.list_handoffs(who.tenant, filters, cursor=query.cursor, limit=query.limit)
    return answer(HandoffsOut, page, context=who.tenant)


@router.get(
    "/handoffs/{reference}",
    auth=READ,
    operation_id="get_handoff",
    summary="Get one handoff with its document and verdict",
    response={200: HandoffOut, 404: ProblemOut},
    openapi_extra=examples.READ_ONE,
)
def get_handoff(request: HttpRequest, reference: Reference) -> HttpResponse:
    """Return a handoff with its document and verdict.

    With `Prefer: wait=N` the answer waits up to N seconds for the verdict and, if the handoff is held, for the decision
    of a reviewer.
    """
    who = caller(request)
    handoff = queries.get(who.tenant, reference)
    seconds = seconds_to_wait(request)
    if seconds and not long_poll.are_too_many(who.tenant.pk):
        pending = (*WAITING_STATES, State.HELD)
        handoff = long_poll.wait_while(lambda: queries.get(who.tenant, str(handoff.pk)), pending, seconds)
    shown = Extended(
        handoff,
        approval=approvals.state_of(handoff) if handoff.state == State.APPROVED else None,
        superseded_by=_later_attempt(handoff),
        proposal=decisions.find_proposal(handoff),
        passed_on=activity.reassignment_of(handoff),
        verdict=queries.current_verdict(handoff),
        **serializers.documents_of(handoff),
    )
    return answer(HandoffOut, shown, context=who.tenant)


def _later_attempt(handoff: Handoff) -> Extended | Handoff | None:
    """Return the attempt that took the handoff's place, or None.

    If a repair made this attempt, its document is included, provided that the policy returns repaired documents and
    `repairs.is_harmless` is true.
    """
    later = attempts.later_attempt(handoff)
    if later is None or not later.repaired:
        return later
    wants_document = load_config(handoff.tenant_id).policy_for(handoff.handoff_type).return_repaired
    if not (wants_document and repairs.is_harmless(handoff, later)):
        return later
    return Extended(later, document=serializers.documents_of(later)["document"])


class UsedOut(Answer):
    id: Text = Field(description="The server's id of the handoff.")
    handoff_id: str = Field(description="The sender's id.")
    approval: ApprovalOut = Field(description="The approval, which is used now.")


@router.post(
    "/handoffs/{reference}/use",
    auth=INGEST,
    operation_id="use_approval",
    summary="Use the approval of a handoff, once, before the next agent starts",
    response={200: UsedOut, 403: ProblemOut, 404: ProblemOut, 409: ProblemOut},
    openapi_extra={"parameters": [_USE_KEY]},
)
def use_approval(request: HttpRequest, reference: Reference) -> HttpResponse:
    """Record that the sender starts the next agent with an approved handoff.

    An approval works once, for this document, until the approval expires. It ends earlier if somebody saves a policy
    that verdicts depend on: the strictness table, rules, schemas, prompts or roles of agents. If the answer is 200,
    start the next agent. If the answer is 409, its `detail` says what to do:

    - For a held handoff, wait for the decision.
    - After a rejection or a decline, send a corrected document with `retry_of`.
    - If the approval cannot be used, send the document again with `retry_of`, so that the document is judged again.
    """
    who = caller(request)
    handoff = queries.get(who.tenant, reference)
    if not who.key.agents.allows(handoff.source_agent_id):
        record_refusal(who.tenant, who.key.agents, handoff.source_agent_id)
        raise Problem(403, ANOTHER_AGENT, who.key.agents.describe_refusal(handoff.source_agent_id, "The handoff"))
    try:
        found = approvals.use(who.tenant, handoff, who.key.name, request.META.get("HTTP_IDEMPOTENCY_KEY", ""))
    except approvals.NotUsable as error:
        status = error.found.status if error.found else None
        raise Problem(409, "The approval can't be used", str(error), state=handoff.state, approval=status) from error
    return answer(UsedOut, Extended(handoff, approval=found))


@router.get(
    "/handoffs/{reference}/verdicts",
    auth=READ,
    operation_id="list_verdicts",
    summary="List the verdicts on a handoff, newest first",
    response={200: VerdictsOut, 404: ProblemOut},
)
def list_verdicts(request: HttpRequest, reference: Reference) -> HttpResponse:
    handoff = queries.get(caller(request).tenant, reference)
    items = [
        queries.current_verdict(handoff) if row.pk == handoff.verdict else orjson.Fragment(row.content)
        for row in queries.verdicts(handoff)
    ]
    return serializers.json_response({"items": items, "next": None})


@router.get(
    "/handoffs/{reference}/events",
    auth=READ,
    operation_id="list_events",
    summary="List the events of a handoff, oldest first",
    response={200: EventsOut, 404: ProblemOut},
)
def list_events(request: HttpRequest, reference: Reference) -> HttpResponse:
    handoff = queries.get(caller(request).tenant, reference)
    return answer(EventsOut, {"items": list(queries.events(handoff)), "next": None})


@router.get(
    "/handoffs/{reference}/attempts",
    auth=READ,
    operation_id="list_attempts",
    summary="List the attempts of a handoff and their changes, oldest first",
    response={200: AttemptsOut, 404: ProblemOut},
)
def list_attempts(request: HttpRequest, reference: Reference) -> HttpResponse:
    """List the newest 20 attempts of the handoff's lineage, with the lineage's remediation so far."""
    who = caller(request)
    handoff = queries.get(who.tenant, reference)
    record = attempts.load_record(handoff)
    shown = {
        "items": [Extended(one.handoff, changed=one.changed, why=one.why) for one in compare.compare_attempts(handoff)],
        "next": None,
        "remediation": record.to_dict() if record else None,
    }
    return answer(AttemptsOut, shown, context=who.tenant)


@router.get(
    "/handoffs/{reference}/chain.svg",
    auth=READ,
    operation_id="get_chain",
    summary="Draw the chain of a handoff",
    openapi_extra={"responses": {200: {"description": "An image", "content": {"image/svg+xml": {}}}}},
)
def get_chain(request: HttpRequest, reference: Reference) -> HttpResponse:
    handoff = queries.get(caller(request).tenant, reference)
    verdict: dict[str, Any] = queries.current_verdict(handoff) or {}
    facts = verdict.get("chain")
    known = Chain.of_verdict(facts) if facts else Chain((handoff.source_agent_id,), handoff.target_agent_id)
    drawing = draw_chain(known, standalone=True)
    response = HttpResponse(drawing.svg, content_type="image/svg+xml; charset=utf-8")
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    return response
