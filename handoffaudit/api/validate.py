"""API that judges or repairs a document without storing it, and repairs stored handoffs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router
from pydantic import Field

from handoffaudit.accounts.keys import record_refusal
from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, serializers
from handoffaudit.api.auth import Caller, KeyWith, caller
from handoffaudit.api.batch import FORMAT, NAMED
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import CODES, Reference, read_body
from handoffaudit.api.schemas import ChangeOut, IssueOut, VerdictOut
from handoffaudit.api.serializers import Answer, ProblemOut
from handoffaudit.handoffs import queries, repair_cases, repairs
from handoffaudit.handoffs.ingest.prepare import Receipt, read_submission
from handoffaudit.validation.layers.base import LanguageModel
from handoffaudit.validation.prompts.question import Answer as ModelAnswer
from handoffaudit.validation.prompts.question import Question
from handoffaudit.validation.repair import HeldFiles, session_context
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.verdict import verdict_to_dict

router = Router(tags=["Judging"])

INGEST = KeyWith(Scope.INGEST)

# Each process judges at most this many documents at the same time. Other requests wait up to `WAIT_SECONDS` for a turn.
AT_ONCE = 2

WAIT_SECONDS = 5

# Each waiting request occupies a thread of the web server.
MOST_WAITING = 4

_turns = threading.BoundedSemaphore(AT_ONCE)

_places = threading.BoundedSemaphore(AT_ONCE + MOST_WAITING)


class PreviewOut(VerdictOut):
    links: dict[str, str] = Field(description=CODES)


class TryOut(Answer):
    number: int = Field(description="The number of the try, from 1.", examples=[1])
    name: str = Field(description="The strategy of the try.", examples=["defaults and hints"])
    note: str = Field(description="Why the try had nothing to change, or how it missed its goal; else empty.")
    valid: bool = Field(description="Whether no finding of the candidate has severity error or critical.")
    outcome: str = Field(description="Outcome for the candidate: accepted, rejected or held.", examples=["accepted"])
    quality_score: float = Field(description="Quality score of the candidate, 0.0 to 1.0.")
    changes: list[ChangeOut] = Field(description="All changes to the document sent.")
    errors: list[IssueOut] = Field(description="The findings of the candidate with severity error or critical.")


class SessionContextOut(Answer):
    path: str = Field(
        description="The path under which the candidate expects a file with this content.",
        examples=["sessions/17/handoffs/session-context.json"],
    )
    content: dict[str, Any] = Field(description="The former content of `payload.session`.")


class RepairOut(Answer):
    status: str = Field(description="repaired, not_needed, not_possible or escalated.", examples=["repaired"])
    why: str = Field(description="Why there is no candidate, or that none is needed.")
    repaired_by: int | None = Field(description="The number of the try that passed; null if none did.")
    document: dict[str, Any] | None = Field(description="The candidate; null if there is none.")
    session_context: SessionContextOut | None = Field(
        None, description="The session that the repair removed, to store beside the candidate; null if none."
    )
    verdict: VerdictOut | None = Field(description="The verdict on the candidate; null without a candidate.")
    attempts: list[TryOut] = Field(description="The tries with their changes.")
    links: dict[str, str] = Field({}, description=CODES)


@router.post(
    "/validate",
    auth=INGEST,
    operation_id="validate_handoff",
    summary="Judge a document without storing it",
    response={200: PreviewOut, 403: ProblemOut, 413: ProblemOut, 503: ProblemOut},
    openapi_extra=examples.JUDGE,
)
def validate(
    request: HttpRequest, declared_format: str | None = FORMAT, handoff_id: str | None = NAMED
) -> HttpResponse:
    """Return the verdict that the same submission would get now without the LLM checks; nothing is stored.

    The document is judged under the tenant's policy and together with the handoffs of its trace. A document that can't
    be read gets a verdict, too: rejected, with the reason.
    """
    who = caller(request)
    sent = _read_submission(request, declared_format, handoff_id)
    with _turn():
        preview = _raise_if_refused(who, repair_cases.preview(who.tenant, sent, who.key.grade, who.key.agents))
    return serializers.json_response(verdict_to_dict(preview.verdict) | {"links": {"codes": serializers.codes_link()}})


@router.post(
    "/repair",
    auth=INGEST,
    operation_id="repair_document",
    summary="Repair a document without storing it",
    response={200: RepairOut, 403: ProblemOut, 413: ProblemOut, 503: ProblemOut},
    openapi_extra=examples.JUDGE,
)
def repair(request: HttpRequest, declared_format: str | None = FORMAT, handoff_id: str | None = NAMED) -> HttpResponse:
    """Return a repaired candidate for a document; nothing is stored.

    `status` is `repaired` (the candidate is in `document`), `not_needed`, `not_possible` (`why` has the reason) or
    `escalated`. `escalated` means that no try led to a document without errors and with at least the same quality
    score. Each try is listed with its changes and the remaining errors. A session that was removed to meet the token
    budget is returned as `session_context`: store the session at its `path`, to which the candidate refers.
    """
    who = caller(request)
    sent = _read_submission(request, declared_format, handoff_id)
    with _turn():
        case = _raise_if_refused(who, repair_cases.case_of_sent(who.tenant, sent, who.key.grade, who.key.agents))
        model = _WithoutTurn(case.model) if case.model else None
        held = HeldFiles()
        result = repairs.make_candidates(replace(case, model=model), files=held)
    return serializers.json_response(
        serializers.repair_of(result) | {"session_context": session_context(result, held.files)}
    )


@router.post(
    "/handoffs/{reference}/repair",
    auth=KeyWith(Scope.REVIEW),
    operation_id="repair_handoff",
    summary="Repair a rejected handoff and store the candidates as new attempts",
    response={200: RepairOut, 404: ProblemOut, 409: ProblemOut},
)
def repair_stored(request: HttpRequest, reference: Reference) -> HttpResponse:
    who = caller(request)
    try:
        result = repairs.repair_stored(handoff=queries.get(who.tenant, reference), actor=who.actor)
    except repairs.NotRepairable as error:
        raise Problem(409, "Nothing to repair", str(error)) from error
    return serializers.json_response(serializers.repair_of(result))


@contextmanager
def _turn() -> Iterator[None]:
    """Hold a turn inside the `with` block. Raise a `Problem` with 503 if no turn is free in time or too many wait.

    The number of turns is limited, because judging a document here takes processor time from submissions.
    """
    if not _places.acquire(blocking=False):
        raise _busy()
    try:
        if not _turns.acquire(timeout=WAIT_SECONDS):
            raise _busy()
        try:
            yield
        finally:
            _turns.release()
    finally:
        _places.release()


def _busy() -> Problem:
    return Problem(
        503,
        "Busy judging",
        f"{AT_ONCE} documents are already being judged on request. Try again in a second, or submit the document: "
        "workers judge every stored document.",
        headers={"Retry-After": "1"},
    )


@dataclass(frozen=True, slots=True)
class _WithoutTurn:
    """A wrapper of the LLM that gives up the turn of the request while the LLM answers.

    The answer may take a minute and needs no processor time, so other documents can be judged meanwhile.
    """

    model: LanguageModel

    def ask(self, question: Question) -> ModelAnswer:
        _turns.release()
        try:
            return self.model.ask(question)
        finally:
            # The rest of the judging needs a turn again. The wait is short, because nobody keeps a turn for long.
            _turns.acquire()


def _read_submission(request: HttpRequest, declared_format: str | None, handoff_id: str | None) -> Submission:
    sent = read_body(request, settings.MAX_BODY_BYTES, may_be_empty=True)
    return read_submission(sent, declared_format, handoff_id)


def _raise_if_refused(who: Caller, result: Any) -> Any:
    """Return the result. Raise `Problem` if it is the receipt of a refusal."""
    if isinstance(result, Receipt):
        if result.refused_agent:
            record_refusal(who.tenant, who.key.agents, result.refused_agent)
        raise Problem(result.status, result.title, result.detail)
    return result
