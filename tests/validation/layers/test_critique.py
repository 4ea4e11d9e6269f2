"""Tests of the critique layer: when the layer asks, and how the answer is used."""

import json
from typing import Any

import pytest

from handoffaudit.validation.config import CritiquePolicy
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers import LAYERS, MODEL_LAYERS, critique
from handoffaudit.validation.prompts.question import Reason, Role, Unavailable, Use, default_prompt
from handoffaudit.validation.times import utc_text
from handoffaudit.validation.verdict import PENDING, LayerStatus, Verdict, verdict_to_dict

from ..support import NOW, codes, judge, payload, subject_of, universal
from .test_semantic import Says, layer

GOOD = {"overall_score": 0.9, "issues": [], "reasoning": "Sound."}


def output(context: dict[str, Any] | None = None, **parsed: Any) -> dict[str, Any]:
    return {
        "parsed_output": {
            "_output_type": "Signal",
            "rationale": "Revenue grew.",
            "evidence_refs": {"rationale": "report"},
            **parsed,
        },
        "envelope": {
            "envelope_id": "env-17",
            "trace_id": "d53a8f7e-049d-4f0d-910f-824ba3bf6e11",
            "agent_id": "analyst",
            "agent_type": "research",
            "tenant_id": "default",
            "instructions": "Judge the account.",
            "context": context or {},
            "retrieved_evidence": [{"source": "report", "content": "Revenue grew.", "relevance": 0.9}],
            "expected_output_schema": {"type": "object"},
        },
        "target_agent_id": "trader",
    }


RICH = output({"notional_usd": 75_000})


def criticised(said: Any, document: dict[str, Any] = RICH, **policy: Any) -> tuple[Verdict, Says]:
    model = Says(said)
    policy = {"grounding": "off", "layers_off": frozenset({"semantic"}), **policy}
    return judge(document, layers=[*LAYERS, *MODEL_LAYERS], model=model, policy=policy), model


@pytest.mark.parametrize(
    ("amount", "reason"),
    [
        (50_000, "high_notional:50000"),
        (75_000.5, "high_notional:75000.5"),
        (50_000.0, "high_notional:50000.0"),
        (49_999.99, ""),
        (True, ""),
        ("75000", "high_notional:75000"),
        (" 75,000.50 ", "high_notional:75000.5"),
        ("49999.99", ""),
        ("7,50,00", ""),
        ("-75000", ""),
        ("75000 EUR", ""),
        ("9" * 10_000, ""),
        (None, ""),
        (float("nan"), ""),
        (-75_000, ""),
    ],
    ids=str,
)
def test_much_at_stake(amount: Any, reason: str) -> None:
    assert critique.find_trigger(subject_of(output({"notional_usd": amount}))) == reason


def test_the_other_triggers() -> None:
    always = subject_of(output(), policy={"critique": CritiquePolicy.ALWAYS})
    assert critique.find_trigger(always) == "always_critique:Signal"
    verdict, _ = criticised(GOOD, output(confidence=0.1), critique_score_floor=0.97)
    assert verdict.critique is not None
    assert verdict.critique.triggered_by == "low_confidence:0.95"


@pytest.mark.parametrize(
    ("document", "policy", "why"),
    [
        (output(), {}, "not triggered"),
        (RICH, {"critique": CritiquePolicy.OFF}, "switched off for this type"),
        (payload(), {"critique_score_floor": 2.0}, "the critique covers only outputs"),
        (output({"notional_usd": 75_000}), {"critique_notional_usd": 80_000.0}, "not triggered"),
    ],
    ids=["nothing at stake", "off", "another format", "a higher limit"],
)
def test_when_it_is_not_asked_for(document: dict[str, Any], policy: dict[str, Any], why: str) -> None:
    verdict, model = criticised(GOOD, document, **policy)
    assert (layer(verdict, "critique").why, model.asked, verdict.critique) == (why, [], None)


def test_any_format_where_the_type_asks_for_it() -> None:
    for policy in (
        {"critique": CritiquePolicy.ALWAYS},
        {"critique": CritiquePolicy.TRIGGERED, "critique_score_floor": 2.0},
    ):
        verdict, model = criticised(GOOD, payload(), **policy)
        assert [question.use for question in model.asked] == [Use.CRITIQUE]
        assert verdict.critique is not None


def test_what_is_asked() -> None:
    _, model = criticised(GOOD, critique_model=Role.CAREFUL, critique_max_usd=0.02)
    (question,) = model.asked
    prompt = default_prompt(Use.CRITIQUE)
    assert (question.role, question.max_cost_usd, question.prompt) == (Role.CAREFUL, 0.02, prompt.name)
    assert ["<output>" in question.content, "<evidence>" in question.content, "<context>" in question.content] == [
        True
    ] * 3


def test_what_the_verdict_keeps() -> None:
    said = {"overall_score": 0.9, "issues": [{"code": "c", "message": "m", "severity": "Error"}], "reasoning": "Sound."}
    verdict, _ = criticised(said)
    assert verdict_to_dict(verdict)["critique"] == {
        "critique_id": "0195-validation-critique",
        "model_used": "model-1",
        "triggered_by": "high_notional:75000",
        "overall_score": 0.9,
        "issues_found": [{"code": "c", "message": "m", "severity": "error"}],
        "reasoning": "Sound.",
        "cost_usd": 0.001,
        "latency_ms": 5.0,
        "timestamp": utc_text(NOW),
    }
    assert dict(verdict.prompts) == {"critique": default_prompt(Use.CRITIQUE).name}


