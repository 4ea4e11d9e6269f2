"""Tests of the pipeline of validators: order, early stops, and results."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from handoffaudit.validation import (
    BusinessRuleValidationError,
    BusinessRuleValidator,
    ClaimType,
    CritiqueResult,
    CritiqueTriggerConfig,
    CritiqueValidator,
    EvidenceValidationError,
    EvidenceValidator,
    HandoffValidationError,
    RemediationEngine,
    RemediationExhaustedError,
    RemediationPolicy,
    SchemaValidationError,
    SchemaValidator,
    ValidationConfig,
    ValidationLayer,
    ValidationPipeline,
    ValidationResult,
    build_signal_rules,
)
from handoffaudit.validation.json_text import canonical, sha256_hex

from .support import Fixed, answer, codes, envelope, issue, signal


def rules() -> BusinessRuleValidator:
    validator = BusinessRuleValidator()
    validator.register(build_signal_rules())
    return validator


def run(*validators: Any, critique: Any = None, output: Any = None, **given: Any) -> ValidationResult:
    pipeline = ValidationPipeline(list(validators), critique, given.pop("engine", None))
    return pipeline.run(signal() if output is None else output, given.pop("envelope", envelope()), answer())


def test_an_output_that_passes() -> None:
    told, asked = answer(), envelope(agent_type="trader", trace_id="t-1")
    result = ValidationPipeline([SchemaValidator(), EvidenceValidator(), rules()]).run(signal(), asked, told)
    assert (result.schema_passed, result.evidence_passed, result.business_rules_passed) == (True, True, True)
    assert (result.critique_passed, result.overall_passed, result.quality_score) == (None, True, 1.0)
    assert (result.trace_id, result.envelope_id) == ("t-1", asked.envelope_id)
    assert (result.agent_id, result.agent_type, result.output_type) == ("analyst", "trader", "Signal")
    assert (result.issues, result.error_count, result.warning_count, result.uncited_claims) == ([], 0, 0, [])
    assert (result.critique, result.remediation, result.recommended_action) == (None, None, None)
    assert (told.validation_passed, told.validation_errors) == (True, [])
    assert UUID(result.validation_id)
    assert timedelta(0) <= datetime.now(UTC) - result.timestamp < timedelta(seconds=60)
    assert result.timestamp.utcoffset() == timedelta(0)
    assert 0 < result.latency_ms < 60_000


def test_the_shipped_validators() -> None:
    result = ValidationPipeline().run(signal(), envelope(), answer())
    assert [layer.name for layer in result.layers] == ["schema", "evidence", "business_rule"]
    assert ValidationPipeline([]).run(signal(), envelope(), answer()).layers == []


def test_the_hash_is_of_the_output() -> None:
    result = run()
    assert result.output_hash == sha256_hex(canonical(signal()))[:16]
    assert result.output_hash == run(output=dict(reversed(signal().items()))).output_hash
    assert result.output_hash != run(output=signal(confidence=0.6)).output_hash


def test_validators_run_in_the_order_given() -> None:
    order: list[str] = []

    class Noted(Fixed):
        def validate(self, parsed_output: Any, envelope: Any, result: Any) -> list[Any]:
            order.append(self.layer_name)
            return []

    run(Noted("b"), Noted("schema"), Noted("a"))
    assert order == ["b", "schema", "a"]


def test_errors_of_the_schema_stop_the_rest() -> None:
    later, critique = Fixed("evidence"), CritiqueValidator(call_llm=lambda **asked: {"overall_score": 1.0})
    output = signal(_output_type="CMTAssessmentResponse")
    result = run(Fixed("schema", issue("schema")), later, critique=critique, output=output)
    assert later.asked == 0
    assert (result.schema_passed, result.evidence_passed, result.critique_passed) == (False, False, None)
    assert (result.overall_passed, result.quality_score) == (False, 0.0)
    assert [(layer.status, layer.why) for layer in result.layers] == [
        ("failed", ""),
        ("skipped", "schema failed"),
        ("skipped", "schema failed"),
    ]


def test_warnings_of_the_schema_stop_nothing() -> None:
    later = Fixed("evidence")
    result = run(Fixed("schema", issue("schema", "warning")), later)
    assert (later.asked, result.schema_passed, result.overall_passed) == (1, True, True)


def test_errors_of_others_stop_nothing() -> None:
    later = Fixed("business_rule", issue("business_rule"))
    result = run(Fixed("evidence", issue()), later)
    assert (later.asked, result.error_count, result.quality_score) == (1, 2, 0.7)


def test_the_score_is_the_engines() -> None:
    found = [issue("own", severity) for severity in ("critical", "error", "warning", "info")]
    result = run(Fixed("own", *found))
    assert (result.quality_score, result.error_count, result.warning_count) == (0.5, 2, 1)
    assert run(Fixed("own", *[issue()] * 10)).quality_score == 0.0


def test_what_the_models_answer_is_told() -> None:
    told = answer()
    validator = Fixed("own", *[issue("own", severity) for severity in ("critical", "error", "warning", "info")])
    ValidationPipeline([validator]).run(signal(), envelope(), told)
    assert told.validation_passed is False
    assert told.validation_errors == ["[own:critical] It is wrong.", "[own:error] It is wrong."]


def test_errors_name_shipped_layers_by_their_public_names() -> None:
    told = answer()
    ValidationPipeline([rules()]).run(signal(direction="UP"), envelope(), told)
    assert [line.partition("]")[0] for line in told.validation_errors] == ["[business_rule:error"]


def test_a_validator_that_raises_has_passed_nothing(caplog: pytest.LogCaptureFixture) -> None:
    later = Fixed("business_rule")
    result = run(Fixed("evidence", error=ZeroDivisionError("of nothing")), later)
    assert (result.evidence_passed, result.overall_passed, later.asked) == (False, False, 1)
    assert codes(result.issues) == ["evidence.could_not_run"]
    assert "ZeroDivisionError: of nothing" in result.issues[0].message
    assert (result.layers[0].status, result.layers[0].why) == ("error", "ZeroDivisionError: of nothing")
    assert "ZeroDivisionError: of nothing" in caplog.records[0].getMessage()
    assert "Traceback" in caplog.records[0].getMessage()


def test_a_schema_that_could_not_run_stops_the_rest() -> None:
    later = Fixed("evidence")
    result = run(Fixed("schema", error=OSError("gone")), later)
    assert (later.asked, result.quality_score) == (0, 0.0)
    assert (result.layers[1].status, result.layers[1].why) == ("skipped", "schema could not run")


@pytest.mark.parametrize("found", [["a text"], [None]])
def test_findings_that_are_none_are_no_pass(found: list[Any]) -> None:
    assert codes(run(Fixed("own", *found)).issues) == ["own.could_not_run"]


def test_a_validator_that_returns_nothing_at_all_is_no_pass() -> None:
    class Forgetful:
        layer_name = "own"

        def validate(self, parsed_output: Any, envelope: Any, result: Any) -> None:
            return None

    assert codes(run(Forgetful()).issues) == ["own.could_not_run"]


def test_a_layer_of_ones_own_keeps_its_name() -> None:
    result = run(Fixed("tone", issue("tone", "info", "tone.shouting")))
    assert (result.issues[0].layer, result.issues[0].code, result.overall_passed) == ("tone", "tone.shouting", True)
    assert isinstance(run(Fixed("x", issue("evidence", "info"))).issues[0].layer, ValidationLayer)


def test_claims_are_kept() -> None:
    output = signal(rationale="Nobody has looked this up.", evidence_refs={}, stop_loss=95)
    result = run(EvidenceValidator(), output=output)
    assert [(claim.field_path, claim.claim_type) for claim in result.claims] == [
        ("rationale", ClaimType.UNCITED),
        ("stop_loss", ClaimType.DERIVED),
        ("confidence", ClaimType.DERIVED),
    ]
    assert [claim.field_path for claim in result.uncited_claims] == ["rationale"]


def test_the_critique_gets_the_score_so_far() -> None:
    seen: list[float] = []

    class Noted(CritiqueValidator):
        def should_trigger(self, parsed_output: Any, envelope: Any, prior_quality_score: float) -> tuple[bool, str]:
            seen.append(prior_quality_score)
            return super().should_trigger(parsed_output, envelope, prior_quality_score)

    found = [issue("own", "critical"), issue("own", "critical")]
    critique = Noted(call_llm=lambda **asked: {"overall_score": 0.9, "issues": [], "reasoning": "Sound."})
    result = run(Fixed("own", *found), critique=critique)
    assert set(seen) == {0.4}
    assert result.critique is not None
    assert (result.critique.triggered_by, result.critique_passed) == ("low_confidence:0.40", True)
    assert (result.overall_passed, result.quality_score) == (False, 0.4)


def test_a_low_critique_fails_the_output() -> None:
    critique = CritiqueValidator(
        CritiqueTriggerConfig(always_critique_types=["Signal"]), lambda **asked: {"overall_score": 0.2}
    )
    result = run(critique=critique)
    assert (result.critique_passed, result.overall_passed, result.quality_score) == (False, False, 0.85)
    assert codes(result.issues) == ["critique.low_score"]
    assert result.layers[-1].status == "failed"


def failing(**asked: Any) -> dict[str, Any]:
    raise RuntimeError("no answer")


@pytest.mark.parametrize(
    ("call_llm", "status", "found"),
    [(None, "error", []), (failing, "error", ["critique.call_failed"])],
)
def test_a_critique_that_was_not_made_is_neither_pass_nor_failure(call_llm: Any, status: str, found: list[str]) -> None:
    critique = CritiqueValidator(CritiqueTriggerConfig(always_critique_types=["Signal"]), call_llm)
    result = run(critique=critique)
    assert (result.critique_passed, result.critique, result.overall_passed) == (None, None, True)
    assert (result.layers[-1].status, codes(result.issues)) == (status, found)


def test_a_critique_that_is_not_due_is_skipped() -> None:
    result = run(critique=CritiqueValidator())
    assert (result.layers[-1].status, result.layers[-1].why, result.critique_passed) == (
        "skipped",
        "not_triggered",
        None,
    )


class OwnCritique(CritiqueValidator):
    def validate(self, *asked: Any, **given: Any) -> list[Any]:
        if given["prior_quality_score"] < 1:
            raise RuntimeError("too low to look at")
        return [issue("critique", "warning", "critique.of_ones_own")]


def test_a_critique_of_ones_own() -> None:
    critique = OwnCritique(CritiqueTriggerConfig(always_critique_types=["Signal"]))
    result = run(critique=critique)
    assert (codes(result.issues), result.critique_passed) == (["critique.of_ones_own"], True)
    result = run(Fixed("own", issue("own", "warning")), critique=critique)
    assert (result.issues[-1].code, result.critique_passed) == ("critique.could_not_run", None)
    assert (result.layers[-1].status, result.overall_passed) == ("error", False)


def test_what_is_due_is_recommended() -> None:
    result = run(Fixed("own", issue("own")), engine=RemediationEngine())
    assert result.recommended_action == "retry"
    assert result.remediation is not None
    assert (result.remediation.validation_id, result.remediation.retry_count) == (result.validation_id, 1)
    assert run(engine=RemediationEngine()).recommended_action == "accept_with_warnings"


def test_a_result_can_raise() -> None:
    run().raise_for_errors()
    for layer, error in {
        "schema": SchemaValidationError,
        "evidence": EvidenceValidationError,
        "business_rule": BusinessRuleValidationError,
        "tone": HandoffValidationError,
    }.items():
        with pytest.raises(HandoffValidationError, match=rf"^\[{layer}:error\] It is wrong\.$") as caught:
            run(Fixed(layer, issue(layer))).raise_for_errors()
        assert caught.type is error
    none_left = RemediationEngine([RemediationPolicy(max_retries=0, max_re_retrievals=0)])
    with pytest.raises(RemediationExhaustedError):
        run(Fixed("evidence", issue("evidence")), engine=none_left).raise_for_errors()


def test_a_result_survives_being_written_as_json() -> None:
    result = run(EvidenceValidator(), rules(), output=signal(direction="UP"), engine=RemediationEngine())
    assert ValidationResult.model_validate_json(result.model_dump_json()) == result


def test_an_output_that_is_no_object() -> None:
    result = ValidationPipeline().run([1, 2], envelope(), answer())  # type: ignore[arg-type]
    assert (result.overall_passed, result.quality_score, result.output_type) == (False, 0.0, "")


def test_without_a_models_answer() -> None:
    assert ValidationPipeline().run(signal(), envelope(), None).overall_passed


def test_a_pipeline_from_settings() -> None:
    config = ValidationConfig(
        max_uncited_ratio=1.0,
        critique=CritiqueTriggerConfig(enabled=False),
        remediation_policies=[RemediationPolicy(output_type="Signal", max_retries=0, max_re_retrievals=0)],
        skip_types=["Draft"],
    )
    output = signal(rationale="Nobody has looked this up.", evidence_refs={}, direction="UP")
    result = ValidationPipeline.from_config(config, rules=rules()).run(output, envelope(), answer())
    assert codes(result.issues) == [
        "evidence.uncited_claim",
        "evidence.unused_evidence",
        "business_rule.range.direction_valid",
    ]
    assert (result.layers[-1].why, result.recommended_action) == ("disabled", "escalate")
    assert [config.applies_to(name) for name in ("Signal", "Draft")] == [True, False]
    assert not ValidationConfig(enabled=False).applies_to("Signal")
    defaults = ValidationConfig()
    assert (defaults.enabled, defaults.max_uncited_ratio, defaults.remediation_policies, defaults.skip_types) == (
        True,
        0.3,
        [],
        [],
    )


def test_a_result_without_values_has_not_passed() -> None:
    assert (ValidationResult().overall_passed, ValidationResult().quality_score) == (False, 0.0)
    assert CritiqueResult().overall_score == 0.0


def test_every_validation_is_logged() -> None:
    with capture_logs() as logs:
        result = ValidationPipeline([rules()]).run(signal(direction="UP"), envelope(), None)
    (entry,) = logs
    assert (entry["event"], entry["valid"]) == ("output_validated", False)
    assert entry["issues"] == [result.issues[0].message]
    assert entry["handoff_id"] == result.envelope_id
