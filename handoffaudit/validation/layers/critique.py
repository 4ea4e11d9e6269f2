"""The critique layer: the opinion of a second LLM about an output, where the opinion is worth its cost."""

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final, TypeGuard

from handoffaudit.validation.codes import make
from handoffaudit.validation.config import OUTPUT, CritiquePolicy, Strictness
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.layers.base import AskedLater, CouldNotRunError, NotCheckedError, Subject
from handoffaudit.validation.prompts import critique
from handoffaudit.validation.prompts.critique import Opinion
from handoffaudit.validation.prompts.question import Answer, Question, Reason, Unavailable, Use, ask_model
from handoffaudit.validation.text import show
from handoffaudit.validation.verdict import Critique, score

name: Final = "critique"
_NOTIONAL: Final = "notional_usd"
_BUDGET = frozenset({Reason.BUDGET, Reason.TOO_DEAR})


def skip(subject: Subject) -> str | None:
    policy = subject.policy.critique
    if subject.policy.strictness is Strictness.LENIENT:
        return "only strict types are put to the model"
    if policy is CritiquePolicy.OFF:
        return "switched off for this type"
    if policy is CritiquePolicy.OUTPUTS and subject.record.format != OUTPUT:
        return "asked for outputs only"
    return None if triggered_by(subject) else "not triggered"


def triggered_by(subject: Subject) -> str:
    """Return why a critique is due, or an empty string if none is due."""
    policy, record = subject.policy, subject.record
    if policy.critique is CritiquePolicy.ALWAYS:
        return f"always_critique:{record.handoff_type}"
    notional = max(filter(is_number, (record.context.get(_NOTIONAL), record.data.get(_NOTIONAL))), default=None)
    if notional is not None and notional >= policy.critique_notional_usd:
        return f"high_notional:{notional if isinstance(notional, float) else show(notional)}"
    so_far = score(subject.findings.issues)
    return f"low_confidence:{so_far:.2f}" if so_far < policy.critique_score_floor else ""


def check(subject: Subject) -> Iterable[Issue]:
    if subject.model is None:
        raise AskedLater
    due_to = triggered_by(subject)
    try:
        answer = ask_model(subject.model, lambda: question_of(subject))
    except Unavailable as error:
        if error.reason is Reason.NO_KEY:
            raise NotCheckedError(error.detail) from error
        yield _not_made(error)
        raise CouldNotRunError(f"not made: {error.detail}") from error
    subject.findings.models[name] = answer.model
    opinion: Opinion = answer.value
    subject.findings.critique = _critique(opinion, answer, due_to)
    yield from _issues(subject, opinion)


def question_of(subject: Subject) -> Question:
    """Return the question to the LLM about this output."""
    record, policy = subject.record, subject.policy
    question = critique.question(
        record.data,
        record.context,
        list(record.evidence),
        subject.demands.prompts.get(Use.CRITIQUE),
        role=policy.critique_model,
        max_cost_usd=policy.critique_max_usd,
    )
    subject.findings.prompts[name] = question.prompt
    return question


def _not_made(error: Unavailable) -> Issue:
    code = "critique.skipped_budget" if error.reason in _BUDGET else "critique.call_failed"
    return make(code, message=f"The critique was not made: {error.detail}", reason=error.reason.value)


def _critique(opinion: Opinion, answer: Answer, due_to: str) -> Critique:
    return Critique(
        model_used=answer.model,
        triggered_by=due_to,
        overall_score=opinion.score,
        issues_found=tuple(
            {"code": remark.code, "message": remark.message, "severity": remark.severity.value}
            for remark in opinion.remarks
        ),
        reasoning=opinion.reasoning,
        cost_usd=answer.cost_usd,
        latency_ms=answer.latency_ms,
    )


def _issues(subject: Subject, opinion: Opinion) -> Iterator[Issue]:
    """Yield a finding for a low score, and a finding for each remark.

    The score decides, so a remark is at most a warning.
    """
    least = subject.policy.critique_threshold
    if opinion.score < least:
        yield make(
            "critique.low_score",
            message=f"The second model gives the output {opinion.score:.4g}, below {least:g}: {opinion.reasoning}",
            expected=least,
            actual=opinion.score,
        )
    for remark in opinion.remarks:
        grave = remark.severity in (Severity.ERROR, Severity.CRITICAL)
        yield make(
            "critique.remark",
            message=remark.message or remark.code,
            severity=Severity.WARNING if grave else remark.severity,
            code_given=remark.code,
            severity_given=remark.severity.value,
        )


def is_number(value: Any) -> TypeGuard[float]:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )
