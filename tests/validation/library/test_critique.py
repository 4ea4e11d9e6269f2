"""Tests of the second LLM: when the library asks, with which question, and how the answer is used."""

import asyncio
import logging
from typing import Any

import pytest

from handoffaudit.validation import (
    CritiqueTriggerConfig,
    CritiqueValidator,
    EvidenceItem,
    LLMEnvelope,
    ValidationIssue,
)

from .support import answer, codes, envelope, signal

ALWAYS = {"always_critique_types": ["Signal"]}


class Critic:
    """A callable with a fixed answer that records its questions."""

    def __init__(self, said: Any) -> None:
        self.said = said
        self.calls: list[dict[str, Any]] = []

    def __call__(self, **asked: Any) -> Any:
        self.calls.append(asked)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def validator(said: Any = None, **config: Any) -> CritiqueValidator:
    return CritiqueValidator(CritiqueTriggerConfig(**{**ALWAYS, **config}), Critic(said) if said is not None else None)


def validate(said: Any, asked: LLMEnvelope | None = None, **config: Any) -> list[ValidationIssue]:
    return validator(said, **config).validate(signal(), asked or envelope(), answer())


def trigger(score: float = 1.0, context: dict[str, Any] | None = None, **config: Any) -> tuple[bool, str]:
    critique = CritiqueValidator(CritiqueTriggerConfig(**config))
    return critique.should_trigger(signal(), envelope(context=context or {}), score)


def test_the_settings_as_shipped() -> None:
    assert CritiqueTriggerConfig().model_dump() == {
        "notional_usd_threshold": 50000.0,
        "confidence_floor": 0.5,
        "always_critique_types": ["CMTAssessmentResponse"],
        "max_cost_usd": 0.10,
        "critique_model": "claude-haiku-5-5",
        "acceptance_threshold": 0.6,
        "enabled": True,
    }


def test_reasons() -> None:
    assert trigger() == (False, "not_triggered")
    assert trigger(enabled=False, **ALWAYS) == (False, "disabled")
    assert trigger(**ALWAYS) == (True, "always_critique:Signal")
    assert trigger(context={"notional_usd": 50_000}) == (True, "high_notional:50000")
    assert trigger(context={"notional_usd": 75_000.5}) == (True, "high_notional:75000.5")
    assert trigger(context={"notional_usd": 49_999.99}) == (False, "not_triggered")
    assert trigger(0.49) == (True, "low_confidence:0.49")
    assert trigger(0.5) == (False, "not_triggered")
    assert trigger(0.1, {"notional_usd": 1e6}, **ALWAYS) == (True, "always_critique:Signal")


def test_the_amount_is_seen_in_the_output_too() -> None:
    given = {**signal(), "notional_usd": 60_000}
    critic = CritiqueValidator()
    assert critic.should_trigger(given, envelope(), 1.0) == (True, "high_notional:60000")
    assert critic.should_trigger({**given, "notional_usd": "60000"}, envelope(), 1.0) == (False, "not_triggered")


@pytest.mark.parametrize("notional", ["1e9", True, float("nan"), None, [1e9]])
def test_what_is_no_amount_triggers_nothing(notional: Any) -> None:
    assert trigger(context={"notional_usd": notional}) == (False, "not_triggered")


def test_an_amount_of_thousands_of_digits() -> None:
    assert trigger(context={"notional_usd": 10**5000}) == (True, "high_notional:an integer of 16,610 bits")


def test_what_is_not_due_is_not_asked() -> None:
    critic = Critic({"overall_score": 0.0})
    assert CritiqueValidator(call_llm=critic).validate(signal(), envelope(), answer()) == []
    assert critic.calls == []


def test_a_score_so_far_makes_it_due() -> None:
    critic = Critic({"overall_score": 1.0})
    CritiqueValidator(call_llm=critic).validate(signal(), envelope(), answer(), prior_quality_score=0.3)
    assert critic.calls[0]["context"]["triggered_by"] == "low_confidence:0.30"


def test_what_is_asked() -> None:
    critic = Critic({"overall_score": 1.0})
    config = CritiqueTriggerConfig(critique_model="claude-sonnet-5", **ALWAYS)
    items = [EvidenceItem(source="weak", relevance=0.1), EvidenceItem(source="strong", relevance=0.9)]
    CritiqueValidator(config, critic).validate(signal(), envelope(retrieved_evidence=items), answer())
    (call,) = critic.calls
    assert sorted(call) == ["context", "instructions", "model"]
    assert call["model"] == "claude-sonnet-5"
    assert "overall_score" in call["instructions"]
    assert "The close is above the 200-day average." in call["context"]["agent_output"]
    assert call["context"]["evidence"].index("strong") < call["context"]["evidence"].index("weak")


def test_secrets_are_masked() -> None:
    critic = Critic({"overall_score": 1.0})
    config = CritiqueTriggerConfig(**ALWAYS)
    CritiqueValidator(config, critic).validate(signal(password="hunter2"), envelope(), answer())
    assert "hunter2" not in str(critic.calls)


def test_an_accepting_critique_finds_nothing() -> None:
    assert validate({"overall_score": 0.6, "issues": [], "reasoning": "Sound."}) == []


def test_a_low_score_is_an_error() -> None:
    (issue,) = validate({"overall_score": 0.599, "reasoning": "One close proves no trend."})
    assert issue.message == "The second LLM gives the output 0.599, below 0.6."
    assert (issue.layer, issue.severity, issue.code) == ("critique", "error", "critique.low_score")
    assert (issue.actual, issue.expected, issue.metadata["reasoning"]) == (0.599, 0.6, "One close proves no trend.")


def test_the_models_own_findings() -> None:
    said = [
        {"code": "logic", "message": "It does not follow.", "severity": "ERROR"},
        {"message": "No code, and no severity that exists.", "severity": "grave"},
        "One close proves nothing.",
        17,
    ]
    low = validate({"overall_score": 0.1, "issues": said})
    assert [(one.code, one.severity) for one in low] == [
        ("critique.low_score", "error"),
        ("logic", "error"),
        ("critique.issue", "warning"),
        ("critique.issue", "warning"),
    ]
    assert low[-1].message == "One close proves nothing."
    accepted = validate({"overall_score": 0.9, "issues": said})
    assert [(one.code, one.severity) for one in accepted] == [
        ("logic", "warning"),
        ("critique.issue", "warning"),
        ("critique.issue", "warning"),
    ]
    assert accepted[0].metadata == {"severity_given": "error"}


def test_the_whole_opinion() -> None:
    said = {"overall_score": 0.9, "issues": [{"message": "Thin."}], "reasoning": "Mostly sound.", "cost_usd": 0.003}
    opinion = validator(said).assess(signal(), envelope()).result
    assert opinion is not None
    assert (opinion.model_used, opinion.triggered_by) == ("claude-haiku-5-5", "always_critique:Signal")
    assert (opinion.overall_score, opinion.reasoning, opinion.cost_usd) == (0.9, "Mostly sound.", 0.003)
    assert [one.message for one in opinion.issues_found] == ["Thin."]
    assert opinion.latency_ms >= 0
    estimated = validator({"overall_score": 1, "cost_usd": 10**400}).assess(signal(), envelope()).result
    assert estimated is not None
    assert 0 < estimated.cost_usd < 0.10


def test_without_a_callable_a_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert validate(None) == []
    (record,) = caplog.records
    assert (record.levelno, record.name.partition(".")[0]) == (logging.WARNING, "handoffaudit")
    assert "always_critique:Signal" in record.getMessage()


@pytest.mark.parametrize(
    "said",
    [
        RuntimeError("no key"),
        TimeoutError(),
        "text",
        {},
        {"overall_score": "0.9"},
        {"overall_score": 7},
        {"overall_score": float("nan")},
        {"overall_score": True},
    ],
    ids=repr,
)
def test_a_failing_call_is_a_warning(said: Any) -> None:
    (issue,) = validate(said)
    assert (issue.severity, issue.code) == ("warning", "critique.call_failed")


def test_too_dear_a_call_is_not_made() -> None:
    critic = Critic({"overall_score": 1.0})
    critique = CritiqueValidator(CritiqueTriggerConfig(max_cost_usd=0.001, **ALWAYS), critic)
    (issue,) = critique.validate(signal(), envelope(), answer())
    assert (issue.severity, issue.code, critic.calls) == ("warning", "critique.skipped_budget", [])
    long = envelope(context={"page": "x" * 100_000})
    assert codes(validate({"overall_score": 1.0}, long)) == []
    assert codes(validate({"overall_score": 1.0}, long, critique_model="claude-opus-5")) == ["critique.skipped_budget"]
    assert codes(validate({"overall_score": 1.0}, long, critique_model="of-no-family")) == ["critique.skipped_budget"]


def test_a_coroutine_function_is_refused() -> None:
    async def ask(**asked: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {}

    with pytest.raises(TypeError, match="coroutine"):
        CritiqueValidator(call_llm=ask)  # type: ignore[arg-type]


def test_an_answer_to_wait_for_is_a_failed_call() -> None:
    class Waiting:
        async def ask(self) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"overall_score": 1.0}

        def __call__(self, **asked: Any) -> Any:
            return self.ask()

    critique = CritiqueValidator(CritiqueTriggerConfig(always_critique_types=["Signal"]), Waiting())
    (issue,) = critique.validate(signal(), envelope(), answer())
    assert issue.code == "critique.call_failed"
