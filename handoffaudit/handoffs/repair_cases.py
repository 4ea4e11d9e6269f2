"""Cases for repair: a stored handoff or a submission that is not stored, each with its verdict and context."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from django.utils import timezone

from handoffaudit.accounts.keys import ANY_AGENT, AgentLimit
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import attempts, lineage, queries, tool_results
from handoffaudit.handoffs.ingest.prepare import PreparedHandoff, Receipt, prepare, read_record
from handoffaudit.handoffs.llm import client
from handoffaudit.handoffs.models import Handoff, HandoffBody
from handoffaudit.handoffs.verdicts import (
    ASK_LATER,
    ModelChoice,
    PriorContext,
    envelope_of,
    reading_of,
    verdict_on_prepared,
    verdict_on_record,
    verdict_on_stored,
    verdict_on_unreadable,
)
from handoffaudit.policy import kinds
from handoffaudit.validation.config import Strictness, ValidationConfig
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.layers import MODEL_LAYERS, critique, entry_of, semantic
from handoffaudit.validation.layers.base import LanguageModel
from handoffaudit.validation.paths import Location
from handoffaudit.validation.prompts.question import Answer, Question, Reason, Unavailable
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.tool_results import Grade
from handoffaudit.validation.verdict import LayerStatus, Outcome, Verdict, score


@dataclass(frozen=True, slots=True)
class Preview:
    """The handoff that would be stored, its verdict, and the history and policy behind the verdict."""

    handoff: Handoff
    verdict: Verdict
    before: PriorContext
    config: ValidationConfig


def preview(
    tenant: Tenant, submission: Submission, grade: Grade = Grade.SAID, agents: AgentLimit = ANY_AGENT
) -> Preview | Receipt:
    """Judge a submission against the tenant's handoffs and current policy, without storing the submission.

    `grade` is the grade of the tool results beside the document, `agents` are the agents that the sender may speak for.
    If the server would refuse the submission, return the receipt of the refusal.
    """
    prepared = prepare(tenant.pk, tenant.slug, submission, timezone.now(), agents)
    if isinstance(prepared, Receipt):
        return prepared
    attempts.number([prepared])
    handoff = prepared.as_model()
    log = attempts.load_records([handoff]).get(attempts.lineage_of(handoff))
    sent = prepared.tool_results if grade.is_evidence else ()
    known = tool_results.load_evidence([handoff]).of(handoff)
    evidence = (*(source for row in sent for source in tool_results.sources_of_row(row)), *known)
    before = PriorContext(lineage.load_histories([handoff])[handoff.pk], log, evidence=evidence)
    config = kinds.load_config(tenant.pk)
    return Preview(handoff, verdict_on_prepared(prepared, before, config), before, config)


AT_ONCE: Final = 2

WAIT_SECONDS: Final = 5

_turns = threading.BoundedSemaphore(AT_ONCE)

# Only one more thread may wait for its turn, because a waiting thread serves no other request.
_places = threading.BoundedSemaphore(AT_ONCE + 1)

_BY_MODEL: Final = frozenset(layer.name for layer in MODEL_LAYERS)

# A layer with one of these findings has not judged the data.
_NOT_SAID: Final = frozenset(
    code.code for code in (semantic.UNAVAILABLE, critique.CALL_FAILED, critique.SKIPPED_BUDGET)
)


@dataclass(frozen=True, slots=True)
class Case:
    """A handoff to repair, with its submission, its verdict, the context before it, and its configuration.

    `model` is the LLM that may repair findings that the rules cannot repair, or None. `is_stored` says whether the
    handoff is stored. The LLM judges only the candidates of a stored handoff.
    """

    tenant: Tenant
    handoff: Handoff
    submission: Submission
    verdict: Verdict
    before: PriorContext
    config: ValidationConfig
    model: LanguageModel | None = None
    is_stored: bool = True

    @property
    def held_against_it(self) -> tuple[Issue, ...]:
        """Return the blocking findings of the LLM layers."""
        return tuple(issue for issue in self.verdict.issues if issue.layer in _BY_MODEL and issue.blocks)


def case_of(
    handoff: Handoff,
    body: HandoffBody,
    verdict: Verdict,
    before: PriorContext,
    config: ValidationConfig,
    model: LanguageModel | None = None,
) -> Case:
    submission = Submission(
        document=bytes(body.original),
        format=handoff.format or None,
        context=_convert_bytes(body.context),
        evidence=_convert_bytes(body.evidence),
        envelope=envelope_of(handoff, body),
    )
    return Case(handoff.tenant, handoff, submission, verdict, before, config, model)


def case_of_stored(handoff: Handoff) -> Case:
    """Return the case of a stored handoff, judged with the current policy.

    The case takes the findings of the LLM from the stored verdict, without a new call. Raise `HandoffBody.DoesNotExist`
    if the document was removed.
    """
    config = kinds.load_config(handoff.tenant_id)
    body = HandoffBody.objects.get(pk=handoff.pk)
    evidence = tool_results.load_evidence([handoff]).of(handoff)
    history = lineage.load_histories([handoff])[handoff.pk]
    before = PriorContext(history, attempts.load_record(handoff), evidence=evidence)
    verdict = verdict_on_stored(handoff, body, before, config)
    found = _add_findings(verdict, tuple(_read_stored_findings(handoff, body, config)))
    return case_of(handoff, body, found, before, config, model_of_web(handoff))


def case_of_sent(
    tenant: Tenant, submission: Submission, grade: Grade = Grade.SAID, agents: AgentLimit = ANY_AGENT
) -> Case | Receipt:
    """Return the case of a submission that is not stored; the arguments are those of `preview`."""
    found = preview(tenant, submission, grade, agents)
    if isinstance(found, Receipt):
        return found
    model = model_of_web(found.handoff)
    return Case(tenant, found.handoff, submission, found.verdict, found.before, found.config, model, is_stored=False)


def model_of_web(handoff: Handoff) -> LanguageModel | None:
    """Return the LLM for web requests, or None if no LLM is configured."""
    return _AFewAtOnce(client.model_for(handoff.tenant_id, handoff.pk)) if client.is_configured() else None


@dataclass(frozen=True, slots=True)
class _AFewAtOnce:
    """A wrapper of the LLM that lets only a few threads of this process wait for answers at a time."""

    model: LanguageModel

    def ask(self, question: Question) -> Answer:
        with _take_turn(_places, 0), _take_turn(_turns, WAIT_SECONDS):
            return self.model.ask(question)


@contextmanager
def _take_turn(turns: threading.BoundedSemaphore, seconds: float) -> Iterator[None]:
    if not turns.acquire(timeout=seconds):
        raise Unavailable(
            Reason.OVERLOADED, f"{AT_ONCE} other requests are asking the LLM already. Try again in a minute."
        )
    try:
        yield
    finally:
        turns.release()


def verdict_on_candidate(
    case: Case, prepared: PreparedHandoff, before: PriorContext, model: LanguageModel | None
) -> Verdict:
    """Return the verdict on a candidate.

    The layers that need no LLM judge first. If they find an error, return their verdict. If the handoff is stored, the
    LLM layers follow. They ask `model` or, if they had blocking findings on the handoff, the LLM of the case. Without
    an LLM to ask now, a worker asks the LLM later, as for any submission.

    An LLM layer that had blocking findings on the handoff may not have judged the candidate. Then add the blocking
    findings of all LLM layers on the handoff to the verdict.
    """
    handoff = prepared.as_model()
    reading = read_record(prepared.submission)
    if reading.record is None:
        return verdict_on_unreadable(handoff, reading.issues)
    verdict = verdict_on_record(reading.record, handoff, before, case.config)
    if not verdict.valid:
        return verdict
    if case.is_stored:
        verdict = verdict_on_record(reading.record, handoff, before, case.config, model=_ask_layers(case, model))
    return _add_findings(verdict, case.held_against_it) if _leaves_open(verdict, case) else verdict


def _ask_layers(case: Case, model: LanguageModel | None) -> ModelChoice:
    chosen = model or (case.model if case.held_against_it else None)
    if chosen is not None:
        return chosen
    return ASK_LATER if client.is_configured() else client.model_for(case.tenant.pk, case.handoff.pk)


def _leaves_open(verdict: Verdict, case: Case) -> bool:
    """Return whether an LLM layer that had a blocking finding has not judged the candidate.

    A layer that was skipped because no data is left to judge has not judged the candidate either.
    """
    held = {issue.layer for issue in case.held_against_it}
    looked = {layer.name for layer in verdict.layers if layer.status is not LayerStatus.SKIPPED}
    return not held <= looked or any(issue.layer in held and issue.code in _NOT_SAID for issue in verdict.issues)


def _add_findings(verdict: Verdict, found: tuple[Issue, ...]) -> Verdict:
    """Return the verdict with these blocking findings added."""
    if not found:
        return verdict
    issues = tuple(issue.assign_number(number) for number, issue in enumerate((*verdict.issues, *found), 1))
    grave = any(issue.severity in (Severity.ERROR, Severity.CRITICAL) for issue in found)
    outcome = Outcome.REJECTED if grave else verdict.outcome
    return msgspec.structs.replace(
        verdict, issues=issues, outcome=outcome, would_decide=outcome, quality_score=score(issues)
    )


def _read_stored_findings(handoff: Handoff, body: HandoffBody, config: ValidationConfig) -> Iterator[Issue]:
    """Yield the LLM's blocking findings in the stored verdict, for layers that are still on for the handoff type."""
    policy = config.policy_for(handoff.handoff_type)
    record = reading_of(handoff, body).record
    if record is None or policy.strictness is Strictness.LENIENT:
        return
    on = _BY_MODEL - policy.layers_off - ({critique.name} if critique.why_off(policy, record.format) else set())
    content = queries.current_verdict(handoff) or {}
    for finding in content.get("issues", ()):
        if finding["layer"] in on:
            issue = issue_of(finding, record.document)
            if issue.blocks:
                yield issue


def issue_of(finding: dict[str, Any], document: object) -> Issue:
    """Return the issue that a stored verdict describes."""
    return Issue(
        layer=finding["layer"],
        code=finding["code"],
        severity=Severity(finding["severity"]),
        message=finding["message"],
        hint=finding["hint"],
        location=_find_location(finding["json_pointer"], document),
        expected=finding["expected"],
        actual=finding["actual"],
        metadata=finding["metadata"],
        holds=entry_of(finding["code"]).holds,
    )


def _find_location(pointer: str, document: object) -> Location:
    """Return the location in a document that a JSON Pointer names."""
    place: list[str | int] = []
    value = document
    for part in _split_pointer(pointer):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            place.append(int(part))
            value = value[int(part)]
        else:
            place.append(part)
            value = value.get(part) if isinstance(value, dict) else None
    return tuple(place)


def _split_pointer(pointer: str) -> Iterable[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _convert_bytes(raw: object) -> bytes | None:
    return None if raw is None else bytes(raw)  # type: ignore[call-overload]
