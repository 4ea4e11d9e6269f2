"""The semantic layer: an LLM judges whether the data is supported, or whether a deliverable meets its objective."""

from collections.abc import Iterable, Iterator
from typing import Final

from handoffaudit.validation.config import FailMode, Strictness
from handoffaudit.validation.formats import claude_code, delegation
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.layers.base import AskedLater, CouldNotRunError, NotCheckedError, Subject
from handoffaudit.validation.paths import Location, dotted_path
from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.layer_questions import Doubt, Doubted
from handoffaudit.validation.prompts.question import (
    LONGEST_PART,
    Answer,
    Question,
    Reason,
    Role,
    Unavailable,
    Use,
    ask_model,
    is_cut,
)
from handoffaudit.validation.prompts.secrets import MASKED
from handoffaudit.validation.record import place_of, placer, span_of
from handoffaudit.validation.text import sentences

name: Final = "semantic"
UNSUPPORTED_CLAIM: Final = Code(
    "semantic.unsupported_claim",
    Severity.ERROR,
    "Unsupported claim",
    what="The LLM finds no support for a claim in the context or the evidence, or calls the data invalid without a "
    "reason.",
    why="Claims that go beyond their source are the most common mistake of agents, and hard to notice.",
    hint="Remove the claim, or supply its source.",
)
FABRICATED: Final = Code(
    "semantic.fabricated",
    Severity.ERROR,
    "Fabricated point",
    what="The LLM considers a concrete number, date or name invented.",
    why="Somebody will act on this value, and nobody can find its origin.",
    hint="Replace it with a value from the context or the evidence, or remove it.",
)
CONTRADICTION: Final = Code(
    "semantic.contradiction",
    Severity.ERROR,
    "Contradiction in the data",
    what="The LLM finds two parts of the data that cannot both be true.",
    why="A reader has to choose one of the two parts, and may choose the wrong one.",
    hint="Correct the part that is wrong.",
)
OBJECTIVE_NOT_MET: Final = Code(
    "semantic.objective_not_met",
    Severity.ERROR,
    "The deliverable does not meet its objective",
    what="The LLM finds that the deliverable does not do what the objective requires, or is not sure enough that it "
    "does.",
    why="The deliverable is reported as done, so the requester notices the gap only when the result is needed.",
    hint="Close the gaps that the message names, and hand the deliverable back again.",
)
UNAVAILABLE: Final = Code(
    "semantic.unavailable",
    Severity.WARNING,
    "LLM check skipped",
    what="An LLM key is set, but the LLM could not be asked, or gave no usable answer. The metadata gives the reason.",
    why="The handoff was judged without a check that its type requires.",
    hint="The sender need not do anything: the check is repeated when the LLM is available.",
)
AWAITING_CHECK: Final = Code(
    "semantic.awaiting_check",
    Severity.WARNING,
    "Held for the LLM check",
    what="The type is set to fail closed, and the LLM could not be asked, or gave no usable answer.",
    why="Handoffs of this type must not be accepted unchecked, so the handoff waits until the LLM is available.",
    hint="The check is repeated when the LLM is available. A person can decide earlier.",
    holds=True,
)
CODES: Final = (UNSUPPORTED_CLAIM, FABRICATED, CONTRADICTION, OBJECTIVE_NOT_MET, UNAVAILABLE, AWAITING_CHECK)
_BY_DOUBT: Final = {
    Doubt.UNSUPPORTED: UNSUPPORTED_CLAIM,
    Doubt.FABRICATED: FABRICATED,
    Doubt.CONTRADICTION: CONTRADICTION,
}
_CUT: Final = f"Parts longer than {LONGEST_PART:,} characters were cut before they were sent to the LLM."
_SECRETS: Final = "Values that look like secrets were masked, so the LLM did not see them."
_UNTIL_A_KEY = "A person decides, or the check is made once an operator has set an LLM key."
_NO_REASON = "The LLM considers the data invalid, but gives no reason."


def skip(subject: Subject) -> str | None:
    if subject.policy.strictness is Strictness.LENIENT:
        return "the LLM checks only strict types"
    if subject.record.format == delegation.NAME:
        return _explain_not_applicable(subject)
    if subject.record.format == claude_code.NAME:
        return "not applicable: no result has come back yet"
    return None if subject.record.data else "there is no data to check"


def _explain_not_applicable(subject: Subject) -> str | None:
    found = delegation.delegation(subject.record.document)
    if found.applicable:
        return None
    if found.tool not in delegation.DELEGATION_TOOLS:
        return f"not applicable: {found.tool or 'a call without a tool name'} is not a delegation tool"
    return f"not applicable: there is no {'result' if found.prompt else 'prompt'}"


def check(subject: Subject) -> Iterable[Issue]:
    if subject.model is None:
        raise AskedLater
    questions: list[Question] = []
    try:
        answer = ask_model(subject.model, lambda: _remember(question_of(subject), questions))
    except Unavailable as error:
        subject.findings.unverified = True
        yield from _unavailable(error, subject.policy.fail_mode)
        if error.reason is Reason.NO_KEY:
            raise NotCheckedError(error.detail) from error
        raise CouldNotRunError(f"the LLM check was not made: {error.detail}") from error
    subject.findings.models[name] = answer.model
    found = _objective(subject, answer) if subject.record.format == delegation.NAME else _check_doubts(subject, answer)
    yield from found
    notes = [subject.findings.notes.get(name, ""), *(note for one in questions for note in _describe_omissions(one))]
    subject.findings.notes[name] = sentences(notes)


def _describe_omissions(question: Question) -> Iterator[str]:
    """Yield a note about each kind of omission in the question, so that the verdict does not overstate the check."""
    if is_cut(question.content):
        yield _CUT
    if MASKED in question.content:
        yield _SECRETS


def _remember(question: Question, questions: list[Question]) -> Question:
    questions.append(question)
    return question


def question_of(subject: Subject) -> Question:
    """Return the question to the LLM about this handoff."""
    record, prompts = subject.record, subject.demands.prompts
    if record.format == delegation.NAME:
        found = delegation.delegation(record.document)
        prompt = found.prompt or ""
        role = _role(len(prompt) + found.deliverable_characters, subject.policy.careful_above)
        question = layer_questions.objective_question(prompt, found.deliverable, prompts.get(Use.OBJECTIVE), role=role)
    else:
        question = layer_questions.grounding_question(
            record.data, record.context, list(record.evidence), prompts.get(Use.GROUNDING)
        )
    subject.findings.prompts[name] = question.prompt
    return question


def _role(characters: int, careful_above: int) -> Role:
    """Return which LLM judges an objective and its deliverable, by their total length."""
    return Role.CAREFUL if careful_above and characters > careful_above else Role.FAST


def _unavailable(error: Unavailable, fail_mode: FailMode) -> Iterator[Issue]:
    """Yield the finding about the missing LLM check, and if the type fails closed, the finding that holds the handoff.

    A missing key is not a finding of a handoff, because it concerns all handoffs: the pages say once that no key is
    set. A handoff that is held for the check still needs the finding that holds it.
    """
    if error.reason is not Reason.NO_KEY:
        yield make(
            UNAVAILABLE,
            message=f"The LLM check was not made: {error.detail}",
            reason=error.reason.value,
            http_status=error.status,
        )
    if fail_mode is FailMode.CLOSED:
        yield make(
            AWAITING_CHECK,
            message="Handoffs of this type are held until the LLM has checked them.",
            hint=_UNTIL_A_KEY if error.reason is Reason.NO_KEY else None,
            reason=error.reason.value,
        )


def _check_doubts(subject: Subject, answer: Answer) -> Iterator[Issue]:
    """Yield a finding for each doubt of the LLM.

    If the LLM calls the data valid, the data counts as valid, and each doubt is only a warning. If the LLM calls the
    data invalid but names no doubt, yield one finding that says so.
    """
    found: layer_questions.Grounding = answer.value
    to_document = placer(subject.record)
    severity = Severity.WARNING if found.valid else None
    for one in found.doubted:
        location = to_document(place_of(one.field, one.quote, subject.record.data))
        yield _doubt(subject, one, location, answer, severity)
    if not found.valid and not found.doubted:
        yield make(UNSUPPORTED_CLAIM, location=to_document(()), message=_NO_REASON, model=answer.model)


def _doubt(subject: Subject, one: Doubted, location: Location, answer: Answer, severity: Severity | None) -> Issue:
    quoted = f' "{one.quote}"' if one.quote else ""
    says = {
        Doubt.UNSUPPORTED: f"The claim{quoted} is not supported by the context",
        Doubt.FABRICATED: f"The point{quoted} seems made up",
        Doubt.CONTRADICTION: (
            f"{quoted.strip() or dotted_path(location) or 'The data'} contradicts another part of the data"
        ),
    }[one.kind]
    return make(
        _BY_DOUBT[one.kind],
        location=location,
        message=f"{says}: {one.reason}" if one.reason else f"{says}.",
        actual=one.quote or None,
        severity=severity,
        model=answer.model,
        quote=one.quote,
        field_given=one.field,
        span=span_of(one.quote, location, subject.record.document),
    )


def _objective(subject: Subject, answer: Answer) -> Iterator[Issue]:
    found: layer_questions.Objective = answer.value
    least = subject.policy.objective_confidence
    if found.met and found.confidence >= least:
        subject.findings.notes[name] = (
            f"{layer_questions.PASSED} with confidence {found.confidence:.2f}: {found.reasoning}"
        )
        return
    doubtful = f"with too little confidence ({found.confidence:.4g}; the minimum is {least:.4g})"
    says = f"is met {doubtful}" if found.met else "is not met"
    yield make(
        OBJECTIVE_NOT_MET,
        location=placer(subject.record)(("deliverable",)),
        message=f"The objective {says}: {found.reasoning}" if found.reasoning else f"The objective {says}.",
        expected=least if found.met else None,
        actual=found.confidence if found.met else None,
        model=answer.model,
        status=layer_questions.PASSED if found.met else layer_questions.FAILED,
        confidence=found.confidence,
    )
