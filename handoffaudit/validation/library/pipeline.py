"""A model's output through validators: the engine's pipeline, with a validator for each layer."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from handoffaudit.validation.config import Demands
from handoffaudit.validation.layers import Layer
from handoffaudit.validation.layers.plugins import IValidator
from handoffaudit.validation.library.asked import AskedCritique, AskedValidator, Run
from handoffaudit.validation.library.config import ValidationConfig
from handoffaudit.validation.library.critique import CritiqueValidator
from handoffaudit.validation.library.defaults import new_id, utc_now
from handoffaudit.validation.library.engine import output_type_of, record_of, subject_of
from handoffaudit.validation.library.envelopes import LLMEnvelope, LLMResult
from handoffaudit.validation.library.evidence import EvidenceValidator
from handoffaudit.validation.library.logger import log_validation
from handoffaudit.validation.library.models import (
    GRAVE,
    LayerRun,
    ValidationLayer,
    ValidationResult,
)
from handoffaudit.validation.library.remediation import RemediationEngine
from handoffaudit.validation.library.rules import BusinessRuleValidator
from handoffaudit.validation.library.schema import SchemaValidator
from handoffaudit.validation.output_names import library_layer
from handoffaudit.validation.pipeline import run as run_layers
from handoffaudit.validation.text import clean
from handoffaudit.validation.verdict import LayerResult, LayerStatus, Verdict

# The published result carries a short hash; the server's verdict keeps all 64 digits.
_HASH_DIGITS = 16


class ValidationPipeline:
    """`validators` run in their order (None: schema, evidence and business rules as shipped), then the critique. Errors
    of the layer named `schema` stop the rest. A validator that raises has found nothing to be right: the result has an
    error `<layer>.could_not_run`, and the others go on."""

    def __init__(
        self,
        validators: Sequence[IValidator] | None = None,
        critique_validator: CritiqueValidator | None = None,
        remediation_engine: RemediationEngine | None = None,
    ) -> None:
        shipped = (SchemaValidator(), EvidenceValidator(), BusinessRuleValidator())
        self._validators: tuple[IValidator, ...] = tuple(shipped if validators is None else validators)
        self._critique_validator = critique_validator
        self._remediation_engine = remediation_engine

    @classmethod
    def from_config(
        cls,
        config: ValidationConfig,
        *,
        rules: BusinessRuleValidator | None = None,
        schema: SchemaValidator | None = None,
        call_llm: Callable[..., dict[str, Any]] | None = None,
    ) -> "ValidationPipeline":
        """The shipped validators with these settings. Ask `config.applies_to` first: `run` validates every output."""
        evidence = EvidenceValidator(max_uncited_ratio=config.max_uncited_ratio)
        return cls(
            [schema or SchemaValidator(), evidence, rules or BusinessRuleValidator()],
            CritiqueValidator(config.critique, call_llm),
            RemediationEngine(config.remediation_policies),
        )

    def run(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, llm_result: LLMResult | None
    ) -> ValidationResult:
        """Validate the output, and set `validation_passed` and `validation_errors` of `llm_result`.

        Each validation is logged as `output_validated`, with the envelope's id as `handoff_id`.
        """
        state = Run(parsed_output, envelope, llm_result)
        verdict = run_layers(
            subject_of(record_of(parsed_output, envelope), Demands()),
            validation_id=new_id(),
            now=utc_now,
            monotonic=time.monotonic,
            layers=self._layers(state),
        )
        result = _result(verdict, state)
        if self._remediation_engine is not None:
            result.recommended_action, result.remediation = self._remediation_engine.decide(result)
        if llm_result is not None:
            llm_result.validation_passed = result.overall_passed
            llm_result.validation_errors = result.error_lines
        log_validation(
            __name__,
            "output_validated",
            handoff_id=envelope.envelope_id,
            valid=result.overall_passed,
            issues=[issue.message for issue in result.issues],
        )
        return result

    def _layers(self, state: Run) -> Iterable[Layer]:
        for validator in self._validators:
            yield AskedValidator(validator, state)
        if self._critique_validator is not None:
            yield AskedCritique(self._critique_validator, state)


def _result(verdict: Verdict, state: Run) -> ValidationResult:
    ended: dict[str, list[LayerStatus]] = {}
    for layer in verdict.layers:
        ended.setdefault(library_layer(layer.name), []).append(layer.status)

    def passed(layer: ValidationLayer) -> bool:
        statuses = ended.get(layer, [])
        return bool(statuses) and all(status is LayerStatus.PASSED for status in statuses)

    envelope = state.envelope
    return ValidationResult(
        validation_id=verdict.validation_id,
        trace_id=envelope.trace_id,
        envelope_id=envelope.envelope_id,
        agent_id=envelope.agent_id,
        agent_type=envelope.agent_type,
        output_type=clean(output_type_of(state.parsed_output)),
        timestamp=verdict.validated_at,
        schema_passed=passed(ValidationLayer.SCHEMA),
        evidence_passed=passed(ValidationLayer.EVIDENCE),
        business_rules_passed=passed(ValidationLayer.BUSINESS_RULE),
        critique_passed=state.critique_passed,
        overall_passed=not any(issue.severity in GRAVE for issue in state.issues),
        quality_score=verdict.quality_score,
        issues=state.issues,
        claims=state.claims,
        critique=state.critique,
        latency_ms=verdict.duration_ms,
        output_hash=verdict.output_hash[:_HASH_DIGITS],
        layers=[_layer_run(one, verdict) for one in verdict.layers],
    )


def _layer_run(layer: LayerResult, verdict: Verdict) -> LayerRun:
    """The engine speaks of its own layers' names."""
    schema_failed = any(
        library_layer(one.name) == ValidationLayer.SCHEMA and one.status is LayerStatus.FAILED for one in verdict.layers
    )
    stopped = schema_failed and layer.status is LayerStatus.SKIPPED
    why = "schema failed" if stopped else layer.why
    return LayerRun(name=library_layer(layer.name), status=layer.status, why=why, duration_ms=layer.duration_ms)