@pytest.mark.parametrize(
    ("score", "least", "found"),
    [
        (0.6, 0.6, []),
        (0.59, 0.6, ["critique.low_score"]),
        (0, 0.6, ["critique.low_score"]),
        (0.79, 0.8, ["critique.low_score"]),
    ],
)
def test_the_threshold(score: float, least: float, found: list[str]) -> None:
    verdict, _ = criticised({**GOOD, "overall_score": score}, critique_threshold=least)
    assert codes(verdict) == found
    assert verdict.outcome == ("rejected" if found else "accepted")


def test_a_remark_is_at_most_a_warning() -> None:
    issues = [
        {"code": "a", "message": "A.", "severity": "critical"},
        {"code": "b", "message": "B.", "severity": "error"},
        {"code": "c", "message": "C.", "severity": "info"},
        {"code": "d", "message": "D.", "severity": "grave"},
        "E.",
    ]
    verdict, _ = criticised({**GOOD, "issues": issues})
    assert codes(verdict) == ["critique.remark"] * 5
    warning = Severity.WARNING
    assert [issue.severity for issue in verdict.issues] == [warning, warning, Severity.INFO, warning, warning]
    assert verdict.issues[0].metadata["severity_given"] == "critical"
    assert verdict.outcome == "accepted"


def test_without_a_key_it_is_skipped_without_a_finding() -> None:
    verdict, _ = criticised(Unavailable(Reason.NO_KEY, "No key is set."))
    assert codes(verdict) == []
    ended = layer(verdict, "critique")
    assert (ended.status, ended.why) == (LayerStatus.SKIPPED, "No key is set.")


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.NO_KEY])
def test_a_failed_call_is_a_warning_and_validation_goes_on(reason: Reason) -> None:
    verdict, _ = criticised(Unavailable(reason, "D."))
    too_dear = reason in (Reason.BUDGET, Reason.TOO_DEAR)
    assert codes(verdict) == ["critique.skipped_budget" if too_dear else "critique.call_failed"]
    assert (verdict.outcome, verdict.critique, verdict.unverified) == ("accepted", None, False)
    assert layer(verdict, "critique").status is LayerStatus.ERROR
    assert layer(verdict, "critique").why == "not made: D."


@pytest.mark.parametrize(
    "said",
    [
        "fine",
        {},
        {**GOOD, "overall_score": 1.5},
        {**GOOD, "overall_score": True},
        {**GOOD, "overall_score": "0.9"},
        {**GOOD, "issues": "none"},
        json.dumps(GOOD).replace("0.9", "NaN"),
        "[" * 50_000,
    ],
    ids=lambda said: str(said)[:40],
)
def test_a_wrong_answer_is_a_failed_call(said: Any) -> None:
    assert codes(criticised(said)[0]) == ["critique.call_failed"]


def test_odd_remarks_are_bounded() -> None:
    odd = [
        None,
        7,
        [],
        {},
        {"code": 7, "message": ["x"], "severity": {}},
        {"message": "m" * 10_000, "code": "c" * 10_000},
    ]
    verdict, _ = criticised({**GOOD, "issues": odd + ["x"] * 10_000, "reasoning": "r" * 50_000})
    assert verdict.critique is not None
    assert len(verdict.critique.issues_found) == 100
    assert len(verdict.critique.reasoning) == 4000
    assert all(len(issue.message) <= 600 for issue in verdict.issues)


def test_without_a_model_it_is_pending() -> None:
    verdict = judge(RICH, layers=[*LAYERS, *MODEL_LAYERS], policy={"layers_off": frozenset({"semantic"})})
    assert layer(verdict, "critique").why == PENDING
    assert verdict.pending == ("critique",)


def test_the_amount_is_seen_in_the_data_of_any_format() -> None:
    document = payload(data={"notional_usd": 90_000, "text": "Three sources agree."})
    assert critique.find_trigger(subject_of(document)) == "high_notional:90000"
    assert critique.skip(subject_of(document)) == "the critique covers only outputs"
    assert critique.skip(subject_of(document, policy={"critique": CritiquePolicy.TRIGGERED})) is None
    assert critique.find_trigger(subject_of(payload(data={"notional_usd": "90000"}))) == "high_notional:90000"


@pytest.mark.parametrize("given", [{"notional_usd": 90_000}, {"working": {"notional_usd": "90000"}}])
def test_the_amount_of_a_universal_handoff_is_seen_in_its_data(given: dict[str, Any]) -> None:
    subject = subject_of(universal(payload=given), policy={"critique": CritiquePolicy.TRIGGERED})
    assert critique.find_trigger(subject) == "high_notional:90000"
    assert critique.skip(subject) is None
    elsewhere = subject_of(payload(data={"working": {"notional_usd": 90_000}}))
    assert critique.find_trigger(elsewhere) == ""
