"""API that judges or repairs a document without storing the document, and that repairs a stored handoff."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router

from handoffaudit.accounts.models import Scope
from handoffaudit.api import examples, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.handoffs import FORMAT, NAMED
from handoffaudit.api.requests import Reference, read_body
from handoffaudit.api.schemas import PreviewOut, ProblemOut, RepairOut
from handoffaudit.handoffs import queries, repair_cases, repairs
from handoffaudit.handoffs.ingest.prepare import Receipt, read_submission
from handoffaudit.validation.ports import LanguageModel
from handoffaudit.validation.prompts.question import Answer, Question
from handoffaudit.validation.repair import HeldFiles, session_context
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.verdict import verdict_to_dict

router = Router(tags=["Judging"])

INGEST = KeyWith(Scope.INGEST)

AT_ONCE = 2

WAIT_SECONDS = 5

# Each waiting request occupies a thread of the web server.
MOST_WAITING = 4

_turns = threading.BoundedSemaphore(AT_ONCE)

_places = threading.BoundedSemaphore(AT_ONCE + MOST_WAITING)


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
    """Return the verdict that the same submission would get now; nothing is stored.

    The document is judged under the tenant's policy and together with the handoffs of its trace. A document that can't
    be read gets a verdict, too: rejected, with the reason.
    """
    sent = _read_submission(request, declared_format, handoff_id)
    with _turn():
        preview = _verdict_json(repair_cases.preview(caller(request).tenant, sent))
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

    `status` is `repaired` (the candidate is in `document`), `not_needed`, `not_possible` (no rule says what to change),
    or `escalated` (three tries did not lead to a document without errors). Each try is listed with its changes and the
    remaining errors. A session that was removed to meet the token budget is returned as `session_context`: store the
    session at its `path`, to which the candidate refers.
    """
    sent = _read_submission(request, declared_format, handoff_id)
    with _turn():
        case = _verdict_json(repair_cases.case_of_sent(caller(request).tenant, sent))
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
    """Limit how many documents are judged at once; answer 503 to callers above the limit.

    Judging a document here takes processor time from submissions.
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
        "what is stored is judged by the workers.",
        headers={"Retry-After": "1"},
    )


@dataclass(frozen=True, slots=True)
class _WithoutTurn:
    """An LLM that gives up the turn of its request while the LLM answers.

    The answer may take a minute and needs no processor time, so other documents can be judged meanwhile.
    """

    model: LanguageModel

    def ask(self, question: Question) -> Answer:
        _turns.release()
        try:
            return self.model.ask(question)
        finally:
            # The rest of the judging needs a turn again. The wait is short, because nobody keeps a turn for long.
            _turns.acquire()


def _read_submission(request: HttpRequest, declared_format: str | None, handoff_id: str | None) -> Submission:
    sent = read_body(request, settings.MAX_BODY_BYTES, may_be_empty=True)
    return read_submission(sent, declared_format, handoff_id)


def _verdict_json(result: Any) -> Any:
    if isinstance(result, Receipt):
        raise Problem(result.status, result.title, result.detail)
    return result
