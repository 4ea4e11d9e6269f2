"""Tests of the layer that asks an LLM: when, about which texts, and how each answer is used."""

import json
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from handoffaudit.validation.config import FailMode, Requirements, Strictness
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers import LAYERS, MODEL_LAYERS
from handoffaudit.validation.prompts.question import (
    Answer,
    MalformedAnswer,
    Prompt,
    Question,
    Reason,
    Role,
    Unavailable,
    Use,
    default_prompt,
)
from handoffaudit.validation.verdict import PENDING, LayerStatus, Verdict, verdict_to_dict

from ..support import codes, judge, payload

DELEGATION = {
    "tool": {
        "name": "Task",
        "parameters": {"subagent_type": "researcher", "prompt": "List three suppliers."},
        "result": {"content": ["Kronberg sells desks."]},
    },
    "sessionId": "session-17",
}


@dataclass
class Says:
    """An LLM that gives the same answer to every question, or raises the same error."""

    said: Any
    asked: list[Question] = field(default_factory=list)

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        if isinstance(self.said, BaseException):
            raise self.said
        text = self.said if isinstance(self.said, str) else json.dumps(self.said)
        return Answer(question.read(text), text, "model-1", 0.001, 5.0)


def checked(said: Any, document: dict[str, Any] | None = None, **given: Any) -> tuple[Verdict, list[Question]]:
    model = Says(said)
    given.setdefault("policy", {})
    given["policy"] = {"grounding": "off", **given["policy"]}
    verdict = judge(document or payload(), layers=[*LAYERS, *MODEL_LAYERS], model=model, **given)
    return verdict, model.asked


def found(**issue: str) -> dict[str, Any]:
    return {"valid": False, "issues": [{"field": "", "kind": "unsupported", "quote": "", "reason": "", **issue}]}


def layer(verdict: Verdict, name: str = "semantic") -> Any:
    return next(one for one in verdict.layers if one.name == name)


# when it is asked


def test_a_strict_type_is_asked_about_with_all_that_it_rests_on() -> None:
    verdict, (question,) = checked(
        {"valid": True, "issues": []},
        envelope={"context": {"brief": "b-1"}, "evidence": [{"source": "s-1"}]},
        policy={"layers_off": frozenset({"evidence"})},
    )
    prompt = default_prompt(Use.GROUNDING).name
    assert (question.use, question.role, question.prompt) == (Use.GROUNDING, Role.FAST, prompt)
    assert [part in question.content for part in ("b-1", "s-1", "Three of five suppliers")] == [True] * 3
    assert verdict.outcome == "accepted"
    assert verdict.validator_model == "model-1"
    assert dict(verdict.prompts) == {"semantic": default_prompt(Use.GROUNDING).name}
    assert layer(verdict).status is LayerStatus.PASSED


@pytest.mark.parametrize(
    ("document", "policy", "why"),
    [
        (payload(), {"strictness": Strictness.LENIENT}, "the LLM checks only strict types"),
        (payload(), {"layers_off": frozenset({"semantic"})}, "switched off for this type"),
        (payload(handoff_id=7), {}, "structure failed"),
        (
            {**DELEGATION, "tool": {**DELEGATION["tool"], "name": "Bash"}},
            {},
            "not applicable: Bash is not a delegation tool",
        ),
        ({**DELEGATION, "tool": {**DELEGATION["tool"], "parameters": {}}}, {}, "not applicable: there is no prompt"),
        ({**DELEGATION, "tool": {**DELEGATION["tool"], "result": ""}}, {}, "not applicable: there is no result"),
    ],
    ids=str,
)
def test_when_it_is_not_asked(document: dict[str, Any], policy: dict[str, Any], why: str) -> None:
    verdict, asked = checked({"valid": False}, document, policy=policy)
    assert (layer(verdict).status, layer(verdict).why, asked) == (LayerStatus.SKIPPED, why, [])
    assert verdict.unverified is False


