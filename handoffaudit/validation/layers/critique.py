"""The critique layer: a second opinion of the LLM, requested if the critique policy of the type calls for it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, Final, TypeGuard

from handoffaudit.validation.config import OUTPUT, CritiquePolicy, Strictness, TypePolicy
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.layers.base import AskedLater, CouldNotRunError, NotCheckedError, Subject
from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.layer_questions import Opinion
from handoffaudit.validation.prompts.question import Answer, Question, Reason, Unavailable, Use, ask_model
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import show
from handoffaudit.validation.verdict import Critique, score

name: Final = "critique"

LOW_SCORE: Final = Code(
    "critique.low_score",
    Severity.ERROR,
    "Low critique score",
    what="The critique scores the output below the threshold of its type.",
    why="The LLM finds the output weak as a whole, so its conclusion may be wrong.",
    hint="Fix the weaknesses that the critique names, and hand the output over again.",
)
REMARK: Final = Code(
    "critique.remark",
    Severity.WARNING,
    "Critique remark",
    what="The critique names a weakness of the output. The metadata contains the LLM's own name for the weakness.",
    why="The weakness is easier to fix before others build on it.",
    hint="Fix the weakness if the remark is right.",
)
CALL_FAILED: Final = Code(
    "critique.call_failed",
    Severity.WARNING,
    "Critique failed",
    what="A critique was due, but the LLM could not be asked or gave no usable answer.",
    why="The output got no second opinion, so its weaknesses may be undetected.",
    hint="The sender need not do anything: validation continued without the critique.",
)
SKIPPED_BUDGET: Final = Code(
    "critique.skipped_budget",
    Severity.WARNING,
    "Critique over budget",
    what="A critique was due, but would have cost more than its limit, or the tenant's daily budget is spent.",
    why="The output got no second opinion, so its weaknesses may be undetected.",
    hint="The sender need not do anything. An administrator can raise the limit of the type in the strictness "
    "table. An operator can raise the daily budget.",
)
CODES: Final = (LOW_SCORE, REMARK, CALL_FAILED, SKIPPED_BUDGET)

_NOTIONAL: Final = "notional_usd"
_WRITTEN_AMOUNT: Final = re.compile(r"\d{1,15}(?:\.\d{1,9})?|\d{1,3}(?:,\d{3}){1,4}(?:\.\d{1,9})?", re.ASCII)
_BUDGET = frozenset({Reason.BUDGET, Reason.TOO_DEAR})


def skip(subject: Subject) -> str | None:
    return why_off(subject.policy, subject.record.format) or (None if find_trigger(subject) else "not triggered")


def why_off(policy: TypePolicy, form: str) -> str | None:
    """Return why the type asks for no critique of a record in this format, or None if it may ask for one."""
    if policy.strictness is Strictness.LENIENT:
        return "the LLM checks only strict types"
    if policy.critique is CritiquePolicy.OFF:
        return "switched off for this type"
    return "the critique covers only outputs" if policy.critique is CritiquePolicy.OUTPUTS and form != OUTPUT else None


def find_trigger(subject: Subject) -> str:
    """Return why a critique is due, or an empty text if no trigger applies."""
    policy, record = subject.policy, subject.record
    if policy.critique is CritiquePolicy.ALWAYS:
        return f"always_critique:{record.handoff_type}"
    notional = max(
        (amount for place in _list_amount_holders(record) if (amount := _amount(place)) is not None), default=None
    )
    if notional is not None and notional >= policy.critique_notional_usd:
        return f"high_notional:{notional if isinstance(notional, float) else show(notional)}"
    so_far = score(subject.findings.issues)
    return f"low_confidence:{so_far:.2f}" if so_far < policy.critique_score_floor else ""


def _list_amount_holders(record: Record) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that can have `notional_usd`: context, data and, for `universal`, `working` in the data."""
    yield record.context
    yield record.data
    working = record.data.get("working")
    if record.format == "universal" and isinstance(working, dict):
        yield working


def _amount(place: Mapping[str, Any]) -> float | None:
    """Return `notional_usd` of an object, written as a number or as a text; None if there is no amount."""
    given = place.get(_NOTIONAL)
    if isinstance(given, str) and _WRITTEN_AMOUNT.fullmatch(text := given[:100].strip()):
        plain = text.replace(",", "")
        return float(plain) if "." in plain else int(plain)
    return given if is_number(given) else None


def check(subject: Subject) -> Iterable[Issue]:
    if subject.model is None:
        raise AskedLater
    due_to = find_trigger(subject)
    try:
        answer = ask_model(subject.model, lambda: question_of(subject))
    except Unavailable as error:
        if error.reason is Reason.NO_KEY:
            raise NotCheckedError(error.detail) from error
        yield _report_unavailable(error)
        raise CouldNotRunError(f"not made: {error.detail}") from error
    subject.findings.models[name] = answer.model
    opinion: Opinion = answer.value
    subject.findings.critique = _critique(opinion, answer, due_to)
    yield from _issues(subject, opinion)


def question_of(subject: Subject) -> Question:
    """Return the question to the LLM about this output."""
    record, policy = subject.record, subject.policy
    question = layer_questions.opinion_question(
        record.data,
        record.context,
        list(record.evidence),
        subject.demands.prompts.get(Use.CRITIQUE),
        role=policy.critique_model,
        max_cost_usd=policy.critique_max_usd,
    )
    subject.findings.prompts[name] = question.prompt
    return question


def _report_unavailable(error: Unavailable) -> Issue:
    code = SKIPPED_BUDGET if error.reason in _BUDGET else CALL_FAILED
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
            LOW_SCORE,
            message=f"The critique gives the output {opinion.score:.4g}, below {least:g}: {opinion.reasoning}",
            expected=least,
            actual=opinion.score,
        )
    for remark in opinion.remarks:
        grave = remark.severity in (Severity.ERROR, Severity.CRITICAL)
        yield make(
            REMARK,
            message=remark.message or remark.code,
            severity=Severity.WARNING if grave else remark.severity,
            code_given=remark.code,
            severity_given=remark.severity.value,
        )


def is_number(value: Any) -> TypeGuard[float]:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )
