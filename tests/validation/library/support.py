"""Outputs and envelopes to change in one place."""

from typing import Any

from handoffaudit.validation import (
    EvidenceItem,
    LLMEnvelope,
    LLMResult,
    ValidationIssue,
    ValidationLayer,
    ValidationSeverity,
)

SIGNAL: dict[str, Any] = {
    "_output_type": "Signal",
    "rationale": "The close is above the 200-day average.",
    "direction": "LONG",
    "confidence": 0.7,
    "evidence_refs": {"rationale": ["candles"]},
}


def signal(**changes: Any) -> dict[str, Any]:
    return {**SIGNAL, **changes}


def envelope(*sources: str, **changes: Any) -> LLMEnvelope:
    evidence = [EvidenceItem(source=source, content={"close": 101.5}) for source in sources or ("candles",)]
    fields = {"instructions": "Judge the market.", "agent_id": "analyst", "retrieved_evidence": evidence}
    return LLMEnvelope(**{**fields, **changes})


def answer() -> LLMResult:
    return LLMResult(envelope_id="e-1")


def issue(
    layer: str = ValidationLayer.EVIDENCE, severity: str = ValidationSeverity.ERROR, code: str = "any.code"
) -> ValidationIssue:
    return ValidationIssue(layer=layer, severity=ValidationSeverity(severity), code=code, message="It is wrong.")


class Fixed:
    """A validator with a fixed result that records its calls."""

    def __init__(self, layer_name: str, *found: Any, error: Exception | None = None) -> None:
        self.layer_name = layer_name
        self.found = list(found)
        self.error = error
        self.asked = 0

    def validate(self, parsed_output: Any, envelope: Any, result: Any) -> list[Any]:
        self.asked += 1
        if self.error:
            raise self.error
        return self.found


def codes(issues: list[ValidationIssue]) -> list[str]:
    return [one.code for one in issues]