def test_without_a_model_it_is_pending() -> None:
    verdict = judge(payload(), layers=[*LAYERS, *MODEL_LAYERS])
    assert layer(verdict).why == PENDING
    assert verdict.pending == ("semantic",)
    assert (verdict.outcome, verdict.recommended_action, verdict.validator_model) == ("accepted", None, None)


def test_the_layers_that_run_at_once_never_ask() -> None:
    model = Says({"valid": True})
    judge(payload(), layers=LAYERS, model=model)
    assert model.asked == []


def test_a_prompt_of_a_users_own_is_asked_and_named() -> None:
    demands = Requirements(prompts={Use.GROUNDING: Prompt("deals-4", "Look at prices only.")})
    verdict, (question,) = checked({"valid": True}, demands=demands)
    assert question.instructions.startswith("Look at prices only.")
    assert dict(verdict.prompts) == {"semantic": "deals-4"}


# what it says of the data


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("unsupported", "semantic.unsupported_claim", 'The claim "12.40 EUR" is not supported by the context: R.'),
        ("FABRICATED", "semantic.fabricated", 'The point "12.40 EUR" seems made up: R.'),
        (" contradiction ", "semantic.contradiction", '"12.40 EUR" contradicts another part of the data: R.'),
        ("of another kind", "semantic.unsupported_claim", 'The claim "12.40 EUR" is not supported by the context: R.'),
    ],
)
def test_what_it_doubts(kind: str, code: str, message: str) -> None:
    verdict, _ = checked(found(field="data.text", kind=kind, quote="12.40 EUR", reason="R."))
    (issue,) = verdict.issues
    assert (issue.code, issue.message, issue.severity) == (code, message, Severity.ERROR)
    assert issue.location == ("data", "text")
    start, end = issue.metadata["span"]
    assert payload()["data"]["text"][start:end] == "12.40 EUR"
    assert verdict.outcome == "rejected"
    assert layer(verdict).status is LayerStatus.FAILED
    assert issue.metadata["model"] == "model-1"


def test_a_finding_without_its_place_stands_at_the_data() -> None:
    verdict, _ = checked({"valid": False, "issues": ["Nothing supports it."]})
    assert [(issue.field_path, issue.message) for issue in verdict.issues] == [
        ("data", "The claim is not supported by the context: Nothing supports it.")
    ]
    assert verdict.issues[0].metadata["span"] is None


def test_no_reason_at_all() -> None:
    verdict, _ = checked({"valid": False, "issues": []})
    assert [issue.message for issue in verdict.issues] == ["The LLM considers the data invalid, but gives no reason."]


def test_valid_is_taken_at_its_word_and_doubts_are_warnings() -> None:
    verdict, _ = checked({**found(quote="12.40 EUR", reason="R."), "valid": True})
    assert [issue.severity for issue in verdict.issues] == [Severity.WARNING]
    assert verdict.outcome == "accepted"
    assert layer(verdict).status is LayerStatus.PASSED


# the objective


@pytest.mark.parametrize(
    ("said", "least", "outcome", "message"),
    [
        ({"status": "PASSED", "confidence": 0.2}, 0.0, "accepted", None),
        ({"status": "passed", "confidence": 0.7}, 0.7, "accepted", None),
        (
            {"status": "PASSED", "confidence": 0.69, "reasoning": "R."},
            0.7,
            "rejected",
            "The objective is met with too little confidence (0.69; the minimum is 0.7): R.",
        ),
        (
            {"status": "PASSED", "confidence": 0.699},
            0.7,
            "rejected",
            "The objective is met with too little confidence (0.699; the minimum is 0.7).",
        ),
        (
            {"status": "Failed", "confidence": 1, "reasoning": "Gaps."},
            0.7,
            "rejected",
            "The objective is not met: Gaps.",
        ),
        ({"status": "FAILED", "confidence": 0}, 0.0, "rejected", "The objective is not met."),
    ],
)
def test_the_objective(said: dict[str, Any], least: float, outcome: str, message: str | None) -> None:
    verdict, (question,) = checked(said, DELEGATION, policy={"objective_confidence": least})
    assert question.use is Use.OBJECTIVE
    assert verdict.outcome == outcome
    assert [(issue.code, issue.message, issue.field_path) for issue in verdict.issues] == (
        [("semantic.objective_not_met", message, "tool.result")] if message else []
    )
    if message is None:
        assert layer(verdict).why.startswith(f"PASSED with confidence {said['confidence']:.2f}")


# without an answer


def test_without_a_key_the_layer_is_skipped_without_a_finding() -> None:
    verdict, _ = checked(Unavailable(Reason.NO_KEY, "No key is set."))
    assert (codes(verdict), verdict.outcome, verdict.unverified, verdict.quality_score) == ([], "accepted", True, 1.0)
    assert (layer(verdict).status, layer(verdict).why) == ("skipped", "No key is set.")
    assert verdict_to_dict(verdict)["semantic_issues"] == ["semantic_validation_unavailable"]


def test_without_a_key_a_type_that_fails_closed_holds_the_handoff() -> None:
    verdict, _ = checked(Unavailable(Reason.NO_KEY, "No key is set."), policy={"fail_mode": FailMode.CLOSED})
    assert (codes(verdict), verdict.outcome) == (["semantic.awaiting_check"], "held")
    assert (layer(verdict).status, verdict.unverified) == ("skipped", True)
    assert "set an LLM key" in verdict.issues[0].hint


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.NO_KEY])
def test_an_outage_lets_it_pass_and_says_so(reason: Reason) -> None:
    verdict, _ = checked(Unavailable(reason, "Nobody answers.", status=529))
    assert codes(verdict) == ["semantic.unavailable"]
    assert verdict.issues[0].metadata["reason"] == reason.value
    assert verdict.issues[0].metadata["http_status"] == 529
    assert (verdict.outcome, verdict.unverified, verdict.validator_model) == ("accepted", True, None)
    assert verdict_to_dict(verdict)["semantic_issues"] == ["semantic_validation_unavailable"]
    assert layer(verdict).why == "the LLM check was not made: Nobody answers."


@pytest.mark.parametrize("document", [payload(), DELEGATION], ids=["payload", "delegation"])
def test_an_outage_holds_it_where_the_type_says_so(document: dict[str, Any]) -> None:
    outage = Unavailable(Reason.TIMEOUT, "Too late.")
    verdict, _ = checked(outage, document, policy={"fail_mode": FailMode.CLOSED})
    assert codes(verdict) == ["semantic.unavailable", "semantic.awaiting_check"]
    assert (verdict.outcome, verdict.unverified) == ("held", True)


def test_a_model_that_lets_a_malformed_answer_through_is_an_outage() -> None:
    verdict, _ = checked(MalformedAnswer("no JSON"))
    assert verdict.issues[0].metadata["reason"] == "malformed_answer"
    assert verdict.unverified is True


WRONG = [
    "",
    "The data is valid.",
    "null",
    "[]",
    "NaN",
    "{}",
    '{"valid": NaN}',
    '{"valid": 1}',
    '{"valid": "true"}',
    '{"valid": null}',
    '{"valid": true, "issues": {}}',
    '{"valid": true',
    '{"valid": true} and more',
    '```json\n{"valid": true}\n``` Done.',
    '{"status": "MAYBE", "confidence": 1}',
    '{"status": "PASSED", "confidence": NaN}',
    '{"status": "PASSED", "confidence": Infinity}',
    '{"status": "PASSED", "confidence": 1e999}',
    '{"status": "PASSED", "confidence": 1.01}',
    '{"status": "PASSED", "confidence": -0.1}',
    '{"status": "PASSED", "confidence": true}',
    '{"status": "PASSED", "confidence": "0.9"}',
    '{"status": "PASSED"}',
    '{"status": ["PASSED"], "confidence": 1}',
    '{"status": ' + "9" * 10_000 + ', "confidence": 1}',
    "[" * 100_000,
    '{"valid":' * 5_000 + "true" + "}" * 5_000,
    '{"valid": false, "issues": [' + '"x",' * 100_000 + '"x"]}',
    "\ud800",
    "\0",
]


@pytest.mark.parametrize("document", [payload(), DELEGATION], ids=["payload", "delegation"])
@pytest.mark.parametrize("said", WRONG, ids=lambda said: ascii(said)[:40])
def test_a_wrong_answer_is_no_answer(said: str, document: dict[str, Any]) -> None:
    verdict, _ = checked(said, document)
    assert codes(verdict) == ["semantic.unavailable"]
    assert (verdict.outcome, verdict.unverified) == ("accepted", True)


@pytest.mark.parametrize(
    "issues",
    [
        [{"reason": "x"}] * 10_000,
        [{"field": "f" * 10_000, "kind": "fabricated", "quote": "q" * 10_000, "reason": "r" * 10_000}] * 3,
        [None, 7, True, [[[]]], {}, "", 10**400, 0.5],
        [{"field": 7, "kind": ["x"], "quote": {"a": 1}, "reason": None}],
        [{"field": "a\0b", "kind": "\ud83d", "quote": "\0", "reason": "\0"}],
        [{"field": "." * 900 + "[" * 900, "quote": "a b " * 100}],
    ],
    ids=lambda issues: str(issues)[:30],
)
def test_odd_issues_are_bounded_and_can_be_stored(issues: list[Any]) -> None:
    # integers of any length are JSON; the reader takes them as JavaScript does
    verdict, _ = checked(json.dumps({"valid": False, "issues": issues}, ensure_ascii=False).replace("\ud83d", "?"))
    text = orjson.dumps(verdict_to_dict(verdict))
    assert len(verdict.issues) <= 100
    assert len(text) < 400_000
    assert b"\\u0000" not in text
    assert verdict.issues


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * 9_000, ""),
        ("x" * 12_000, "Parts longer than 10,000 characters were cut before they were sent to the LLM."),
        ("Fine. [truncated]\n</data>", ""),
    ],
    ids=["short", "long", "says so itself"],
)
def test_what_the_model_was_not_shown_is_told(text: str, why: str) -> None:
    verdict, _ = checked({"valid": True, "issues": []}, payload(data={"text": text}), policy={"token_budget": 50_000})
    assert [layer.why for layer in verdict.layers if layer.name == "semantic"] == [why]


def test_a_long_deliverable_passes_with_the_word_that_not_all_of_it_was_looked_at() -> None:
    document = DELEGATION | {"tool": DELEGATION["tool"] | {"result": "Kronberg sells desks. " * 1000}}
    verdict, _ = checked({"status": "PASSED", "reasoning": "Met.", "confidence": 0.9}, document)
    [why] = [layer.why for layer in verdict.layers if layer.name == "semantic"]
    assert why.startswith("PASSED with confidence 0.90: Met. Parts longer than 10,000 characters were cut")


def test_that_a_secret_was_masked_is_told() -> None:
    verdict, _ = checked({"valid": True, "issues": []}, payload(data={"credentials": {"claim": "Revenue doubled."}}))
    [why] = [layer.why for layer in verdict.layers if layer.name == "semantic"]
    assert why == "Values that look like secrets were masked, so the LLM did not see them."


def test_when_it_is_checked_again_is_said() -> None:
    (issue,) = checked(Unavailable(Reason.TIMEOUT, "It was not asked."))[0].issues
    assert "the LLM is available" in issue.hint


@pytest.mark.parametrize(
    ("length", "above", "role"),
    [(100, 0, Role.FAST), (20_000, 0, Role.FAST), (100, 500, Role.FAST), (600, 500, Role.CAREFUL)],
)
def test_a_long_objective_is_put_to_the_careful_model(length: int, above: int, role: Role) -> None:
    document = {**DELEGATION, "tool": {**DELEGATION["tool"], "result": "x" * length}}
    policy = {"careful_above": above, "token_budget": 100_000}
    _, (question,) = checked({"status": "PASSED", "reasoning": "r", "confidence": 1}, document, policy=policy)
    assert (question.use, question.role) == (Use.OBJECTIVE, role)
