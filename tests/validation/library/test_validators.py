"""Tests of claims and their evidence as a validator."""

from typing import Any

import pytest

from handoffaudit.validation import ClaimAnnotation, ClaimType, EvidenceValidator, IValidator
from handoffaudit.validation.errors import InvalidConfigError

from .support import answer, codes, envelope, signal

ASSESSMENT: dict[str, Any] = {
    "_output_type": "CMTAssessmentResponse",
    "thesis": "Prices rise on falling volume.",
    "trade_plan": {"entry_price": 101.5, "stop_loss": 97, "targets": [110, 120], "note": "Not looked at, though long."},
    "layers": {
        "trend": {"key_findings": ["The average has turned upwards.", "Volume falls."]},
        "macro": {"key_findings": ["Rates are an assumption."]},
    },
    "confluence": {"total": 7},
    "evidence_refs": {"thesis": "candles", "layers.trend.key_findings[0]": ["candles", "volume"]},
}


def claims(output: dict[str, Any], output_type: str, *sources: str, **given: Any) -> list[ClaimAnnotation]:
    return EvidenceValidator(**given).extract_claims(output, output_type, set(sources))


def found(output: dict[str, Any], *sources: str, **given: Any) -> list[str]:
    return codes(EvidenceValidator(**given).validate(output, envelope(*sources), answer()))


def test_the_claims_of_an_assessment() -> None:
    kinds = {claim.field_path: claim.claim_type for claim in claims(ASSESSMENT, "CMTAssessmentResponse", "candles")}
    assert kinds == {
        "thesis": ClaimType.CITED,
        "trade_plan.entry_price": ClaimType.DERIVED,
        "trade_plan.stop_loss": ClaimType.DERIVED,
        "trade_plan.targets[0]": ClaimType.DERIVED,
        "trade_plan.targets[1]": ClaimType.DERIVED,
        "layers.trend.key_findings[0]": ClaimType.CITED,
        "layers.trend.key_findings[1]": ClaimType.UNCITED,
        "layers.macro.key_findings[0]": ClaimType.ASSUMPTION,
        "confluence.total": ClaimType.DERIVED,
    }


def test_the_claims_of_a_signal() -> None:
    output = signal(stop_loss=95.0, take_profit=[110, 120], note="Not among the fields of a signal.")
    paths = [claim.field_path for claim in claims(output, "Signal")]
    assert paths == ["rationale", "stop_loss", "take_profit[0]", "take_profit[1]", "confidence"]


def test_the_claims_of_any_other_type() -> None:
    output = {
        "_output_type": "Note",
        "text": "Nobody has looked this up.",
        "short": "Ten chars.",
        "score": 3,
        "sure": True,
        "assumed": "It stays dry.",
        "nested": {"text": "Not at the top of the output."},
        "assumptions": ["assumed"],
    }
    assert {claim.field_path: claim.claim_type for claim in claims(output, "Note")} == {
        "text": ClaimType.UNCITED,
        "score": ClaimType.DERIVED,
        "assumed": ClaimType.ASSUMPTION,
    }


def test_what_a_claim_says() -> None:
    (claim,) = claims({"text": "x" * 600, "evidence_refs": {"text": ["a", "b"]}}, "", "a")
    assert (claim.claim_text, claim.evidence_ids) == (f"{'x' * 499}…", ["a", "b"])
    assert (claim.confidence, claim.validator_confidence) == (1.0, 0.5)
    bare = ClaimAnnotation(field_path="a", claim_text="b", claim_type=ClaimType.CITED)
    assert (bare.evidence_ids, bare.confidence, bare.validator_confidence) == ([], 1.0, 0.0)


def test_a_claim_that_cites_only_unknown_sources_is_uncited() -> None:
    output = signal(rationale="Nobody has looked this up.", evidence_refs={"rationale": "made up"})
    (claim, *_) = claims(output, "Signal", "candles")
    assert (claim.claim_type, claim.evidence_ids, claim.validator_confidence) == (ClaimType.UNCITED, ["made up"], 0.0)
    assert [one.value for one in ClaimType] == ["cited", "assumption", "uncited", "derived"]
    assert "evidence.uncited_threshold_exceeded" in found(output, "candles", claim_fields={"Signal": ["rationale"]})
    assert "evidence.uncited_threshold_exceeded" not in found(output, "made up", claim_fields={"Signal": ["rationale"]})


def test_fields_of_ones_own() -> None:
    fields = {"Note": ["sections.*.text"], "Signal": ["rationale"]}
    output = {"sections": [{"text": "The first of the two."}, {"text": "The second of the two."}], "other": 3}
    paths = [claim.field_path for claim in claims(output, "Note", claim_fields=fields)]
    assert paths == ["sections[0].text", "sections[1].text"]
    assert [claim.field_path for claim in claims(signal(), "Signal", claim_fields=fields)] == ["rationale"]
    assert len(claims(ASSESSMENT, "CMTAssessmentResponse", claim_fields=fields)) == 9


def test_a_path_that_cannot_be_read_is_told_at_once() -> None:
    with pytest.raises(InvalidConfigError, match="path"):
        EvidenceValidator(claim_fields={"Note": ["a..["]})


def test_issues_speak_of_the_output() -> None:
    validator = EvidenceValidator()
    assert isinstance(validator, IValidator)
    assert validator.layer_name == "evidence"
    output = signal(rationale="Nobody has looked this up.", evidence_refs={"direction": "tea leaves"})
    issues = validator.validate(output, envelope("candles"), answer())
    assert {(one.layer, one.severity, one.code, one.field_path) for one in issues} == {
        ("evidence", "warning", "evidence.uncited_claim", "rationale"),
        ("evidence", "error", "evidence.uncited_threshold_exceeded", ""),
        ("evidence", "warning", "evidence.unknown_source", "evidence_refs.direction"),
        ("evidence", "info", "evidence.unused_evidence", ""),
    }
    assert all(one.metadata["hint"] for one in issues)


def test_the_threshold() -> None:
    output = {f"claim_{number}": "Nobody has looked this up." for number in range(3)}
    output |= {f"number_{number}": number for number in range(7)}  # type: ignore[misc]
    assert "evidence.uncited_threshold_exceeded" not in found(output)
    assert "evidence.uncited_threshold_exceeded" in found({**output, "one_more": "Nobody has looked at it."})
    assert "evidence.uncited_threshold_exceeded" in found(output, max_uncited_ratio=0.29)


def test_it_runs_where_nothing_is_cited_and_no_evidence_is_given() -> None:
    validator = EvidenceValidator()
    issues = validator.validate({"text": "Nobody has looked this up."}, envelope(retrieved_evidence=[]), answer())
    assert codes(issues) == ["evidence.uncited_claim", "evidence.uncited_threshold_exceeded"]
    assert codes(validator.validate({}, envelope(retrieved_evidence=[]), answer())) == []


def test_what_is_no_object_has_no_claims() -> None:
    assert claims([1, 2], "") == []  # type: ignore[arg-type]
    assert found([1, 2]) == ["evidence.unused_evidence"]  # type: ignore[arg-type]
