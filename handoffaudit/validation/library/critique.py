"""The critique: a second LLM's opinion of an output, requested only if a trigger of the settings applies."""

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeGuard

from handoffaudit.validation.issues import MAX_ISSUES
from handoffaudit.validation.json_text import to_json
from handoffaudit.validation.library import get_logger
from handoffaudit.validation.library.models import (
    GRAVE,
    CritiqueResult,
    CritiqueTriggerConfig,
    LLMEnvelope,
    LLMResult,
    ValidationIssue,
    ValidationLayer,
    ValidationSeverity,
)
from handoffaudit.validation.library.validators import output_type_of
from handoffaudit.validation.prompts.pricing import estimate_call_cost
from handoffaudit.validation.prompts.question import Use, as_text, build_instructions, default_prompt
from handoffaudit.validation.text import clean, show

_ANSWER_TOKENS = 1024
_NOTIONAL = "notional_usd"
_LONGEST_REASONING = 4000
_LONGEST_MESSAGE = 600
_IMPLAUSIBLE_COST = 1_000_000


@dataclass(frozen=True, slots=True)
class Critique:
    """The result of a critique: its issues and the LLM's whole opinion.

    If the LLM gave no opinion, `result` is None and `why` gives the reason.
    """

    issues: list[ValidationIssue]
    result: CritiqueResult | None = None
    why: str = ""


class CritiqueValidator:
    """A validator that asks a second LLM for its opinion of the output.

    `trigger_config` says when the LLM is asked. None stands for the shipped settings.
    `call_llm(instructions=…, context=…, model=…)` asks the LLM. `instructions` and `model` are texts. `context` maps
    the names of the parts to texts of at most 10,000 characters each, with secrets masked. The function returns
    `{"overall_score", "issues", "reasoning"}`, with the score from 0.0 to 1.0, and may add `cost_usd`. The validator
    calls the function in the caller's thread and does not await the result: a coroutine function raises TypeError.
    Without `call_llm`, the validator logs each due critique and skips it.
    """

    layer_name = ValidationLayer.CRITIQUE.value

    def __init__(
        self,
        trigger_config: CritiqueTriggerConfig | None = None,
        call_llm: Callable[..., dict[str, Any]] | None = None,
    ) -> None:
        if call_llm is not None and inspect.iscoroutinefunction(call_llm):
            raise TypeError("call_llm is a coroutine function; give a plain function that returns the answer")
        self._config = trigger_config or CritiqueTriggerConfig()
        self._call_llm = call_llm

    def should_trigger(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, prior_quality_score: float
    ) -> tuple[bool, str]:
        """Return whether a critique is due, and the reason as `name` or `name:value`.

        The first trigger that fires counts:

        - The output's type is in `always_critique_types`.
        - `notional_usd` in the context or at the top of the output is at least `notional_usd_threshold`.
        - `prior_quality_score` (0.0 to 1.0) is below `confidence_floor`.
        """
        config, output_type = self._config, output_type_of(parsed_output)
        if not config.enabled:
            return False, "disabled"
        if output_type in config.always_critique_types:
            return True, f"always_critique:{clean(output_type)}"
        notional = _notional(parsed_output, envelope)
        if notional is not None and notional >= config.notional_usd_threshold:
            return True, f"high_notional:{notional if isinstance(notional, float) else show(notional)}"
        if prior_quality_score < config.confidence_floor:
            return True, f"low_confidence:{prior_quality_score:.2f}"
        return False, "not_triggered"

    def validate(
        self,
        parsed_output: dict[str, Any],
        envelope: LLMEnvelope,
        result: LLMResult | None = None,
        *,
        prior_quality_score: float = 1.0,
    ) -> list[ValidationIssue]:
        """Return the issues of the critique, or an empty list if no critique is due.

        All validators take `result`; the critique does not use it.
        """
        return self.assess(parsed_output, envelope, prior_quality_score=prior_quality_score).issues

    def assess(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, *, prior_quality_score: float = 1.0
    ) -> Critique:
        """Return the issues of the critique together with the LLM's whole opinion.

        A call that fails, or would cost more than `max_cost_usd`, is a warning. The validation continues without the
        opinion, and no error of the callable is raised.
        """
        due, reason = self.should_trigger(parsed_output, envelope, prior_quality_score)
        if not due:
            return Critique([], why=reason)
        if self._call_llm is None:
            get_logger(__name__).warning("a critique is due, but no call_llm is given", triggered_by=reason)
            return Critique([], why="call_llm is not set")
        question = _question(parsed_output, envelope, reason)
        cost = estimate_call_cost(self._config.critique_model, _size(question), _ANSWER_TOKENS)
        if cost > self._config.max_cost_usd:
            return self._report_over_budget(cost)
        started = time.monotonic()
        try:
            answer = _check_answer(self._call_llm(model=self._config.critique_model, **question))
        except Exception as error:  # noqa: BLE001  (the function belongs to the caller: any failure in it is an outage)
            get_logger(__name__).exception("the call for a critique failed")
            return _call_failed(error)
        return self._build_result(answer, reason, cost, (time.monotonic() - started) * 1000)

    def _report_over_budget(self, cost: float) -> Critique:
        limit = self._config.max_cost_usd
        message = f"The critique was skipped: it would cost about {cost:.4f} USD, over its limit of {limit:g} USD."
        hint = "Raise max_cost_usd, or choose a cheaper critique_model."
        issue = _issue("skipped_budget", message, hint, expected=limit, actual=round(cost, 6))
        return Critique([issue], why="the critique would cost more than max_cost_usd")

    def _build_result(self, answer: dict[str, Any], reason: str, cost: float, latency_ms: float) -> Critique:
        accepted = answer["overall_score"] >= self._config.acceptance_threshold
        found = _read_issues(answer.get("issues"), at_most_warning=accepted)
        charged = answer.get("cost_usd")
        result = CritiqueResult(
            model_used=self._config.critique_model,
            triggered_by=reason,
            overall_score=answer["overall_score"],
            issues_found=found,
            reasoning=clean(str(answer.get("reasoning") or ""), _LONGEST_REASONING),
            cost_usd=float(charged) if _is_number(charged) and 0 <= charged < _IMPLAUSIBLE_COST else cost,
            latency_ms=latency_ms,
        )
        return Critique([*([] if accepted else [self._report_low_score(result)]), *found], result)

    def _report_low_score(self, result: CritiqueResult) -> ValidationIssue:
        threshold = self._config.acceptance_threshold
        issue = _issue(
            "low_score",
            f"The second LLM gives the output {result.overall_score:.4g}, below {threshold:g}.",
            "Fix the weaknesses that the critique names, and validate the output again.",
            severity=ValidationSeverity.ERROR,
            expected=threshold,
            actual=result.overall_score,
        )
        return issue.model_copy(
            update={
                "metadata": {**issue.metadata, "critique_id": result.critique_id, "reasoning": result.reasoning[:500]}
            }
        )


def _issue(
    code: str,
    message: str,
    hint: str,
    *,
    severity: ValidationSeverity = ValidationSeverity.WARNING,
    expected: float | None = None,
    actual: float | None = None,
) -> ValidationIssue:
    return ValidationIssue(
        layer=ValidationLayer.CRITIQUE,
        severity=severity,
        code=f"critique.{code}",
        message=message,
        expected=expected,
        actual=actual,
        metadata={"hint": hint},
    )


def _question(parsed_output: Any, envelope: LLMEnvelope, reason: str) -> dict[str, Any]:
    """Return the parts of the question as texts of limited length, with the most relevant evidence first."""
    evidence = sorted(envelope.retrieved_evidence, key=lambda item: -item.relevance)
    return {
        "instructions": build_instructions(Use.CRITIQUE, default_prompt(Use.CRITIQUE)),
        "context": {
            "agent_output": as_text(to_json(parsed_output)),
            "evidence": as_text(to_json(evidence)),
            "agent_context": as_text(to_json(envelope.context)),
            "agent_instructions": as_text(to_json(envelope.instructions)),
            "triggered_by": reason,
        },
    }


def _notional(parsed_output: Any, envelope: LLMEnvelope) -> float | None:
    """Return the largest amount that the context or the output gives, or None if neither gives an amount."""
    given = [envelope.context.get(_NOTIONAL)]
    if isinstance(parsed_output, dict):
        given.append(parsed_output.get(_NOTIONAL))
    return max(filter(_is_number, given), default=None)


def _size(question: dict[str, Any]) -> int:
    return len(question["instructions"]) + sum(len(part) for part in question["context"].values())


def _check_answer(answer: Any) -> dict[str, Any]:
    """Return the answer with its score, from 0.0 to 1.0, as a float.

    Raises ValueError if the answer is an awaitable or has no such score.
    """
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise ValueError("call_llm returned an awaitable")
    score = answer.get("overall_score") if isinstance(answer, dict) else None
    if not _is_number(score) or not 0 <= score <= 1:
        raise ValueError("the answer has no overall_score from 0.0 to 1.0")
    return {**answer, "overall_score": float(score)}


def _call_failed(error: Exception) -> Critique:
    message = f"The second LLM could not be asked ({type(error).__name__}); validation continued without the critique."
    hint = "The log contains the error. Validate the output again when the LLM is available."
    return Critique([_issue("call_failed", message, hint)], why="the call failed")


def _read_issues(issues: object, *, at_most_warning: bool) -> list[ValidationIssue]:
    """Return the LLM's own findings, which may be objects or plain sentences.

    With `at_most_warning`, errors become warnings, because a remark must not fail an output that the LLM accepts.
    """
    listed = [{"message": one} if isinstance(one, str) else one for one in issues] if isinstance(issues, list) else []
    found = []
    for one in (given for given in listed[:MAX_ISSUES] if isinstance(given, dict)):
        severity = _severity(one.get("severity"))
        capped = ValidationSeverity.WARNING if at_most_warning and severity in GRAVE else severity
        found.append(
            ValidationIssue(
                layer=ValidationLayer.CRITIQUE,
                severity=capped,
                code=clean(str(one.get("code") or "critique.issue")),
                message=clean(str(one.get("message") or ""), _LONGEST_MESSAGE),
                metadata={"severity_given": severity.value} if capped is not severity else {},
            )
        )
    return found


def _severity(given: object) -> ValidationSeverity:
    try:
        return ValidationSeverity(str(given).lower())
    except ValueError:
        return ValidationSeverity.WARNING


def _is_number(value: Any) -> TypeGuard[float]:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )
